"""The daemon's use of nodes: which documents are prepared there, and which models embed there."""

from collections.abc import Callable
from contextlib import nullcontext

from ingestor.config.workers import Workers
from ingestor.core.entries import Feed
from ingestor.nodes.cluster import RayCluster, RayDocument, RayModels
from ingestor.nodes.documents import OnNodes, Resting
from ingestor.nodes.embedding import OnNodesEmbedder
from ingestor.nodes.messages import Mismatch
from ingestor.nodes.setup import EmbedderOf, Setup, ToolsOf
from ingestor.pipeline.prepare import Tools
from ingestor.ports import Embedder, NeedsHuman, Remote


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
