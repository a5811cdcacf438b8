"""A document that cannot be read for the moment is read again, one that changed is not."""

from time import monotonic

import pytest

from ingestor.pipeline import limits
from ingestor.pipeline.limits import until_readable
from ingestor.ports import Stale, Transient


class Failing:
    """Raises these errors, one a call, and then returns "read"."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    def __call__(self) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return "read"


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_PAUSE", 0)


def test_item_readable_a_moment_later_is_read() -> None:
    assert until_readable(Failing(Transient("just now"), Transient("just now")), monotonic() + 3600) == "read"


@pytest.mark.parametrize(("error", "seconds"), [(Transient("just now"), -1), (Stale("changed"), 3600)])
def test_stale_item_is_not_retried(error: Transient, seconds: float) -> None:
    failing = Failing(error)
    with pytest.raises(type(error)):
        until_readable(failing, monotonic() + seconds)
