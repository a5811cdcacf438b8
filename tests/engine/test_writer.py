"""The remedy for an error of a write."""

import sqlite3

import pytest

from ingestor.engine.writer import Remedy, classify
from ingestor.ports import BadDocument, Foreign, Gone, Later, NeedsHuman, Torn, Transient

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
