"""Editions follow each other while Chroma comes and goes; and work for one that was deleted meanwhile."""

from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

import pytest

from ingestor.engine.edition_store import EditionStore
from ingestor.state.editions import Editions
from tests.simulation.checks.at_rest import check
from tests.simulation.histories import FindOut, Seeds, Variants
from tests.simulation.laws import (
    CLEAN,
    EXACT,
    ONE_EMBEDDER,
    ONE_LIVE,
    ONE_RECIPE,
    ONE_SET,
    SUPERSET,
    LawBroken,
)
from tests.simulation.play import act, configure
from tests.simulation.world import GRACE, World


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
    while Editions(world.journal).named("docs") in Editions(world.journal).all():
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


def test_a_deleted_edition_is_not_opened_by_its_old_name(tmp_path: Path) -> None:
    looked_at_late(tmp_path)


def test_a_writer_that_opens_it_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_collections_that_are_swapped_while_chroma_comes_and_goes_end_as_a_run_from_nothing(
    tmp_path: Path, seeds: Seeds
) -> None:
    assert with_outages(tmp_path, seeds(range(10), 3))["away"] > 40


def _by_any_name(self: Any, name: Any, *, torn: bool, shard: int | None = None) -> None:
    self._open.pop(name, None)
    if torn:
        places = self._editions.named(name).places
        self._delete(places if shard is None else places[shard : shard + 1])


BROKEN: Variants = {
    "an edition is deleted by a name that another one may have": (
        EditionStore, "discard", _by_any_name,
        {CLEAN, EXACT, SUPERSET, ONE_EMBEDDER, ONE_LIVE, ONE_RECIPE, ONE_SET},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_found_out(name: str, tmp_path: Path, find_out: FindOut) -> None:
    find_out(BROKEN[name], partial(with_outages, tmp_path))
