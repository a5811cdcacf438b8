"""The breakpoint strategy: the laws of all chunkers, the thresholds, and the search for a largest size."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.chunkers.adjacent import BREAKPOINT as PLUGIN
from ingestor.chunkers.adjacent import (
    Breakpoint,
    BreakpointOptions,
    Stretches,
    Threshold,
    ends,
    lower,
    threshold,
    values_and_bound,
    windows,
)
from ingestor.chunkers.parts import CutTask, cosines
from ingestor.model import Document, Vectors
from ingestor.text.sentences import sentences
from tests.chunkers.laws import TOKENS, ChunkerLaws, essay, fake_embed
from tests.chunkers.test_double_pass import by_words


class TestBreakpoint(ChunkerLaws):
    plugin = PLUGIN
    options = {"amount": 60}  # noqa: RUF012
    local = False  # the threshold is the whole document's


class TestPooled(TestBreakpoint):
    options = {**TestBreakpoint.options, "vectors": "pooled"}  # noqa: RUF012


class TestGradient(TestBreakpoint):
    options = {"amount": 60, "threshold": "gradient", "buffer": 0}  # noqa: RUF012


FOUND = np.array([0.1, 0.2, 0.9, 0.1, 0.2, 0.3, 0.8, 0.2, 0.1])
THRESHOLDS: list[tuple[Threshold, float | None, float]] = [
    ("percentile", None, 0.86),  # 0.6 of the way from 0.8 to 0.9
    ("percentile", 50, 0.2),
    ("standard_deviation", 1, 2.9 / 9 + (1.69 / 9 - (2.9 / 9) ** 2) ** 0.5),
    ("interquartile", None, 2.9 / 9 + 1.5 * (0.3 - 0.1)),
    ("gradient", 100, 0.4),  # half of the rise from 0.1 to 0.9
]


@pytest.mark.parametrize(("kind", "amount", "expected"), THRESHOLDS)
def test_thresholds_have_the_published_values(kind: Threshold, amount: float | None, expected: float) -> None:
    assert threshold(FOUND, kind, amount) == pytest.approx(expected, abs=1e-4)


def test_thresholds_are_those_of_numpy() -> None:
    found = np.random.default_rng(0).random(500)
    assert threshold(found, "standard_deviation") == pytest.approx(found.mean() + 3 * found.std())
    quartiles = np.percentile(found, [25, 75])
    assert threshold(found, "interquartile") == pytest.approx(found.mean() + 1.5 * np.diff(quartiles)[0])


def test_cuts_are_where_the_distance_exceeds_the_threshold() -> None:
    tokens = np.full(len(FOUND) + 1, 10)
    assert ends(*values_and_bound(FOUND, tokens, BreakpointOptions(amount=80))) == [3, 7, 10]
    steep = BreakpointOptions(threshold="gradient", amount=80)
    assert ends(*values_and_bound(FOUND, tokens, steep)) == [2, 6, 10]


@pytest.mark.parametrize("kind", ["percentile", "standard_deviation", "interquartile", "gradient"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_sentences_are_cut(kind: str, count: int) -> None:
    text = " ".join(["A word is here."] * count)
    made = Breakpoint(BreakpointOptions.model_validate({"threshold": kind}), TOKENS).chunk(
        Document(text), fake_embed, None
    )
    assert "".join(chunk.text for chunk in made.chunks).replace(" ", "") == text.replace(" ", "")


@given(
    st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.3, 0.5, 0.9]), st.integers(1, 30)), max_size=30),
    st.data(),
)
def test_lowered_threshold_is_the_greatest_that_serves(
    drawn: list[tuple[float, int]], data: st.DataObject
) -> None:
    values = np.array([value for value, _ in drawn])
    tokens = np.array([*(size for _, size in drawn), 5])
    bound, most = data.draw(st.floats(0, 1)), data.draw(st.integers(1, 100))
    found = lower(values, bound, tokens, most)
    assert found <= bound
    higher = [value for value in {*values.tolist(), bound} if found < value <= bound]
    assert all(largest(tokens, ends(values, value)) > most for value in higher)
    assert largest(tokens, ends(values, found)) <= max(most, *tokens.tolist())


def largest(tokens: np.ndarray, cuts: Sequence[int]) -> int:
    return max(int(tokens[first:end].sum()) for first, end in zip((0, *cuts), cuts, strict=False))


@pytest.mark.parametrize("vectors", ["encoded", "pooled"])
@pytest.mark.parametrize("most", [40, 100, 300])
def test_largest_size_is_kept(vectors: str, most: int) -> None:
    options = BreakpointOptions.model_validate({"max_tokens": most, "vectors": vectors})
    made = Breakpoint(options, TOKENS).chunk(Document(essay(40)), fake_embed, None)
    assert max(TOKENS.counts([chunk.text for chunk in made.chunks])) <= most


def test_each_sentence_is_seen_with_its_neighbours() -> None:
    text, asked = "A It. B It. C It. D It.", list[str]()

    def embed(texts: Sequence[str]) -> Vectors:
        asked.extend(texts)
        return by_words(texts)

    found = {}
    for vectors in ("encoded", "pooled"):
        options = BreakpointOptions.model_validate({"vectors": vectors})
        stretches = Stretches(CutTask(Document(text), options, embed, TOKENS), sentences(text))
        found[vectors] = 1 - cosines(stretches.rows(windows(len(stretches.spans), 1)))
    seen = ["A It. B It.", "A It. B It. C It.", "B It. C It. D It.", "C It. D It."]
    assert asked == [*seen, "A It.", "B It.", "C It.", "D It."]
    assert np.allclose(found["encoded"], found["pooled"], atol=1e-3)
    assert np.allclose(found["encoded"], [1 - 2 / 6**0.5, 1 - 2 / 3, 1 - 2 / 6**0.5], atol=1e-3)


def test_edit_embeds_only_what_changed_and_gives_what_a_fresh_start_gives() -> None:
    text, seen, asked = essay(60), dict[str, np.ndarray](), list[str]()

    def embed(texts: Sequence[str]) -> Vectors:
        asked.extend(missing := [text for text in texts if text not in seen])
        seen.update(zip(missing, fake_embed(missing), strict=True))
        return np.array([seen[text] for text in texts])

    for vectors, most in (("encoded", 3), ("pooled", 1)):
        chunker = Breakpoint(BreakpointOptions.model_validate({"vectors": vectors}), TOKENS)
        chunker.chunk(Document(text), embed, None)
        asked.clear()
        edited = Document(text.replace("In case 30, ", "In the case 30, ", 1))
        again = chunker.chunk(edited, embed, None)
        assert 1 <= len(asked) <= most
        assert again.chunks == chunker.chunk(edited, fake_embed, None).chunks
