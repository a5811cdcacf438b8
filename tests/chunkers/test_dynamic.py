"""Chunks that end where the text pauses, between a minimum and a maximum."""

from collections.abc import Sequence
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.chunkers.dynamic import PLUGIN
from tests.chunkers.laws import TOKENS, ChunkerLaws, Options, cut, essay, searching


class TestDynamic(ChunkerLaws):
    plugin = PLUGIN
    options: ClassVar[Options] = {"min_tokens": 12, "max_tokens": 40}
    tight: ClassVar[Sequence[Options]] = (
        {"min_tokens": 1, "max_tokens": 4},
        {"min_tokens": 2, "max_tokens": 5},
        {"min_tokens": 4, "max_tokens": 8},
    )


PARAGRAPHS = "Alpha one two three.\n\nBeta one two three."
CLAUSES = ["Alpha one two three, beta one two three,", "gamma one two three, delta one two three"]
WORDS = ["one two three four five", "six seven eight nine"]


@pytest.mark.parametrize(
    ("least", "most", "text", "expected"),
    [
        (4, 8, PARAGRAPHS, ["Alpha one two three.", "Beta one two three."]),
        (4, 8, PARAGRAPHS.replace("\n\n", " "), ["Alpha one two three.", "Beta one two three."]),
        (4, 11, " ".join(CLAUSES), CLAUSES),
        (4, 8, " ".join(WORDS), WORDS),
        (4, 30, PARAGRAPHS, [PARAGRAPHS]),
        (2, 9, "a b c. d e f. g h i. j", ["a b c. d e f.", "g h i. j"]),
    ],
)
def test_best_pause_is_taken(least: int, most: int, text: str, expected: list[str]) -> None:
    assert [chunk.text for chunk in cut(PLUGIN, text, min_tokens=least, max_tokens=most)] == expected


@searching
@given(st.integers(1, 60), st.integers(10, 60))
def test_no_chunk_of_prose_is_under_the_minimum(paragraphs: int, least: int) -> None:
    text = essay(paragraphs)
    sizes = [TOKENS.count(chunk.text) for chunk in cut(PLUGIN, text, min_tokens=least, max_tokens=2 * least)]
    assert min(sizes) >= min(least - 1, TOKENS.count(text))
    assert max(sizes) <= 2 * least


@pytest.mark.parametrize("least", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("unit", ["擦拭水泵、清洗过滤网、检查水位、", "𒀀𒀁𒀂", "ต้องเติมน้ำสะอาด", "𠮷野家。🜁🜂"])
def test_dynamic_letters_of_several_tokens_keep_both_limits(unit: str, least: int) -> None:
    most = max(2 * least, 8)
    sizes = [TOKENS.count(chunk.text) for chunk in cut(PLUGIN, unit * 40, min_tokens=least, max_tokens=most)]
    assert min(sizes) >= least
    assert max(sizes) <= most
