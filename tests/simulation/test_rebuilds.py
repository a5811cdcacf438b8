"""Removals and edits reach readers during a rebuild about as soon as at rest.

The machine of these worlds prepares two documents a second, and the rebuild has forty.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ingestor.app.parts import Parts
from ingestor.core.entries import EditionName
from ingestor.engine import flight, health, loop
from ingestor.engine.health import CollectionHealth
from ingestor.engine.loop import Engine
from ingestor.engine.scanner import Scanner
from ingestor.engine.workers import Lane
from ingestor.pipeline.prepare import Job, Prepared, Tools
from ingestor.ports import NeedsHuman
from ingestor.rechunk.swap import Swaps
from ingestor.state.editions import Editions
from ingestor.state.sources import SourceRows
from tests.simulation.checks.at_rest import check
from tests.simulation.histories import Variants
from tests.simulation.laws import PROMPT, LawBroken, hold
from tests.simulation.ports.collections import CrashingIndex
from tests.simulation.ports.workers import Paced
from tests.simulation.world import DOCS, FILES, World

DOCUMENTS, PACE = 40, 2
QUICK = 0.1  # seconds of a step without writes


def hold_delays(world: World, delayed: Callable[[Paced, int], float], *, until: int) -> None:
    """Hold the delays of deeds 3 to ``until`` during a rebuild to twice the longest of three at rest."""
    pool = world.engine.pool = world.engine.scanner.pool = Paced(world.chaos, world.places, 4, PACE)
    for number in range(DOCUMENTS):
        world.files.write(f"{number:02}", f"alpha {number}\nbeta")
    while not (len(texts(world)) and world.engine.is_resting()):
        step(world, pool)
    at_rest = max(delayed(pool, number) for number in range(3))
    world.per_chunk = 2
    world.configure()
    meanwhile = [delayed(pool, number) for number in range(3, until)]
    assert any(edition.role == "staging" for edition in Editions(world.journal).all())
    hold(PROMPT, max(meanwhile) > 2 * at_rest and (at_rest, meanwhile))
    while any(edition.role == "staging" for edition in Editions(world.journal).all()):
        step(world, pool)
    world.settle()
    check(world)
    world.end()


def delays_during_a_rebuild(folder: Path) -> None:
    """Delete, edit and add documents at rest and throughout a rebuild. Hold the world to the law."""
    world = World(folder, 1, mode="swap", ahead=DOCUMENTS)
    hold_delays(world, lambda pool, number: delay(world, pool, DEEDS[number % 3], number), until=12)


def edits_beside_slow_writes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Edit documents at rest and throughout a rebuild, while each write to Chroma takes a second."""
    world, upsert = World(folder, 1, mode="swap", ahead=DOCUMENTS), CrashingIndex.upsert

    def slow(self: CrashingIndex, records: Any) -> None:
        world.now += 1.0
        upsert(self, records)

    monkeypatch.setattr(CrashingIndex, "upsert", slow)
    monkeypatch.setattr(flight, "BACKGROUND_BATCH", 1)
    hold_delays(world, lambda pool, number: delay(world, pool, edit, number, QUICK), until=9)


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


def delay(
    world: World, pool: Paced, deed: Callable[[World, int], bool], number: int, seconds: float = 1.0
) -> float:
    """Return the seconds until readers see it."""
    there = deed(world, number)
    text = f"alpha {number + 100 * there}"
    world.engine.scanner.request_listing()
    since = world.now
    while (text in texts(world)) != there:
        step(world, pool, seconds)
        hold(PROMPT, world.now - since > 100 and f"{text} is seen after 100 s")
    return world.now - since


def texts(world: World) -> set[str]:
    return {record.text for record in world.readers.seen()}


def step(world: World, pool: Paced, seconds: float = 1.0) -> None:
    world.now += seconds
    pool.begin_round()
    world.engine_step()


def test_removals_and_edits_during_a_rebuild_are_as_prompt_as_at_rest(tmp_path: Path) -> None:
    delays_during_a_rebuild(tmp_path)


def test_edits_wait_for_at_most_one_write_of_a_rebuild(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edits_beside_slow_writes(tmp_path, monkeypatch)


def test_rebuild_that_does_not_yield_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "_yields", lambda self: False)
    with pytest.raises(LawBroken) as found:
        edits_beside_slow_writes(tmp_path, monkeypatch)
    assert found.value.law == PROMPT


