"""The laws of what prepares documents, held by Ray's processes on two nodes; and what happens to nodes."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from ingestor.config.workers import Workers
from ingestor.nodes.crew import Crew
from ingestor.nodes.preparing import OnNodes
from ingestor.nodes.ray_cluster import RayCluster, Room, connected
from ingestor.nodes.workshop import Workshop
from tests.nodes import shop
from tests.nodes.cluster import cluster
from tests.nodes.laws import ProcessLaws
from tests.nodes.test_preparing import by_strategy

pytest.importorskip("ray", reason="the extra ray is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def raylets() -> Iterator[Any]:
    with cluster() as made:
        yield made


@pytest.fixture(scope="module")
def connection(raylets: Any) -> Iterator[RayCluster]:
    with connected(Workers(kind="ray", address=raylets.address)) as found:
        yield found


@pytest.fixture(scope="module")
def on_nodes(connection: RayCluster) -> Iterator[OnNodes]:
    found = made(connection)
    yield found
    found.stop()


@pytest.fixture
def fresh(connection: RayCluster) -> OnNodes:
    return made(connection)


def made(connection: RayCluster, most: int = 2) -> OnNodes:
    hire = partial(connection.hire, partial(Workshop, shop.tools_of), Room(0.5))
    return OnNodes(Crew(hire, most), by_strategy, 10**6)


class TestRay(ProcessLaws):
    """Processes of two raylets."""
