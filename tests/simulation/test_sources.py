"""Histories with two sources in one collection: documents move between them, and one is renamed, leaves the
config and joins it again. They exchange their names while documents are read, and one of them may want other
credentials by then. People pause them, and ask for documents to be retried and written again. In some of
the histories nearly every document is large, so it is partly written when its source is renamed.
"""

from pathlib import Path

import pytest

from ingestor.app import handover
from ingestor.engine import flight, writer
from ingestor.engine.flight import Phase
from ingestor.engine.loop import DocumentFlow
from ingestor.model import SourceName
from tests.simulation.directed import History, end, go_on
from tests.simulation.histories import Seeds, Variants, crashes, show
from tests.simulation.laws import CLEAN, EXACT, HELD, REST
from tests.simulation.play import rename
from tests.simulation.world import ELSE, FILES, MORE, World


def two_sources(seed: int) -> dict[str, object]:
    return {"several": True}


def in_slices(seed: int) -> dict[str, object]:
    return {"several": True, "sliced": True}


def test_every_history_equals_a_fresh_run(tmp_path: Path, seeds: Seeds) -> None:
    assert crashes(tmp_path, seeds(range(24), 1), two_sources).total() > 5


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_thousand_further_histories_equal_a_fresh_run(tmp_path: Path) -> None:
    assert crashes(tmp_path, range(24, 1024), two_sources).total() > 4000


@pytest.fixture
def slices_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A document of two records is large, and is written in two steps."""
    monkeypatch.setattr(flight, "BATCH", 1)
    monkeypatch.setattr(writer, "SLICE", 1)


@pytest.mark.slow
@pytest.mark.usefixtures("slices_of_one")
def test_histories_of_large_documents_equal_a_fresh_run(tmp_path: Path, seeds: Seeds) -> None:
    assert crashes(tmp_path, seeds(range(1100, 1112), 5), in_slices).total() > 10


def rename_half_written(renames: dict[SourceName, SourceName]) -> History:
    """Make the history in which a large document is partly written when its source gets another name."""

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


RENAMES: list[dict[SourceName, SourceName]] = [{MORE: ELSE}, {MORE: FILES, FILES: MORE}]


@pytest.mark.usefixtures("slices_of_one")
@pytest.mark.parametrize("renames", RENAMES, ids=["renamed", "traded"])
def test_large_document_that_is_partly_written_gets_the_new_name(
    tmp_path: Path, renames: dict[SourceName, SourceName]
) -> None:
    rename_half_written(renames)(tmp_path)


def leave(folder: Path) -> None:
    """A source leaves the config."""
    world = World(folder, 1, several=True)
    for files in world.places.values():
        files.write("a.txt", f"alpha of {files.root}")
    world.settle()
    world.apart.append(world.places.pop(MORE))
    world.configure()
    end(world)


def trade_after_a_refusal(folder: Path) -> None:
    """A source wants other credentials, and another one has its name before that is known."""
    world = World(folder, 1, several=True)
    for files in world.places.values():
        files.write("a.txt", f"alpha of {files.root}")
    world.settle()
    world.files.write("a.txt", "an edit")
    world.engine.scanner.request_listing()
    world.engine_step()
    world.files.revoked = True
    world.engine_step()
    rename(world, RENAMES[1])
    world.configure()
    go_on(world, 5)
    end(world)


def _whoever_has_the_name(self, prepared):
    source = self._sources.get(prepared.entry.feed)
    return prepared.receipt.recipe if source is None else source.tools.recipe(prepared.receipt.parser)


BROKEN: Variants = {
    "documents of a source that left stay": (
        handover, "sources_of", lambda journal: [], {EXACT, REST, CLEAN},
    ),
    "a failure counts for the source that has the name now": (
        DocumentFlow, "_has_new_source", lambda self, entry: False, {HELD},
    ),
    "a slice is written under an old name": (
        DocumentFlow, "current_recipe", _whoever_has_the_name, {EXACT},
    ),
}  # fmt: skip
SHOWN_BY = dict(zip(BROKEN, (leave, trade_after_a_refusal, rename_half_written(RENAMES[0])), strict=True))


@pytest.mark.parametrize("history", [leave, trade_after_a_refusal])
def test_sources_that_leave_or_trade_equal_a_fresh_run(history: History, tmp_path: Path) -> None:
    history(tmp_path)


@pytest.mark.usefixtures("slices_of_one")
@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_detected(name: str, tmp_path: Path) -> None:
    show(BROKEN[name], SHOWN_BY[name], tmp_path)
