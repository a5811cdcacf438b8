from pathlib import Path

import pytest

from tests.connectors.repositories import GitWorld


@pytest.fixture
def world(tmp_path: Path) -> GitWorld:
    return GitWorld(tmp_path)
