"""Search by vectors, by words and by both, over the chunks of a strategy; and a compared reranker."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from ingestor.config.servers import Rerank
from ingestor.evaluate import ranking as module
from ingestor.evaluate.ranking import Chunks, nearest, rerank_best, search
from ingestor.ports import Transient
from ingestor.search.values import MODES
from ingestor.state.cache import VectorCache

CHUNK_TEXTS = ["The pump runs at 7 bar.", "Error ERR_4711 means a dry pump.", "Borrowing books is free."]
VECTORS = np.eye(3, dtype=np.float32)
CHUNKS = Chunks(CHUNK_TEXTS, VECTORS, [0, 0, 1], [{"language": "en"}] * 3)


def test_modes_search_vectors_words_and_both() -> None:
    asked = np.array([[0.6, 0.5, 0.0]], np.float32)  # nearest to the first chunk; the words are the second's
    assert search("dense", ["ERR_4711"], asked, CHUNKS, 2) == [[0, 1]]
    assert search("lexical", ["ERR_4711"], asked, CHUNKS, 2) == [[1]]
    assert search("hybrid", ["ERR_4711"], asked, CHUNKS, 3) == [[1, 0, 2]]


def test_words_are_stemmed_by_the_language_of_their_document() -> None:
    assert search("lexical", ["who borrows a book?"], VECTORS[[0]], CHUNKS, 5)[0][0] == 2
    other = Chunks(CHUNK_TEXTS, VECTORS, [0, 0, 1], [{}] * 3)
    assert search("lexical", ["borrows"], VECTORS[[0]], other, 5) == [[]]


@pytest.mark.parametrize("mode", MODES)
def test_words_that_no_chunk_has_find_nothing_or_what_vectors_find(mode: str) -> None:
    found = search(mode, ["zzz"], VECTORS[[2]], CHUNKS, 1)  # type: ignore[arg-type]
    assert found == ([[]] if mode == "lexical" else [[2]])


def test_nearest_are_those_of_the_greatest_cosine_and_of_equals_the_first() -> None:
    random = np.random.default_rng(0)
    vectors, asked = (random.normal(0, 1, (n, 8)).astype(np.float32) for n in (40, 150))
    vectors[7] = vectors[3]
    found = nearest(asked, vectors, 40)
    assert [each.index(3) + 1 for each in found] == [each.index(7) for each in found]
    assert all(np.all(np.diff(vectors[best] @ one) <= 1e-6) for one, best in zip(asked, found, strict=True))


# --- what a reranker is asked, once, and what it is recognised by -------------------------------------------

TEXTS = ["a pump", "a dry pump", "a book"]
QUESTIONS = ["dry pump", "book"]
PROBE = module._QUESTION
FOUND = [[0, 1, 2], [0, 1, 2]]


class Weights:
    """Scores are common words, times ``sign``. ``asked``: questions of the evaluation."""

    def __init__(self, sign: int = 1, fails_at: int = 99) -> None:
        self.sign, self.fails_at, self.asked = sign, fails_at, list[str]()

    def __call__(self, question: str, texts: Sequence[str]) -> list[float]:
        words = set(question.split())
        if question != PROBE:
            self.asked.append(question)
            if len(self.asked) > self.fails_at:
                raise Transient("the server is away")
        return [self.sign * len(words & set(text.split())) for text in texts]


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[VectorCache]:
    found = VectorCache(tmp_path / "cache", 2**20)
    yield found
    found.close()


def by(
    weights: Weights, cache: VectorCache, monkeypatch: pytest.MonkeyPatch, *,
    questions: Sequence[str] = QUESTIONS, hits: int = 2, found: Sequence[Sequence[int]] = FOUND,
) -> tuple[list[list[int]], float]:  # fmt: skip
    monkeypatch.setattr(module, "scores_of", lambda options, patient: weights)
    return rerank_best(Rerank(model="m", hits=hits), questions, TEXTS, found, cache, lambda at: None)


def test_only_the_first_hits_are_put_in_order(cache: VectorCache, monkeypatch: pytest.MonkeyPatch) -> None:
    assert by(Weights(), cache, monkeypatch)[0] == [[1, 0, 2], [0, 1, 2]]
    assert by(Weights(), cache, monkeypatch, hits=3)[0] == [[1, 0, 2], [2, 0, 1]]


def test_question_without_hits_is_not_requested(cache: VectorCache, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = Weights()
    assert by(weights, cache, monkeypatch, found=[[], [0, 2]])[0] == [[], [2, 0]]
    assert weights.asked == ["book"]


def test_scores_are_kept_with_their_seconds(cache: VectorCache, monkeypatch: pytest.MonkeyPatch) -> None:
    first, again = Weights(), Weights()
    before = by(first, cache, monkeypatch)
    assert by(again, cache, monkeypatch) == before
    assert (first.asked, again.asked) == (QUESTIONS, [])
    assert before[1] > 0


def test_interrupted_run_resumes(cache: VectorCache, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Transient):
        by(Weights(fails_at=1), cache, monkeypatch)
    second = Weights()
    by(second, cache, monkeypatch)
    assert second.asked == ["book"]


def test_other_weights_of_the_same_name_score_again(
    cache: VectorCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    by(Weights(), cache, monkeypatch, hits=3)
    other = by(Weights(-1), cache, monkeypatch, hits=3)
    assert other[0] == [[2, 0, 1], [0, 1, 2]]


@pytest.mark.parametrize("change", ["question", "text"])
def test_question_not_in_the_cache_is_reranked(
    change: str, cache: VectorCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    by(Weights(), cache, monkeypatch)
    weights = Weights()
    if change == "text":
        by(weights, cache, monkeypatch, found=[[0, 1], [0, 2]])
    else:
        by(weights, cache, monkeypatch, questions=["dry pump", "a book"])
    assert weights.asked == (["book"] if change == "text" else ["a book"])
