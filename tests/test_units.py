"""Counts and durations in words, and the waits that servers ask for."""

import re
import time
from pathlib import Path

import pytest

from ingestor.units import in_words, quantity, retry_after, size_in_words

ROOT = Path(__file__).parents[1]
# A value before a plural, in an f-string or a line of the log. Not constants (MOST) and shares (.1f).
BARE = re.compile(
    r"(?:%d|\{(?!_?[A-Z_]+(?::,)?\})[^{}]*(?<!\.\df)\}) (?:more |new )?"
    r"(?:records|documents|texts|chunks|questions)\b"
)
SQL = re.compile(r"\b(?:SELECT|UPDATE|FROM|WHERE)\b")


NOON = 1_767_268_800.0  # 2026-01-01 12:00:00 UTC


@pytest.mark.parametrize(
    ("header", "seconds"),
    [(None, None), ("", None), ("7", 7.0), (" 0.5 ", 0.5), ("0", 0.0), ("soon", None), ("-3", None),
     ("9" * 400, None), ("Thu, 01 Jan 2026 12:00:30 GMT", 30.0), ("Thu, 01 Jan 2026 11:00:00 GMT", 0.0),
     ("Thu, 99 Jan 2026 11:00:00 GMT", None), ("Thu, 01 Jan 2026 12:00:30", 30.0),
     ("Thu, 01 Jan 2026 12:00:30 -0000", 30.0)],
)  # fmt: skip
def test_retry_after_gives_the_seconds_to_wait(
    header: str | None, seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert retry_after(header, NOON) == seconds
    finally:
        monkeypatch.undo()
        time.tzset()


def test_counted_noun_is_plural_except_for_one() -> None:
    assert [quantity(n, "text") for n in (0, 1, 2, 1234)] == ["0 texts", "1 text", "2 texts", "1,234 texts"]
    assert [quantity(n, "try", "tries") for n in (1, 3)] == ["1 try", "3 tries"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 seconds"),
        (0.5, "0.5 seconds"),
        (1, "1 second"),
        (60, "1 minute"),
        (90, "90 seconds"),
        (3600, "1 hour"),
        (5400, "90 minutes"),
        (86400, "1 day"),
        (36 * 3600, "36 hours"),
    ],
)
def test_durations_are_in_the_largest_whole_unit(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


def test_every_count_has_its_plural() -> None:
    """A count is told by ``quantity``, so nobody reads of "1 records"."""
    lines = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sorted((ROOT / "ingestor").rglob("*.py"))
        for line in path.read_text("utf-8").splitlines()
        if BARE.search(line) and not SQL.search(line)
    ]
    assert lines == []


def test_size_in_words_has_the_largest_fitting_unit() -> None:
    sizes = (0, 999, 1000, 123_456, 5e6, 7.25e9, 1.5e12)
    assert [size_in_words(each) for each in sizes] == [
        "0 B", "999 B", "1.0 kB", "123 kB", "5.0 MB", "7.2 GB", "1,500.0 GB",
    ]  # fmt: skip
