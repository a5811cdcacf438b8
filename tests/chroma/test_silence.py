"""Busy servers get more time, hanging ones are restarted."""

import os
import time

import pytest

from ingestor.chroma.processes import processor_seconds
from ingestor.chroma.server import LONGEST, Look, Silences, hangs

SINCE = 1000.0


@pytest.mark.parametrize(
    ("waited", "spent", "expected"),
    [
        (15.0, 0.0, True),
        (15.0, 0.2, True),
        (15.0, 0.4, False),  # on a crowded machine it gets little
        (15.0, 30.0, False),
        (LONGEST, 300.0, False),
        (LONGEST + 1, 300.0, True),
    ],
)
def test_what_hangs(waited: float, spent: float, expected: bool) -> None:
    before, now = Look(SINCE + waited - 15, 7.0), Look(SINCE + waited, 7.0 + spent)
    assert hangs(SINCE, before, now) is expected


@pytest.mark.parametrize(("before", "now"), [(None, 7.0), (7.0, None), (None, None)])
def test_a_server_of_which_nothing_is_known_hangs(before: float | None, now: float | None) -> None:
    assert hangs(SINCE, Look(SINCE, before), Look(SINCE + 15, now))


def test_a_silence_goes_on_until_it_ends_or_was_long_ago() -> None:
    silences = Silences()
    assert silences.since("docs", 100, 115) == 100
    assert silences.since("docs", 190, 205) == 100
    assert silences.since("code", 190, 205) == 190
    assert silences.since("docs", 205 + LONGEST, 900) == 100
    assert silences.since("docs", 901 + LONGEST, 1600) == 901 + LONGEST
    silences.ended("docs")
    assert silences.since("docs", 1700, 1715) == 1700
    silences.clear()
    assert silences.since("docs", 1800, 1815) == 1800


def test_the_time_that_a_process_spends() -> None:
    before, until = processor_seconds(os.getpid()), time.process_time() + 0.1
    while time.process_time() < until:
        pass
    after = processor_seconds(os.getpid())
    assert before is not None
    assert after is not None
    assert after >= before + 0.08
    assert processor_seconds(2**22 + 1) is None
