"""The first documents of a collection with a statistic wait for each other, so that each is written once."""

from pathlib import Path
from random import Random

import pytest

from ingestor.engine import first_pass
from tests.simulation.checks.at_rest import check
from tests.simulation.world import World


def world_of(folder: Path, documents: int) -> World:
    """Each document has longer lines than those before it: the statistic moves across many cuts."""
    world, random = World(folder, seed=1, collective=True), Random(1)
    for number in range(documents):
        lines = [f"{n} ".ljust(3 + number // 4, "x") for n in range(random.randrange(2, 9))]
        world.files.write(f"{number:02}.txt", "\n".join(lines))
    return world


def written(world: World) -> tuple[int, int]:
    """How many records were written, and how many there are."""
    tally, [feed] = world.engine.writer.tally, world.engine.sources
    there = sum(len(entry.known) for entry in world.journal.of_collection(feed.edition))
    return tally.records_added + tally.records_replaced + tally.records_patched, there


def test_each_record_of_a_new_collection_is_written_once(tmp_path: Path) -> None:
    world = world_of(tmp_path, 40)
    world.settle()
    made, there = written(world)
    check(world)
    world.journal.close()
    assert made == there > 100


def test_without_waiting_many_would_be_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_pass.FirstPass, "hold", lambda self, prepared: False)
    monkeypatch.setattr(first_pass.FirstPass, "note", lambda self, prepared: None)
    world = world_of(tmp_path, 40)
    world.settle()
    made, there = written(world)
    world.journal.close()
    assert made > 1.2 * there


def test_a_document_is_held_no_longer_than_a_minute(tmp_path: Path) -> None:
    """Another one never gets ready; it does not keep this one from readers."""
    world = World(tmp_path, seed=1, collective=True)
    for name in ("hangs", "sound"):
        world.files.write(name, "a line\nanother line")
    submit = world.engine.pool.submit
    world.engine.pool.submit = lambda tag, work, scan=False, lane=None: (  # type: ignore[method-assign]
        None if getattr(tag, "entry", None) and tag.entry.key == "hangs" else submit(tag, work, scan=scan)
    )
    [feed] = world.engine.sources
    for _ in range(6):
        world.engine_step()
        world.now += 1
    assert [entry.key for entry in world.journal.of_collection(feed.edition) if entry.known] == []
    assert world.engine.held() == 1
    world.now += first_pass.LONGEST
    for _ in range(4):
        world.engine_step()
        world.now += 1
    assert [entry.key for entry in world.journal.of_collection(feed.edition) if entry.known] == ["sound"]
    assert world.engine.held() == 0
    world.journal.close()


def test_a_change_of_a_collection_that_is_there_is_written_at_once(tmp_path: Path) -> None:
    world = World(tmp_path, seed=1, collective=True)
    for name in ("first", "second", "hangs"):
        world.files.write(name, "a line\nanother line")
    world.settle()
    for name in ("hangs", "second"):
        world.files.write(name, "one more line")
    submit = world.engine.pool.submit
    world.engine.pool.submit = lambda tag, work, scan=False, lane=None: (  # type: ignore[method-assign]
        None if getattr(tag, "entry", None) and tag.entry.key == "hangs" else submit(tag, work, scan=scan)
    )
    before = written(world)[0]
    world.engine.scanner.look_again()
    for _ in range(8):
        world.engine_step()
        world.now += 1
    assert written(world)[0] > before
    world.journal.close()
