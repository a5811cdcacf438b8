"""Questions of readers by words and vectors, asked while the program goes on."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ingestor.lexical.check import words_of
from ingestor.lexical.file import Unusable, open_for_reading
from ingestor.model import Hit, Record, RecordId, Vector, Vectors
from ingestor.ports import Gone
from ingestor.search.search import Searcher
from ingestor.search.values import Question
from tests.memory_index import MemoryIndex
from tests.simulation.laws import ONE_STATE, hold
from tests.simulation.ports.making import vector

WORDS = ("alpha beta", "gamma words", "a longer line", "omega zeta x")
HITS = 5
_Seen = tuple[str, list[tuple[str, float, str]]]  # the mode; ids, scores and texts


@dataclass
class _Store:
    """A collection, in which the program goes on once as soon as vectors were compared."""

    inner: MemoryIndex
    meanwhile: list[Callable[[], None]]

    def query(self, vectors: Vectors, n: int, where: dict[str, object] | None = None) -> list[list[Hit]]:
        found = self.inner.query(vectors, n, where)
        if self.meanwhile:
            self.meanwhile.pop()()
        return found

    def nearest(
        self, vectors: Vectors, n: int, where: dict[str, object] | None = None
    ) -> list[list[tuple[RecordId, float]]]:
        return [[(hit.id, hit.score) for hit in hits] for hits in self.query(vectors, n, where)]

    def vectors(self, ids: Sequence[RecordId]) -> Mapping[RecordId, Vector]:
        return {record.id: record.vector for record in self.inner.read(ids, vectors=True)}

    def read(self, ids: Sequence[RecordId]) -> list[Record]:
        return self.inner.read(ids)

    def filter_ids(self, ids: Sequence[RecordId], where: Mapping[str, object]) -> set[RecordId]:
        raise NotImplementedError

    def select(self, where: Mapping[str, object], most: int = 2000) -> list[Record]:
        raise NotImplementedError

    def count(self) -> int:
        return self.inner.count()


def ask_meanwhile(
    inner: MemoryIndex, words: Path, uuids: tuple[str, ...], question: str, go_on: Callable[[], None]
) -> None:
    """Hold an answer, during which the program goes on, to be that of the moment before or after."""
    gone_on: list[None] = []

    def step() -> None:
        gone_on.append(None)
        go_on()

    with suppress(Unusable, Gone, FileNotFoundError):
        file, before = words.stat().st_ino, _answer(inner, words, uuids, question, [])
        beside = _answer(inner, words, uuids, question, [step])
        if beside != before and words.stat().st_ino == file:  # one that is made anew has other words
            after = _answer(inner, words, uuids, question, [])
            hold(ONE_STATE, beside != after and (before, beside, after))
    if not gone_on:
        go_on()


def _answer(
    inner: MemoryIndex,
    words: Path,
    uuids: tuple[str, ...],
    question: str,
    meanwhile: list[Callable[[], None]],
) -> _Seen:
    with words_of(open_for_reading(words), uuids) as known:
        searcher = Searcher(
            _Store(inner, meanwhile), known, _embed, lambda texts: [1 for _ in texts], lambda: 0.0
        )
        found = searcher.answer(Question(question, n=HITS))
    return found.mode, [(hit.id, hit.score, hit.document) for hit in found.hits]


def _embed(texts: Sequence[str]) -> Vectors:
    return np.stack([vector(text, "sweet") for text in texts])
