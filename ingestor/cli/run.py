"""Commands that keep collections in step: ``init``, ``run`` and ``sync``."""

import json
import logging
import shlex
import sys
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from ingestor.cli.usage import (
    CONFIG,
    FAILED,
    INTERRUPTED,
    QUARANTINED,
    SETTLED,
    USAGE,
    ConfigOption,
    JsonOption,
    QuietOption,
    VerboseOption,
    command,
    fail,
    log_level,
    open_to_write,
)
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
        Path, typer.Argument(help="Path of the new file, or a folder whose documents are to be indexed.")
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
        fail(f"{path} exists already; name another file, or move it away", USAGE)
    if documents is None and path.suffix not in (".yaml", ".yml"):
        fail(f"{path} is neither a folder nor a config file, which ends in .yaml: name one of the two", USAGE)
    if not path.parent.exists():
        make = f"mkdir -p {shlex.quote(str(path.parent))}"
        fail(f"{path} cannot be written: there is no folder {path.parent}; to make it: {make}", FAILED)
    text = files("ingestor").joinpath("templates/config.yaml").read_text()
    if documents is not None:
        foreign = _foreign_languages(documents)
        if foreign is not None:
            text = text.replace("embedding:\n", f"# {foreign}\nembedding:\n{_MULTILINGUAL}")
            print(
                f"{foreign[0].upper()}{foreign[1:]}.\n{path} names a model to choose instead.",
                file=sys.stderr,
            )
        path.write_text(text.replace("path: ./documents\n", f"path: {json.dumps(str(documents))}\n"))
        words = f"Wrote {path} for the documents in {documents}. To index them: "
    else:
        path.write_text(text)
        documents = path.parent / "documents"
        documents.mkdir(exist_ok=True)
        words = f"Wrote {path}. Put documents into {documents}, or name other sources there; then: "
    console.print_answer(
        {"config": str(path), "documents": str(documents)}, words + command("run", path), as_json
    )


def _foreign_languages(folder: Path) -> str | None:
    """Return a warning if the default model does not know the language of most documents of a folder.

    At most 60 files are read; hidden folders and large files are skipped. Return None if there is nothing to
    warn of.
    """
    from ingestor.pipeline.language import describe_foreign, languages_of
    from ingestor.preview.preview import languages

    known = languages_of(_DEFAULT_MODEL)
    assert known is not None
    visible = (
        file
        for file in folder.rglob("*")
        if not any(part.startswith(".") for part in file.relative_to(folder).parts)
        and file.is_file()
        and file.stat().st_size <= _LARGEST
    )
    files = list(islice(visible, _LISTED))
    step = max(1, -(-len(files) // _LOOKED_AT))
    hint = describe_foreign(languages(files[::step]), known)
    return hint and ("in a sample of the folder, " if step > 1 else "") + hint


def run(
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
) -> None:
    """Keep Chroma in step with the sources, until stopped.

    Starts Chroma, watches the sources, and reloads a changed config file. Ends at SIGTERM, at Ctrl-C, or when
    its terminal is closed.
    """
    from ingestor.cli.output import progress

    project, checked = _open(config, verbose, quiet, form="json" if as_json else None)
    as_json |= checked.log.format == "json"

    def ready(state: "Ready") -> None:
        if as_json:
            fields = event("in_step", records=state.records, failed=state.failed)
            logging.getLogger("ingestor").info("all collections are in step", extra=fields)
        elif not quiet:
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

    project, config = open_to_write(path, logged=True)
    set_up(log_level(level or config.log.level, verbose, quiet), form or config.log.format)
    for warning in config.warnings:
        logging.getLogger("ingestor").warning("config %s: %s", path, warning, extra=event("config_warning"))
    return project, config


def sync(
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
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

    code = FAILED if not report.complete else QUARANTINED if report.documents.quarantined else SETTLED
    if as_json or not quiet or code != SETTLED:
        console.show_sync(report, as_json, config)
    if report.interrupted:
        fail("interrupted: run sync again to resume", INTERRUPTED)
    raise typer.Exit(code)
