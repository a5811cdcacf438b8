"""Commands beside each other and beside a daemon or sync, as it starts, works, ends or is interrupted."""

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ingestor.app.daemon import Loop, Signals
from ingestor.app.wiring import Ports, Running, open_state
from ingestor.chroma.backend import Collections
from ingestor.chroma.client import Unreachable
from ingestor.chroma.folder import LOCK
from ingestor.chroma.index import ChromaIndex
from ingestor.config.file import load
from ingestor.core.decisions import NEVER, Failure
from ingestor.core.document_state import NO_PARSER
from ingestor.core.entries import Receipt
from ingestor.model import CollectionName, Item
from ingestor.pipeline.listing import Source, take
from ingestor.queries.access import is_running
from ingestor.queries.status import Status, current_status, report_sync
from ingestor.rechunk.swap import Swaps
from ingestor.state import files
from ingestor.state.editions import Editions
from ingestor.state.reports import count_documents, list_documents
from ingestor.state.run_status import in_force
from tests.e2e.in_process import Ask, answered
from tests.e2e.project import Daemon, Project
from tests.state.journals import of_collection
from tests.waiting import wait


@pytest.fixture
def one_synced(project: Project, ask: Ask) -> Project:
    (project.docs / "a.txt").write_text("some words")
    assert ask("sync").code == 0
    return project


@pytest.mark.parametrize("embedded", [False, True])
def test_sync_serves_readers_meanwhile(one_synced: Project, ask: Ask, embedded: bool) -> None:
    """It has Chroma for itself, and on a port of its own."""
    if embedded:
        one_synced.settings = {"chroma": {"path": "./chroma", "embedded": True}}
        one_synced.configure()
    with open_state(load(one_synced.config, {}), serve=False):
        assert answered(ask("query", "words", "--json"))["hits"][0]["document"] == "some words"
        for words in ("show", "a.txt"), ("verify",):
            assert ask(*words).code == 0
        assert answered(ask("status", "--json"))["collections"]["docs"]["healthy"]


def test_command_waits_for_a_starting_daemon(one_synced: Project, ask: Ask) -> None:
    """Only a status does not: it says how things are."""
    config = load(one_synced.config, {})
    busy = files.hold(one_synced.folder / "chroma" / LOCK)  # so long the daemon can't go on
    done = threading.Event()

    def run() -> None:
        with open_state(config, serve=False):
            done.wait(60)

    daemon, freed = threading.Thread(target=run), threading.Timer(1.0, busy.release)
    daemon.start()
    try:
        wait(lambda: is_running(config))
        found = answered(ask("status", "--json"))["collections"]["docs"]
        assert not found["healthy"]
        assert f"Chroma is not up: process {os.getpid()}" in found["reason"]
        freed.start()  # when the query has long asked for the first time
        assert answered(ask("query", "words", "--json"))["hits"][0]["document"] == "some words"
    finally:
        done.set()
        daemon.join()
        freed.join()


