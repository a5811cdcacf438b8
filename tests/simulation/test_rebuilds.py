"""A rebuild delays removals and edits little, and its editions follow each other whatever befalls Chroma.

The machine of these worlds prepares two documents a second, and the rebuild has forty.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ingestor.app.parts import Parts
from ingestor.core.entries import EditionName
from ingestor.engine import flight, health, loop
from ingestor.engine.edition_store import EditionStore
from ingestor.engine.flight import Phase
from ingestor.engine.health import CollectionHealth
from ingestor.engine.workers import Lane
from ingestor.engine.writer import Writer
from ingestor.pipeline.prepare import Job, Prepared, Tools
from ingestor.ports import NeedsHuman
from ingestor.rechunk import swap
from ingestor.rechunk.swap import Swaps
from ingestor.state.editions import Editions, Requests
from ingestor.state.reports import count_records_of
from ingestor.state.sources import SourceRows
from tests.simulation.checks.at_rest import check
from tests.simulation.directed import begin, end, end_at_rest, fail_at, run, run_listing
from tests.simulation.histories import SLICES, History, Variants, detect, within
from tests.simulation.laws import ALIVE, ONE_LIVE, PROMPT, hold
from tests.simulation.ports.collections import CrashingIndex
from tests.simulation.ports.workers import Paced
from tests.simulation.world import DOCS, FILES, GRACE, World

DOCUMENTS, PACE = 40, 2
QUICK = 0.1  # seconds of a step without writes


def paced(folder: Path, **settings: object) -> tuple[World, Paced]:
    """Return a world whose documents are indexed, and its pool."""
    world = World(folder, 1, mode="swap", ahead=DOCUMENTS, **settings)  # type: ignore[arg-type]
    pool = world.engine.pool = world.engine.scanner.pool = Paced(world.chaos, world.places, 4, PACE)
    write(world, DOCUMENTS)
    while not (len(texts(world)) == DOCUMENTS + 1 and world.engine.is_resting()):
        step(world, pool)
    return world, pool


def write(world: World, number: int, first: int = 0) -> None:
    for each in range(first, number):
        world.files.write(f"{each:02}", f"alpha {each}\nbeta")


def hold_delays(world: World, at_rest: list[float], meanwhile: list[float]) -> None:
    """Hold the delays of deeds during a rebuild to twice the longest of those at rest."""
    hold(PROMPT, max(meanwhile) > 2 * max(at_rest) and (at_rest, meanwhile))


def is_building(world: World) -> bool:
    return any(edition.role == "staging" for edition in Editions(world.journal).all())


def finish(world: World, pool: Paced) -> None:
    while is_building(world):
        step(world, pool)
    end(world)


def delays(world: World, pool: Paced, delayed: Callable[[int], float], *, until: int) -> None:
    """Hold the delays of deeds 3 to ``until``."""
    at_rest = [delayed(number) for number in range(3)]
    world.configure(per_chunk=2)
    meanwhile = [delayed(number) for number in range(3, until)]
    assert is_building(world)
    hold_delays(world, at_rest, meanwhile)
    finish(world, pool)


def change_during_a_rebuild(folder: Path) -> None:
    """Delete, edit and add documents at rest and throughout a rebuild."""
    world, pool = paced(folder)
    delays(world, pool, lambda number: delay(world, pool, DEEDS[number % 3], number), until=12)


def edit_beside_slow_writes(folder: Path) -> None:
    """Edit documents at rest and throughout a rebuild, while each write to Chroma takes a second."""
    upsert = CrashingIndex.upsert

    def slow(self: CrashingIndex, records: Any) -> None:
        world.now += 1.0
        upsert(self, records)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flight, "BACKGROUND_BATCH", 1)
        world, pool = paced(folder)
        patch.setattr(CrashingIndex, "upsert", slow)
        delays(world, pool, lambda number: delay(world, pool, edit, number, QUICK), until=9)


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


def ask_a_person_for_a_rebuild(folder: Path) -> None:
    """Only a person can help the edition in building; a document changes meanwhile."""
    world = World(folder, 1, mode="swap")
    write(world, DOCUMENTS)
    world.settle()
    preparing = world.engine.preparing

    def refusing(job: Job, tools: Tools, predecessor: Any) -> Prepared:
        if Editions(world.journal).of_name(job.entry.edition).role == "staging":
            raise NeedsHuman("the new model wants another key")
        return preparing(job, tools, predecessor)

    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(world.engine, "preparing", refusing)
        world.configure(per_chunk=2)
        run(world, 5, 5.0)
        hold(PROMPT, SourceRows(world.journal).of(FILES).held)
        edit(world, 3)
        run_listing(world, 5, 5.0)
        hold(PROMPT, "alpha 103" not in texts(world) and "the edit waits")
        served = str(next(iter(Editions(world.journal).all())).serves)
        assert world.engine.health.troubles() == {served: "the new model wants another key"}
        assert world.engine.health.unwritable() == {}, "readers miss nothing"
    world.now += health.HELD
    world.settle()
    assert world.engine.health.troubles() == {}
    end_at_rest(world)


def look_late(folder: Path) -> None:
    """A look at the first edition is put off until that was deleted, and its name is another one's."""
    world = World(folder, 1, mode="swap")
    world.files.write("a.txt", "alpha")
    world.settle()
    world.configure(per_chunk=2)
    world.settle()
    assert Editions(world.journal).live("docs").name == "docs--2"
    world.engine.health.mark("docs")
    world.engine.health.of["docs"].not_before = world.now + 3 * GRACE
    while Editions(world.journal).of_name("docs") in Editions(world.journal).all():
        world.now += GRACE
        world.engine_step()
    world.now += 3 * GRACE
    run(world, 3, 0.0)
    check(world)
    world.end()


