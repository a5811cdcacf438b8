"""The remedy for an error of a write, and what the log has of a batch."""

import sqlite3
from pathlib import Path

import pytest

from ingestor.engine.writer import Remedy, classify
from ingestor.ports import BadDocument, Foreign, Gone, Later, NeedsHuman, Torn, Transient
from tests.simulation.world import World

REMEDIES = [
    (Transient("away"), Remedy.RETRY),
    (Later("too many requests", 3.0), Remedy.RETRY),
    (sqlite3.OperationalError("disk is full"), Remedy.RETRY),
    (Torn("a segment is damaged"), Remedy.REBUILD),
    (Gone("it was deleted"), Remedy.REBUILD),
    (NeedsHuman("no permission"), Remedy.HOLD),
    (Foreign("another program's"), Remedy.HOLD),
    (sqlite3.IntegrityError("UNIQUE"), Remedy.RAISE),
    (sqlite3.DatabaseError("malformed"), Remedy.RAISE),
    (BadDocument("odd"), Remedy.REFUSE),
    (ValueError("unknown"), Remedy.REFUSE),
    (MemoryError(), Remedy.REFUSE),
]


@pytest.mark.parametrize(("error", "remedy"), REMEDIES, ids=lambda each: type(each).__name__)
def test_error_of_a_write_gets_its_verdict(error: Exception, remedy: Remedy) -> None:
    assert classify(error) is remedy


def lines(caplog: pytest.LogCaptureFixture, name: str) -> list[tuple[str, str]]:
    """Return level and words of the log's lines of an event."""
    found = [one for one in caplog.records if one.__dict__.get("event") == name]
    return [(one.levelname, one.getMessage()) for one in found]


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
