"""A journal of its own for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ingestor.state.journal import Journal


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path / "journal.sqlite3", synchronous="OFF")
    yield journal
    journal.close()
