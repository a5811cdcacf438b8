"""What commands say while work is unfinished, or was interrupted."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from ingestor.app.daemon import Loop
from ingestor.app.queries import current_status
from ingestor.app.signals import Signals
from ingestor.app.status import Status
from ingestor.app.wiring import Running, opened
from ingestor.cli.output import summary
from ingestor.config.file import load
from ingestor.core.decisions import NEVER, Failure
from ingestor.core.document_state import NO_PARSER
from ingestor.core.entries import Receipt
from ingestor.model import Item
from ingestor.pipeline.listing import Source, take
from ingestor.state.editions import Editions
from ingestor.state.queries.reports import Reports
from ingestor.state.running_config import in_force
from tests.e2e.in_process import Ask
from tests.e2e.project import Project
from tests.waiting import wait

PICTURE = b"\x89PNG\r\n\x1a\n\x00"


def test_what_an_interrupted_sync_left_did_not_fail(project: Project) -> None:
    for number in range(15):
        (project.docs / f"{number}.txt").write_text(f"words of {number}")
    with opened(load(project.config, {}), serve=False) as running:
        running.configure(watch=False)
        _list(running)
        found = summary.of_sync(running, 0.0, {})
    assert (found["documents"]["failed"], found["documents"]["due"]) == (0, 15)


def test_a_sync_that_ends_during_a_rebuild_counts_each_document_once(synced: Project, ask: Ask) -> None:
    (synced.docs / "photo.png").write_bytes(PICTURE)
    (synced.docs / "report.pdf").write_bytes(PICTURE)
    ask("sync")
    synced.settings |= {"chunking": {"strategy": "fixed", "size": 4}, "rechunk": {"mode": "swap"}}
    synced.configure()
    with opened(load(synced.config, {}), serve=False) as running:
        running.configure(watch=False)
        _list(running)
        (new,) = (edition for edition in Editions(running.journal).all() if edition.role == "staging")
        for entry in running.journal.of_collection(new.name):
            if entry.key in ("a.txt", "photo.png"):
                parser, refusal = "text", None
                if entry.key == "photo.png":
                    parser, refusal = NO_PARSER, Failure("no text", 1, NEVER, quarantined=True)
                version, recipe = entry.item.version, entry.wanted_recipe
                done = Receipt(entry.row, version, recipe, "f", "d", parser, failure=refusal)
                running.journal.settle([done], [recipe])
        found = summary.of_sync(running, 0.0, {})["documents"]
        (old,) = (edition for edition in Editions(running.journal).all() if edition.role == "live")
        for entry in running.journal.of_collection(old.name):
            if entry.key in ("a.txt", "b.txt"):
                assert entry.item is not None
                away = Failure("its server is away", 1, NEVER, quarantined=False)
                running.journal.fail(entry.row, entry.item.version, away)
        behind = summary.of_sync(running, 0.0, {})["documents"]
    assert (found["unchanged"], found["quarantined"], found["unsupported"]) == (2, 1, 1)
    assert found["due"] == 2  # b.txt and report.pdf, in the new collection
    assert (behind["failed"], behind["due"]) == (1, 2), "a.txt, which is done in the new collection alone"


def test_a_listing_under_way_is_told(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a sync that is ended meanwhile, too."""
    for name in "abc":
        (project.docs / f"{name}.txt").write_text("some words")
    here, go_on = threading.Event(), threading.Event()

    def slowly(source: Source, *given: object) -> object:
        connector = type(source.connector)

        def scan(self: object) -> Iterator[Item]:
            for item in real(self):
                yield item
                here.set()
                go_on.wait(60)

        real = connector.scan
        with monkeypatch.context() as patch:
            patch.setattr(connector, "scan", scan)
            return take(source, *given)  # type: ignore[arg-type]

    monkeypatch.setattr("ingestor.pipeline.listing.take", slowly)
    signals = Signals()

    def listing() -> Status | None:
        status = current_status(in_force(project.config, {}))
        found = status.sources["docs"].listing
        return status if found is not None and found.seen else None

    with opened(load(project.config, {}), serve=False) as running, ThreadPoolExecutor(1) as pool:
        sync = pool.submit(Loop(running, signals, lambda live: None).sync)
        try:
            assert here.wait(60)
            status = wait(listing)
            found = status.sources["docs"].listing
            assert found.seen == 1
            assert found.at in ("a.txt", "b.txt", "c.txt")
            assert 0 < status.started - 60 < found.since
            signals.stop = True
            sync.result()
            unfinished = summary.of_sync(running, 0.0, {})["unseen"]
        finally:
            signals.stop = True
            go_on.set()
    assert "the listing stopped after 1 document" in unfinished["docs"]


def test_ls_and_status_agree_about_what_is_due(synced: Project) -> None:
    """Also where the same version is to be cut in another way."""
    synced.settings |= {"chunking": {"strategy": "fixed", "size": 4}, "rechunk": {"mode": "in_place"}}
    synced.configure()
    with opened(load(synced.config, {}), serve=False) as running:
        running.configure(watch=False)
        reports = Reports(running.journal)
        assert [state for *_, state, _ in reports.counts()] == ["due"]
        assert {(each.state, each.settled) for each in reports.documents()} == {("due", False)}


def test_status_names_strategy_and_model(synced: Project, ask: Ask) -> None:
    found = json.loads(ask("status", "--json").out)["collections"]["docs"]
    assert (found["strategy"], found["model"]) == ("recursive", "hashing")


def _list(running: Running) -> None:
    """Until all was listed, and nothing else was done."""
    scanner = running.engine.scanner
    scanner.start()
    while scanner.under_way() or scanner.taking_over():
        outcome = running.pool.next(30)
        assert outcome is not None
        scanner.scanned(outcome.tag, outcome)  # type: ignore[arg-type]