def answer_oddly(folder: Path) -> None:
    """Chroma's answer is of no known kind when a rebuild asks which names are taken."""
    world = begin(folder)
    world.swaps.rebuild(DOCS, "search misses records")
    Requests(world.journal).arrange()
    fail_at(world, "names", error=RuntimeError)
    end(world)


@within(SLICES)
def lose_what_is_half_written(folder: Path) -> None:
    """The process dies while a document is written into a replacement; then the document vanishes."""
    world = begin(folder, mode="swap")
    world.files.write("large.txt", "\n".join(f"line {number}" for number in range(80)))
    world.settle()
    world.configure(per_chunk=2)
    while not any(each.entry.key == "large.txt" for each in world.engine.flight.documents(Phase.WRITING)):
        run(world, 1)
    uuid = world.shelves.uuid("docs--2")
    world.end()
    world.start()
    world.files.delete("large.txt")
    end(world)
    hold(PROMPT, world.shelves.uuid("docs") != uuid and "the replacement was written twice")


def _exact(journal: Any, edition: EditionName, *, sure: bool = False) -> int:
    return count_records_of(journal, edition)


def _names_or_an_error(self: EditionStore) -> set[str]:
    return set(self._chroma.names().values())


def _hold_the_source(self: CollectionHealth, collection: EditionName, reason: str) -> None:
    SourceRows(self._store._journal).hold(FILES, reason)


def _one_queue(source: Any, most: int, *, background: bool) -> Lane:
    return Lane(source)


BROKEN: Variants = {
    "a rebuild does not yield": (Writer, "_yields", lambda self: False, {PROMPT}, edit_beside_slow_writes),
    "a source is held for an unfinished edition": (
        CollectionHealth, "hold", _hold_the_source, {PROMPT}, ask_a_person_for_a_rebuild,
    ),
    "an odd answer ends a rebuild": (EditionStore, "names", _names_or_an_error, {ALIVE}, answer_oddly),
    "records in doubt are counted as written": (
        swap, "count_records_of", _exact, {PROMPT}, lose_what_is_half_written,
    ),
    "a writer opens what the file names": (
        EditionStore, "is_in_force", lambda self, name: True, {ONE_LIVE}, look_late,
    ),
    "what vanished waits although nothing can be its new name": (
        loop, "NEVER", 0.0, {PROMPT}, change_during_a_rebuild,
    ),
    "editions share the workers alike": (
        EditionStore, "is_building", lambda self, name: False, {PROMPT}, change_during_a_rebuild,
    ),
    "workers take a rebuild's documents in the order of their beginning": (
        loop, "Lane", _one_queue, {PROMPT}, change_during_a_rebuild,
    ),
}  # fmt: skip


