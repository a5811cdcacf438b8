"""The phases of a document in flight, and the record that adopts another row of the journal."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from ingestor.engine.flight import BEING_PREPARED, BEING_WRITTEN, MOVES, InFlight, Phase
from ingestor.engine.loop import Engine
from tests.engine.listed import begun
from tests.memory_index import MemoryIndex
from tests.simulation.checks.at_rest import check
from tests.simulation.world import World

FORBIDDEN = [(before, to) for before, to in product(Phase, Phase) if to not in MOVES[before]]


def test_table_of_moves_every_phase_is_reached_and_left() -> None:
    reached, reachable = {Phase.IDLE}, set(MOVES[Phase.IDLE])
    while new := reachable - reached:
        reached |= new
        reachable |= {to for phase in new for to in MOVES[phase]}
    assert reached == set(Phase) == set(MOVES) == {Phase.IDLE, *BEING_PREPARED, *BEING_WRITTEN}
    assert all(MOVES.values())


@pytest.mark.parametrize(("before", "to"), FORBIDDEN)
def test_move_absent_from_table_raises_and_keeps_phase(before: Phase, to: Phase) -> None:
    [document] = begun([1])
    document.phase = before
    with pytest.raises(AssertionError):
        document.move(to)
    assert document.phase is before


def test_refused_rename_lands_while_former_name_is_in_flight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record for each of two documents under one row would be lost, and the other land in its place."""
    world, sound = World(tmp_path, seed=1), MemoryIndex.patch
    for name in ("a", "b", "c"):
        world.files.write(name, f"line {name}")
    world.settle()
    flight, former = world.engine.flight, list[InFlight]()

    def refuse(self: MemoryIndex, metadata: object) -> None:
        [adopter] = flight.documents(*BEING_WRITTEN)
        assert adopter.prepared is not None
        former.append(InFlight(replace(adopter.entry, row=adopter.prepared.receipt.row)))
        flight.begin(former[-1])
        former[-1].move_at_work(Phase.PREPARING)
        raise ValueError("odd metadata")

    monkeypatch.setattr(MemoryIndex, "patch", refuse)
    world.files.rename("a", "z")
    world.engine.scanner.request_listing()
    while not former:
        world.now += 1.0
        world.engine_step()
    assert flight.documents() == former
    monkeypatch.setattr(MemoryIndex, "patch", sound)
    flight.land(former[0])
    world.settle()
    check(world)
    world.end()


def test_refused_rename_waits_under_its_new_row_until_it_is_withdrawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The intents of a rename merge two rows of the journal before Chroma refuses the records."""
    world, patch, started = World(tmp_path, seed=1), MemoryIndex.patch, list[int]()
    for name in ("a", "b", "c"):
        world.files.write(name, f"line {name}")
    world.settle()
    start = Engine._start

    def refuse(self: MemoryIndex, metadata: object) -> None:
        raise ValueError("odd metadata")

    monkeypatch.setattr(MemoryIndex, "patch", refuse)
    monkeypatch.setattr(
        Engine, "_start", lambda self, entry, *rest: (started.append(entry.row), start(self, entry, *rest))
    )
    world.files.rename("a", "z")
    world.engine.scanner.request_listing()
    for _ in range(5):
        world.now += 1.0
        world.engine_step()
    assert started.count(started[0]) == 1, "no other attempt began while the refused one waited"
    assert not world.engine.flight.documents()
    monkeypatch.setattr(MemoryIndex, "patch", patch)
    world.settle()
    check(world)
    world.end()