def ask_a_person_for_a_rebuild(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a person can help the edition in building; a document changes meanwhile."""
    world = World(folder, 1, mode="swap")
    for number in range(DOCUMENTS):
        world.files.write(f"{number:02}", f"alpha {number}\nbeta")
    world.settle()
    preparing = world.engine.preparing

    def refusing(job: Job, tools: Tools, predecessor: Any) -> Prepared:
        if Editions(world.journal).of_name(job.entry.collection).role == "staging":
            raise NeedsHuman("the new model wants another key")
        return preparing(job, tools, predecessor)

    with monkeypatch.context() as broken:
        broken.setattr(world.engine, "preparing", refusing)
        world.per_chunk = 2
        world.configure()
        for _ in range(5):
            world.now += 5.0
            world.engine_step()
        hold(PROMPT, SourceRows(world.journal).of(FILES).held)
        edit(world, 3)
        world.engine.scanner.request_listing()
        for _ in range(5):
            world.now += 5.0
            world.engine_step()
        hold(PROMPT, "alpha 103" not in texts(world) and "the edit waits")
        served = str(next(iter(Editions(world.journal).all())).serves)
        assert world.engine.health.troubles() == {served: "the new model wants another key"}
        assert world.engine.health.unwritable() == {}, "readers miss nothing"
    world.now += health.HELD
    world.settle()
    check(world)
    assert world.engine.health.troubles() == {}
    world.end()


def test_held_edition_does_not_hold_the_live_collection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_a_person_for_a_rebuild(tmp_path, monkeypatch)


def test_source_held_for_an_unfinished_edition_is_detected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hold_the_source(self: CollectionHealth, collection: EditionName, reason: str) -> None:
        SourceRows(self._collections._journal).hold(FILES, reason)

    monkeypatch.setattr(CollectionHealth, "hold", hold_the_source)
    with pytest.raises(LawBroken) as found:
        ask_a_person_for_a_rebuild(tmp_path, monkeypatch)
    assert found.value.law == PROMPT


def _one_queue(source: Any, most: int, *, background: bool) -> Lane:
    return Lane(source)


BROKEN: Variants = {
    "what vanished waits although nothing can be its new name": (loop, "NEVER", 0.0, {PROMPT}),
    "editions share the workers alike": (Scanner, "is_first", lambda self, feed: True, {PROMPT}),
    "workers take a rebuild's documents in the order of their beginning": (
        loop, "Lane", _one_queue, {PROMPT},
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_detected(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*BROKEN[name][:3])
    with pytest.raises(LawBroken) as found:
        delays_during_a_rebuild(tmp_path)
    assert found.value.law in BROKEN[name][3]


@pytest.mark.parametrize("approves", [False, True])
def test_removals_reach_an_edition_whose_plugins_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, approves: bool
) -> None:
    """Also while the new config waits for a person."""
    world = World(tmp_path, 1, mode="swap", ahead=DOCUMENTS, approves=approves)
    pool = world.engine.pool = world.engine.scanner.pool = Paced(world.chaos, world.places, 4, PACE)
    for number in range(DOCUMENTS):
        world.files.write(f"{number:02}", f"alpha {number}\nbeta")
    while not (len(texts(world)) == DOCUMENTS + 1 and world.engine.is_resting()):
        step(world, pool)
    at_rest = max(delay(world, pool, delete, number) for number in range(3))
    by = Parts.by
    monkeypatch.setattr(
        Parts, "by", lambda self, choices: by(self, choices) if choices == self.choices_for(DOCS) else None
    )
    world.per_chunk = 2
    world.configure()
    before = texts(world)
    meanwhile = [delay(world, pool, delete, number) for number in range(3, 9)]
    assert any(edition.role == "staging" for edition in Editions(world.journal).all()) is not approves
    assert texts(world) == before - {f"alpha {number}" for number in range(3, 9)}
    hold(PROMPT, max(meanwhile) > 2 * at_rest and (at_rest, meanwhile))
    if approves:
        world.approved.approve()
        world.engine_step()
    while any(edition.role == "staging" for edition in Editions(world.journal).all()):
        step(world, pool)
    world.settle()
    check(world)
    world.end()


@pytest.mark.slow
def test_rebuild_is_written_in_smaller_batches_than_what_readers_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Removals and edits wait for a few writes of a rebuild: Chroma adds 400 records in seconds."""
    world, sizes, upsert = World(tmp_path, 1, mode="swap", ahead=200), list[int](), CrashingIndex.upsert
    monkeypatch.setattr(
        CrashingIndex, "upsert", lambda self, records: (sizes.append(len(records)), upsert(self, records))[1]
    )
    for number in range(200):
        world.files.write(f"{number:03}", "\n".join(f"line {number} {line}" for line in range(5)))
    world.settle()
    at_rest = max(sizes)
    world.per_chunk = 2
    sizes.clear()
    world.configure()
    world.settle()
    assert at_rest >= flight.BATCH
    assert max(sizes) < flight.BACKGROUND_BATCH + 5, "a document more than fits"
    check(world)  # writes the records again
    world.end()


@pytest.mark.parametrize("lost", [3, 8])
def test_edition_without_plugins_is_held_before_it_loses_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    """New documents, which it never gets, are set off against its losses once only."""
    world = World(tmp_path, 1, mode="swap")
    for number in range(10):
        world.files.write(f"{number:02}", f"alpha {number}")
    world.settle()
    by = Parts.by
    monkeypatch.setattr(
        Parts, "by", lambda self, choices: by(self, choices) if choices == self.choices_for(DOCS) else None
    )
    monkeypatch.setattr(Swaps, "_promote", lambda self, building: False)
    world.per_chunk = 2
    world.configure()
    for number in range(10, 18):
        world.files.write(f"{number:02}", f"alpha {number}")
    settled(world)
    for number in range(lost):
        world.files.delete(f"{number:02}")
    settled(world)
    assert (SourceRows(world.journal).of(FILES).held is not None) is (lost > 5)
    assert len(texts(world)) == 10 - (lost if lost <= 5 else 0)
    world.end()


def settled(world: World) -> None:
    world.engine.scanner.request_listing()
    for _ in range(20):
        world.now += 5.0
        world.engine_step()
