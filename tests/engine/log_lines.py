"""Lines of the log, for tests."""

import pytest


def lines(caplog: pytest.LogCaptureFixture, name: str) -> list[tuple[str, str]]:
    """Return level and words of the log's lines of an event."""
    records = [record for record in caplog.records if record.__dict__.get("event") == name]
    return [(record.levelname, record.getMessage()) for record in records]
