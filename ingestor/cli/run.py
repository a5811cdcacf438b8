"""The commands that keep collections in step."""

import json
import logging
import shlex
import time
from functools import partial
from importlib.resources import files
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ingestor.cli.invocation import command
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
    fail,
    log_level,
    read_config,
)
from ingestor.core.events import event

if TYPE_CHECKING:
    from ingestor.app.daemon import Loop
    from ingestor.config.models import Config
    from ingestor.state.run_status import Live


def init(
    path: Annotated[
        Path, typer.Argument(help="Path of the new file, or a folder whose documents are to be indexed.")
    ] = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Write a commented config to start from.

    It names the given folder, or a new one, ./documents.
    """
    from ingestor.cli.output import console

    documents = path.resolve() if path.is_dir() else None
    path = path if documents is None else CONFIG
    if path.exists():
        fail(f"{path} exists already; name another file, or move it away", USAGE)
    if not path.parent.exists():
        make = f"mkdir -p {shlex.quote(str(path.parent))}"
        fail(f"{path} cannot be written: there is no folder {path.parent}; to make it: {make}", FAILED)
    text = files("ingestor").joinpath("templates/config.yaml").read_text()
    if documents is not None:
        path.write_text(text.replace("path: ./documents\n", f"path: {json.dumps(str(documents))}\n"))
        words = f"Wrote {path} for the documents in {documents}. To index them: "
    else:
        path.write_text(text)
        documents = path.parent / "documents"
        documents.mkdir(exist_ok=True)
        words = f"Wrote {path}. Put documents into {documents}, or name other sources there; then: "
    console.say({"config": str(path), "documents": str(documents)}, words + command("run", path), as_json)


def run(
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
) -> None:
    """Keep Chroma in step with the sources, until stopped.

    Serves Chroma, watches the sources, and takes over a changed config file. Ends at SIGTERM, at Ctrl-C or
    with its terminal.
    """
    from ingestor.app.daemon import Loop
    from ingestor.app.reload import Reloader, stamp
    from ingestor.app.signals import Signals
    from ingestor.app.wiring import opened
    from ingestor.cli.log import set_up
    from ingestor.cli.output import goodbye, progress
    from ingestor.page.opening import pages_of
    from ingestor.service.opening import opened as service_opened
    from ingestor.state.files import journal_path

    seen = stamp(config)
    checked = read_config(config, logged=True)
    as_json |= checked.log.format == "json"
    set_up(log_level(checked.log.level, verbose, quiet), "json" if as_json else checked.log.format)
    _log_warnings(config, checked)
    signals = Signals()
    reloader = Reloader(config, environ, signals, checked, seen)
    with signals.heard(), opened(checked, serve=True) as running, progress.shown(as_json or quiet) as watcher:
        logging.getLogger("ingestor").info(
            "Chroma listens at %s",
            running.collections.address,
            extra=event("listening", address=running.collections.address),
        )
        loop = Loop(running, signals, watcher, config_state=reloader.state)
        paging = partial(pages_of, config=lambda: loop.running.parts.config, path=config)
        with service_opened(checked.http, journal_path(checked), loop.view, paging) as unopened:
            if unopened:
                loop.go_without_service(unopened)
            silent = quiet and not as_json
            loop.run(reloader.changed, lambda live: None if silent else _ready(live, loop, config, as_json))
        if not (as_json or quiet):
            goodbye.say_goodbye()


def _log_warnings(path: Path, config: "Config") -> None:
    for warning in config.warnings:
        logging.getLogger("ingestor").warning("config %s: %s", path, warning, extra=event("config_warning"))


def _ready(live: "Live", loop: "Loop", config: Path, as_json: bool) -> None:
    from ingestor.cli.output import goodbye
    from ingestor.state.editions import Editions
    from ingestor.state.queries.reports import Reports
    from ingestor.state.sources import SourceRows

    names = sorted({source.collection for source in loop.running.parts.config.sources})
    editions, reports = Editions(loop.running.journal), Reports(loop.running.journal)
    records = sum(reports.records(editions.live(name).name) for name in names)
    failed = len(reports.failures())
    if as_json:
        logging.getLogger("ingestor").info(
            "all collections are in step", extra=event("in_step", records=records, failed=failed)
        )
        return
    rows = SourceRows(loop.running.journal)
    known = {source.name: rows.of(source.name) for source in loop.running.parts.config.sources}
    unseen = [name for name, row in known.items() if row.trouble or not row.ready]
    question = goodbye.question(loop.running.collections, editions.live(names[0]))
    http = loop.running.parts.config.http
    page = None if http is None or live.no_service else http.url
    goodbye.greet(live, names, records, failed, question, config, unseen, page)


def sync(
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
    quiet: QuietOption = False,
) -> None:
    """Bring Chroma in step once.

    Exits with 0 if everything is settled, 3 if some documents are quarantined, 4 if something failed or is
    left to do, 130 if it was interrupted. Documents that no parser reads are skipped, and are no failure.
    """
    from ingestor.app.daemon import Loop
    from ingestor.app.signals import Signals
    from ingestor.app.wiring import opened
    from ingestor.cli.log import set_up
    from ingestor.cli.output import console, progress, summary

    checked = read_config(config, logged=True)
    set_up(log_level("warning" if as_json else checked.log.level, verbose, quiet), checked.log.format)
    _log_warnings(config, checked)
    silent = as_json or quiet or checked.log.format == "json"
    begun, signals = time.monotonic(), Signals()
    with (
        signals.heard(),
        opened(checked, serve=False) as running,
        progress.shown(silent) as watcher,
    ):
        loop, before = Loop(running, signals, watcher), summary.unconfigured(running)
        loop.sync()
        result = summary.of_sync(running, time.monotonic() - begun, before)
    code = _sync_code(result)
    if as_json or not quiet or code != SETTLED:
        console.show_sync(result, as_json, config)
    if signals.stop:
        fail("interrupted: run sync again to resume", INTERRUPTED)
    raise typer.Exit(code)


def _sync_code(result: dict[str, Any]) -> int:
    left = result["documents"]["failed"] or result["documents"]["due"]
    if result["held"] or result["unseen"] or result["unusable"] or left:
        return FAILED
    return QUARANTINED if result["documents"]["quarantined"] else SETTLED
