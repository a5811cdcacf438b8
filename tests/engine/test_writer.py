"""Batches: which documents are ripe, and what the log has of a batch."""

from pathlib import Path

import pytest

from ingestor.core.entries import EditionName, Entry, Intent, Receipt
from ingestor.engine import flight
from ingestor.engine.flight import LINGER, Flight, InFlight, Phase, Queue
from ingestor.model import DocumentId, RecordId, SourceName
from ingestor.pipeline.prepare import Prepared
from tests.engine.log_lines import lines
from tests.simulation.world import World

DOCS = EditionName("docs")


def queue_of(*records: int, renamed: bool = False) -> Queue:
    """Return a queue of documents with so many records each, put at 1000 s."""
    documents = Flight()
    for row, number in enumerate(records):
        entry = Entry(
            row, DocumentId(f"{row}"), SourceName("s"), DOCS, f"{row}", None,
            None, None, None, None, None, 0,
        )  # fmt: skip
        receipt = Receipt(row, "1", "recipe", "facts", "digest", "text")
        drops = tuple(RecordId(f"{row}#{slot}") for slot in range(number))
        document = InFlight(entry)
        documents.begin(document)
        document.move_at_work(Phase.PREPARING)
        predecessor = 99 if renamed else None
        documents.put(document, Prepared(entry, Intent(row, (), predecessor), receipt, drops=drops), 1000.0)
    return documents.queues[DOCS]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flight, "BATCH", 10)
    monkeypatch.setattr(flight, "BACKGROUND_BATCH", 4)


def rows(documents: list[InFlight]) -> list[int]:
    return [each.entry.row for each in documents]


def test_queue_of_few_records_is_ripe_after_it_lingered() -> None:
    queue = queue_of(2, 3)
    assert [queue.is_ripe(1000.0 + wait) for wait in (0.0, LINGER / 2, LINGER)] == [False, False, True]
    assert queue.is_ripe(900.0), "the clock was put back: no wait is known"


def test_queue_of_a_batch_is_ripe_at_once() -> None:
    assert queue_of(5, 5).is_ripe(1000.0)


def test_batch_of_a_full_queue_ends_with_the_document_that_fills_it() -> None:
    queue = queue_of(3, 3, 3, 3, 3)
    assert rows(queue.batch(background=False)) == [0, 1, 2, 3]
    assert rows(queue.batch(background=True)) == [0, 1], "a rebuild writes less at once"


def test_large_document_is_written_in_slices_outside_batches() -> None:
    queue = queue_of(11, 1, 12)
    assert rows(queue.batch(background=False)) == [1]
    large = queue.next_large()
    assert large is not None
    assert large.entry.row == 0


def test_large_document_that_was_renamed_is_written_at_once() -> None:
    queue = queue_of(11, renamed=True)
    assert rows(queue.batch(background=False)) == [0]
    assert queue.next_large() is None


def test_line_of_a_batch_counts_changed_records_without_zeros(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path, seed=1)
    with caplog.at_level("INFO", logger="ingestor"):
        for text in ("one\ntwo", "none\none\ntwo"):
            world.files.write("a", text)
            world.settle()
    world.end()
    assert lines(caplog, "documents_written") == [
        ("INFO", "docs: a: 2 records written"),
        ("INFO", "docs: a: 1 record written, 2 records patched"),
    ]
