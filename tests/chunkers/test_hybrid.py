"""Paragraphs packed up to a size in characters."""

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

import pytest

from ingestor.chunkers.windows import HYBRID as PLUGIN
from ingestor.text.sentences import sentences
from tests.chunkers.golden import check, sample
from tests.chunkers.laws import ChunkerLaws, Options, cut, essay, refusal


class TestHybrid(ChunkerLaws):
    plugin = PLUGIN
    room = 12  # characters are what this strategy counts
    options: ClassVar[Options] = {"max_size": 150, "overlap": 0}
    tight: ClassVar[Sequence[Options]] = ({"max_size": 50}, {"max_size": 51, "max_tokens": 4})


class TestHybridWithOverlap(ChunkerLaws):
    plugin = PLUGIN
    room = 12  # characters are what this strategy counts
    options: ClassVar[Options] = {"max_size": 200, "overlap": 80}
    tight: ClassVar[Sequence[Options]] = (
        {"max_size": 50, "overlap": 1},
        {"max_size": 50, "overlap": 49, "max_tokens": 5},
    )
    overlaps = True


A, B, C = (f"{letter} is the first of these. {letter} is the second of these." for letter in "ABC")


@pytest.mark.parametrize(
    ("options", "text", "expected"),
    [
        ({"max_size": 120, "overlap": 0}, f"{A}\n\n{B}\n\n{C}", [f"{A}\n\n{B}", C]),
        ({"max_size": 120, "overlap": 40}, f"{A}\n\n{B}\n\n{C}", [f"{A}\n\n{B}", f"{B[25:]}\n\n{C}"]),
        ({"max_size": 120, "overlap": 24}, f"{A}\n\n{B}\n\n{C}", [f"{A}\n\n{B}", C]),
        ({"max_size": 60, "overlap": 0}, f"{A} {B}", [A, B]),
        ({"max_size": 60, "overlap": 30}, f"{A} {B}", [A, f"{A[25:]} {B[:24]}", B]),
    ],
)
def test_units_are_packed_up_to_the_size(options: Options, text: str, expected: list[str]) -> None:
    assert [chunk.text for chunk in cut(PLUGIN, text, **options)] == expected


def test_overlap_begins_at_a_sentence_within_its_limit() -> None:
    text = essay(40)
    chunks = cut(PLUGIN, text, max_size=400, overlap=100)
    repeated = [first.end - second.start for first, second in pairwise(chunks)]
    assert max(repeated) > 0
    assert max(repeated) <= 100
    assert {chunk.start for chunk in chunks} <= {start for start, _ in sentences(text)}
    assert max(len(chunk.text) for chunk in chunks) <= 400


@pytest.mark.parametrize("name", ["hydroponics.md", "scripts.txt"])
def test_chunks_equal_the_golden_file(name: str) -> None:
    check(f"hybrid-{name}", cut(PLUGIN, sample(name), max_size=400))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_size": 100}, "overlap (100) must be smaller than max_size (100)"),
        ({"max_size": 20}, "greater than or equal to 50"),
    ],
)
def test_options_that_contradict_are_refused(options: Options, message: str) -> None:
    assert message in refusal(PLUGIN, options)


@pytest.mark.parametrize("size", [50, 51, 100, 1000])
@pytest.mark.parametrize("mark", ["\u2714 \ufe0f", "e \u0301", "。\u0301", "ﾊ ﾞ"])
def test_hybrid_marks_behind_spaces_lose_no_text(mark: str, size: int) -> None:
    text = " ".join(f"point {number} done {mark}open" for number in range(120))
    at = 0
    for chunk in cut(PLUGIN, text, max_size=size, overlap=0):
        assert not text[at : chunk.start].strip()
        at = chunk.end
    assert not text[at:].strip()
