"""Decides which documents are prepared on nodes, and which models embed there.

Any process may embed any text, because a vector depends only on its text (see ports.Embedder).
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np

from ingestor.config.workers import Workers
from ingestor.core.entries import Feed
from ingestor.core.errors import Stopped
from ingestor.model import Answered, Vector, Vectors
from ingestor.nodes.cluster import RayCluster, RayDocument, RayModels
from ingestor.nodes.deaths import repeat_if_lost
from ingestor.nodes.documents import OnNodes, Resting
from ingestor.nodes.messages import FailedCall, Mismatch, pack, unpack
from ingestor.nodes.setup import EmbedderOf, Setup, ToolsOf
from ingestor.pipeline.prepare import Tools
from ingestor.ports import Asymmetric, BadDocument, Embedder, NeedsHuman, Remote, Stop, Transient

SLICE = 64  # texts of similar length that a process gets at once


class OnNodesEmbedder:
    """Embedder whose model works on nodes (see ports.Embedder and ports.Remote).

    ``own``: the same model in the daemon, for questions. ``on_node``: embeds packed texts on a node, and
    returns packed vectors (see cluster.RayModels). ``most``: number of parallel calls of ``on_node``.
    """

    def __init__(self, own: Embedder, on_node: Callable[[bytes], bytes], most: int) -> None:
        self._own, self._on_node, self._most = own, on_node, most
        self._threads = ThreadPoolExecutor(most, "embedder")
        if isinstance(own, Asymmetric):
            self.embed_queries = own.embed_queries

    @property
    def at_once(self) -> int:
        return SLICE * self._most * 2

    @property
    def dimensions(self) -> int:
        return self._own.dimensions

    @property
    def window(self) -> int:
        return self._own.window

    def count(self, texts: Sequence[str]) -> list[int]:
        return self._own.count(texts)

    def embed(self, texts: Sequence[str]) -> Vectors:
        return self._own.embed(texts)

    def embed_each(self, texts: Sequence[str], stop: Stop) -> Answered:
        """Embed texts of documents on nodes (see ports.Remote). Raises Stopped when ``stop`` is set."""
        order = sorted(range(len(texts)), key=lambda position: len(texts[position]))
        parts = [order[start : start + SLICE] for start in range(0, len(order), SLICE)]

        def embed_part(part: Sequence[int]) -> Sequence[Vector | Exception]:
            if stop.is_set():
                raise Stopped
            return self._vectors([texts[position] for position in part])

        vectors: dict[int, Vector | Exception] = {}
        for part, answer in zip(parts, self._threads.map(embed_part, parts), strict=True):
            vectors.update(zip(part, answer, strict=True))
        return Answered([vectors[position] for position in range(len(texts))])

    def _vectors(self, texts: Sequence[str]) -> Sequence[Vector | Exception]:
        """Embed texts in one call.

        If the model refuses a text, embed each half of the texts separately, until only that text fails.
        """
        try:
            answer = repeat_if_lost(lambda again: unpack(self._on_node(pack(list(texts)))))
            if not isinstance(answer, FailedCall):
                return list(np.asarray(answer))
            error = answer.error
        except (BadDocument, Transient, NeedsHuman) as refused:
            error = refused
        if len(texts) == 1 or not isinstance(error, BadDocument):
            return [error] * len(texts)
        half = len(texts) // 2
        return [*self._vectors(texts[:half]), *self._vectors(texts[half:])]


class Fleet:
    """Processes on nodes that prepare and embed documents for this daemon.

    ``tools_of``, ``embedder_of``: build tools or a model from a setup; called in processes on nodes.
    ``resting``, ``behind``: see OnNodes.
    """

    def __init__(
        self,
        cluster: RayCluster,
        workers: Workers,
        tools_of: ToolsOf,
        embedder_of: EmbedderOf,
        resting: Resting = nullcontext,
        behind: Callable[[], bool] = lambda: False,
    ) -> None:
        self._cluster, self._workers = cluster, workers
        self._tools_of, self._embedder_of = tools_of, embedder_of
        self._setups: dict[tuple[Feed, str], Setup] = {}
        self._next_setups: dict[tuple[Feed, str], Setup] = {}  # of a config that is being loaded
        self._embedders: dict[str, OnNodesEmbedder] = {}  # by key of their setup
        self._checked = False
        self.preparing = OnNodes(self, self._setup_of, workers.count, workers.in_flight, resting, behind)

    def know(self, feed: Feed, tools: Tools, setup: Setup) -> None:
        """Register the setup of some tools, so that nodes prepare the documents of ``feed``.

        The setup is used after the next call of ``adopt_setups``.
        """
        self._next_setups[feed, tools.recipe("")] = setup

    def adopt_setups(self) -> None:
        """Use the setups that were registered since the last call, in place of all earlier ones.

        The first call checks every node, and raises NeedsHuman if versions, plugins or models of a node
        differ from the daemon's. A node that joins later is checked when it gets work.
        """
        self._setups, self._next_setups = self._next_setups, {}
        if not self._checked:
            if problems := self._cluster.check(self._tools_of, [*self._setups.values()]):
                raise NeedsHuman("; ".join(problems))
            self._checked = True

    def embedder(self, own: Embedder, setup: Setup) -> Embedder:
        """Return an embedder whose model works on nodes. ``own``: the embedder of the daemon.

        An embedder that only calls a server is returned unchanged, and so is every embedder if the config
        keeps models off the nodes.
        """
        if not self._workers.embedders or isinstance(own, Remote):
            return own
        if setup.key not in self._embedders:
            models = RayModels(self._cluster, self._workers, self._embedder_of, setup)
            self._embedders[setup.key] = OnNodesEmbedder(own, models.embed, self._workers.embedders)
        return self._embedders[setup.key]

    def work(self, setup: Setup, task: bytes, *, again: bool) -> RayDocument:
        return self._cluster.prepare(self._tools_of, setup, task, again=again)

    def refuse(self, refused: Mismatch) -> NeedsHuman | None:
        return self._cluster.refuse(refused)

    def stop(self) -> None:
        """Raise Stopped in every thread that waits for a node."""
        self._cluster.stop()
        self.preparing.stop()

    def _setup_of(self, feed: Feed, tools: Tools) -> Setup | None:
        return self._setups.get((feed, tools.recipe("")))
