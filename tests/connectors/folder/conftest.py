"""A folder of documents."""

from pathlib import Path

import pytest

from tests.connectors.folders import FolderWorld


@pytest.fixture
def world(tmp_path: Path) -> FolderWorld:
    root = tmp_path / "root"
    root.mkdir()
    return FolderWorld(root)
