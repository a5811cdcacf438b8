"""The limits of a minute, with a clock that the test moves."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.embedders.openai import MINUTE, Pace, RateLimits, Sent, earliest


@pytest.mark.parametrize(
    ("sent", "limits", "tokens", "expected"),
    [
        ([], RateLimits(), 10**9, 100.0),
        ([], RateLimits(1, 10), 10, 100.0),
        ([], RateLimits(1, 10), 11, 100.0),  # more than a minute may have: it has one for itself
        ([Sent(90.0, 1)], RateLimits(1, inf), 1, 150.0),
        ([Sent(90.0, 1)], RateLimits(2, inf), 1, 100.0),
        ([Sent(40.0, 9)], RateLimits(1, 9), 9, 100.0),  # a minute ago is long enough
        ([Sent(50.0, 6), Sent(90.0, 3)], RateLimits(inf, 10), 2, 110.0),
        ([Sent(50.0, 6), Sent(90.0, 3)], RateLimits(inf, 10), 8, 150.0),
        ([Sent(50.0, 1)], RateLimits(inf, 10), 11, 110.0),
        ([Sent(90.0, 1), Sent(150.0, 1)], RateLimits(2, inf), 1, 150.0),  # none overtakes one that waits
    ],
)
def test_first_time_that_fits(sent: list[Sent], limits: RateLimits, tokens: int, expected: float) -> None:
    assert earliest(sent, limits, 100.0, tokens) == expected


@given(
    st.lists(st.tuples(st.floats(0, 30), st.integers(0, 12)), max_size=30),
    st.integers(1, 4),
    st.integers(1, 20),
)
def test_no_minute_has_more_than_allowed(requests: list[tuple[float, int]], most: int, tokens: int) -> None:
    now, at = 0.0, []
    pace = Pace(RateLimits(most, tokens), lambda: now)
    for pause, size in requests:
        now += pause
        at.append((round(now + pace.take(size), 6), size))
    assert [time for time, _ in at] == sorted(time for time, _ in at)
    for begin, _ in at:
        minute = [size for time, size in at if begin <= time < begin + MINUTE - 1e-6]
        assert len(minute) <= most
        assert sum(minute) <= tokens or len(minute) == 1


def test_pace_without_limits_never_waits() -> None:
    pace = Pace(RateLimits(), lambda: 5.0)
    assert [pace.take(10**6) for _ in range(100)] == [0.0] * 100


def test_pause_holds_up_all_requests() -> None:
    now = 10.0
    pace = Pace(RateLimits(), lambda: now)
    pace.pause(7.0)
    pace.pause(3.0)
    assert [pace.take(1), pace.take(1)] == [7.0, 7.0]
    now = 18.0
    assert pace.take(1) == 0.0
