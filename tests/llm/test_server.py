"""What a server says beside its answers."""

import pytest

from ingestor.core.errors import retry_after

NOON = 1_767_268_800.0  # 2026-01-01 12:00:00 UTC


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("", None),
        ("7", 7.0),
        (" 0.5 ", 0.5),
        ("soon", None),
        ("-3", None),
        ("Thu, 01 Jan 2026 12:00:30 GMT", 30.0),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 0.0),
        ("Thu, 99 Jan 2026 11:00:00 GMT", None),
    ],
)
def test_how_long_a_server_asks_to_wait(header: str | None, seconds: float | None) -> None:
    assert retry_after(header, NOON) == seconds
