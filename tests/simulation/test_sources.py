"""Two sources in one collection are renamed, exchange their names, and leave the config."""

from pathlib import Path
from unittest.mock import ANY

import pytest

from ingestor.app import handover, wiring
from ingestor.engine import writer
from ingestor.engine.flight import Phase
from ingestor.engine.outcomes import DocumentFlow
from ingestor.model import SourceName
from ingestor.state.editions import Requests
from tests.simulation.directed import die_at, end, end_at_rest, run
from tests.simulation.histories import SLICES, History, Variants, detect, within
from tests.simulation.laws import CLEAN, EXACT, HELD, KEPT, REST, hold
from tests.simulation.play import rename
from tests.simulation.ports.files import Files
from tests.simulation.world import ELSE, FILES, MORE, World


def rename_half_written(renames: dict[SourceName, SourceName]) -> History:
    """Make the history in which a large document is partly written when its source gets another name."""

    @within(SLICES)
    def history(folder: Path) -> None:
        world = World(folder, 1, several=True)
        world.files.write("small", "one line")
        world.places[MORE].write("large", "\n".join(f"line {number}" for number in range(9)))
        while not world.engine.flight.documents(Phase.WRITING):
            world.now += 1
            world.engine_step()
        rename(world, renames)
        world.configure()
        end(world)

    return history


TRADED = {MORE: FILES, FILES: MORE}


def begin(folder: Path) -> World:
    world = World(folder, 1, several=True)
    for files in world.places.values():
        files.write("a.txt", f"alpha of {files.root}")
    world.settle()
    return world


def leave(folder: Path) -> None:
    """A source leaves the config."""
    world = begin(folder)
    world.apart.append(world.places.pop(MORE))
    world.configure()
    end(world)


def leave_until_a_person_agrees(folder: Path) -> None:
    """A source leaves the config, for good after it was in it again; its collection is replaced meanwhile."""
    world = World(folder, 1, several=True, prune=False, mode="swap")
    for files in world.places.values():
        files.write("a.txt", f"alpha of {files.root}")
    world.settle()
    for per_chunk in (2, 3):
        left = world.places.pop(MORE)
        world.apart.append(left)
        world.configure(per_chunk=per_chunk)
        left_at = die_at(world, "before upsert")
        world.files.write("a.txt", f"an edit before {per_chunk}\nbeta")
        world.engine.scanner.request_listing()
        world.step(60)
        hold(KEPT, (left_at or not _is_seen(world, left)) and per_chunk)
        world.approved.approve()
        world.settle()
        hold(REST, _is_seen(world, left) and "the documents are still there")
        if per_chunk == 2:
            left.wanted.clear()
            world.places[MORE] = world.apart.pop()
            world.configure()
            world.settle()
    end_at_rest(world)


def _is_seen(world: World, files: Files) -> bool:
    return f"{files.root}/a.txt" in {record.metadata["source"] for record in world.readers.seen()}


def trade_after_a_refusal(folder: Path) -> None:
    """A source wants other credentials, and another one has its name before that is known."""
    world = begin(folder)
    world.files.write("a.txt", "an edit")
    world.engine.scanner.request_listing()
    world.engine_step()
    world.files.revoked = True
    world.engine_step()
    rename(world, TRADED)
    world.configure()
    run(world, 5)
    end(world)


def _whoever_has_the_name(journal, rows):
    return {row: (ANY, version) for row, (_, version) in _STILL_WANTED(journal, rows).items()}


def _never_forgotten(self, kind, subject, value):
    if (kind, value) != ("prune", None):
        _PUT(self, kind, subject, value)


_PUT, _STILL_WANTED = Requests.put, writer.still_wanted
renamed, traded = rename_half_written({MORE: ELSE}), rename_half_written(TRADED)
BROKEN: Variants = {
    "documents of a source that left stay": (
        handover, "sources_of", lambda journal: [], {EXACT, REST, CLEAN}, leave,
    ),
    "documents of a source that left are removed at once": (
        wiring, "sources_to_remove", handover.sources_not_in_config, {KEPT}, leave_until_a_person_agrees,
    ),
    "an approved removal holds for the next time": (
        Requests, "put", _never_forgotten, {KEPT}, leave_until_a_person_agrees,
    ),
    "a failure counts for the source that has the name now": (
        DocumentFlow, "_has_new_source", lambda self, entry: False, {HELD}, trade_after_a_refusal,
    ),
    "a slice is written under an old name": (
        writer, "still_wanted", _whoever_has_the_name, {EXACT}, renamed,
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "history",
    [leave, leave_until_a_person_agrees, trade_after_a_refusal, renamed, traded],
    ids=["leave", "stay", "refusal", "renamed", "traded"],
)
def test_sources_that_leave_or_trade_equal_a_fresh_run(history: History, tmp_path: Path) -> None:
    history(tmp_path)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_detected(name: str, tmp_path: Path) -> None:
    detect(BROKEN[name], tmp_path)
