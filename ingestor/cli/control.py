"""The commands by which people answer what the program asks, or tell it what to do next.

What they say is left in the journal, where a daemon finds it.
"""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from ingestor.cli.invocation import command
from ingestor.cli.usage import CONFIG, USAGE, ConfigOption, JsonOption, chosen, fail, looked_up, read_config

if TYPE_CHECKING:
    from ingestor.config.models import Config
    from ingestor.model import SourceName


def apply(config: ConfigOption = CONFIG, as_json: JsonOption = False) -> None:
    """Do what plan shows, also what waits for approval.

    Documents are chunked anew, and those of sources that are configured no more are removed. A daemon that
    runs does it; else it is done here, as by sync.
    """
    from ingestor.app.approvals import approve
    from ingestor.app.queries import is_running
    from ingestor.cli.log import set_up
    from ingestor.cli.output import console
    from ingestor.cli.run import sync

    checked = read_config(config)
    set_up("warning" if as_json else checked.log.level, checked.log.format)
    said = approve(checked)
    if not is_running(checked):
        sync(config, as_json)
    words = "\n".join(
        [*said, "the daemon does it now" if said else "there is nothing that waits for approval"]
    )
    console.say({"approved": said}, words, as_json)


def rollback(
    collection: Annotated[str | None, typer.Argument(help="Which collection; else the only one.")] = None,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Give readers the collection as it was before the last swap.

    The new recipe stays refused until the config changes again, or until apply.
    """
    from ingestor.app.approvals import roll_back
    from ingestor.cli.log import set_up
    from ingestor.cli.output import console

    checked = read_config(config)
    set_up("warning", checked.log.format)
    name = chosen(checked, collection)
    roll_back(checked, name)
    console.say({"rolled_back": name}, f"{name} is as it was before", as_json)


def retry(
    document: Annotated[str | None, typer.Argument(help="A document: its key, path or id.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All that failed.")] = False,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Try again what failed or is quarantined."""
    from ingestor.app.queries import find_documents, is_running, journal_of
    from ingestor.cli.output import console

    if (document is None) == (not every):
        fail("name a document, or say --all", USAGE)
    checked = looked_up(config)
    with journal_of(checked) as journal:
        rows = [entry.row for entry in find_documents(journal, document)] if document else None
        count = journal.retry(rows)
    when = "at once" if is_running(checked) else f"by: {command('sync', config)}"
    words = f"{console.counted(count, 'document')} will be tried again {when}"
    console.say({"retried": count}, words if count else "nothing to try again", as_json)


def accept(
    source: Annotated[str, typer.Argument(help="The source that is held.")],
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Believe a source's sudden loss of documents.

    They are removed from Chroma at the next pass; also those that cannot be read any more and were kept.
    """
    from ingestor.app.queries import journal_of
    from ingestor.cli.output import console
    from ingestor.model import SourceName
    from ingestor.state.sources import SourceRows
    from ingestor.state.withdrawals import Withdrawals

    with journal_of(looked_up(config)) as journal:
        name = SourceName(source)
        done = SourceRows(journal).accept(name) | Withdrawals(journal).accept(name)
    if not done:
        fail(f"source {source!r} is not held for a loss of documents; see: ingestor status", USAGE)
    words = f"the loss in {source} is believed: its documents are removed at the next pass"
    console.say({"accepted": source}, words, as_json)


def pause(
    source: Annotated[str | None, typer.Argument(help="Which source; else all of them.")] = None,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Do nothing for a source until it is resumed.

    It is not listed, and none of its documents is touched; readers go on. What is being written just now is
    brought to its end.
    """
    from ingestor.app.queries import journal_of
    from ingestor.cli.output import console
    from ingestor.state.sources import SourceRows

    checked = looked_up(config)
    names = _sources(checked, source)
    with journal_of(checked) as journal:
        for name in names:
            SourceRows(journal).pause(name, time.time())
    again = command(f"resume {source}" if source else "resume", config)
    words = f"paused: {', '.join(names)}; to go on: {again}"
    console.say({"paused": names}, words, as_json)


def resume(
    source: Annotated[str | None, typer.Argument(help="Which source; else all that are paused.")] = None,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Go on with a source that was paused."""
    from ingestor.app.queries import is_running, journal_of
    from ingestor.cli.output import console
    from ingestor.state.sources import SourceRows

    checked = looked_up(config)
    with journal_of(checked) as journal:
        names = [name for name in _sources(checked, source) if SourceRows(journal).resume(name)]
    when = "at once" if is_running(checked) else f"by: {command('sync', config)}"
    words = f"resumed: {', '.join(names)}; what it missed is done {when}" if names else "nothing was paused"
    console.say({"resumed": names}, words, as_json)


def _sources(config: "Config", wanted: str | None) -> "list[SourceName]":
    from ingestor.model import SourceName

    names = [source.name for source in config.sources]
    if wanted is not None and wanted not in names:
        fail(f"there is no source {wanted!r} in the config; known: {', '.join(names)}", USAGE)
    return [SourceName(wanted)] if wanted is not None else names
