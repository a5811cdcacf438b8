"""A listed source, for all tests of the scanner."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ingestor.state.journal import Journal
from tests.engine.worlds import Listed, Tree


@pytest.fixture
def listed(tmp_path: Path) -> Iterator[Listed]:
    """Folders of 20, 10, 5, 3 and 2 documents."""
    journal = Journal(tmp_path / "journal.sqlite3")
    folders = zip("abcde", (20, 10, 5, 3, 2), strict=True)
    yield Listed(journal, Tree(*(f"{name}/{n}" for name, count in folders for n in range(count))))
    journal.close()
