"""An embedder whose vectors processes on nodes compute, many texts at once; questions are embedded here.

A vector depends on its text alone (ports.Embedder), so it makes no difference which process gets which texts.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ingestor.core.interruptions import Stopped
from ingestor.model import Answered, Vector, Vectors
from ingestor.nodes.crew import Crew
from ingestor.nodes.deaths import Death, ProcessLost, judge
from ingestor.nodes.messages import FailedCall, pack, unpack_answer
from ingestor.nodes.preparing import Setup, teach
from ingestor.ports import Asymmetric, BadDocument, Embedder, Stop, Transient

SLICE = 64  # texts that a process gets at once, of similar lengths
PATIENCE = 120.0  # seconds; while no process embeds for longer, documents make room for one


class OnNodesEmbedder:
    """See ports.Embedder and ports.Remote.

    ``own``: the same model in this process, for questions; ``setup``: how a process makes the model.
    """

    def __init__(self, own: Embedder, crew: Crew, setup: Setup) -> None:
        self._own, self._crew, self._setup = own, crew, setup
        self._threads = ThreadPoolExecutor(crew.most, "embedder")
        if isinstance(own, Asymmetric):
            self.embed_queries = own.embed_queries

    @property
    def at_once(self) -> int:
        return SLICE * self._crew.most * 2

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
        """Raises Stopped, too."""
        order = sorted(range(len(texts)), key=lambda position: len(texts[position]))
        parts = [order[start : start + SLICE] for start in range(0, len(order), SLICE)]
        vectors: dict[int, Vector | Exception] = {}
        for part, answer in zip(
            parts, self._threads.map(lambda part: self._part(texts, part, stop), parts), strict=True
        ):
            vectors.update(zip(part, answer, strict=True))
        return Answered([vectors[position] for position in range(len(texts))])

    def _part(self, texts: Sequence[str], part: Sequence[int], stop: Stop) -> list[Vector | Exception]:
        if stop.is_set():
            raise Stopped
        return list(self._vectors([texts[position] for position in part]))

    def _vectors(self, texts: Sequence[str]) -> Iterable[Vector | Exception]:
        """Embed texts together; if their content makes that fail, embed each alone."""
        try:
            answer = self._embed_on_node(texts)
        except BadDocument as error:
            answer = error
        if not isinstance(answer, Exception):
            return answer
        if len(texts) == 1 or not isinstance(answer, BadDocument):
            return [answer] * len(texts)
        half = len(texts) // 2
        return [*self._vectors(texts[:half]), *self._vectors(texts[half:])]

    def _embed_on_node(self, texts: Sequence[str]) -> Sequence[Vector] | Exception:
        deaths: list[Death] = []
        while True:
            try:
                with self._crew.hand(frozenset(death.node for death in deaths), PATIENCE) as hand:
                    teach(hand, self._setup)
                    answer = unpack_answer(hand.call("embed", self._setup.key, pack(list(texts))))
            except ProcessLost as died:
                deaths.append(died.death)
                verdict = judge(deaths)
                if verdict == "quarantine":
                    raise BadDocument(
                        "crashes the processes that embed the document; exclude or split the document"
                    ) from None
                if verdict == "later":
                    return Transient(f"the processes that embed ended ({died})")
                continue
            except Transient as error:
                return error
            return answer.error(hand.node) if isinstance(answer, FailedCall) else list(np.asarray(answer))