@pytest.mark.usefixtures("embedded")
def test_question_to_an_ending_daemon_is_repeated(
    one_synced: Project, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = Collections.find, iter(range(1000))

    def existing(self: Collections, name: CollectionName) -> ChromaIndex | None:
        if next(calls) == 0:
            raise Unreachable("Chroma can't be reached")
        return real(self, name)

    monkeypatch.setattr(Collections, "find", existing)
    answer = ask("query", "words")
    assert (answer.code, "some words" in answer.out) == (0, True), answer


@pytest.mark.usefixtures("embedded")
def test_text_unknown_to_the_terminal_is_escaped_and_names_a_document(project: Project, ask: Ask) -> None:
    Path(os.fsdecode(os.fsencode(project.docs) + b"/bad\xff.txt")).write_text("some words")
    assert ask("sync").code == 0
    assert "some words" in ask("show", "bad\udcff.txt").out
    for words in (("show", "no\udcff.txt"), ("query", "bad\udcff"), ("retry", "\udcc3")):
        answer = ask(*words)
        assert (answer.code, "Traceback" in answer.err) == (2, False)


def test_state_folder_that_goes_ends_the_daemon(project: Project, daemon: Daemon) -> None:
    """It would write on into files that nobody finds again."""
    (project.docs / "a.txt").write_text("some words")
    wait(lambda: project.settled(1))
    shutil.rmtree(project.folder / "state")
    assert daemon.process.wait(60) == 4
    assert f"{project.folder / 'state'} was removed, moved or unmounted while ingestor ran" in daemon.said()
    assert "Traceback" not in daemon.said()


@pytest.mark.usefixtures("embedded")
@pytest.mark.slow
def test_plan_counts_what_leaves_with_its_source(project: Project, ask: Ask) -> None:
    (project.docs / "a.txt").write_text("some words")
    (project.folder / "more").mkdir()
    (project.folder / "more" / "b.txt").write_text("other words")
    docs = {"name": "docs", "kind": "folder", "path": "./docs", "collection": "docs"}
    project.settings = {"sources": [docs, {**docs, "name": "more", "path": "./more"}]}
    project.configure()
    assert ask("sync").code == 0
    project.settings = {"sources": [docs]}
    project.configure()
    stays = answered(ask("plan", "--json"))
    assert (stays["leaving"], stays["documents"]["removed"]) == (["more"], 0)
    kept = ask("sync")
    assert kept.code == 0
    assert "source more: is no longer in the config; 1 document kept until: " in kept.out
    project.settings |= {"prune": True}
    project.configure()
    goes = answered(ask("plan", "--json"))
    assert (goes["leaving"], goes["documents"]["removed"], goes["records"]["dropped"]) == ([], 1, 1)
    done = answered(ask("sync", "--json"))
    assert (done["documents"]["removed"], done["unconfigured"]) == (1, {"more": {"removed": 1, "kept": 0}})
    assert answered(ask("sync", "--json"))["unconfigured"] == {}


@pytest.mark.usefixtures("embedded")
def test_interrupted_sync_names_the_command_to_resume(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Signals, "stop", True)
    answer = ask("sync")
    assert (answer.code, "interrupted: run sync again to resume" in answer.err) == (130, True), answer


def test_clock_put_back_delays_no_document(project: Project, caplog: pytest.LogCaptureFixture) -> None:
    ahead = [86400.0]
    ports = Ports(clock=lambda: time.time() + ahead[0])
    project.source = {"watch": "off", "scan_every": "1h"}
    project.configure()
    (project.docs / "old.txt").write_text("some words")
    signals = Signals()

    def settled(documents: int) -> bool:
        counts = count_documents(running.journal)
        return sum(number for *_, state, number in counts if state == "settled") == documents

    def go_through_it() -> None:
        try:
            wait(lambda: settled(1))
            ahead[0] = 0.0
            (project.docs / "new.txt").write_text("other words")
            wait(lambda: settled(2))
        finally:
            signals.stop = True

    with (
        open_state(load(project.config, {}), serve=False, ports=ports) as running,
        ThreadPoolExecutor(1) as pool,
    ):
        person = pool.submit(go_through_it)
        Loop(running, signals).run(lambda: None, lambda: None)
        person.result()
    assert "the clock went back by 86" in caplog.text


def test_disk_that_fills_during_a_swap_is_waited_out(
    project: Project, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (project.docs / "a.txt").write_text("some words")
    real, calls = Swaps.advance, iter(range(1000))

    def advance(self: Swaps, *given: Any) -> bool:
        if next(calls) == 0:
            raise sqlite3.OperationalError("database or disk is full")
        return real(self, *given)

    monkeypatch.setattr(Swaps, "advance", advance)
    with open_state(load(project.config, {}), serve=False) as running:
        Loop(running, Signals()).sync()
        assert [state for *_, state, _ in count_documents(running.journal)] == ["settled"]
    assert "cannot be written; indexing pauses and is retried: database or disk is full" in caplog.text


# --- Work that is unfinished or was interrupted ---
PICTURE = b"\x89PNG\r\n\x1a\n\x00"


def test_documents_left_by_an_interrupted_sync_are_no_failures(project: Project) -> None:
    for number in range(15):
        (project.docs / f"{number}.txt").write_text(f"words of {number}")
    with open_state(load(project.config, {}), serve=False) as running:
        running.configure(watch=False)
        _list(running)
        found = report_sync(running, 0.0)
    assert (found.documents.failed, found.documents.due) == (0, 15)


def test_sync_that_ends_during_a_rebuild_counts_a_document_once_a_state(synced: Project, ask: Ask) -> None:
    (synced.docs / "photo.png").write_bytes(PICTURE)
    (synced.docs / "report.pdf").write_bytes(PICTURE)
    ask("sync")
    synced.settings |= {"chunking": {"strategy": "fixed", "size": 4}, "rechunk": {"mode": "swap"}}
    synced.configure()
    with open_state(load(synced.config, {}), serve=False) as running:
        running.configure(watch=False)
        _list(running)
        (new,) = (edition for edition in Editions(running.journal).all() if edition.role == "staging")
        for entry in of_collection(running.journal, new.name):
            if entry.key in ("a.txt", "photo.png"):
                parser, refusal = "text", None
                if entry.key == "photo.png":
                    parser, refusal = NO_PARSER, Failure("no text", 1, NEVER, quarantined=True)
                version, recipe = entry.item.version, entry.wanted_recipe
                done = Receipt(entry.row, version, recipe, "f", "d", parser, failure=refusal)
                running.journal.settle([done])
        found = report_sync(running, 0.0).documents
        (old,) = (edition for edition in Editions(running.journal).all() if edition.role == "live")
        for entry in of_collection(running.journal, old.name):
            if entry.key in ("a.txt", "b.txt"):
                assert entry.item is not None
                away = Failure("its server is away", 1, NEVER, quarantined=False)
                running.journal.fail(entry.row, entry.item.version, away)
        behind = report_sync(running, 0.0).documents
    assert (found.unchanged, found.quarantined, found.unsupported) == (2, 1, 1)
    assert found.due == 2  # b.txt and report.pdf, in the new collection
    assert (behind.failed, behind.due) == (2, 2), (
        "b.txt failed in the old collection, and is due in the new one"
    )


def test_listing_under_way_is_reported(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
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

    with open_state(load(project.config, {}), serve=False) as running, ThreadPoolExecutor(1) as pool:
        sync = pool.submit(Loop(running, signals).sync)
        try:
            assert here.wait(60)
            status = wait(listing)
            found = status.sources["docs"].listing
            assert found.seen == 1
            assert found.at in ("a.txt", "b.txt", "c.txt")
            assert 0 < status.started - 60 < found.since
            signals.stop = True
            sync.result()
            unfinished = report_sync(running, 0.0).unseen
        finally:
            signals.stop = True
            go_on.set()
    assert unfinished["docs"] == "the listing did not complete"


def test_ls_and_status_agree_about_what_is_due(synced: Project) -> None:
    """Also where the same version is to be cut in another way."""
    synced.settings |= {"chunking": {"strategy": "fixed", "size": 4}, "rechunk": {"mode": "in_place"}}
    synced.configure()
    with open_state(load(synced.config, {}), serve=False) as running:
        running.configure(watch=False)
        assert [state for *_, state, _ in count_documents(running.journal)] == ["due"]
        assert {(each.state, each.settled) for each in list_documents(running.journal)} == {("due", False)}


def _list(running: Running) -> None:
    """Until all was listed, and nothing else was done."""
    scanner = running.engine.scanner
    scanner.start()
    while scanner.under_way() or scanner.incomplete_sources():
        outcome = running.engine.pool.next(30)
        assert outcome is not None
        scanner.take_listing(outcome.tag, outcome)  # type: ignore[arg-type]
