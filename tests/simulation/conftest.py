"""Small worlds need small bounds, and plugins of their own."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ingestor.core import decisions
from ingestor.engine import edition_store
from ingestor.rechunk import policy
from ingestor.state import journal
from tests.simulation.ports import plugins
from tests.simulation.ports.files import SMALL

IN_MEMORY = "/dev/shm"


@pytest.fixture(autouse=True)
def small_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss is asked about from two documents on, and files are closed to others as the program does it."""
    os.umask(0o077)
    monkeypatch.setattr(decisions, "SMALL_LOSS", SMALL)
    for module in (journal, edition_store):
        monkeypatch.setattr(module, "token_hex", plugins.token_hex)
    monkeypatch.setattr(policy, "find", plugins.find)
    monkeypatch.setattr(policy, "kinds", plugins.kinds)


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """Return a folder in memory where there is one: histories sync their files to disk thousands of times."""
    if not os.access(IN_MEMORY, os.W_OK):
        yield tmp_path
        return
    with TemporaryDirectory(dir=IN_MEMORY, prefix="ingestor-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def few(request: pytest.FixtureRequest) -> bool:
    """Whether these are the default tests, which play a few histories; `make test-all` plays them all."""
    return request.config.option.markexpr == "not slow"
