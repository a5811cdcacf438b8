"""Editions follow each other while Chroma comes and goes; and work for one that was deleted meanwhile."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random
from tempfile import mkdtemp

import pytest

from ingestor.core.entries import EditionName
from ingestor.engine.edition_store import EditionStore
from ingestor.state.editions import Editions
from tests.simulation.checks.at_rest import check
from tests.simulation.directed import begin, fail_at, go_on
from tests.simulation.histories import Seeds
from tests.simulation.laws import ONE_LIVE, LawBroken
from tests.simulation.play import act, configure
from tests.simulation.world import DOCS, GRACE, World


def looked_at_late(folder: Path) -> None:
    """A look at the first edition is put off until that was deleted, and its name is another one's."""
    world = World(folder, 1, mode="swap")
    world.files.write("a.txt", "alpha")
    world.settle()
    world.per_chunk = 2
    world.configure()
    world.settle()
    assert Editions(world.journal).live("docs").name == "docs--2"
    world.engine.health.mark("docs")
    world.engine.health.of["docs"].not_before = world.now + 3 * GRACE
    while Editions(world.journal).of_name("docs") in Editions(world.journal).all():
        world.now += GRACE
        world.engine_step()
    world.now += 3 * GRACE
    try:
        for _ in range(3):
            world.engine_step()
            world.readers.check(world)
        check(world)
    finally:
        world.end()


def test_deleted_edition_is_not_opened_by_its_old_name(tmp_path: Path) -> None:
    looked_at_late(tmp_path)


def test_writer_opening_the_file_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EditionStore, "is_in_force", lambda self, name: True)
    with pytest.raises(LawBroken) as found:
        looked_at_late(tmp_path)
    assert found.value.law == ONE_LIVE


def with_outages(folder: Path, seeds: Iterable[int]) -> Counter[str]:
    """Collections are swapped often, and the grace of an old one may end while Chroma has the wrong names.

    Returns the faults.
    """
    worlds = (swapped_often(Path(mkdtemp(dir=folder)), seed) for seed in seeds)
    return sum((world.chaos.faults for world in worlds), Counter[str]())


def swapped_often(folder: Path, seed: int) -> World:
    random = Random(seed)
    world = World(folder, seed, crash_rate=0.01, error_rate=0.02, mode="swap", outages=0.1, grace=10.0)
    for _ in range(10):
        act(world, random)
        configure(world, random, random.choice(["recipe", "reshard", "embedder", "roll_back"]))
        world.step(random.randrange(10, 30))
    world.settle()
    check(world)
    world.end()
    return world


def test_collections_that_are_swapped_while_chroma_comes_and_goes_equal_a_fresh_run(
    tmp_path: Path, seeds: Seeds
) -> None:
    assert with_outages(tmp_path, seeds(range(10), 1))["away"] > 10


def test_torn_edition_is_deleted_and_not_the_one_that_has_its_name_still(tmp_path: Path) -> None:
    """Editions have changed their roles, and a failed rename left Chroma with the former names."""
    world = begin(tmp_path, mode="swap")
    world.per_chunk = 2
    world.configure()
    fail_at(world, "rename")
    while Editions(world.journal).live(DOCS).name == "docs":
        go_on(world, 1)
    old, new = Editions(world.journal).of_name(EditionName("docs")), Editions(world.journal).live(DOCS)
    assert world.shelves.collections["docs"][1] in old.uuids
    world.engine.writer._collections.discard(new.name, torn=True)
    assert {uuid for _, uuid in world.shelves.collections.values()} == {*old.uuids}
    world.end()
