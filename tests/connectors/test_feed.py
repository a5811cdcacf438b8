"""The feed connector against a real server on this machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.connectors.laws import ConnectorLaws
from tests.connectors.sites import FeedWorld, site


class TestLaws(ConnectorLaws):
    @pytest.fixture
    def world(self, tmp_path: Path) -> Iterator[FeedWorld]:
        with site() as server:
            yield FeedWorld(server, tmp_path)
