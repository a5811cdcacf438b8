"""Histories in which the journal cannot be read at times, at any query that a step of the engine makes.

Deaths are few in them: a new process has nothing in flight, so it heals what a failing step left behind.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from pathlib import Path

import pytest

from ingestor.core.entries import EditionName, Entry
from ingestor.engine import flight, writer
from ingestor.engine.flight import InFlight
from ingestor.engine.loop import Engine
from ingestor.engine.writer import Writer
from tests.simulation.directed import begin, end, go_on
from tests.simulation.histories import Seeds, Variants, played, show
from tests.simulation.laws import REST
from tests.simulation.ports.files import UNWRITABLE
from tests.simulation.world import World

READS = 60  # in the steps that list, prepare and write an edited document


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
    monkeypatch.setattr(writer, "SLICE", 1)


def test_every_history_equals_a_fresh_run(tmp_path: Path, seeds: Seeds) -> None:
    assert histories(tmp_path, seeds(range(16), 1))["journal read"] > 20


@pytest.mark.slow
@pytest.mark.usefixtures("small_slices")
def test_histories_of_large_documents_equal_a_fresh_run(tmp_path: Path) -> None:
    assert histories(tmp_path, range(8), many_failing_reads)["journal read"] > 100


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_thousand_further_histories_equal_a_fresh_run(tmp_path: Path) -> None:
    assert histories(tmp_path, range(16, 1016))["journal read"] > 20_000


def fail_each_read(folder: Path) -> None:
    """Small and large documents change; each time two other reads of the journal fail in a row."""
    world = begin(folder)
    for number in range(READS // 2):
        first = 2 * number + 2
        world.files.write("0.txt", f"an edit {first}")
        world.files.write("2.txt", f"alpha {first}" if number % 2 else UNWRITABLE)
        world.files.write("1.txt", "\n".join(f"line {number} of {first}" for number in range(4)))
        world.engine.scanner.request_listing()
        _fail_reads(world, first)
        go_on(world, 4)
        world.settle()
    end(world)


def _fail_reads(world: World, first: int) -> None:
    reads = count(1)

    def unreadable() -> None:
        if world.chaos.reading and first <= next(reads) < first + 2:
            raise sqlite3.OperationalError("disk I/O error")

    world.chaos.unreadable = unreadable  # type: ignore[method-assign]


def _begun_before_submitted(self: Engine, entry: Entry, *, drifted: bool = False) -> None:
    self.flight.begin(InFlight(entry, drifted))
    _START(self, entry, drifted=drifted)


_START = Engine._start


def _landed_together(self: Writer, edition: EditionName, *, everything: bool = False) -> None:
    written = list[InFlight]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Writer, "_land", lambda self, document, prepared: written.append(document))
        _FLUSH(self, edition, everything=everything)
    for document in written:
        self._flight.land(document)


_FLUSH = Writer.flush

BROKEN: Variants = {
    "a document is in flight before it is submitted": (
        Engine, "_start", _begun_before_submitted, {REST},
    ),
    "a batch lands only after all others": (Writer, "flush", _landed_together, {REST}),
}  # fmt: skip


@pytest.mark.usefixtures("small_slices")
def test_reads_that_fail_one_by_one_equal_a_fresh_run(tmp_path: Path) -> None:
    fail_each_read(tmp_path)


@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_detected(name: str, tmp_path: Path) -> None:
    show(BROKEN[name], fail_each_read, tmp_path)
