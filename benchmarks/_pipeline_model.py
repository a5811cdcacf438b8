"""Simulates documents on many nodes: throughput, and the narrowest stage. Pure.

The head lists, reads and sends one document after another. A process on a node prepares a document, and waits
while another process embeds its texts. Then the writer and Chroma store it.
"""

import heapq
from collections import deque
from dataclasses import dataclass, field

WAY = ("head", "prepare", "embed", "writer", "chroma")
_HELD = {"embed": "prepare"}  # stages whose process stays occupied until this stage ends


@dataclass(frozen=True, slots=True)
class Stages:
    """Seconds for one document.

    ``head``: to list, read, send and receive it, in the daemon. ``prepare``: in a process of a node, without
    waiting for vectors. ``embed``: in an embedding process. ``writer``: the writer's time with journal and
    lexical index. ``chroma``: the server's time."""

    head: float
    prepare: float
    embed: float
    writer: float
    chroma: float


@dataclass(frozen=True, slots=True)
class Rates:
    """Result of a simulation.

    ``busy``: share of time that each stage is occupied, waiting for vectors included.
    """

    per_second: float
    busy: dict[str, float]

    @property
    def narrowest(self) -> str:
        return max(self.busy, key=lambda stage: self.busy[stage])


def simulated(stages: Stages, processes: int, embedders: int, documents: int, shards: int = 1) -> Rates:
    """Simulate documents. ``shards``: of Chroma, written side by side; there is one head and one writer.

    At most twice as many documents are started as there are processes. Each stage serves in order of arrival.
    """
    run = _Run(stages, {"head": 1, "prepare": processes, "embed": embedders, "writer": 1, "chroma": shards})
    begun = min(documents, 2 * processes)
    for document in range(begun):
        run.enter("head", document)
    while run.events:
        document, stage = run.next()
        if stage in _HELD and begun < documents:
            run.enter("head", begun)
            begun += 1
        if stage != WAY[-1]:
            run.enter(WAY[WAY.index(stage) + 1], document)
    return Rates(documents / run.now, run.busy())


@dataclass
class _Run:
    """A running simulation. ``events``: time, document and stage of each end of a stage."""

    stages: Stages
    servers: dict[str, int]
    now: float = 0.0
    events: list[tuple[float, int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._free, self._waiting = dict(self.servers), {stage: deque[int]() for stage in WAY}
        self._taken, self._since = dict.fromkeys(WAY, 0.0), dict[tuple[str, int], float]()

    def enter(self, stage: str, document: int) -> None:
        self._waiting[stage].append(document)
        self._serve(stage)

    def next(self) -> tuple[int, str]:
        self.now, document, stage = heapq.heappop(self.events)
        for ended in (stage if stage not in _HELD.values() else None, _HELD.get(stage)):
            if ended is not None:
                self._free[ended] += 1
                self._taken[ended] += self.now - self._since.pop((ended, document))
                self._serve(ended)
        return document, stage

    def busy(self) -> dict[str, float]:
        return {stage: self._taken[stage] / self.now / self.servers[stage] for stage in WAY}

    def _serve(self, stage: str) -> None:
        while self._free[stage] and self._waiting[stage]:
            document = self._waiting[stage].popleft()
            self._free[stage] -= 1
            self._since[stage, document] = self.now
            heapq.heappush(self.events, (self.now + getattr(self.stages, stage), document, stage))


def bound(stages: Stages, processes: int, embedders: int, shards: int = 1) -> float:
    """Return the throughput of the narrowest stage, in documents a second."""
    return 1 / max(
        stages.head,
        (stages.prepare + stages.embed) / processes,
        stages.embed / embedders,
        stages.writer,
        stages.chroma / shards,
    )
