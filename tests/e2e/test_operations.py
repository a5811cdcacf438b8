"""Commands beside each other and beside a daemon or sync, as it starts, works and ends."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ingestor.app import needs
from ingestor.app.daemon import Loop
from ingestor.app.queries import is_running
from ingestor.app.signals import Signals
from ingestor.app.wiring import Ports, opened
from ingestor.chroma.backend import Collections
from ingestor.chroma.client import Unreachable
from ingestor.chroma.folder import LOCK
from ingestor.chroma.index import ChromaIndex
from ingestor.config.file import load
from ingestor.model import CollectionName
from ingestor.rechunk.swap import Swaps
from ingestor.state import lock
from ingestor.state.queries.reports import Reports
from tests.bounded import printed
from tests.e2e.in_process import Ask
from tests.e2e.project import INGESTOR, Daemon, Project
from tests.waiting import wait


@pytest.fixture
def synced(project: Project, ask: Ask) -> Project:
    (project.docs / "a.txt").write_text("some words")
    assert ask("sync").code == 0
    return project


def test_a_sync_serves_those_who_look_meanwhile(synced: Project, ask: Ask) -> None:
    """It has Chroma for itself, and on a port of its own."""
    with opened(load(synced.config, {}), serve=False):
        assert json.loads(ask("query", "words", "--json").out)["hits"][0]["document"] == "some words"
        assert ask("show", "a.txt").code == 0
        status = json.loads(ask("status", "--json").out)
    assert status["collections"]["docs"]["healthy"]


def test_command_waits_for_a_starting_daemon(synced: Project, ask: Ask) -> None:
    """Only a status does not: it says how things are."""
    config = load(synced.config, {})
    busy = lock.hold(synced.folder / "chroma" / LOCK)  # so long the daemon can't go on
    done = threading.Event()

    def run() -> None:
        with opened(config, serve=False):
            done.wait(60)

    daemon, freed = threading.Thread(target=run), threading.Timer(1.0, busy.release)
    daemon.start()
    try:
        wait(lambda: is_running(config))
        found = json.loads(ask("status", "--json").out)["collections"]["docs"]
        assert not found["healthy"]
        assert f"Chroma is not up: process {os.getpid()}" in found["reason"]
        freed.start()  # when the query has long asked for the first time
        assert json.loads(ask("query", "words", "--json").out)["hits"][0]["document"] == "some words"
    finally:
        done.set()
        daemon.join()
        freed.join()


@pytest.mark.parametrize("words", [("query", "words"), ("show", "a.txt")])
def test_question_to_an_ending_daemon_is_repeated(
    synced: Project, ask: Ask, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    real, calls = Collections.existing, iter(range(1000))

    def existing(self: Collections, name: CollectionName) -> ChromaIndex | None:
        if next(calls) == 0:
            raise Unreachable("Chroma can't be reached")
        return real(self, name)

    monkeypatch.setattr(Collections, "existing", existing)
    answer = ask(*words)
    assert answer.code == 0, answer
    assert "some words" in answer.out


def test_command_does_not_wait_for_a_chroma_that_never_listens(synced: Project, ask: Ask) -> None:
    synced.settings = {"chroma": {"path": "./chroma", "embedded": True}}
    synced.configure()
    with opened(load(synced.config, {}), serve=False):
        for words in (("query", "words"), ("show", "a.txt"), ("verify",)):
            answer = ask(*words)
            assert answer.code == 4
            assert f"Chroma is inside process {os.getpid()} (embedded: true)" in answer.err
        assert "embedded: true" in ask("status").out


def test_an_interrupted_sync_does_not_say_that_all_is_settled(project: Project) -> None:
    (project.docs / "a.txt").write_text("some words")
    config = load(project.config, {})
    (project.folder / "chroma").mkdir()
    busy = lock.hold(project.folder / "chroma" / LOCK)  # so long it can't begin
    command = [str(INGESTOR), "sync", "--config", str(project.config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as sync:
        wait(lambda: is_running(config))
        sync.send_signal(signal.SIGINT)
        busy.release()
        _, said = sync.communicate(timeout=60)
    assert sync.returncode == 130
    assert "interrupted: run sync again to resume" in said
    assert "Traceback" not in said


def test_a_source_that_feeds_another_collection_now_leaves_the_old_one(synced: Project, ask: Ask) -> None:
    """Nothing feeds the old one any more, so nobody knows its model."""
    synced.source = {"collection": "elsewhere"}
    synced.configure()
    planned, done = (json.loads(ask(word, "--json").out) for word in ("plan", "sync"))
    for key in ("added", "moved", "removed", "changed"):
        assert planned["documents"][key] == done["documents"][key] == (key in ("added", "removed"))
    assert planned["records"] == done["records"] == {"added": 1, "replaced": 0, "patched": 0, "dropped": 1}
    assert done["embedded"]["texts"] == 0
    assert ask("verify").code == 0
    assert [found["collection"] for found in json.loads(ask("ls", "--json").out)] == ["elsewhere"]


@pytest.mark.parametrize("words", [("show", "bad\udcff.txt"), ("query", "bad\udcff"), ("retry", "\udcc3")])
def test_words_that_are_no_text_in_this_terminal(synced: Project, ask: Ask, words: tuple[str, ...]) -> None:
    answer = ask(*words)
    assert answer.code == 2
    assert "Traceback" not in answer.err


def test_a_document_with_a_name_that_is_no_text_is_found_by_it(project: Project, ask: Ask) -> None:
    Path(os.fsdecode(os.fsencode(project.docs) + b"/bad\xff.txt")).write_text("some words")
    assert ask("sync").code == 0
    assert "some words" in ask("show", "bad\udcff.txt").out


def test_a_state_folder_that_goes_ends_the_daemon(project: Project, daemon: Daemon) -> None:
    """It would write on into files that nobody finds again."""
    (project.docs / "a.txt").write_text("some words")
    wait(lambda: project.settled(1))
    shutil.rmtree(project.folder / "state")
    assert daemon.process.wait(60) == 4
    assert f"{project.folder / 'state'} was removed, moved or unmounted while ingestor ran" in daemon.said()
    assert "Traceback" not in daemon.said()


def test_a_plan_counts_the_memory_of_a_collection_that_is_replaced(project: Project, ask: Ask) -> None:
    for name in "abc":
        (project.docs / f"{name}.txt").write_text(f"some words of {name}, and more of them")
    assert ask("sync").code == 0
    before = json.loads(ask("plan", "--json").out)["needs"]["chroma_memory"]
    assert before == needs.memory(3, 64)
    project.settings = {"rechunk": "swap", "chunking": {"strategy": "fixed", "size": 4}}
    project.configure()
    planned = json.loads(ask("plan", "--json").out)
    assert planned["needs"]["chroma_memory"] == before + needs.memory(planned["records"]["added"], 64)
    assert "those of old and new collections" in ask("plan").out


@pytest.mark.slow
def test_a_plan_knows_of_a_swap_under_way(project: Project, ask: Ask) -> None:
    for name in "abc":
        (project.docs / f"{name}.txt").write_text(f"some words of {name}, and more of them")
    assert ask("sync").code == 0
    project.settings = {"rechunk": "swap", "chunking": {"strategy": "fixed", "size": 4}}
    project.configure()
    before = json.loads(ask("plan", "--json").out)
    with opened(load(project.config, {}), serve=False) as running:
        running.configure(watch=False)  # the second collection is begun, and no more
        engine = running.engine
        wait(lambda: engine.step(0.05) or engine.scanner.listed(CollectionName("docs--2")), every=0)
    after = json.loads(ask("plan", "--json").out)
    assert after["documents"]["rebuilt"] == before["documents"]["rebuilt"] == 3
    assert after["records"] == before["records"]


def test_a_plan_counts_what_leaves_with_its_source(project: Project, ask: Ask) -> None:
    (project.docs / "a.txt").write_text("some words")
    (project.folder / "more").mkdir()
    (project.folder / "more" / "b.txt").write_text("other words")
    docs = {"name": "docs", "kind": "folder", "path": "./docs", "collection": "docs"}
    project.settings = {"sources": [docs, {**docs, "name": "more", "path": "./more"}]}
    project.configure()
    assert ask("sync").code == 0
    project.settings = {"sources": [docs]}
    project.configure()
    stays = json.loads(ask("plan", "--json").out)
    assert (stays["leaving"], stays["documents"]["removed"]) == (["more"], 0)
    kept = ask("sync")
    assert kept.code == 0
    assert "source more: is no longer in the config; 1 document kept until: ingestor apply" in kept.out
    project.settings |= {"prune": True}
    project.configure()
    goes = json.loads(ask("plan", "--json").out)
    assert (goes["leaving"], goes["documents"]["removed"], goes["records"]["dropped"]) == ([], 1, 1)
    done = json.loads(ask("sync", "--json").out)
    assert (done["documents"]["removed"], done["unconfigured"]) == (1, {"more": {"removed": 1, "kept": 0}})
    assert json.loads(ask("sync", "--json").out)["unconfigured"] == {}


def test_a_clock_that_is_put_back_holds_up_nothing(
    project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    ahead = [86400.0]
    ports = Ports(clock=lambda: time.time() + ahead[0])
    project.source = {"watch": "off", "scan_every": "1h"}
    project.configure()
    (project.docs / "old.txt").write_text("some words")
    signals = Signals()

    def settled(documents: int) -> bool:
        counts = Reports(running.journal).counts()
        return sum(number for *_, state, number in counts if state == "settled") == documents

    def go_through_it() -> None:
        try:
            wait(lambda: settled(1))
            ahead[0] = 0.0
            (project.docs / "new.txt").write_text("other words")
            wait(lambda: settled(2))
        finally:
            signals.stop = True

    with opened(load(project.config, {}), serve=False, ports=ports) as running, ThreadPoolExecutor(1) as pool:
        person = pool.submit(go_through_it)
        Loop(running, signals, lambda live: None).run(lambda: None, lambda live: None)
        person.result()
    assert "the clock went back by 86" in caplog.text


def test_a_disk_that_fills_during_a_swap_is_waited_out(
    project: Project, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (project.docs / "a.txt").write_text("some words")
    real, calls = Swaps.advance, iter(range(1000))

    def advance(self: Swaps, *given: Any) -> bool:
        if next(calls) == 0:
            raise sqlite3.OperationalError("database or disk is full")
        return real(self, *given)

    monkeypatch.setattr(Swaps, "advance", advance)
    with opened(load(project.config, {}), serve=False) as running:
        Loop(running, Signals(), lambda live: None).sync()
        assert [state for *_, state, _ in Reports(running.journal).counts()] == ["settled"]
    assert "is not writable, will retry: database or disk is full" in caplog.text


def test_a_second_interruption_need_not_be_patient() -> None:
    """In a process of its own: a signal that is heard late ends whatever runs then."""
    program = """
        import signal
        from ingestor.app import signals

        now = [10.0]
        signals.monotonic = lambda: now[0]
        heard = signals.Signals()
        with heard.heard():
            for _ in range(2):  # sent twice by mistake
                signal.raise_signal(signal.SIGINT)
            now[0] += 2 * signals.IMPATIENCE
            signal.raise_signal(signal.SIGTERM)
            print(heard.stop)
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                print("interrupted")
        """
    assert printed(program).split() == ["True", "interrupted"]
