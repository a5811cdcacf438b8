"""The laws of what prepares documents, held by Ray's processes on two nodes; and what happens to nodes."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from ingestor.config.workers import Workers
from ingestor.model import Vectors
from ingestor.nodes.cluster import RayCluster, RayDocument, RayModels, connect
from ingestor.nodes.documents import OnNodes
from ingestor.nodes.fleet import OnNodesEmbedder
from ingestor.nodes.setup import MODEL, Setup
from ingestor.pipeline.prepare import Job, prepare
from ingestor.ports import Stop, Transient
from tests.nodes import shop
from tests.nodes.cluster import STORE, cluster
from tests.nodes.laws import ProcessLaws, nobody
from tests.nodes.test_documents import by_strategy

pytest.importorskip("ray", reason="the extra ray is not installed")
WORKERS = Workers(kind="ray", cpus=0.5)
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def raylets() -> Iterator[Any]:
    with cluster() as made:
        yield made


@pytest.fixture(scope="module")
def connection(raylets: Any) -> Iterator[RayCluster]:
    with connect(WORKERS.model_copy(update={"address": raylets.address})) as found:
        yield found


@pytest.fixture(scope="module")
def on_nodes(connection: RayCluster) -> OnNodes:
    return on_nodes_of(connection)


@pytest.fixture
def fresh(raylets: Any, connection: RayCluster) -> OnNodes:
    """May be stopped, and the connection with it."""
    return on_nodes_of(RayCluster(connection.ray, WORKERS))


def on_nodes_of(connection: RayCluster) -> OnNodes:
    class Nodes:
        refuse = connection.refuse

        def work(self, setup: Setup, task: bytes, *, again: bool) -> RayDocument:
            return connection.prepare(shop.tools_of, setup, task, again=again)

    return OnNodes(Nodes(), by_strategy, 2, 10**6)


class TestRay(ProcessLaws):
    """Processes of two raylets."""


def test_document_larger_than_the_object_store_is_prepared(on_nodes: OnNodes) -> None:
    """Ray keeps what does not fit on the node's disk."""
    tools = shop.tools("sentence", shop.Texts({"a.txt": "huge:" + "x" * (STORE + 10**7)}))
    assert on_nodes(Job(shop.entry("a.txt")), tools, nobody).records


def test_models_of_two_nodes_embed_as_the_daemon_does(connection: RayCluster) -> None:
    embedder, recipe = shop.embedder_of(b"")
    models = RayModels(connection, WORKERS, shop.embedder_of, Setup("hashing", b"", {MODEL: recipe}))
    texts = [f"{shop.TEXT} {number}" for number in range(300)]
    found = OnNodesEmbedder(embedder, models.embed, 2).embed_each(texts, Stop()).vectors
    assert np.array_equal(np.asarray(found), embedder.embed(texts))


def test_lost_relay_keeps_documents(connection: RayCluster, on_nodes: OnNodes) -> None:
    """It is ended while a document waits for its vectors."""
    texts = shop.Texts({"a.txt": shop.TEXT})
    ends = iter([True])

    def embed(wanted: Sequence[str]) -> Vectors:
        if next(ends, False):
            connection.ray.kill(connection.relay, no_restart=False)
        return shop.embed(wanted)

    direct = prepare(Job(shop.entry("a.txt")), shop.tools("sentence", texts), nobody)
    tools = shop.tools("sentence", texts, embed)
    try:
        found = on_nodes(Job(shop.entry("a.txt")), tools, nobody)
    except Transient:  # the node noticed the loss before the daemon did: the engine retries the document
        found = on_nodes(Job(shop.entry("a.txt")), tools, nobody)
    assert shop.plain(found) == shop.plain(direct)
