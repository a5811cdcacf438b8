"""The double_pass strategy: the laws of all chunkers, its rules, and the published cases."""

from collections.abc import Sequence

import numpy as np
import pytest

from ingestor.chunkers import adjacent
from ingestor.chunkers.adjacent import DOUBLE_PASS as PLUGIN
from ingestor.chunkers.adjacent import DoublePass, DoublePassOptions
from ingestor.model import Document, Vectors
from ingestor.ports import Embed
from tests.chunkers.golden import sample
from tests.chunkers.laws import TOKENS, ChunkerLaws, essay, fake_embed
from tests.minilm import CachedModel
from tests.word_vectors import WordVectors


class TestDoublePass(ChunkerLaws):
    plugin = PLUGIN
    options = {"initial": 0.05, "appending": 0.02, "merging": 0.02, "max_tokens": 60}  # noqa: RUF012


class TestPooled(TestDoublePass):
    options = {**TestDoublePass.options, "vectors": "pooled"}  # noqa: RUF012


def by_words(texts: Sequence[str]) -> Vectors:
    """Texts are alike by their share of common words (single letters here); the others count for nothing."""
    counts = np.array(
        [[text.lower().count(f"{letter} ") for letter in "abcdwxyz"] for text in texts], np.float32
    )
    lengths: Vectors = np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-9)
    return counts / lengths


def cut(said: str, **options: object) -> list[str]:
    """``said``: the words of each sentence, as letters; a chunk is shown in the same way."""
    text = " ".join(" ".join(sentence.upper()) + " It." for sentence in said.split())
    bare = {"initial": 0.5, "appending": 0.5, "merging": 0.5, "min_tokens": None}
    chosen = DoublePassOptions.model_validate({**bare, **options})
    made = DoublePass(chosen, TOKENS).chunk(Document(text), by_words, None)
    return [chunk.text.replace(" It.", "|").replace(" ", "").rstrip("|").lower() for chunk in made.chunks]


RULES = [
    ("two that are alike open a chunk", "a a b", {}, ["a|a", "b"]),
    ("the first of two that are not stands alone, and the second is compared on", "a b b", {}, ["a", "b|b"]),
    ("the next is compared with the last two together", "a ab b", {"appending": 0.8}, ["a|ab", "b"]),
    ("which may take what the last one alone would not", "a ab b", {"appending": 0.4}, ["a|ab|b"]),
    (
        "an appending threshold does not open chunks",
        "a ab ab",
        {"initial": 0.9, "merging": 0.9},
        ["a", "ab|ab"],
    ),
    ("chunks that are alike are merged", "a ab ab", {"initial": 0.9, "merging": 0.6}, ["a|ab|ab"]),
    ("across a snippet too", "a a z a a", {}, ["a|a|z|a|a"]),
    ("but not across two", "a a y z a a", {}, ["a|a", "y", "z", "a|a"]),
    (
        "the next is asked before the one after it",
        "a a ab b",
        {"initial": 0.9, "merging": 0.6},
        ["a|a|ab", "b"],
    ),
    ("growing stops at the largest size", "a a a a", {"max_tokens": 8}, ["a|a", "a|a"]),
    ("merging, too", "a a z a a", {"max_tokens": 12}, ["a|a", "z", "a|a"]),
    ("and goes on with the second and third", "a a a z a a z", {"max_tokens": 12}, ["a|a|a", "z|a|a|z"]),
]


@pytest.mark.parametrize(
    ("said", "options", "expected"), [row[1:] for row in RULES], ids=[row[0] for row in RULES]
)
@pytest.mark.parametrize("vectors", ["encoded", "pooled"])
def test_double_pass_keeps_its_rules(
    said: str, options: dict[str, object], expected: list[str], vectors: str
) -> None:
    assert cut(said, vectors=vectors, **options) == expected


def test_pooled_reads_every_sentence_once_and_nothing_else() -> None:
    asked: list[str] = []

    def embed(texts: Sequence[str]) -> Vectors:
        asked.extend(texts)
        return by_words(texts)

    text = essay(20)
    chunker = DoublePass(DoublePassOptions(vectors="pooled"), TOKENS)
    made = chunker.chunk(Document(text), embed, None)
    assert len(asked) == len(set(asked))
    assert sum(map(len, asked)) <= len(text)
    assert made.vectors is not None
    assert len(made.vectors) == len(made.chunks)


def test_pairs_are_embedded_many_at_a_time_with_the_same_result() -> None:
    text, options = essay(60), DoublePassOptions(initial=0.05, appending=0.02, merging=0.9)
    together, one_by_one = Counting(fake_embed), Counting(fake_embed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adjacent, "_REHEARSALS", 0)
        expected = DoublePass(options, TOKENS).chunk(Document(text), one_by_one, None)
    assert DoublePass(options, TOKENS).chunk(Document(text), together, None).chunks == expected.chunks
    assert one_by_one.calls > 60
    assert together.calls < 20
    assert set(one_by_one.texts) <= set(together.texts)
    assert len(together.texts) < 1.3 * len(one_by_one.texts)


class Counting:
    """Each text once, as through the cache."""

    def __init__(self, model: Embed) -> None:
        self._model, self.calls, self.texts = model, 0, dict[str, None]()

    def __call__(self, texts: Sequence[str]) -> Vectors:
        self.calls += not self.texts.keys() >= set(texts)
        self.texts |= dict.fromkeys(texts)
        return self._model(texts)


def topics(chunks: Sequence[str]) -> list[list[str]]:
    return [[word for word in ("heart", "telescope", "dough") if word in chunk] for chunk in chunks]


@pytest.mark.slow
@pytest.mark.parametrize("vectors", ["encoded", "pooled"])
def test_published_case_of_three_topics_gives_the_published_chunks(vectors: str) -> None:
    """With the vectors that the thresholds were chosen for: exactly three chunks, one a topic."""
    options = {"initial": 0.7, "appending": 0.8, "merging": 0.7, "vectors": vectors}
    chunker = DoublePass(DoublePassOptions.model_validate(options), TOKENS)
    made = chunker.chunk(sample("three-topics.txt"), WordVectors().embed, None)
    assert topics([chunk.text for chunk in made.chunks]) == [["heart"], ["telescope"], ["dough"]]


@pytest.mark.slow
@pytest.mark.parametrize("vectors", ["encoded", "pooled"])
def test_published_case_of_pseudocode_gives_the_published_chunks(vectors: str) -> None:
    """The second pass reaches over the snippet, so the text stays whole."""
    options = {"initial": 0.6, "appending": 0.7, "merging": 0.6, "vectors": vectors}
    chunker = DoublePass(DoublePassOptions.model_validate(options), TOKENS)
    made = chunker.chunk(sample("pseudocode.txt"), WordVectors().embed, None)
    assert [chunk.text for chunk in made.chunks] == [sample("pseudocode.txt").text.strip()]


@pytest.mark.slow
@pytest.mark.parametrize("vectors", ["encoded", "pooled"])
def test_defaults_do_as_much_with_the_packaged_model(vectors: str) -> None:
    chunker = DoublePass(DoublePassOptions.model_validate({"vectors": vectors}), TOKENS)
    three = chunker.chunk(sample("three-topics.txt"), CachedModel().embed, None)
    whole = chunker.chunk(sample("pseudocode.txt"), CachedModel().embed, None)
    assert topics([chunk.text for chunk in three.chunks]) == [["heart"], ["telescope"], ["dough"]]
    assert len(whole.chunks) == 1
