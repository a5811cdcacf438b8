"""Documents between steps of the engine, in events that the histories of tests/simulation seldom have.

The worlds are those of the simulation: each step is held to its laws.
"""

import logging
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ingestor.core.entries import Entry, Feed
from ingestor.engine.flight import InFlight
from ingestor.engine.loop import Engine
from ingestor.engine.outcomes import DocumentFlow
from ingestor.model import Blob, Item, RecordId
from ingestor.parsers.shared import detect
from ingestor.ports import Transient
from ingestor.state.sources import SourceRows, Withdrawals
from tests.engine.worlds import end, run, settled_world, withhold, world_of
from tests.memory_index import MemoryIndex
from tests.simulation.laws import ASKED, LawBroken
from tests.simulation.ports.files import UNREADABLE, UNWRITABLE
from tests.simulation.ports.workers import BEING_WRITTEN, done
from tests.simulation.world import FILES, World

LETTERS = {name: f"line {name}" for name in "abc"}


def numbered(number: int, text: str = "line {}") -> dict[str, str]:
    return {f"{at}.txt": text.format(at) for at in range(number)}


# --- the log ------------------------------------------------------------------------------------------------


def test_folder_of_pictures_is_logged_in_a_line_for_each_kind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detect, "reads_pictures", lambda: False)
    pictures = {f"{number}.gif": "GIF89a\x01\x00\x01\x00" for number in range(8)}
    with caplog.at_level(logging.INFO):
        settled_world(tmp_path, {**pictures, "other.bin": "\x00\x01\x02"}).end()
    assert "quarantined" not in caplog.text
    skipped = [line for line in caplog.messages if line.startswith("skipped")]
    assert len(skipped) == 2, skipped
    for name in (".gif", "other.bin"):
        [line] = [line for line in skipped if name in line]
        assert "more like this: see `ingestor status`" in line


