"""Commands for decisions of people: approve or undo a change, retry, accept a loss, pause, resume.

Most commands write a request into the journal, from which a running daemon takes it. ``collections`` also
deletes and adopts collections in Chroma.
"""

from typing import Annotated

import typer

from ingestor.cli.run import end_sync
from ingestor.cli.usage import (
    CONFIG,
    USAGE,
    CollectionArgument,
    ConfigOption,
    DocumentArgument,
    JsonOption,
    at_once_or,
    command,
    fail,
    open_to_read,
    open_to_write,
)


def apply(config: ConfigOption = CONFIG, as_json: JsonOption = False) -> None:
    """Index everything, also config changes awaiting approval.

    Chunks documents again where the config changed, and removes documents of sources that left the config. If
    a daemon runs, it does the work; otherwise this command does the work, as sync does.
    """
    from ingestor.cli.output import console, progress

    project, checked = open_to_write(config, "warning" if as_json else "config")
    with progress.show_progress(as_json, logged=checked.log.format == "json") as watcher:
        done = project.apply(progress=watcher, handle_signals=True)
    if done.report is not None:
        end_sync(done.report, as_json, config)
    then = "the running daemon applies this now" if done.approved else "no change waits for approval"
    words = [*done.approved, then]
    console.print_answer({"approved": list(done.approved)}, "\n".join(words), as_json)


def rollback(
    collection: CollectionArgument = None, config: ConfigOption = CONFIG, as_json: JsonOption = False
) -> None:
    """Undo the last config change of a collection.

    Searches use the earlier chunks at once. The config file keeps the change until you revert it: apply, or
    the next edit of the file, applies the change again.
    """
    from ingestor.cli.output import console
    from ingestor.queries.access import collection_of

    project, checked = open_to_write(config, "warning")
    name = collection_of(checked, collection)
    redone = project.rollback(name)
    words = f"undid the last rollback of {name}" if redone else f"rolled back {name}"
    if not redone:
        words += f". {config} still has the change: revert it, or run: {command('apply', config)}"
    console.print_answer({"rolled_back": name}, words, as_json)


def retry(
    document: DocumentArgument = None,
    every: Annotated[bool, typer.Option("--all", help="Retry every failed or quarantined document.")] = False,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Retry documents that failed or are quarantined."""
    from ingestor.cli.output import console
    from ingestor.units import quantity

    if (document is None) == (not every):
        fail("name a document, or use --all", USAGE)
    project, _ = open_to_read(config)
    count = project.retry(document)
    when = at_once_or("sync", config, running=project.is_running())
    words = f"{quantity(count, 'document')} will be retried {when}"
    console.print_answer({"retried": count}, words if count else "no documents to retry", as_json)


def accept(
    source: Annotated[str, typer.Argument(help="Name of the held source.")],
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Confirm that a held source's missing documents are gone.

    The next pass removes the records of these documents, and of documents that became unreadable.
    """
    from ingestor.cli.output import console

    open_to_read(config)[0].accept(source)
    words = f"the loss in {source} is accepted: its documents are removed at the next pass"
    console.print_answer({"accepted": source}, words, as_json)


def pause(
    source: Annotated[str | None, typer.Argument(help="Name of the source; default: all sources.")] = None,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Pause a source until it is resumed.

    A paused source is not listed, and none of its documents is changed. Searches still find its documents.
    Writes in progress are finished.
    """
    from ingestor.cli.output import console

    names = open_to_read(config)[0].pause(source)
    again = command(f"resume {source}" if source else "resume", config)
    words = f"paused: {', '.join(names)}; to resume: {again}"
    console.print_answer({"paused": names}, words, as_json)


def resume(
    source: Annotated[
        str | None, typer.Argument(help="Name of the source; default: all paused sources.")
    ] = None,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Resume a paused source: list and index it again."""
    from ingestor.cli.output import console

    project, _ = open_to_read(config)
    names = project.resume(source)
    when = at_once_or("sync", config, running=project.is_running())
    words = f"resumed: {', '.join(names)}; changes since the pause are processed {when}"
    console.print_answer({"resumed": names}, words if names else "no source was paused", as_json)


def collections(
    delete: Annotated[
        str | None, typer.Option(metavar="NAME", help="Delete an unused collection that ingestor wrote.")
    ] = None,
    adopt: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Continue a collection that another state folder wrote. Its records stay if this state "
            "folder is a copy of that one, and are written again otherwise.",
        ),
    ] = None,
    not_ours: Annotated[
        bool,
        typer.Option("--not-ours", help="With --delete: delete a collection that another program wrote."),
    ] = False,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """List the collections in Chroma; delete or adopt one.

    The list has all collections, whoever wrote them. Without --not-ours, only a collection that this ingestor
    wrote and no longer uses can be deleted.
    """
    from ingestor.cli.output import console
    from ingestor.units import quantity

    if (delete is not None and adopt is not None) or (not_ours and delete is None):
        fail("choose one of --delete NAME, --delete NAME --not-ours, --adopt NAME", USAGE)
    project, _ = open_to_write(config, "error")
    if delete is not None:
        gone = project.delete_collection(delete, not_ours=not_ours)
        words = f"collection {gone.name} is deleted, with {quantity(gone.records or 0, 'record')}"
        console.print_answer({"deleted": gone.name, "records": gone.records}, words, as_json)
    elif adopt is not None:
        taken = project.adopt_collection(adopt)
        when = at_once_or("sync", config, running=project.is_running())
        records = quantity(taken.records or 0, "record")
        words = f"collection {taken.name} is deleted, with {records}; it is written again {when}"
        if taken.elsewhere is not None:
            words = f"collection {taken.name} is adopted from {taken.elsewhere}; records are compared {when}"
        console.print_answer({"adopted": taken.name, "records": taken.records}, words, as_json)
    else:
        console.show_collections(project.collections(), as_json)
