"""The web connector against a real server on this machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.connectors.laws import ConnectorLaws
from tests.connectors.sites import SiteWorld, site


class TestLaws(ConnectorLaws):
    @pytest.fixture(params=["sitemap", "links"])
    def world(self, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SiteWorld]:
        with site() as server:
            yield SiteWorld(server, tmp_path, request.param)
