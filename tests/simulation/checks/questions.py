"""Questions of readers by words and vectors, asked while the program goes on."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from ingestor.lexical.check import words_of
from ingestor.lexical.file import Unusable, open_for_reading
from ingestor.model import Vectors
from ingestor.ports import Gone
from ingestor.search.search import Searcher
from ingestor.search.values import Question
from tests.memory_index import MemoryIndex, SearchedIndex
from tests.simulation.laws import ONE_STATE, hold
from tests.simulation.ports.plugins import vector

WORDS = ("alpha beta", "gamma words", "a longer line", "omega zeta x")
HITS = 5
_Seen = tuple[str, list[tuple[str, float, str]]]  # the mode; ids, scores and texts


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
        store = SearchedIndex(inner.records, writes=meanwhile)
        searcher = Searcher(store, known, _embed, lambda texts: [1 for _ in texts], lambda: 0.0)
        found = searcher.answer(Question(question, n=HITS))
    return found.mode, [(hit.id, hit.score, hit.document) for hit in found.hits]


def _embed(texts: Sequence[str]) -> Vectors:
    return np.stack([vector(text, "sweet") for text in texts])
