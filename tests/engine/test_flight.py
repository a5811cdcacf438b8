"""Documents in flight: their phases, their sums, and which of a queue are ripe to be written."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from ingestor.core.entries import Intent, Receipt
from ingestor.engine import flight
from ingestor.engine.flight import (
    LINGER,
    MOVES,
    BackgroundPace,
    Flight,
    InFlight,
    Phase,
    Queue,
)
from ingestor.model import RecordId
from ingestor.pipeline.prepare import Prepared
from ingestor.state.journal import Journal
from tests.engine.worlds import DOCS, begun, end, entry_of, lines, world_of
from tests.simulation.ports.workers import BEING_WRITTEN

FORBIDDEN = [(before, to) for before, to in product(Phase, Phase) if to not in MOVES[before]]


def test_table_of_moves_every_phase_is_reached_and_left() -> None:
    reached, reachable = {Phase.IDLE}, set(MOVES[Phase.IDLE])
    while new := reachable - reached:
        reached |= new
        reachable |= {to for phase in new for to in MOVES[phase]}
    assert reached == set(Phase) == set(MOVES) == {Phase.IDLE, Phase.PREPARING, *BEING_WRITTEN}
    assert all(MOVES.values())


@pytest.mark.parametrize(("before", "to"), FORBIDDEN)
def test_move_absent_from_table_raises_and_keeps_phase(before: Phase, to: Phase) -> None:
    [document] = begun([1])
    document.phase = before
    with pytest.raises(AssertionError):
        document.move(to)
    assert document.phase is before


def test_sums_of_documents_that_wait_count_for_others_until_they_land(tmp_path: Path) -> None:
    journal, documents = Journal(tmp_path / "journal.sqlite3"), Flight()
    known = entry_of(3, statistic="mean", sums=np.array([2]))
    first, second, another, settled = (
        InFlight(entry, statistic=statistic)
        for entry, statistic in (
            (entry_of(1), "mean"), (entry_of(2), "mean"), (entry_of(4), "another"), (known, "mean"),
        )
    )  # fmt: skip
    for document in (first, second, another, settled):
        documents.begin(document)
    assert documents.sums_of_others(journal, first) is None
    assert documents.sums_of_others(journal, first, np.array([5])) == [0]
    assert documents.sums_of_others(journal, second, np.array([7])) == [5]
    assert documents.sums_of_others(journal, first) == [7]
    assert documents.sums_of_others(journal, another) is None
    assert documents.sums_of_others(journal, settled, np.array([100])) == [10]  # the journal has its sums
    assert documents.sums_of_others(journal, first) == [7]
    documents.land(second)
    assert documents.sums_of_others(journal, first) == [0]
    journal.close()


# --- queues -------------------------------------------------------------------------------------------------


def queue_of(*records: int, renamed: bool = False) -> Queue:
    """Return a queue of documents with so many records each, put at 1000 s."""
    documents = Flight()
    for row, number in enumerate(records):
        drops = tuple(RecordId(f"{row}#{slot}") for slot in range(number))
        document, intent = InFlight(entry_of(row)), Intent(row, (), 99 if renamed else None)
        receipt = Receipt(row, "1", "recipe", "facts", "digest", "text")
        documents.begin(document)
        documents.put(document, Prepared(document.entry, intent, receipt, deletes=drops), 1000.0)
    return documents.queues[DOCS]


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flight, "BATCH", 10)
    monkeypatch.setattr(flight, "BACKGROUND_BATCH", 4)


@pytest.mark.usefixtures("small_batches")
def test_queue_is_ripe_if_it_is_full_or_lingered() -> None:
    queue = queue_of(2, 3)
    assert [queue.is_ripe(1000.0 + wait) for wait in (0.0, LINGER / 2, LINGER)] == [False, False, True]
    assert queue.is_ripe(900.0), "the clock was put back: no wait is known"
    assert queue_of(5, 5).is_ripe(1000.0)


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize(
    ("queue", "size", "batches"),
    [
        (queue_of(3, 3, 3, 3, 3), None, [[0, 1, 2, 3]]),  # ends with the document that fills it
        (queue_of(3, 3, 3, 3, 3), 4, [[0, 1]]),  # a rebuild may write less at once
        (queue_of(11, 1, 12), None, [[1], [0]]),  # a large document is written in slices
        (queue_of(11, renamed=True), None, [[0]]),  # but one that was renamed at once
    ],
)
def test_batch_takes_documents_up_to_its_size(
    queue: Queue, size: int | None, batches: list[list[int]]
) -> None:
    found = queue.batches(size)
    assert [[each.entry.row for each in batch] for batch in found] == batches


@pytest.mark.parametrize(
    ("seconds", "sizes"),
    [
        (0.1, [100, 200, 400, 400]),  # Chroma is quick: few large batches
        (0.3, [50, 50, 50, 50]),
        (9.0, [50, 50, 50, 50]),  # Chroma is slow: removals wait for small batches only
    ],
)
def test_batches_that_readers_do_not_see_grow_while_they_take_little_time(
    seconds: float, sizes: list[int]
) -> None:
    pace, found = BackgroundPace(), list[int]()
    for _ in sizes:
        pace.note(1000.0, 1000.0 + seconds)
        found.append(pace.size)
    assert found == sizes
    pace.note(1000.0, 1009.0)
    assert pace.size == max(50, sizes[-1] // 2)


def test_line_of_a_batch_counts_changed_records_without_zeros(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = world_of(tmp_path, {})
    with caplog.at_level("INFO", logger="ingestor"):
        for text in ("one\ntwo", "none\none\ntwo"):
            world.files.write("a", text)
            world.settle()
    end(world)
    assert lines(caplog, "documents_written") == [
        ("INFO", "docs: a: 2 records written"),
        ("INFO", "docs: a: 1 record written, 2 records patched"),
    ]
