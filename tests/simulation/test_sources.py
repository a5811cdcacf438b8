"""Histories with two sources in one collection: documents move between them, and one is renamed, leaves the
config and joins it again. They exchange their names while documents are read, and one of them may want other
credentials by then. People pause them, and ask for documents to be retried and written again. In some of
the histories nearly every document is large, so it is partly written when its source is renamed.
"""

from functools import partial
from pathlib import Path

import pytest

from ingestor.engine import protocol, writer
from ingestor.engine.flight import Phase
from ingestor.engine.outcomes import DocumentFlow
from ingestor.model import SourceName
from ingestor.state.journal import Journal
from tests.simulation.checks.at_rest import check
from tests.simulation.histories import FindOut, Seeds, Variants, crashes
from tests.simulation.laws import CLEAN, EXACT, HELD, REST
from tests.simulation.play import rename
from tests.simulation.world import ELSE, FILES, MORE, World


def two_sources(seed: int) -> dict[str, object]:
    return {"several": True}


def in_slices(seed: int) -> dict[str, object]:
    return {"several": True, "sliced": True}


def test_every_history_ends_as_a_run_from_nothing(tmp_path: Path, seeds: Seeds) -> None:
    assert crashes(tmp_path, seeds(range(24), 4), two_sources).total() > 30


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_thousand_more_histories_end_as_a_run_from_nothing(tmp_path: Path) -> None:
    assert crashes(tmp_path, range(24, 1024), two_sources).total() > 4000


@pytest.fixture
def slices_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A document of two records is large, and is written in two steps."""
    monkeypatch.setattr(writer, "BATCH", 1)
    monkeypatch.setattr(protocol, "SLICE", 1)


@pytest.mark.slow
@pytest.mark.usefixtures("slices_of_one")
def test_histories_of_large_documents_end_as_a_run_from_nothing(tmp_path: Path, seeds: Seeds) -> None:
    assert crashes(tmp_path, seeds(range(1100, 1112), 5), in_slices).total() > 10


@pytest.mark.parametrize("renames", [{MORE: ELSE}, {MORE: FILES, FILES: MORE}], ids=["renamed", "traded"])
def test_a_large_document_that_is_partly_written_gets_the_new_name(
    tmp_path: Path, renames: dict[SourceName, SourceName]
) -> None:
    world = World(tmp_path, 1, several=True)
    world.files.write("small", "one line")
    world.places[MORE].write("large", "\n".join(f"line {number}" for number in range(950)))
    while not world.engine.flight.documents(Phase.WRITING):
        world.now += 1
        world.engine_step()
    rename(world, renames)
    world.configure()
    world.settle()
    check(world)
    world.end()


BROKEN: Variants = {
    "documents of a source that left stay": (
        Journal, "sources", lambda self: [], {EXACT, REST, CLEAN},
    ),
    "a failure counts for the source that has the name now": (
        DocumentFlow, "_has_new_source", lambda self, entry: False, {HELD},
    ),
}  # fmt: skip


def _whoever_has_the_name(self, prepared):
    source = self._sources.get(prepared.entry.feed)
    return prepared.receipt.recipe if source is None else source.tools.recipe(prepared.receipt.parser)


@pytest.mark.usefixtures("slices_of_one")
def test_a_slice_that_is_written_under_an_old_name_is_found_out(tmp_path: Path, find_out: FindOut) -> None:
    variant = DocumentFlow, "wanted_recipe", _whoever_has_the_name, {EXACT}
    find_out(variant, partial(crashes, tmp_path, settings=in_slices))


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_found_out(name: str, tmp_path: Path, find_out: FindOut) -> None:
    histories = partial(crashes, tmp_path, settings=two_sources)
    find_out(BROKEN[name], histories)
