"""What the engine says, and what the histories of tests/simulation seldom meet."""

import logging
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from ingestor.core.entries import Entry, Feed
from ingestor.engine.loop import Engine
from ingestor.model import Blob, Item, RecordId, SourceName
from ingestor.ports import Transient
from ingestor.state.sources import Withdrawals
from tests.memory_index import MemoryIndex
from tests.simulation.checks.at_rest import check
from tests.simulation.laws import ASKED, LawBroken
from tests.simulation.ports.files import UNREADABLE
from tests.simulation.world import FILES, World


def test_folder_of_pictures_is_logged_in_a_line_for_each_kind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path, seed=1)
    for number in range(8):
        world.files.write(f"{number}.gif", "GIF89a\x01\x00\x01\x00")
    world.files.write("other.bin", "\x00\x01\x02")
    with caplog.at_level(logging.INFO):
        world.settle()
    world.journal.close()
    assert "quarantined" not in caplog.text
    told = [record.getMessage() for record in caplog.records if record.getMessage().startswith("skipped")]
    assert len(told) == 2, told
    for name in (".gif", "other.bin"):
        [line] = [line for line in told if name in line]
        assert "more like this: see `ingestor status`" in line


def test_removed_documents_are_reported_to_the_caller(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path, seed=1)
    for number in range(5):
        world.files.write(f"{number}.txt", "some words")
    world.settle()
    for number in range(2):
        world.files.delete(f"{number}.txt")
    with caplog.at_level(logging.INFO):
        world.settle()
    world.journal.close()
    [told] = [record.getMessage() for record in caplog.records if "removed" in record.getMessage()]
    assert told.partition(": ")[2] == "0.txt and 1 more document: removed; 2 records deleted from Chroma"


def broken_while_cut_again(folder: Path) -> World:
    """The engine cuts a few documents at a time; each few are too small a loss to ask about."""
    world = World(folder, seed=1, collective=True)
    for number in range(20):
        world.files.write(f"{number}.txt", "x")
    world.files.write("long.txt", "long" * 100)
    world.settle()
    world.files.delete("long.txt")  # the others must be cut again
    for key in world.files.contents:
        world.loop.running.memory.forget(SourceName("files"), key)
    world.files.parser_broken = world.files.ever_broken = True
    for _ in range(100):
        world.now += 1
        world.engine_step()
    return world


def test_withdrawals_add_up_while_documents_are_cut_again(tmp_path: Path) -> None:
    world = broken_while_cut_again(tmp_path)
    assert Withdrawals(world.journal).of(FILES).kept is not None
    assert len(world.journal.indexed(FILES)) == 10
    world.journal.close()


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
    world, left, drop = World(tmp_path, seed=1), [1, 1, 1], MemoryIndex.drop
    for number in range(20):
        world.files.write(f"{number}.txt", f"a line {number}")
    world.settle()

    def away(self: MemoryIndex, ids: Sequence[RecordId]) -> None:
        if left:
            left.pop()
            raise Transient("Chroma does not answer")
        drop(self, ids)

    monkeypatch.setattr(MemoryIndex, "drop", away)
    for number in range(7):  # 35 %, less than max_loss
        world.files.write(f"{number}.txt", UNREADABLE)
    world.engine.scanner.request_listing()
    most = 0
    for _ in range(100):
        world.now += 5
        world.engine_step()
        most = max(most, Withdrawals(world.journal).of(FILES).documents)
    assert (left, most, len(world.journal.indexed(FILES))) == ([], 7, 13)
    world.journal.close()


def test_repeated_attempts_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, left = World(tmp_path, seed=1), [2]
    world.files.write("a.txt", "text")
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
    world.journal.close()


def test_folder_renamed_while_its_server_is_away_is_recognised(tmp_path: Path) -> None:
    """A sync need not wait for the retries: it ends with the documents under their old names."""
    world = World(tmp_path, seed=1)
    for number in range(5):
        world.files.write(f"a/{number}.txt", "words" * (number + 1))
    world.files.write("deleted.txt", "something else")
    world.settle()
    embedded = world.embedded
    renamed = {one.id for one in world.readers.seen() if "words" in one.text}
    for number in range(5):
        world.files.rename(f"a/{number}.txt", f"b/{number}.txt")
    world.files.delete("deleted.txt")
    world.files.locked = {f"b/{number}.txt" for number in range(5)}
    world.engine.scanner.request_listing()
    for _ in range(200):
        world.now += 1
        world.engine_step()
    assert {one.id for one in world.readers.seen()} == renamed  # what was deleted did not wait with them
    while not world.engine.is_resting():  # one of them is tried again just now
        world.engine_step()
    assert world.now < world.engine.wake_at(routine=False) < float("inf")
    world.settle()
    check(world)
    assert ({one.id for one in world.readers.seen()}, world.embedded) == (renamed, embedded)
    world.end()
