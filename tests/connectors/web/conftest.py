"""A site to crawl, and a place for what is remembered of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.connectors.sites import Site, site


@pytest.fixture
def server() -> Iterator[Site]:
    with site() as server:
        yield server


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"