def test_removed_documents_are_reported_to_the_caller(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = settled_world(tmp_path, numbered(5))
    for number in range(2):
        world.files.delete(f"{number}.txt")
    with caplog.at_level(logging.INFO):
        world.settle()
    world.end()
    [line] = [line for line in caplog.messages if "removed" in line]
    assert line.partition(": ")[2] == "0.txt and 1 more document: removed; 2 records deleted from Chroma"


def test_documents_that_vanish_before_they_are_read_are_logged_in_a_line_for_each_listing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After a folder is renamed, each of its documents fails for the same reason."""
    world = world_of(tmp_path, {f"old/{key}": text for key, text in numbered(8).items()})
    with caplog.at_level(logging.DEBUG):
        run(world, 1)
        for key in [*world.files.contents]:
            world.files.rename(key, key.replace("old", "new"))
        end(world)
    stale = [(one.levelname, one.getMessage()) for one in caplog.records if "changed" in one.getMessage()]
    details = [words for level, words in stale if level == "DEBUG"]
    shown = [words for level, words in stale if level == "INFO"]
    assert len(details) == 8, stale
    assert shown == [
        "source files: old/0.txt and 7 more documents changed or vanished after the listing; listing it again"
    ]


# --- withdrawals --------------------------------------------------------------------------------------------


def broken_while_cut_again(folder: Path) -> World:
    """Let the parser break while few documents at a time are cut again: too small a loss to ask about."""
    world = settled_world(folder, {**numbered(20, "x"), "long.txt": "long" * 100}, collective=True)
    world.files.delete("long.txt")  # the others must be cut again
    for key in world.files.contents:
        world.loop.running.memory.forget(FILES, key)
    world.files.parser_broken = world.files.ever_broken = True
    for _ in range(60):
        world.now += 1
        world.engine_step()
    return world


def test_withdrawals_add_up_while_documents_are_cut_again(tmp_path: Path) -> None:
    world = broken_while_cut_again(tmp_path)
    assert Withdrawals(world.journal).of(FILES).kept is not None
    assert len(world.journal.indexed(FILES)) == 10
    world.end()


def test_engine_that_forgets_withdrawals_breaks_the_law_of_losses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drifted = Engine._find_drifted

    def in_step(self: Engine, ready: Sequence[Feed], limit: int, but: Collection[int]) -> list[Entry]:
        if limit > 1:  # for _tidy
            self.flow.guard.settle([name for name, _ in ready])
        return drifted(self, ready, limit, but)

    monkeypatch.setattr(Engine, "_find_drifted", in_step)
    with pytest.raises(LawBroken) as found:
        broken_while_cut_again(tmp_path)
    assert found.value.law == ASKED


def test_withdrawal_whose_write_failed_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, left, drop = settled_world(tmp_path, numbered(20)), [1, 1, 1], MemoryIndex.drop

    def away(self: MemoryIndex, ids: Sequence[RecordId]) -> None:
        if left:
            left.pop()
            raise Transient("Chroma does not answer")
        drop(self, ids)

    monkeypatch.setattr(MemoryIndex, "drop", away)
    for number in range(7):  # 35 %, less than max_loss
        world.files.write(f"{number}.txt", UNREADABLE)
    most = 0
    for _ in range(100):
        run(world, 1, 5)
        most = max(most, Withdrawals(world.journal).of(FILES).documents)
    assert (left, most, len(world.journal.indexed(FILES))) == ([], 7, 13)
    world.end()


# --- documents that change while they are prepared ----------------------------------------------------------


@contextmanager
def preparing(folder: Path, text: str = "a line") -> Iterator[tuple[World, Callable[[], None]]]:
    """Run a program whose workers read a document. The function returns the outcomes of all that was read."""
    world = world_of(folder, {"a": text})
    submit, withheld = world.engine.pool.submit, world.withheld
    withhold(world, lambda key: True, lambda tag, work: withheld.append(done(tag, work)))

    def finish() -> None:
        world.pool.outcomes.extend(withheld)
        withheld.clear()

    while not withheld:
        world.engine_step()
    yield world, finish
    world.engine.pool.submit = submit  # type: ignore[method-assign]
    finish()
    end(world)


def steps(world: World, number: int = 6) -> None:
    for _ in range(number):
        run(world, 1, 2)


def texts(world: World) -> list[str]:
    return [record.text for record in world.readers.seen()]


def test_document_removed_while_prepared_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = list[object]()
    with preparing(tmp_path) as (world, finish):
        world.files.delete("a")
        steps(world)
        finish()
        monkeypatch.setattr(MemoryIndex, "upsert", lambda self, records: writes.append(records))
        steps(world)
    assert writes == []


def test_document_that_changes_all_the_time_is_written_every_other_version(tmp_path: Path) -> None:
    seen = set[str]()
    with preparing(tmp_path, "0") as (world, finish):
        for number in range(1, 9):
            world.files.write("a", f"{number}")
            steps(world)
            finish()
            steps(world, 1)
            seen |= set(texts(world))
    assert len(seen) == 4


def test_documents_of_a_paused_source_are_not_written_until_it_resumes(tmp_path: Path) -> None:
    with preparing(tmp_path) as (world, finish):
        SourceRows(world.journal).pause(FILES, world.now)
        finish()
        steps(world)
        assert texts(world) == []
        SourceRows(world.journal).resume(FILES)
        steps(world)
        finish()
        steps(world)
        assert texts(world) == ["a line"]


# --- renamed documents --------------------------------------------------------------------------------------


def refuse(self: MemoryIndex, metadata: object) -> None:
    raise ValueError("odd metadata")


def test_refused_rename_lands_while_former_name_is_in_flight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record for each of two documents under one row would be lost, and the other land in its place."""
    world, former = settled_world(tmp_path, LETTERS), list[InFlight]()
    flight = world.engine.flight

    def begin_former(self: MemoryIndex, metadata: object) -> None:
        [adopter] = flight.documents(*BEING_WRITTEN)
        assert adopter.prepared is not None
        former.append(InFlight(replace(adopter.entry, row=adopter.prepared.receipt.row)))
        flight.begin(former[-1])
        refuse(self, metadata)

    with monkeypatch.context() as refusing:
        refusing.setattr(MemoryIndex, "patch", begin_former)
        world.files.rename("a", "z")
        while not former:
            run(world, 1)
        assert flight.documents() == former
    flight.land(former[0])
    end(world)


def test_refused_rename_waits_under_its_new_row_until_it_is_withdrawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The intents of a rename merge two rows of the journal before Chroma refuses the records."""
    world, started, start = settled_world(tmp_path, LETTERS), list[int](), Engine._start

    def noting(self: Engine, entry: Entry, *, drifted: bool = False) -> None:
        started.append(entry.row)
        start(self, entry, drifted=drifted)

    with monkeypatch.context() as refusing:
        refusing.setattr(MemoryIndex, "patch", refuse)
        refusing.setattr(Engine, "_start", noting)
        world.files.rename("a", "z")
        run(world, 5)
        assert started.count(started[0]) == 1, "no other attempt began while the refused one waited"
        assert not world.engine.flight.documents()
    end(world)


def test_folder_renamed_while_its_server_is_away_is_recognised(tmp_path: Path) -> None:
    """A sync need not wait for the retries: it ends with the documents under their old names."""
    files = {f"a/{number}.txt": "words" * (number + 1) for number in range(5)}
    world = settled_world(tmp_path, {**files, "deleted.txt": "something else"})
    embedded, renamed = world.embedded, {one.id for one in world.readers.seen() if "words" in one.text}
    for key in files:
        world.files.rename(key, key.replace("a/", "b/"))
    world.files.delete("deleted.txt")
    world.files.locked = {key.replace("a/", "b/") for key in files}
    run(world, 200)
    assert {one.id for one in world.readers.seen()} == renamed  # what was deleted did not wait with them
    while not world.engine.is_resting():  # one of them is tried again just now
        world.engine_step()
    assert world.now < world.engine.wake_at(routine=False) < float("inf")
    end(world)
    assert ({one.id for one in world.readers.seen()}, world.embedded) == (renamed, embedded)


def test_refused_document_that_vanished_is_removed_and_not_quarantined(tmp_path: Path) -> None:
    """A daemon that is never at full rest would else keep what of it was written."""
    world = settled_world(tmp_path, {"a": "x"})
    engine = world.engine
    world.files.write("a", UNWRITABLE)
    engine.scanner.request_listing()
    while not engine.flight.documents(*BEING_WRITTEN):
        engine.health.retry_now()
        engine.step(0)
        for health in engine.health.of.values():
            health.not_before = world.now + 100  # it waits to be written
    world.files.delete("a")
    world.files.write("b", "y")
    engine.scanner.request_listing()
    while not world.journal.select("SELECT 1 FROM documents WHERE wanted_version IS NULL"):
        world.now += 1
        engine.step(0)
    world.now += 100
    engine.flush()
    assert world.journal.select("SELECT quarantined, attempts FROM documents WHERE key = 'a'") == [(0, 0)]
    end(world)


def test_refused_document_is_tried_again_if_the_journal_fails_at_the_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, failed = settled_world(tmp_path, {"a": "x", "b": "y"}), list[InFlight]()

    def fail(self: DocumentFlow, document: InFlight, error: Exception, trace: str) -> None:
        failed.append(document)
        raise sqlite3.OperationalError("disk I/O error")

    world.files.write("a", UNWRITABLE)
    with monkeypatch.context() as failing:
        failing.setattr(DocumentFlow, "_fail", fail)
        while not failed:
            run(world, 1)
    assert failed[0] not in world.engine.flight.documents()
    end(world)


def test_repeated_attempts_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, left = world_of(tmp_path, {"a.txt": "text"}), [2]
    fetch = world.files.fetch

    def failing(item: Item) -> Blob:
        if left[0]:
            left[0] -= 1
            raise Transient("away")
        return fetch(item)

    monkeypatch.setattr(world.files, "fetch", failing)
    world.end()
    world.start()
    world.settle()
    assert world.engine.writer.counts.retries.total() == 2
    world.end()
