"""Commands by which people approve, refuse, retry and pause.

They write requests to the journal, where a running daemon reads them.
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
    """Do what plan shows, including changes that wait for approval.

    Chunks documents again, and removes those of sources that left the config. A running daemon does the
    work; without one, this command does it, as sync does.
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
    words = "\n".join([*said, "the daemon does it now" if said else "no change waits for approval"])
    console.say({"approved": said}, words, as_json)


def rollback(
    collection: Annotated[
        str | None, typer.Argument(help="The collection; optional if there is only one.")
    ] = None,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Undo the last config change of a collection.

    Readers get its chunks from before at once. The config file keeps the change, which is not carried out
    again until the file changes once more, or until apply.
    """
    from ingestor.app.approvals import roll_back
    from ingestor.cli.log import set_up
    from ingestor.cli.output import console

    checked = read_config(config)
    set_up("warning", checked.log.format)
    name = chosen(checked, collection)
    redone = roll_back(checked, name)
    words = f"undid the last rollback of {name}" if redone else f"rolled back {name}"
    if not redone:
        words += f". {config} still has the change: revert it, or run: {command('apply', config)}"
    console.say({"rolled_back": name}, words, as_json)


def retry(
    document: Annotated[str | None, typer.Argument(help="A document: its key, path or id.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every failed or quarantined document.")] = False,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Retry documents that failed or are quarantined."""
    from ingestor.app.queries import find_documents, is_running, journal_of
    from ingestor.cli.output import console
    from ingestor.units import counted

    if (document is None) == (not every):
        fail("name a document, or use --all", USAGE)
    checked = looked_up(config)
    with journal_of(checked) as journal:
        rows = [entry.row for entry in find_documents(journal, document)] if document else None
        count = journal.retry(rows)
    when = "at once" if is_running(checked) else f"by: {command('sync', config)}"
    words = f"{counted(count, 'document')} will be retried {when}"
    console.say({"retried": count}, words if count else "no documents to retry", as_json)


def accept(
    source: Annotated[str, typer.Argument(help="The held source.")],
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Confirm a held source's sudden loss of documents.

    The next pass removes them from Chroma, and also those that became unreadable and were kept.
    """
    from ingestor.app.queries import journal_of
    from ingestor.cli.output import console
    from ingestor.model import SourceName
    from ingestor.state.sources import SourceRows
    from ingestor.state.withdrawals import Withdrawals

    checked = looked_up(config)
    with journal_of(checked) as journal:
        name, known = SourceName(source), {*journal.sources(), *(each.name for each in checked.sources)}
        if name not in known:
            fail(f"there is no source {source!r}; known: {', '.join(sorted(known))}", USAGE)
        done = SourceRows(journal).accept(name) | Withdrawals(journal).accept(name)
    if not done:
        fail(f"source {source!r} is not held for a loss of documents; see: ingestor status", USAGE)
    words = f"the loss in {source} is accepted: its documents are removed at the next pass"
    console.say({"accepted": source}, words, as_json)


def pause(
    source: Annotated[str | None, typer.Argument(help="The source; default: all.")] = None,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Pause a source until it is resumed.

    A paused source is not listed, and none of its documents is changed; readers go on. Writes that have
    begun are finished.
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
    source: Annotated[str | None, typer.Argument(help="The source; default: all that are paused.")] = None,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Resume a paused source."""
    from ingestor.app.queries import is_running, journal_of
    from ingestor.cli.output import console
    from ingestor.state.sources import SourceRows

    checked = looked_up(config)
    with journal_of(checked) as journal:
        names = [name for name in _sources(checked, source) if SourceRows(journal).resume(name)]
    when = "at once" if is_running(checked) else f"by: {command('sync', config)}"
    words = (
        f"resumed: {', '.join(names)}; changes since the pause are processed {when}"
        if names
        else "no source was paused"
    )
    console.say({"resumed": names}, words, as_json)


def _sources(config: "Config", wanted: str | None) -> "list[SourceName]":
    from ingestor.model import SourceName

    names = [source.name for source in config.sources]
    if wanted is not None and wanted not in names:
        fail(f"there is no source {wanted!r} in the config; known: {', '.join(names)}", USAGE)
    return [SourceName(wanted)] if wanted is not None else names
