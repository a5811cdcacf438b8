"""Removals and edits reach readers during a rebuild about as soon as at rest.

The machine of these worlds prepares two documents a second, and the rebuild has forty.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ingestor.engine import loop, outbox
from ingestor.engine.dispatcher import Dispatcher
from ingestor.engine.scanner import Scanner
from ingestor.engine.workers.work_queue import Lane
from ingestor.ports import Transient
from ingestor.state.editions import Editions
from tests.simulation.checks.at_rest import check
from tests.simulation.histories import Variants
from tests.simulation.laws import PROMPT, LawBroken, hold
from tests.simulation.ports.collections import CrashingIndex
from tests.simulation.ports.workers import Paced
from tests.simulation.world import World

DOCUMENTS, PACE = 40, 2


def delays_during_a_rebuild(folder: Path) -> None:
    """Delete, edit and add documents at rest and throughout a rebuild. Hold the world to the law."""
    world = World(folder, 1, mode="swap", ahead=DOCUMENTS)
    pool = world.engine.pool = world.engine.scanner.pool = Paced(world.chaos, world.places, 4, PACE)
    for number in range(DOCUMENTS):
        world.files.write(f"{number:02}", f"alpha {number}\nbeta")
    while not (len(texts(world)) and world.engine.resting()):
        step(world, pool)
    at_rest = max(delay(world, pool, deed, number) for number, deed in enumerate(DEEDS))
    world.per_chunk = 2
    world.configure()
    meanwhile = [delay(world, pool, DEEDS[number % 3], number) for number in range(3, 12)]
    assert any(edition.role == "staging" for edition in Editions(world.journal).all())
    hold(PROMPT, max(meanwhile) > 2 * at_rest and (at_rest, meanwhile))
    while any(edition.role == "staging" for edition in Editions(world.journal).all()):
        step(world, pool)
    world.settle()
    check(world)
    world.end()


def delete(world: World, number: int) -> bool:
    """Return what readers must see."""
    world.files.delete(f"{number:02}")
    return False


def edit(world: World, number: int) -> bool:
    world.files.write(f"{number:02}", f"alpha {number + 100}\nbeta")
    return True


def add(world: World, number: int) -> bool:
    world.files.write(f"new {number:02}", f"alpha {number + 100}\nbeta")
    return True


DEEDS = (delete, edit, add)


def delay(world: World, pool: Paced, deed: Callable[[World, int], bool], number: int) -> float:
    """Return the seconds until readers see it."""
    there = deed(world, number)
    text = f"alpha {number + 100 * there}"
    world.engine.scanner.look_again()
    since = world.now
    while (text in texts(world)) != there:
        step(world, pool)
        hold(PROMPT, world.now - since > 100 and f"{text} is seen after 100 s")
    return world.now - since


def texts(world: World) -> set[str]:
    return {record.text for record in world.readers.seen()}


def step(world: World, pool: Paced) -> None:
    world.now += 1.0
    pool.begin_round()
    world.engine_step()


def test_removals_and_edits_during_a_rebuild_are_as_prompt_as_at_rest(tmp_path: Path) -> None:
    delays_during_a_rebuild(tmp_path)


def _one_queue(self: Dispatcher, source: Any, *, behind: bool) -> Lane:
    return Lane(source)


BROKEN: Variants = {
    "what vanished waits although nothing can be its new name": (loop, "GRACE", 0.0, {PROMPT}),
    "editions share the workers alike": (Scanner, "is_first", lambda self, feed: True, {PROMPT}),
    "workers take a rebuild's documents in the order of their beginning": (
        Dispatcher, "lane", _one_queue, {PROMPT},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_found_out(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BROKEN[name][:3])
    with pytest.raises(LawBroken) as found:
        delays_during_a_rebuild(tmp_path)
    assert found.value.law in BROKEN[name][3]


def test_documents_of_a_paused_edition_leave_workers_to_the_one_that_readers_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small documents fill batches of a new edition, which Chroma does not take."""
    world = World(tmp_path, seed=1, mode="swap", ahead=40, several=True)
    for number in range(900):
        world.files.write(f"{number:03}", f"line {number}")
    world.settle()
    world.per_chunk = 2
    world.configure()
    built = next(feed.edition for feed in world.engine.sources if feed.edition != "docs")
    upsert = CrashingIndex.upsert

    def refuse(self: CrashingIndex, records: Any) -> None:
        if self is not world.shelves.collections["docs"][0]:
            raise Transient("it is away")
        upsert(self, records)

    monkeypatch.setattr(CrashingIndex, "upsert", refuse)
    world.engine.scanner.look_again()
    for _ in range(60):
        world.engine_step()
    assert world.engine.writer.waiting(built) >= outbox.BATCH
    world.files.write("000", "an edit")
    world.engine.scanner.look_again()
    for _ in range(3):
        world.engine_step()
    assert "an edit" in {record.text for record in world.readers.seen()}
    world.journal.close()
