"""Search by vectors, by words and by both, over the chunks of a strategy."""

import numpy as np
import pytest

from ingestor.evaluate.ranking import Chunks, nearest, search
from ingestor.search.values import MODES
from tests.e2e.conftest import ask, project
from tests.e2e.in_process import Ask, answered
from tests.e2e.project import Project
from tests.evaluate.test_evaluate import samples

_FIXTURES = (ask, project, samples)
TEXTS = ["The pump runs at 7 bar.", "Error ERR_4711 means a dry pump.", "Borrowing books is free."]
VECTORS = np.eye(3, dtype=np.float32)
CHUNKS = Chunks(TEXTS, VECTORS, [0, 0, 1], [{"language": "en"}] * 3)


def test_modes_search_vectors_words_and_both() -> None:
    asked = np.array([[0.6, 0.5, 0.0]], np.float32)  # nearest to the first chunk; the words are the second's
    assert search("dense", ["ERR_4711"], asked, CHUNKS, 2) == [[0, 1]]
    assert search("lexical", ["ERR_4711"], asked, CHUNKS, 2) == [[1]]
    assert search("hybrid", ["ERR_4711"], asked, CHUNKS, 3) == [[1, 0, 2]]


def test_words_are_stemmed_by_the_language_of_their_document() -> None:
    assert search("lexical", ["who borrows a book?"], VECTORS[[0]], CHUNKS, 5)[0][0] == 2
    other = Chunks(TEXTS, VECTORS, [0, 0, 1], [{}] * 3)
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


@pytest.mark.slow
def test_ways_of_search_are_compared_for_the_same_chunks(samples: Project, ask: Ask) -> None:
    words = ("--json", "--strategies", "configured,fixed:size=200", "--make", "80")
    found = answered(ask("evaluate", *words, "--search", "dense,hybrid"))
    names = [(each["name"], each["search"], each["chunks"]) for each in found["strategies"]]
    assert [mode for _, mode, _ in names] == ["dense", "hybrid"] * 2
    assert names[0][2] == names[1][2]
    recall = [each["recall"]["500"]["mean"] for each in found["strategies"]]
    assert recall[1] > recall[0] + 5  # made questions have the words of the text
    assert found["differences"][0]["a"] == "recursive:size=60:search=dense"
    assert found["differences"][0]["b"] == "recursive:size=60:search=hybrid"
    assert found["recommendation"]["search"] == "hybrid"
    assert "search=hybrid finds" in found["recommendation"]["text"]
    assert "helps search by words: ask real ones" in found["recommendation"]["text"]
    one = ask("evaluate", "--strategies", "configured", "--make", "80", "--search", "dense,hybrid")
    assert "search=hybrid finds" in one.out and "For the config" not in one.out
    alone = answered(ask("evaluate", *words))
    assert [each["recall"] for each in alone["strategies"]] == [
        each["recall"] for each in found["strategies"][::2]
    ]
    bad = ask("evaluate", "--search", "dense,telepathy")
    assert bad.code == 2
    assert "--search 'dense,telepathy' is no list of hybrid, dense, lexical" in bad.err
