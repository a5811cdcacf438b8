"""The command line: reads the words, calls the program, prints the answer. No logic of its own."""

import json
import logging
import sys
import time
from collections import Counter
from importlib.resources import files
from io import TextIOWrapper
from os import environ
from pathlib import Path
from typing import Annotated, Any

import typer

from ingestor import __version__, console
from ingestor.config import Config, ConfigError
from ingestor.config_file import load
from ingestor.daemon import Loop
from ingestor.editions import Editions
from ingestor.inspection import (
    BadRequest,
    current_status,
    find_documents,
    journal_of,
    listed,
    make_plan,
    search,
    shown,
    verified,
)
from ingestor.live import Live
from ingestor.log import set_up
from ingestor.model import CollectionName, SourceName
from ingestor.ports import BadDocument, Gone, NeedsHuman, Torn, Transient
from ingestor.printable import spelt
from ingestor.reload import Reloader
from ingestor.wiring import Running, opened
from ingestor.wishes import Wishes

app = typer.Typer(
    help="Keeps Chroma collections exactly in step with the documents people have.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

ConfigOption = Annotated[Path, typer.Option("--config", "-c", help="The config file.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
CONFIG = Path("config.yaml")

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
def init(path: Annotated[Path, typer.Argument(help="Where to write it.")] = CONFIG) -> None:
    """Write a commented config to begin with."""

    if path.exists():
        fail(f"{path} exists already; name another file, or move it away", USAGE)
    path.write_text(files("ingestor").joinpath("templates/config.yaml").read_text())
    print(f"wrote {path}; edit its sources, then: ingestor run --config {path}")


@app.command()
def run(config: ConfigOption = CONFIG, as_json: JsonOption = False) -> None:
    """Watch the sources and keep Chroma in step with them, until stopped (SIGTERM or Ctrl-C)."""

    checked = read_config(config)
    set_up(checked.log.level, "json" if as_json else checked.log.format)
    wishes = Wishes()
    with wishes.heard(), opened(checked, serve=True) as running, console.progress(as_json) as watcher:
        logging.getLogger("ingestor").info("Chroma listens at %s", running.collections.address)
        loop = Loop(running, wishes, watcher)
        reloader = Reloader(config, environ, wishes)
        loop.run(reloader.changed, lambda live: _ready(live, loop, config))


def _ready(live: Live, loop: Loop, config: Path) -> None:
    names = sorted({source.collection for source in loop.running.parts.config.sources})
    editions = Editions(loop.running.journal)
    records = sum(loop.running.journal.record_count(editions.live(name).name) for name in names)
    console.ready(live, names, records, config)


@app.command()
def sync(config: ConfigOption = CONFIG, as_json: JsonOption = False) -> None:
    """Bring Chroma in step once, then exit: 0 settled, 3 some quarantined, 4 something failed."""

    checked = read_config(config)
    set_up("warning" if as_json else checked.log.level, checked.log.format)
    begun, wishes = time.monotonic(), Wishes()
    with wishes.heard(), opened(checked, serve=False) as running, console.progress(as_json) as watcher:
        loop = Loop(running, wishes, watcher)
        loop.sync()
        result = sync_result(running, time.monotonic() - begun)
        code = _sync_code(running)
    console.show_sync(result, as_json)
    raise typer.Exit(code)


def sync_result(running: Running, seconds: float) -> dict[str, Any]:
    """The stable keys of ``sync --json``."""
    tally, journal, embedding = running.engine.writer.tally, running.journal, running.embedding
    rows = {source.name: journal.source(source.name) for source in running.parts.config.sources}
    states = Counter[str]()
    for source, _, state, documents in journal.counts():
        states[state] += documents if source in rows else 0
    touched = tally.added + tally.changed + tally.moved
    return {
        "documents": {
            "added": tally.added,
            "changed": tally.changed,
            "moved": tally.moved,
            "removed": tally.removed,
            "unchanged": max(0, states["settled"] - touched),
            "quarantined": states["quarantined"],
            "failed": states["due"] + states["waiting"] + states["gone"],
        },
        "records": {
            "added": tally.records_added,
            "replaced": tally.records_replaced,
            "patched": tally.records_patched,
            "dropped": tally.records_dropped,
        },
        "embedded": {"texts": embedding.texts, "tokens": embedding.tokens},
        "asked": running.answers.counts(),
        "seconds": round(seconds, 3),
        "problems": [{"source": f[0], "document": f[1], "reason": f[2]} for f in journal.failures()],
        "held": {name: row.held for name, row in rows.items() if row.held is not None},
        "unseen": {name: row.trouble for name, row in rows.items() if row.trouble is not None},
    }


def _sync_code(running: Running) -> int:
    states = {state for _, _, state, documents in running.journal.counts() if documents}
    rows = [running.journal.source(source.name) for source in running.parts.config.sources]
    if any(row.held or row.trouble for row in rows) or states & {"due", "waiting", "gone"}:
        return FAILED
    return QUARANTINED if "quarantined" in states else SETTLED


@app.command()
def plan(config: ConfigOption = CONFIG, as_json: JsonOption = False) -> None:
    """Show what a sync would do and what it would cost, and touch nothing."""

    checked = read_config(config)
    set_up("warning", checked.log.format)
    console.show_plan(make_plan(checked), as_json)


@app.command()
def status(
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
    check: Annotated[bool, typer.Option("--check", help="Exit 4 unless it runs and is sound.")] = False,
) -> None:
    """Show how every source and collection stands."""

    found = current_status(read_config(config))
    console.show_status(found, as_json)
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
    console.show_hits(search(checked, text, n, _collection(checked, collection), _filter(where)), as_json)


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
    """Compare sources, journal and Chroma record by record; exit 4 when anything is off."""

    checked = read_config(config)
    set_up("warning", checked.log.format)
    report = verified(checked, repair)
    console.show_verify(report, as_json)
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
    with journal_of(read_config(config)) as journal:
        rows = [entry.row for entry in find_documents(journal, document)] if document else None
        count = journal.retry(rows)
    console.say({"retried": count}, f"{count} documents will be tried again", as_json)


@app.command()
def accept(
    source: Annotated[str, typer.Argument(help="The source that is held.")],
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Say that a source's sudden loss of documents is real: they are removed at the next pass."""

    with journal_of(read_config(config)) as journal:
        done = journal.accept(SourceName(source))
    if not done:
        fail(f"source {source!r} is not held for a loss of documents; see: ingestor status", USAGE)
    console.say({"accepted": source}, f"the loss in {source} is accepted", as_json)


@app.command(name="ls")
def list_documents(
    source: Annotated[str | None, typer.Option(help="Only this source.")] = None,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """List the documents."""

    with journal_of(read_config(config)) as journal:
        console.show_documents(listed(journal, source), as_json)


@app.command()
def show(
    document: Annotated[str, typer.Argument(help="A document: its key, path or id.")],
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Show a document's chunks as they are in Chroma, with their spans."""

    checked = read_config(config)
    set_up("error", checked.log.format)
    console.show_chunks(shown(checked, document), as_json)
