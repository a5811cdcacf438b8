"""The command line: reads the words, calls the program, prints the answer. No logic of its own."""

import json
import logging
import sys
import time
from importlib.resources import files
from io import TextIOWrapper
from os import environ
from pathlib import Path
from typing import Annotated, Any

import typer

from ingestor import __version__, console, excerpt, greeting, overview, progress, summary
from ingestor.approval import approve, roll_back
from ingestor.chunk_command import chunk
from ingestor.config import Config, ConfigError
from ingestor.config_file import load
from ingestor.daemon import Loop
from ingestor.editions import Editions
from ingestor.estimate import make_plan
from ingestor.inspection import (
    BadRequest,
    current_status,
    find_documents,
    is_running,
    journal_of,
    listed,
    search,
    shown,
)
from ingestor.invocation import DEFAULT_CONFIG, command
from ingestor.live import Live
from ingestor.log import set_up
from ingestor.model import SourceName
from ingestor.ports import BadDocument, Gone, NeedsHuman, Torn, Transient
from ingestor.printable import spelt
from ingestor.reload import Reloader
from ingestor.reports import Reports
from ingestor.standing import Standing
from ingestor.verification import verified
from ingestor.wiring import opened
from ingestor.wishes import Wishes

app = typer.Typer(
    help="Keeps Chroma collections exactly in step with the documents people have.",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

ConfigOption = Annotated[Path, typer.Option("--config", "-c", help="The config file.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
CONFIG = DEFAULT_CONFIG

SETTLED, USAGE, QUARANTINED, FAILED = 0, 2, 3, 4


def main() -> None:
    """The console script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that can't show a name is no reason to fail
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except (ConfigError, BadRequest) as error:
        fail(str(error), USAGE)
    except (NeedsHuman, Transient, Torn, Gone, BadDocument, OSError) as error:
        fail(f"{error}", FAILED)
    except KeyboardInterrupt:
        fail("interrupted", 130)


def fail(message: str, code: int) -> None:
    print(spelt(message), file=sys.stderr)
    raise SystemExit(code)


def read_config(path: Path) -> Config:
    config = load(path, environ)
    for warning in config.warnings:
        print(f"{path}: warning: {warning}", file=sys.stderr)
    return config


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if show:
        print(f"ingestor {__version__}")
        raise typer.Exit


@app.command()
def init(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = CONFIG, as_json: JsonOption = False
) -> None:
    """Write a commented config to begin with.

    The folder of documents that it names is made, too, where there is none.
    """

    if path.exists():
        fail(f"{path} exists already; name another file, or move it away", USAGE)
    path.write_text(files("ingestor").joinpath("templates/config.yaml").read_text())
    documents = path.parent / "documents"
    documents.mkdir(exist_ok=True)
    words = f"Wrote {path}. Put documents into {documents}, or name other sources there; then: "
    console.say({"config": str(path), "documents": str(documents)}, words + command("run", path), as_json)


@app.command()
def run(config: ConfigOption = CONFIG, as_json: JsonOption = False) -> None:
    """Keep Chroma in step with the sources, until stopped.

    It serves Chroma, watches the sources, and ends at SIGTERM, Ctrl-C or with its terminal. A changed config
    file is taken over while it runs.
    """

    checked = read_config(config)
    set_up(checked.log.level, "json" if as_json else checked.log.format)
    wishes = Wishes()
    with wishes.heard(), opened(checked, serve=True) as running, progress.shown(as_json) as watcher:
        logging.getLogger("ingestor").info("Chroma listens at %s", running.collections.address)
        loop = Loop(running, wishes, watcher)
        reloader = Reloader(config, environ, wishes)
        loop.run(reloader.changed, lambda live: _ready(live, loop, config, as_json))
        if not as_json:
            greeting.take_leave()


def _ready(live: Live, loop: Loop, config: Path, as_json: bool) -> None:
    names = sorted({source.collection for source in loop.running.parts.config.sources})
    editions, reports = Editions(loop.running.journal), Reports(loop.running.journal)
    records = sum(reports.records(editions.live(name).name) for name in names)
    failed = len(reports.failures())
    if as_json:
        logging.getLogger("ingestor").info("in step", extra={"records": records, "failed": failed})
        return
    question = greeting.question(loop.running.collections, names[0])
    greeting.greet(live, names, records, failed, question, config)


@app.command()
def sync(config: ConfigOption = CONFIG, as_json: JsonOption = False) -> None:
    """Bring Chroma in step once.

    Exits with 0 when all is settled, 3 when some documents are quarantined, 4 when something failed.
    """

    checked = read_config(config)
    set_up("warning" if as_json else checked.log.level, checked.log.format)
    begun, wishes = time.monotonic(), Wishes()
    with wishes.heard(), opened(checked, serve=False) as running, progress.shown(as_json) as watcher:
        loop = Loop(running, wishes, watcher)
        loop.sync()
        result = summary.of_sync(running, time.monotonic() - begun)
    console.show_sync(result, as_json)
    raise typer.Exit(_sync_code(result))


def _sync_code(result: dict[str, Any]) -> int:
    if result["held"] or result["unseen"] or result["documents"]["failed"]:
        return FAILED
    return QUARANTINED if result["documents"]["quarantined"] else SETTLED


@app.command()
def plan(config: ConfigOption = CONFIG, as_json: JsonOption = False) -> None:
    """Show what a sync would do and cost, and touch nothing."""

    checked = read_config(config)
    set_up("warning", checked.log.format)
    with progress.busy("Reading what is new", as_json):
        estimate = make_plan(checked)
    console.show_plan(estimate, as_json, config)


@app.command()
def apply(config: ConfigOption = CONFIG, as_json: JsonOption = False) -> None:
    """Do what plan shows, also what waits for approval.

    Documents are chunked anew, and those of sources that are configured no more are removed. A daemon that
    runs does it; else it is done here, as by sync.
    """

    checked = read_config(config)
    set_up("warning" if as_json else checked.log.level, checked.log.format)
    said = approve(checked)
    if not is_running(checked):
        sync(config, as_json)
    words = "\n".join(
        [*said, "the daemon does it now" if said else "there is nothing that waits for approval"]
    )
    console.say({"approved": said}, words, as_json)


@app.command()
def rollback(
    collection: Annotated[str | None, typer.Argument(help="Which collection; else the only one.")] = None,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Give readers the collection as it was before the last swap.

    The new recipe stays refused until the config changes again, or until apply.
    """

    checked = read_config(config)
    set_up("warning", checked.log.format)
    name = _collection(checked, collection)
    roll_back(checked, name)
    console.say({"rolled_back": name}, f"{name} is as it was before", as_json)


@app.command()
def status(
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
    check: Annotated[bool, typer.Option("--check", help="Exit with 4 unless it runs and is well.")] = False,
) -> None:
    """Show how every source and collection stands."""

    found = current_status(read_config(config))
    overview.show_status(found, as_json, config)
    if check and not found.sound:
        raise typer.Exit(FAILED)


@app.command()
def query(
    text: Annotated[str, typer.Argument(help="What to look for.")],
    n: Annotated[int, typer.Option("-n", min=1, help="How many answers.")] = 5,
    collection: Annotated[str | None, typer.Option(help="Which collection; else the only one.")] = None,
    where: Annotated[str | None, typer.Option(help="A Chroma metadata filter, as JSON.")] = None,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Search a collection as an app would."""

    checked = read_config(config)
    set_up("error", checked.log.format)
    name, only = _collection(checked, collection), _filter(where)
    with progress.busy("Searching", as_json):
        hits = search(checked, text, n, name, only)
    excerpt.show_hits(hits, as_json)


def _collection(config: Config, wanted: str | None) -> str:
    names = sorted({str(source.collection) for source in config.sources})
    if wanted is None and len(names) > 1:
        fail(f"say which with --collection: {', '.join(names)}", USAGE)
    return wanted or names[0]


def _filter(where: str | None) -> dict[str, object] | None:
    try:
        value = json.loads(where) if where is not None else None
    except ValueError as error:
        value = error
    if value is not None and not isinstance(value, dict):
        fail(f"--where must be a JSON object such as '{{\"page\": 3}}', not {where!r}", USAGE)
    return value


@app.command()
def verify(
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
    repair: Annotated[bool, typer.Option("--repair", help="Mend what is off, without embedding.")] = False,
) -> None:
    """Compare sources, journal and Chroma, record by record.

    Exits with 4 when anything is off.
    """

    checked = read_config(config)
    set_up("warning", checked.log.format)
    with progress.busy("Comparing", as_json):
        report = verified(checked, repair)
    console.show_verify(report, as_json, config)
    raise typer.Exit(SETTLED if report.clean else FAILED)


@app.command()
def retry(
    document: Annotated[str | None, typer.Argument(help="A document: its key, path or id.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All that failed.")] = False,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Try again what failed or is quarantined."""

    if (document is None) == (not every):
        fail("name a document, or say --all", USAGE)
    checked = read_config(config)
    with journal_of(checked) as journal:
        rows = [entry.row for entry in find_documents(journal, document)] if document else None
        count = journal.retry(rows)
    when = "at once" if is_running(checked) else f"by: {command('sync', config)}"
    words = f"{console.counted(count, 'document')} will be tried again {when}"
    console.say({"retried": count}, words if count else "nothing to try again", as_json)


@app.command()
def accept(
    source: Annotated[str, typer.Argument(help="The source that is held.")],
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Believe a source's sudden loss of documents.

    They are removed from Chroma at the next pass.
    """

    with journal_of(read_config(config)) as journal:
        done = Standing(journal).accept(SourceName(source))
    if not done:
        fail(f"source {source!r} is not held for a loss of documents; see: ingestor status", USAGE)
    words = f"the loss in {source} is believed: its documents are removed at the next pass"
    console.say({"accepted": source}, words, as_json)


@app.command(name="ls")
def list_documents(
    source: Annotated[str | None, typer.Option(help="Only this source.")] = None,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """List the documents."""

    with journal_of(read_config(config)) as journal:
        console.show_documents(listed(journal, source), as_json)


app.command()(chunk)


@app.command()
def show(
    document: Annotated[str, typer.Argument(help="A document: its key, path or id.")],
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Show a document's chunks, as they are in Chroma."""

    checked = read_config(config)
    set_up("error", checked.log.format)
    excerpt.show_chunks(shown(checked, document), as_json)
