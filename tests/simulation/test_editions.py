"""What becomes of work for an edition that was deleted meanwhile."""

from pathlib import Path

import pytest

from ingestor.engine.open_collections import OpenCollections
from ingestor.state.editions import Editions
from tests.simulation.checks.at_rest import check
from tests.simulation.laws import ONE_LIVE, LawBroken
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
    world.engine.writer.check("docs")
    world.engine.writer._outbox("docs").not_before = world.now + 3 * GRACE
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
        world.journal.close()


def test_a_deleted_edition_is_not_opened_by_its_old_name(tmp_path: Path) -> None:
    looked_at_late(tmp_path)


def test_a_writer_that_opens_it_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OpenCollections, "in_force", lambda self, name: True)
    with pytest.raises(LawBroken) as found:
        looked_at_late(tmp_path)
    assert found.value.law == ONE_LIVE
