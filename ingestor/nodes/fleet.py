"""The daemon's use of nodes: which documents are prepared there, and which models embed there.

A vector depends on its text alone (ports.Embedder), so any process may embed any text.
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
    """Embedder on nodes (see ports.Embedder and ports.Remote).

    ``own``: the same model in the daemon, for questions. ``on_node``: embeds packed texts and returns packed
    vectors (see cluster.RayModels). ``most``: number of calls of ``on_node`` at the same time.
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
        """Embed texts of documents on nodes (see ports.Remote). Raises Stopped if ``stop`` is set."""
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
        """Embed texts in one call. If the model refuses a text, embed each half alone, to find that text."""
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
    """Processes of the daemon that prepare and embed documents on nodes.

    ``tools_of``, ``embedder_of``: build tools or a model from a setup, in a process on a node. ``resting``,
    ``behind``: see OnNodes.
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
        """Note that nodes prepare the documents of these tools, as soon as ``adopt_setups`` is called."""
        self._next_setups[feed, tools.recipe("")] = setup

    def adopt_setups(self) -> None:
        """Replace the setups by those noted since the last call. The first call checks every node.

        Raises NeedsHuman, which names every node whose versions, plugins or models differ. A node that joins
        later is checked when it gets work.
        """
        self._setups, self._next_setups = self._next_setups, {}
        if not self._checked:
            if problems := self._cluster.check(self._tools_of, [*self._setups.values()]):
                raise NeedsHuman("; ".join(problems))
            self._checked = True

    def embedder(self, own: Embedder, setup: Setup) -> Embedder:
        """Return an embedder that works on nodes. An embedder that calls a server is returned unchanged."""
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
