"""The daemon's processes on nodes: some prepare documents, others embed."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from functools import partial
from threading import Lock

from ingestor.config.workers import Workers
from ingestor.core.entries import Feed
from ingestor.core.events import event
from ingestor.model import Fingerprint
from ingestor.nodes.crew import IDLE, Crew, NoRoom
from ingestor.nodes.deaths import LOST_STARTS, Death, ProcessLost, describe
from ingestor.nodes.embedding import OnNodesEmbedder
from ingestor.nodes.facts import MODEL
from ingestor.nodes.preparing import Behind, OnNodes, Resting, Setup, teach
from ingestor.nodes.ray_cluster import EmbeddingProcess, RayCluster, RayHand, Room
from ingestor.nodes.workshop import EmbedderOf, ToolsOf, Workshop
from ingestor.pipeline.prepare import Tools
from ingestor.ports import Embedder, NeedsHuman, Remote, Transient

log = logging.getLogger("ingestor")

_AT_ONCE = 16  # nodes that are checked at the same time


class Fleet:
    """``tools_of``, ``embedder_of``: make the tools that a packed setup describes, on a node."""

    def __init__(
        self,
        cluster: RayCluster,
        workers: Workers,
        tools_of: ToolsOf,
        embedder_of: EmbedderOf,
        resting: Resting = nullcontext,
        behind: Behind = lambda: False,
    ) -> None:
        self._cluster, self._workers = cluster, workers
        self._make = partial(Workshop, tools_of, embedder_of)
        self._setups: dict[tuple[Feed, str], Setup] = {}
        self._coming: dict[tuple[Feed, str], Setup] = {}  # of a config that is being taken over
        self._desks: dict[Fingerprint, tuple[Crew, OnNodesEmbedder]] = {}
        self.crew = Crew(self._hire_preparing, workers.count, lenders=self._crews_that_embed)
        self.preparing = OnNodes(self.crew, self._setup_of, workers.in_flight, resting, behind)
        self._checked = False
        self._reserving = Lock()

    def know(self, feed: Feed, tools: Tools, setup: Setup) -> None:
        """Prepare the documents of these tools on nodes, once ``adopt_setups`` is called."""
        self._coming[feed, tools.recipe("")] = setup

    def embedder(self, own: Embedder, setup: Setup) -> Embedder:
        """The same embedder, whose documents nodes embed. One that asks a server stays as it is."""
        if not self._workers.embedders or isinstance(own, Remote):
            return own
        recipe = Fingerprint(setup.key)
        if recipe not in self._desks:
            room = Room(self._workers.embedder_cpus, self._workers.embedder_gpus, EmbeddingProcess)

            def hire() -> RayHand:
                return self._hire(room, crew.wanted, only=setup)

            def lenders() -> list[Crew]:
                """Processes that prepare hold no GPU."""
                others = [each for each in self._crews_that_embed() if each is not crew]
                return others if self._workers.embedder_gpus else [self.crew, *others]

            crew = Crew(hire, self._workers.embedders, kept=lambda: self._keeps(recipe), lenders=lenders)
            self._desks[recipe] = crew, OnNodesEmbedder(own, crew, setup)
        return self._desks[recipe][1]

    def adopt_setups(self) -> None:
        """Send nodes only the setups that are known now; the first call checks every node.

        Raises NeedsHuman with every node whose versions, plugins or models differ. Nodes that come later are
        checked when they come.
        """
        self._setups, self._coming = self._coming, {}
        if self._checked:
            return
        with ThreadPoolExecutor(_AT_ONCE, "check") as threads:
            nodes = self._cluster.nodes(Room(self._workers.cpus))
            problems = [each for each in threads.map(self._check_node, nodes) if each]
        if problems:
            raise NeedsHuman("; ".join(problems))
        self._checked = True

    def stop(self) -> None:
        """Raise Stopped in every thread that waits for a node."""
        self._cluster.stop()
        self.preparing.stop()
        for crew, _ in self._desks.values():
            crew.stop()

    def _setup_of(self, feed: Feed, tools: Tools) -> Setup | None:
        return self._setups.get((feed, tools.recipe("")))

    def _crews_that_embed(self) -> list[Crew]:
        return [crew for crew, _ in [*self._desks.values()]]

    def _check_node(self, node: str) -> str | None:
        """Return what is wrong with the node. If its processes are lost, it is checked when it gets work."""
        lost: list[Death] = []
        while len(lost) < LOST_STARTS:
            try:
                self._hire_process(Room(0), node=node).dismiss()
                return None
            except ProcessLost as died:
                lost.append(died.death)
            except (NeedsHuman, Transient) as error:
                return str(error)
        log.warning("node %s not checked: processes ended while starting (%s)",
                    node[:8], describe(lost), extra=event("node"))  # fmt: skip
        return None

    def _needs(self, recipe: Fingerprint) -> bool:
        """Whether processes that prepare documents ask for vectors of this embedder."""
        asked = {setup.recipes.get(MODEL) for setup in [*self._setups.values()]}
        return recipe in asked and self.crew.active

    def _needed_crews(self) -> list[Crew]:
        return [crew for recipe, (crew, _) in [*self._desks.items()] if self._needs(recipe)]

    def _keeps(self, recipe: Fingerprint) -> bool:
        """Return whether a model keeps its processes: they are needed, and no awaited model has none."""
        return self._needs(recipe) and all(crew.size or not crew.is_awaited for crew in self._needed_crews())

    def _hire_preparing(self) -> RayHand:
        """Start a process that prepares documents, and before that a needed process that embeds.

        The process that embeds stays: processes that wait for its vectors would leave no room for a new one.
        """
        with self._reserving:
            while (needed := self._needed_crews()) and not any(crew.size for crew in needed):
                with suppress(NoRoom), needed[0].hand(patience=IDLE, own=True):
                    pass
        return self._hire(Room(self._workers.cpus), self.crew.wanted)

    def _hire_process(
        self,
        room: Room,
        wanted: Callable[[], bool] = lambda: True,
        *,
        only: Setup | None = None,
        node: str | None = None,
        spread: bool = False,
    ) -> RayHand:
        """A process with the tools of all setups, or of one.

        Raises NeedsHuman, Transient, Stopped, Withdrawn; ProcessLost if the process ends meanwhile.
        """
        hand = self._cluster.hire(self._make, room, node, wanted, spread=spread)
        for setup in [*self._setups.values()] if only is None else [only]:
            try:
                self._cluster.require(hand, partial(teach, hand, setup))
            except BaseException:
                hand.dismiss()
                raise
        return hand

    def _hire(self, room: Room, wanted: Callable[[], bool], *, only: Setup | None = None) -> RayHand:
        """Start a process on any node; retry a refused or lost start, if possible on another node.

        Raises as ``_hired``, but Transient in place of ProcessLost.
        """
        lost: list[Death] = []
        while len(lost) < LOST_STARTS:
            try:
                return self._hire_process(room, wanted, only=only, spread=bool(lost))
            except ProcessLost as died:
                lost.append(died.death)
                log.info(
                    "process ended while starting on %s; starting another",
                    describe(lost[-1:]),
                    extra=event("node"),
                )
            except NeedsHuman:
                if not self._cluster.nodes(room):
                    raise
        raise Transient(f"processes end while they start on nodes ({describe(lost)})")
