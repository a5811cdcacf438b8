"""What every test leaves behind as it was."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """A test that sets up the program's log must not silence it for the tests that follow."""
    root, ours = logging.getLogger(), logging.getLogger("ingestor")
    before = [(one, one.level, one.propagate, one.disabled) for one in (root, ours)]
    handlers = list(root.handlers)
    yield
    for one, level, propagate, disabled in before:
        one.setLevel(level)
        one.propagate, one.disabled = propagate, disabled
    root.handlers[:] = handlers
