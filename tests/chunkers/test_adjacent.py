"""Strategies that compare adjacent units: ``breakpoint``, ``double_pass`` and ``similarity``."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ingestor.chunkers import adjacent
from ingestor.chunkers.adjacent import BREAKPOINT, DOUBLE_PASS, SIMILARITY
from ingestor.chunkers.parts import CutTask, cosines
from ingestor.model import Document, Vectors
from ingestor.registry import find
from ingestor.text.sentences import sentences
from tests.chunkers.golden import sample
from tests.chunkers.laws import TOKENS, Noting, essay, fake_embed, laws
from tests.minilm import CachedModel
from tests.word_vectors import WordVectors

# The threshold is the whole document's.
TestBreakpoint = laws(BREAKPOINT, {"amount": 60}, local=False)
# The threshold is the whole document's.
TestBreakpointPooled = laws(BREAKPOINT, {"amount": 60, "vectors": "pooled"}, local=False)
# The threshold is the whole document's.
TestGradient = laws(BREAKPOINT, {"amount": 60, "threshold": "gradient", "buffer": 0}, local=False)
TestDoublePass = laws(DOUBLE_PASS, {"initial": 0.05, "appending": 0.02, "merging": 0.02, "max_tokens": 60})
TestDoublePassPooled = laws(DOUBLE_PASS, {**TestDoublePass.options, "vectors": "pooled"})
TestSimilarity = laws(SIMILARITY, {"threshold": 0.05, "max_tokens": 60})
TestSimilarityPooled = laws(SIMILARITY, {**TestSimilarity.options, "vectors": "pooled"})
TestParagraphs = laws(SIMILARITY, {**TestSimilarity.options, "unit": "paragraph"})


both = pytest.mark.parametrize("vectors", ["encoded", "pooled"])


def by_words(texts: Sequence[str]) -> Vectors:
    """Texts are alike by their share of common words (single letters here); the others count for nothing."""
    counts = np.array(
        [[text.lower().count(f"{letter} ") for letter in "abcdwxyz"] for text in texts], np.float32
    )
    lengths: Vectors = np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-9)
    return counts / lengths


FOUND = np.array([0.1, 0.2, 0.9, 0.1, 0.2, 0.3, 0.8, 0.2, 0.1])
THRESHOLDS: list[tuple[adjacent.Threshold, float | None, float]] = [
    ("percentile", None, 0.86),  # 0.6 of the way from 0.8 to 0.9
    ("percentile", 50, 0.2),
    ("standard_deviation", 1, 2.9 / 9 + (1.69 / 9 - (2.9 / 9) ** 2) ** 0.5),
    ("interquartile", None, 2.9 / 9 + 1.5 * (0.3 - 0.1)),
    ("gradient", 100, 0.4),  # half of the rise from 0.1 to 0.9
]


@pytest.mark.parametrize(("kind", "amount", "expected"), THRESHOLDS)
def test_thresholds_have_the_published_values(
    kind: adjacent.Threshold, amount: float | None, expected: float
) -> None:
    assert adjacent.threshold(FOUND, kind, amount) == pytest.approx(expected, abs=1e-4)


def test_thresholds_are_those_of_numpy() -> None:
    found = np.random.default_rng(0).random(500)
    assert adjacent.threshold(found, "standard_deviation") == pytest.approx(found.mean() + 3 * found.std())
    quartiles = np.percentile(found, [25, 75])
    assert adjacent.threshold(found, "interquartile") == pytest.approx(
        found.mean() + 1.5 * np.diff(quartiles)[0]
    )


def test_cuts_are_where_the_distance_exceeds_the_threshold_or_one_lowered_for_the_largest_size() -> None:
    tokens = np.full(len(FOUND) + 1, 10)
    for options, expected in (
        ({}, [3, 7, 10]),
        ({"threshold": "gradient"}, [2, 6, 10]),
        ({"max_tokens": 30}, [3, 6, 7, 10]),
    ):
        chosen = adjacent.BreakpointOptions.model_validate({"amount": 80, **options})
        assert adjacent.ends(*adjacent.values_and_bound(FOUND, tokens, chosen)) == expected


@pytest.mark.parametrize("kind", ["percentile", "standard_deviation", "interquartile", "gradient"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_sentences_are_cut(kind: str, count: int) -> None:
    text = " ".join(["A word is here."] * count)
    chunker = adjacent.Breakpoint(adjacent.BreakpointOptions.model_validate({"threshold": kind}), TOKENS)
    made = chunker.chunk(Document(text), fake_embed, None)
    assert "".join(chunk.text for chunk in made.chunks).replace(" ", "") == text.replace(" ", "")


sizes = st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.3, 0.5, 0.9]), st.integers(1, 30)), max_size=30)


@example([(0.1, 5)], 0.5, 9)
@given(sizes, st.floats(0, 1), st.integers(1, 100))
def test_lowered_threshold_is_the_greatest_one(
    drawn: list[tuple[float, int]], bound: float, most: int
) -> None:
    values = np.array([value for value, _ in drawn])
    tokens = np.array([*(size for _, size in drawn), 5])
    found = adjacent.lower(values, bound, tokens, most)
    assert found <= bound
    higher = [value for value in {*values.tolist(), bound} if found < value <= bound]
    assert all(largest(tokens, adjacent.ends(values, value)) > most for value in higher)
    assert largest(tokens, adjacent.ends(values, found)) <= max(most, *tokens.tolist())


def largest(tokens: np.ndarray, cuts: Sequence[int]) -> int:
    return max(int(tokens[first:end].sum()) for first, end in zip((0, *cuts), cuts, strict=False))


def test_each_sentence_is_seen_with_its_neighbours() -> None:
    text, embed, found = "A It. B It. C It. D It.", Noting(by_words), {}
    for vectors in ("encoded", "pooled"):
        options = adjacent.BreakpointOptions.model_validate({"vectors": vectors})
        stretches = adjacent.Stretches(CutTask(Document(text), options, embed, TOKENS), sentences(text))
        found[vectors] = 1 - cosines(stretches.rows(adjacent.windows(len(stretches.spans), 1)))
    seen = ["A It. B It.", "A It. B It. C It.", "B It. C It. D It.", "C It. D It."]
    assert embed.texts == [*seen, "A It.", "B It.", "C It.", "D It."]
    assert np.allclose(found["encoded"], found["pooled"], atol=1e-3)
    assert np.allclose(found["encoded"], [1 - 2 / 6**0.5, 1 - 2 / 3, 1 - 2 / 6**0.5], atol=1e-3)


def rehearsed(said: str, **options: object) -> list[str]:
    """Return the chunks of sentences whose words are single letters.

    ``said``: the letters of each sentence, separated by spaces. The chunks are returned in the same form.
    """
    text = " ".join(" ".join(sentence.upper()) + " It." for sentence in said.split())
    bare = {"initial": 0.5, "appending": 0.5, "merging": 0.5, "min_tokens": None}
    chosen = adjacent.DoublePassOptions.model_validate({**bare, **options})
    made = adjacent.DoublePass(chosen, TOKENS).chunk(Document(text), by_words, None)
    return [chunk.text.replace(" It.", "|").replace(" ", "").rstrip("|").lower() for chunk in made.chunks]


RULES = [
    ("two that are alike open a chunk", "a a b", {}, ["a|a", "b"]),
    ("the first of two that are not stands alone, and the second is compared on", "a b b", {}, ["a", "b|b"]),
    ("the next is compared with the last two together", "a ab b", {"appending": 0.8}, ["a|ab", "b"]),
    ("which may take what the last one alone would not", "a ab b", {"appending": 0.4}, ["a|ab|b"]),
    ("an appending threshold opens no chunk", "a ab ab", {"initial": 0.9, "merging": 0.9}, ["a", "ab|ab"]),
    ("chunks that are alike are merged", "a ab ab", {"initial": 0.9, "merging": 0.6}, ["a|ab|ab"]),
    ("across a snippet too", "a a z a a", {}, ["a|a|z|a|a"]),
    ("but not across two", "a a y z a a", {}, ["a|a", "y", "z", "a|a"]),
    ("the next comes before the one after", "a a ab b", {"initial": 0.9, "merging": 0.6}, ["a|a|ab", "b"]),
    ("growing stops at the largest size", "a a a a", {"max_tokens": 8}, ["a|a", "a|a"]),
    ("merging, too", "a a z a a", {"max_tokens": 12}, ["a|a", "z", "a|a"]),
    ("and goes on with the second and third", "a a a z a a z", {"max_tokens": 12}, ["a|a|a", "z|a|a|z"]),
]


@pytest.mark.parametrize(
    ("said", "options", "expected"), [row[1:] for row in RULES], ids=[row[0] for row in RULES]
)
@both
def test_rules_are_kept(said: str, options: dict[str, object], expected: list[str], vectors: str) -> None:
    assert rehearsed(said, vectors=vectors, **options) == expected


def test_pooled_reads_every_sentence_once_and_nothing_else() -> None:
    embed, text = Noting(by_words), essay(20)
    chunker = adjacent.DoublePass(adjacent.DoublePassOptions(vectors="pooled"), TOKENS)
    made = chunker.chunk(Document(text), embed, None)
    assert len(embed.texts) == len(set(embed.texts))
    assert sum(map(len, embed.texts)) <= len(text)
    assert made.vectors is not None
    assert len(made.vectors) == len(made.chunks)


def test_pairs_are_embedded_many_at_a_time_with_the_same_result() -> None:
    text, options = essay(60), adjacent.DoublePassOptions(initial=0.05, appending=0.02, merging=0.9)
    together, one_by_one = Counting(), Counting()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adjacent, "_REHEARSALS", 0)
        expected = adjacent.DoublePass(options, TOKENS).chunk(Document(text), one_by_one, None)
    assert (
        adjacent.DoublePass(options, TOKENS).chunk(Document(text), together, None).chunks == expected.chunks
    )
    assert one_by_one.calls > 60
    assert together.calls < 20
    assert set(one_by_one.texts) <= set(together.texts)
    assert len({*together.texts}) < 1.3 * len({*one_by_one.texts})


class Counting(Noting):
    """Counts the calls that ask for a text that no call before asked for, as through the cache."""

    calls = 0

    def __call__(self, texts: Sequence[str]) -> Vectors:
        self.calls += not {*self.texts} >= {*texts}
        return super().__call__(texts)


def topics(chunks: Sequence[str]) -> list[list[str]]:
    return [[word for word in ("heart", "telescope", "dough") if word in chunk] for chunk in chunks]


@pytest.mark.slow
@both
def test_published_cases_give_the_published_chunks(vectors: str) -> None:
    """With the vectors that the thresholds were chosen for; as much with the packaged model and the defaults.

    Three topics are three chunks. The second pass reaches over the snippet, so pseudocode stays whole.
    """
    for model, three, code in (
        (WordVectors(), (0.7, 0.8, 0.7), (0.6, 0.7, 0.6)), (CachedModel(), (), ()),
    ):  # fmt: skip
        made = []
        for name, bounds in (("three-topics.txt", three), ("pseudocode.txt", code)):
            options = dict(zip(("initial", "appending", "merging"), bounds, strict=False))
            chosen = adjacent.DoublePassOptions.model_validate({**options, "vectors": vectors})
            chunks = adjacent.DoublePass(chosen, TOKENS).chunk(sample(name), model.embed, None).chunks
            made.append([chunk.text for chunk in chunks])
        assert topics(made[0]) == [["heart"], ["telescope"], ["dough"]]
        assert made[1] == [sample("pseudocode.txt").text.strip()]


def cut(text: str, **options: object) -> list[str]:
    chosen = adjacent.SimilarityOptions.model_validate({"threshold": 0.6, "min_tokens": None, **options})
    made = adjacent.Similarity(chosen, TOKENS).chunk(Document(text), by_words, None)
    return [chunk.text for chunk in made.chunks]


@both
def test_similarity_grows_while_next_unit_resembles_chunk(vectors: str) -> None:
    """The fourth sentence is like the third, but not like the first three together."""
    text = "A A It. A A It. A B It. B B It."
    assert cut(text, vectors=vectors) == ["A A It. A A It. A B It.", "B B It."]
    assert cut(text, vectors=vectors, threshold=0.1) == [text]
    assert cut(text, vectors=vectors, threshold=0.95) == ["A A It. A A It.", "A B It.", "B B It."]


@both
def test_similarity_stops_at_largest_size(vectors: str) -> None:
    assert cut("A It. A It. A It. A It.", vectors=vectors, max_tokens=8) == ["A It. A It.", "A It. A It."]


def test_units_may_be_paragraphs() -> None:
    text = "A It. B It.\n\nB It. A It.\n\nZ It. Z It."
    assert cut(text, unit="paragraph") == ["A It. B It.\n\nB It. A It.", "Z It. Z It."]
    assert cut(text) == ["A It.", "B It.\n\nB It.", "A It.", "Z It. Z It."]


def test_running_chunk_is_read_as_a_whole() -> None:
    embed = Noting(by_words)
    chunker = adjacent.Similarity(adjacent.SimilarityOptions(threshold=0.4), TOKENS)
    chunker.chunk(Document("A It. A B It. B It. Z It."), embed, None)
    assert embed.texts == ["A It.", "A B It.", "B It.", "Z It.", "A It. A B It.", "A It. A B It. B It."]


@pytest.mark.parametrize("strategy", ["similarity", "double_pass", "breakpoint"])
def test_default_leaves_no_fragments_and_no_giants(strategy: str) -> None:
    """A list of short items and sentences that resemble nothing, by vectors without any meaning."""
    items = "".join(f"- item {at}\n" for at in range(40))
    text = f"{essay(12)}\n\nTo D.\n\n{items}\n{essay(12, 40)}"
    plugin = find("chunkers", strategy)
    options = plugin.options()
    chunks = plugin.build(options, TOKENS).chunk(Document(text), fake_embed, None).chunks
    sizes = TOKENS.counts([chunk.text for chunk in chunks])
    assert len(chunks) > 5
    assert max(sizes) <= 400
    assert min(sizes) >= options.min_tokens >= 25


@pytest.mark.parametrize("strategy", ["similarity", "double_pass", "breakpoint"])
def test_default_minimum_makes_way_for_a_small_maximum(strategy: str) -> None:
    options = find("chunkers", strategy).options
    assert options(max_tokens=20).min_tokens == 10
    assert options(max_tokens=20, min_tokens=None).min_tokens is None
    assert options(max_tokens=300).min_tokens == options().min_tokens