@pytest.mark.parametrize("history", dict.fromkeys(variant[-1] for variant in BROKEN.values()))
def test_pinned_rebuilds_equal_a_fresh_run(history: History, tmp_path: Path) -> None:
    history(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if variant[-1] is change_during_a_rebuild else name
        for name, variant in BROKEN.items()
    ],
)
def test_broken_variants_are_detected(name: str, tmp_path: Path) -> None:
    detect(BROKEN[name], tmp_path)


@pytest.fixture
def missing_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the parts of the config as it is now can be made."""
    by = Parts.by
    monkeypatch.setattr(
        Parts, "by", lambda self, choices: by(self, choices) if choices == self.choices_for(DOCS) else None
    )


@pytest.mark.usefixtures("missing_plugins")
@pytest.mark.parametrize("approves", [False, True])
def test_removals_reach_an_edition_whose_plugins_are_gone(tmp_path: Path, approves: bool) -> None:
    """Also while the new config waits for a person."""
    world, pool = paced(tmp_path, approves=approves)
    at_rest = [delay(world, pool, delete, number) for number in range(3)]
    world.configure(per_chunk=2)
    before = texts(world)
    meanwhile = [delay(world, pool, delete, number) for number in range(3, 9)]
    assert is_building(world) is not approves
    assert texts(world) == before - {f"alpha {number}" for number in range(3, 9)}
    hold_delays(world, at_rest, meanwhile)
    if approves:
        world.approved.approve()
        world.engine_step()
    finish(world, pool)


@pytest.mark.slow
@pytest.mark.parametrize("slow", [True, False])
def test_rebuild_is_written_in_smaller_batches_than_what_readers_see_if_chroma_is_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: bool
) -> None:
    """Removals and edits wait for a few writes of a rebuild: busy, Chroma adds 400 records in seconds."""
    world, sizes, upsert = World(tmp_path, 1, mode="swap", ahead=200), list[int](), CrashingIndex.upsert

    def write(self: CrashingIndex, records: Any) -> None:
        sizes.append(len(records))
        world.now += slow
        upsert(self, records)

    monkeypatch.setattr(CrashingIndex, "upsert", write)
    for number in range(200):
        world.files.write(f"{number:03}", "\n".join(f"line {number} {line}" for line in range(5)))
    world.settle()
    at_rest = max(sizes)
    sizes.clear()
    world.configure(per_chunk=2)
    world.settle()
    assert at_rest >= flight.BATCH
    assert (max(sizes) < flight.BACKGROUND_BATCH + 5) is slow, "a document more than fits"
    check(world)  # writes the records again
    world.end()


@pytest.mark.usefixtures("missing_plugins")
@pytest.mark.parametrize("lost", [3, 8])
def test_edition_without_plugins_is_held_before_it_loses_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    """New documents, which it never gets, are set off against its losses once only."""
    world = World(tmp_path, 1, mode="swap")
    write(world, 10)
    world.settle()
    monkeypatch.setattr(Swaps, "_promote", lambda self, building: False)
    world.configure(per_chunk=2)
    write(world, 18, first=10)
    run_listing(world, 20, 5.0)
    for number in range(lost):
        world.files.delete(f"{number:02}")
    run_listing(world, 20, 5.0)
    assert (SourceRows(world.journal).of(FILES).held is not None) is (lost > 5)
    assert len(texts(world)) == 11 - (lost if lost <= 5 else 0)
    world.end()


def test_torn_edition_is_deleted_and_not_the_one_that_has_its_name_still(tmp_path: Path) -> None:
    """Editions have changed their roles, and a failed rename left Chroma with the former names."""
    world = begin(tmp_path, mode="swap")
    world.configure(per_chunk=2)
    fail_at(world, "rename")
    while Editions(world.journal).live(DOCS).name == "docs":
        run(world, 1)
    old, new = Editions(world.journal).of_name(EditionName("docs")), Editions(world.journal).live(DOCS)
    assert world.shelves.collections["docs"][1] in old.uuids
    world.engine.writer._store.discard(new.name, torn=True)
    assert {uuid for _, uuid in world.shelves.collections.values()} == {*old.uuids}
    world.end()
