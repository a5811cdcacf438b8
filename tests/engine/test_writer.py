"""The verdict on an error of a write."""

import sqlite3

import pytest

from ingestor.engine.writer import Verdict, classify
from ingestor.ports import BadDocument, Foreign, Gone, Later, NeedsHuman, Torn, Transient

VERDICTS = [
    (Transient("away"), Verdict.RETRY),
    (Later("too many requests", 3.0), Verdict.RETRY),
    (sqlite3.OperationalError("disk is full"), Verdict.RETRY),
    (Torn("a segment is damaged"), Verdict.REBUILD),
    (Gone("it was deleted"), Verdict.REBUILD),
    (NeedsHuman("no permission"), Verdict.HOLD),
    (Foreign("another program's"), Verdict.HOLD),
    (sqlite3.IntegrityError("UNIQUE"), Verdict.RAISE),
    (sqlite3.DatabaseError("malformed"), Verdict.RAISE),
    (BadDocument("odd"), Verdict.REFUSE),
    (ValueError("unknown"), Verdict.REFUSE),
    (MemoryError(), Verdict.REFUSE),
]


@pytest.mark.parametrize(("error", "verdict"), VERDICTS, ids=lambda each: type(each).__name__)
def test_error_of_a_write_gets_its_verdict(error: Exception, verdict: Verdict) -> None:
    assert classify(error) is verdict
