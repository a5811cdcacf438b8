"""Embedder that sends texts of documents to processes on nodes, and embeds questions in the daemon.

A vector depends on its text alone (ports.Embedder), so any process may embed any text.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ingestor.core.errors import Stopped
from ingestor.model import Answered, Vector, Vectors
from ingestor.nodes.deaths import repeat_if_lost
from ingestor.nodes.messages import FailedCall, pack, unpack
from ingestor.ports import Asymmetric, BadDocument, Embedder, NeedsHuman, Stop, Transient

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
