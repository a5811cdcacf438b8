import pytest

from ingestor.core.backoff import CAP, delay


@pytest.mark.parametrize(
    ("attempt", "random", "seconds"),
    [
        (1, 0.0, 0.0),
        (1, 1.0, 1.0),
        (1, 0.25, 0.25),
        (2, 1.0, 2.0),
        (3, 1.0, 4.0),
        (3, 0.5, 2.0),
        (9, 1.0, 256.0),
        (10, 1.0, CAP),
        (11, 1.0, CAP),
        (10**9, 0.5, CAP / 2),
        (0, 1.0, 1.0),
    ],
)
def test_delay(attempt: int, random: float, seconds: float) -> None:
    assert delay(attempt, random) == seconds
