"""The options of the IMAP connector."""

from datetime import date

import pytest
from pydantic import ValidationError

from ingestor.connectors.imap.connector import ImapOptions
from tests.connectors.imap_script import PASSWORD

PLAIN = {"host": "imap.example.org", "username": "ada@example.org", "password": PASSWORD}


@pytest.mark.parametrize(
    ("since", "earliest"),
    [
        ("2026-01-31", date(2026, 1, 31)),
        (date(2026, 1, 31), date(2026, 1, 31)),
        ("30d", 2_592_000.0),
        (86_400, 86_400.0),
        (None, None),
    ],
)
def test_since_is_a_day_or_a_duration(since: object, earliest: object) -> None:
    assert ImapOptions.model_validate({**PLAIN, "since": since}).since == earliest


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"host": "imap://h"}, "must be the name of a host"),
        ({"username": "a\nb"}, "without control characters"),
        ({"folders": []}, "at least 1"),
        ({"folders": [""]}, "must not be empty"),
        ({"since": "yesterday"}, "a day such as"),
        ({"since": "2026-13-01"}, "a day such as"),
        ({"tls": "maybe"}, "starttls"),
        ({"port": 0}, "greater than or equal to 1"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ImapOptions.model_validate({**PLAIN, **options})
