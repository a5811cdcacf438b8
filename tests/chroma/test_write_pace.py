"""How many records a request writes, by the time that those before took."""

import pytest

from ingestor.chroma.index import WritePace


@pytest.mark.parametrize(
    ("least", "written", "records"),
    [
        (25, [], 100),
        (25, [(100, 0.1)], 166),  # half of the way from 5 ms to 1 ms
        (25, [(100, 0.1), (166, 0.166), (250, 0.25), (333, 0.333)], 400),
        (25, [(100, 0.62)], 80),
        (25, [(100, 4.0)], 25),
        (100, [(100, 4.0)], 100),
        (25, [(100, 4.0), (25, 0.1), (25, 0.1), (25, 0.1)], 58),
        (25, [(1, 3.0)], 100),  # of one record it is the request that takes time
        (25, [(100, 0.0)], 199),
    ],
)
def test_request_of_half_a_second_is_measured(
    least: int, written: list[tuple[int, float]], records: int
) -> None:
    pace = WritePace(least)
    for number, seconds in written:
        pace.wrote(number, seconds)
    assert pace.records == records
