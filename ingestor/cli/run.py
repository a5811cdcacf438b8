"""Commands that keep collections in step, and commands for decisions of people.

Most decisions are requests in the journal, from which a running daemon takes them. ``collections`` also
deletes and adopts collections in Chroma.
"""

import json
import logging
import shlex
import sys
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

from typer import Argument, Exit, Option

from ingestor.cli import usage
from ingestor.cli.usage import CONFIG, ConfigOption, JsonOption, VerboseOption, command, fail
from ingestor.core.events import event

if TYPE_CHECKING:
    from ingestor.config.models import Config
    from ingestor.project import Project, Ready
    from ingestor.queries.status import SyncReport


_DEFAULT_MODEL = "all-MiniLM-L6-v2"
_LISTED, _LOOKED_AT, _LARGEST = 5000, 60, 5_000_000  # files of a folder; those read; bytes of a file
_MULTILINGUAL = """\
  # model: intfloat/multilingual-e5-small   # knows 94 languages; needs a network once, and the extra torch
  # {kind: openai, base_url: "http://localhost:11434/v1", model: bge-m3}   # or a server, in place of model
"""


def init(
    path: Annotated[
        Path, Argument(help="Path of the new file, or a folder whose documents are to be indexed.")
    ] = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Write a config with comments, to start from.

    For a folder, writes ./config.yaml for the documents in that folder. Otherwise also creates a folder
    documents beside the new file.
    """
    from ingestor.cli.output import console

    documents = path.resolve() if path.is_dir() else None
    path = path if documents is None else CONFIG
    if path.exists():
        fail(f"{path} exists already; name another file, or move it away")
    if documents is None and path.suffix not in (".yaml", ".yml"):
        fail(f"{path} is neither a folder nor a config file, which ends in .yaml: name one of the two")
    if not path.parent.exists():
        make = f"mkdir -p {shlex.quote(str(path.parent))}"
        fail(f"{path} cannot be written: there is no folder {path.parent}; to make it: {make}", usage.FAILED)
    text = files("ingestor").joinpath("templates/config.yaml").read_text()
    if documents is not None:
        foreign = _foreign_languages(documents)
        if foreign is not None:
            text = text.replace("embedding:\n", f"# {foreign}\nembedding:\n{_MULTILINGUAL}")
            warning = f"{foreign[0].upper()}{foreign[1:]}"
            print(f"{warning}.\n{path} names a model to choose instead.", file=sys.stderr)
        path.write_text(text.replace("path: ./documents\n", f"path: {json.dumps(str(documents))}\n"))
        words = f"Wrote {path} for the documents in {documents}. To index them: "
    else:
        path.write_text(text)
        documents = path.parent / "documents"
        documents.mkdir(exist_ok=True)
        words = f"Wrote {path}. Put documents into {documents}, or name other sources there; then: "
    written = {"config": str(path), "documents": str(documents)}
    console.print_answer(written, words + command("run", path), as_json)


def _foreign_languages(folder: Path) -> str | None:
    """Return a warning if the default model does not know the language of most documents of a folder.

    At most 60 files are read; hidden folders and large files are skipped. Return None if there is nothing to
    warn of.
    """
    from ingestor.pipeline.language import describe_foreign
    from ingestor.preview.preview import languages

    visible = (
        file
        for file in folder.rglob("*")
        if not any(part.startswith(".") for part in file.relative_to(folder).parts)
        and file.is_file()
        and file.stat().st_size <= _LARGEST
    )
    files = list(islice(visible, _LISTED))
    step = max(1, -(-len(files) // _LOOKED_AT))
    hint = describe_foreign(languages(files[::step]), _DEFAULT_MODEL)
    return hint and ("in a sample of the folder, " if step > 1 else "") + hint


def run(
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
    quiet: usage.QuietOption = False,
) -> None:
    """Keep Chroma in step with the sources, until stopped.

    Starts Chroma, watches the sources, and reloads a changed config file. Ends at SIGTERM, at Ctrl-C, or when
    its terminal is closed.
    """
    from ingestor.cli.output import progress

    project, checked = _open(config, verbose, quiet, form="json" if as_json else None)
    as_json |= checked.log.format == "json"

    def ready(state: "Ready") -> None:
        if as_json and not state.listed:
            logging.getLogger("ingestor").warning(
                "no source could be listed; collections stay as they are", extra=event("nothing_listed")
            )
        elif as_json and not state.unusable:
            fields = event("in_step", records=state.records, failed=state.failed)
            logging.getLogger("ingestor").info("all collections are in step", extra=fields)
        elif not (as_json or quiet):
            progress.greet(state, config)

    with progress.show_progress(quiet, logged=as_json) as watcher:
        leave = None if as_json or quiet else progress.print_stopping
        project.run(progress=watcher, ready=ready, stopping=leave, handle_signals=True)


def _open(
    path: Path, verbose: bool, quiet: bool, *, level: str | None = None, form: str | None = None
) -> "tuple[Project, Config]":
    """Open a project for a command that logs, and log the warnings about its config.

    ``level``, ``form``: level and format of the log; None for those of the config.
    """
    from ingestor.cli.log import set_up

    project, config = usage.open_to_write(path, logged=True)
    set_up(usage.log_level(level or config.log.level, verbose, quiet), form or config.log.format)
    for warning in config.warnings:
        logging.getLogger("ingestor").warning("config %s: %s", path, warning, extra=event("config_warning"))
    return project, config


def sync(
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
    quiet: usage.QuietOption = False,
) -> None:
    """Bring Chroma in step with the sources once, and exit.

    Exit codes: 0 if nothing is left to do, 3 if documents are quarantined, 4 if something failed or is left
    to do, 130 if interrupted. Documents of unsupported formats are skipped.
    """
    from ingestor.cli.output import progress

    project, checked = _open(config, verbose, quiet, level="warning" if as_json else None)
    with progress.show_progress(as_json or quiet, logged=checked.log.format == "json") as watcher:
        report = project.sync(progress=watcher, handle_signals=True)
    end_sync(report, as_json, config, quiet=quiet)


def end_sync(report: "SyncReport", as_json: bool, config: Path, *, quiet: bool = False) -> NoReturn:
    """Print the report of a sync, and exit with the code for its result."""
    from ingestor.cli.output import console

    code = usage.QUARANTINED if report.documents.quarantined else usage.SETTLED
    code = code if report.complete else usage.FAILED
    if as_json or not quiet or code != usage.SETTLED:
        console.show_sync(report, as_json, config)
    if report.interrupted:
        fail("interrupted: run sync again to resume", usage.INTERRUPTED)
    raise Exit(code)


def apply(config: ConfigOption = CONFIG, as_json: JsonOption = False) -> None:
    """Index everything, also config changes awaiting approval.

    Chunks documents again where the config changed, and removes documents of sources that left the config. If
    a daemon runs, it does the work; otherwise this command does the work, as sync does.
    """
    from ingestor.cli.output import console, progress

    project, checked = usage.open_to_write(config, "warning" if as_json else "config")
    with progress.show_progress(as_json, logged=checked.log.format == "json") as watcher:
        done = project.apply(progress=watcher, handle_signals=True)
    if done.report is not None:
        end_sync(done.report, as_json, config)
    then = "the running daemon applies this now" if done.approved else "no change waits for approval"
    words = [*done.approved, then]
    console.print_answer({"approved": list(done.approved)}, "\n".join(words), as_json)


def rollback(
    collection: usage.CollectionArgument = None, config: ConfigOption = CONFIG, as_json: JsonOption = False
) -> None:
    """Undo the last config change of a collection.

    Searches use the earlier chunks at once. The config file keeps the change until you revert it: apply, or
    the next edit of the file, applies the change again.
    """
    from ingestor.cli.output import console
    from ingestor.queries.access import collection_of

    project, checked = usage.open_to_write(config, "warning")
    name = collection_of(checked, collection)
    redone = project.rollback(name)
    words = f"undid the last rollback of {name}" if redone else f"rolled back {name}"
    if not redone:
        words += f". {config} still has the change: revert it, or run: {command('apply', config)}"
    console.print_answer({"rolled_back": name}, words, as_json)


def retry(
    document: usage.DocumentArgument = None,
    every: Annotated[bool, Option("--all", help="Retry every failed or quarantined document.")] = False,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Retry documents that failed or are quarantined."""
    from ingestor.cli.output import console
    from ingestor.units import quantity

    if (document is None) == (not every):
        fail("name a document, or use --all")
    project, _ = usage.open_to_read(config)
    count = project.retry(document)
    when = usage.at_once_or_by_sync(project, config)
    words = f"{quantity(count, 'document')} will be retried {when}"
    console.print_answer({"retried": count}, words if count else "no documents to retry", as_json)


def accept(
    source: Annotated[str, Argument(help="Name of the held source.")],
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Confirm that a held source's missing documents are gone.

    The next pass removes the records of these documents, and of documents that became unreadable.
    """
    from ingestor.cli.output import console

    usage.open_to_read(config)[0].accept(source)
    words = f"the loss in {source} is accepted: its documents are removed at the next pass"
    console.print_answer({"accepted": source}, words, as_json)


def pause(
    source: Annotated[str | None, Argument(help="Name of the source; default: all sources.")] = None,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Pause a source until it is resumed.

    A paused source is not listed, and none of its documents is changed. Searches still find its documents.
    Writes in progress are finished.
    """
    from ingestor.cli.output import console

    names = usage.open_to_read(config)[0].pause(source)
    again = command(f"resume {source}" if source else "resume", config)
    words = f"paused: {', '.join(names)}; to resume: {again}"
    console.print_answer({"paused": names}, words, as_json)


def resume(
    source: Annotated[str | None, Argument(help="Name of the source; default: all paused sources.")] = None,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Resume a paused source: list and index it again."""
    from ingestor.cli.output import console

    project, _ = usage.open_to_read(config)
    names = project.resume(source)
    when = usage.at_once_or_by_sync(project, config)
    words = f"resumed: {', '.join(names)}; changes since the pause are processed {when}"
    console.print_answer({"resumed": names}, words if names else "no source was paused", as_json)


def collections(
    delete: Annotated[
        str | None, Option(metavar="NAME", help="Delete an unused collection that ingestor wrote.")
    ] = None,
    adopt: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Continue a collection that another state folder wrote. Its records stay if this state "
            "folder is a copy of that one, and are written again otherwise.",
        ),
    ] = None,
    not_ours: Annotated[
        bool, Option("--not-ours", help="With --delete: delete a collection that another program wrote.")
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
        fail("choose one of --delete NAME, --delete NAME --not-ours, --adopt NAME")
    project, _ = usage.open_to_write(config, "error")
    if delete is not None:
        gone = project.delete_collection(delete, not_ours=not_ours)
        words = f"collection {gone.name} is deleted, with {quantity(gone.records or 0, 'record')}"
        console.print_answer({"deleted": gone.name, "records": gone.records}, words, as_json)
    elif adopt is not None:
        taken = project.adopt_collection(adopt)
        when = usage.at_once_or_by_sync(project, config)
        records = quantity(taken.records or 0, "record")
        words = f"collection {taken.name} is deleted, with {records}; it is written again {when}"
        if taken.elsewhere is not None:
            words = f"collection {taken.name} is adopted from {taken.elsewhere}; records are compared {when}"
        console.print_answer({"adopted": taken.name, "records": taken.records}, words, as_json)
    else:
        console.show_collections(project.collections(), as_json)
