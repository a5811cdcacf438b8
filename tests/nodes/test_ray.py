"""The laws of what prepares documents, held by Ray's processes on two nodes; and what happens to nodes."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from ingestor.config.workers import Workers
from ingestor.nodes.crew import Crew
from ingestor.nodes.deaths import ProcessLost
from ingestor.nodes.preparing import OnNodes
from ingestor.nodes.ray_cluster import RayCluster, Room, connect
from ingestor.nodes.workshop import Workshop
from ingestor.pipeline.prepare import Job
from tests.nodes import shop
from tests.nodes.cluster import STORE, cluster
from tests.nodes.laws import ProcessLaws, nobody
from tests.nodes.test_preparing import by_strategy

pytest.importorskip("ray", reason="the extra ray is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def raylets() -> Iterator[Any]:
    with cluster() as made:
        yield made


@pytest.fixture(scope="module")
def connection(raylets: Any) -> Iterator[RayCluster]:
    with connect(Workers(kind="ray", address=raylets.address)) as found:
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
    hire = partial(connection.hire, partial(Workshop, shop.tools_of, shop.embedder_of), Room(0.5))
    return OnNodes(Crew(hire, most), by_strategy, 10**6)


class TestRay(ProcessLaws):
    """Processes of two raylets."""


def test_a_document_larger_than_the_object_store_is_prepared(on_nodes: OnNodes) -> None:
    """Ray keeps what does not fit on the node's disk."""
    tools = shop.tools("sentence", shop.Texts({"a.txt": "huge:" + "x" * (STORE + 10**7)}))
    assert on_nodes(Job(shop.entry("a.txt")), tools, nobody).records


def test_no_process_outlives_its_crew(connection: RayCluster) -> None:
    found = made(connection)
    tools = shop.tools("sentence", shop.Texts({"a.txt": shop.TEXT}))
    assert found(Job(shop.entry("a.txt")), tools, nobody).records
    assert found.crew.size
    hands = [*found.crew._all]
    found.stop()
    for hand in hands:
        with pytest.raises(ProcessLost):
            hand.call("begin", b"")
