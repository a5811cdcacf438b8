"""Histories in which the journal cannot be read at times, at any query that a step of the engine makes.

Deaths are few in them: a new process has nothing in flight, so it heals what a failing step left behind.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

import pytest

from ingestor.core.entries import EditionName, Entry
from ingestor.engine import flight, protocol
from ingestor.engine.flight import InFlight, Start
from ingestor.engine.loop import Engine
from ingestor.engine.writer import Writer
from tests.simulation.histories import FindOut, Seeds, Variants, played
from tests.simulation.laws import REST


def failing_reads(seed: int) -> dict[str, object]:
    return {"read_rate": 0.04, "crash_rate": 0.01, "collective": seed % 2 == 0}


def many_failing_reads(seed: int) -> dict[str, object]:
    """So many that one fails while another error is handled."""
    return {"read_rate": 0.15, "crash_rate": 0.01}


def histories(
    folder: Path, seeds: Iterable[int], settings: Callable[[int], Mapping[str, object]] = failing_reads
) -> Counter[str]:
    """The errors in them."""
    return sum((world.chaos.faults for world in played(folder, seeds, settings)), Counter[str]())


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large documents are written in the same step as batches of small ones."""
    monkeypatch.setattr(flight, "BATCH", 2)
    monkeypatch.setattr(protocol, "SLICE", 1)


def test_every_history_ends_as_a_run_from_nothing(tmp_path: Path, seeds: Seeds) -> None:
    assert histories(tmp_path, seeds(range(16), 3))["journal read"] > 100


@pytest.mark.usefixtures("small_slices")
def test_histories_of_large_documents_end_as_a_run_from_nothing(tmp_path: Path, seeds: Seeds) -> None:
    assert histories(tmp_path, seeds(range(8), 2), many_failing_reads)["journal read"] > 100


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_thousand_more_histories_end_as_a_run_from_nothing(tmp_path: Path) -> None:
    assert histories(tmp_path, range(16, 1016))["journal read"] > 20_000


def _begun_before_submitted(self: Engine, entry: Entry, start: Start = Start.ON_WORKER) -> None:
    self.flight.begin(InFlight(entry, start))
    _START(self, entry, start)


_START = Engine._start


BROKEN: Variants = {
    "a document is in flight before it is submitted": (
        Engine, "_start", _begun_before_submitted, {REST},
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_found_out(name: str, tmp_path: Path, find_out: FindOut) -> None:
    find_out(BROKEN[name], partial(histories, tmp_path))


def _landed_together(self: Writer, edition: EditionName, *, everything: bool = False) -> None:
    written = list[InFlight]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Writer, "_land", lambda self, document, prepared: written.append(document))
        _FLUSH(self, edition, everything=everything)
    for document in written:
        self._flight.land(document)


_FLUSH = Writer.flush


@pytest.mark.usefixtures("small_slices")
def test_a_batch_that_lands_only_after_all_others_is_found_out(tmp_path: Path, find_out: FindOut) -> None:
    variant = Writer, "flush", _landed_together, {REST}
    find_out(variant, partial(histories, tmp_path, settings=many_failing_reads))
