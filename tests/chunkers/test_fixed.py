"""Windows of a fixed size."""

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

import pytest

from ingestor.chunkers.windows import FIXED as PLUGIN
from tests.chunkers.golden import check, sample
from tests.chunkers.laws import TOKENS, ChunkerLaws, Options, cut, essay, refusal


class TestFixed(ChunkerLaws):
    plugin = PLUGIN
    options: ClassVar[Options] = {"size": 30}
    room = 30
    tight: ClassVar[Sequence[Options]] = (
        {"size": 4},
        {"size": 5, "overlap": 0},
        {"size": 4, "unit": "characters"},
    )


class TestFixedWithOverlap(ChunkerLaws):
    plugin = PLUGIN
    options: ClassVar[Options] = {"size": 30, "overlap": 12}
    room = 30
    tight: ClassVar[Sequence[Options]] = (
        {"size": 4, "overlap": 1},
        {"size": 5, "overlap": 4},
        {"size": 8, "overlap": 1},
    )
    overlaps = True


class TestFixedInCharacters(ChunkerLaws):
    plugin = PLUGIN
    options: ClassVar[Options] = {"size": 120, "overlap": 40, "unit": "characters"}
    room = 15
    overlaps = True


@pytest.mark.parametrize(
    ("options", "text", "expected"),
    [
        ({"size": 4}, "one two three four five six seven", ["one two three four", "five six seven"]),
        (
            {"size": 4, "overlap": 2},
            "one two three four five six",
            ["one two three four", "three four five six"],
        ),
        ({"size": 4, "unit": "characters"}, "abcdefghij", ["abcd", "efgh", "ij"]),
        ({"size": 4, "overlap": 1, "unit": "characters"}, "abcdefghij", ["abcd", "defg", "ghij"]),
        ({"size": 4, "unit": "characters"}, "abce\u0301fgh", ["abc", "e\u0301fg", "h"]),
        ({"size": 5, "unit": "characters"}, "ab cd ef", ["ab cd", "ef"]),
    ],
)
def test_windows(options: Options, text: str, expected: list[str]) -> None:
    assert [chunk.text for chunk in cut(PLUGIN, text, **options)] == expected


def test_every_window_but_the_last_is_full_and_steps_by_size_less_overlap() -> None:
    text = essay(40)
    chunks = cut(PLUGIN, text, size=50, overlap=20)
    sizes = TOKENS.counts([chunk.text for chunk in chunks])
    assert set(sizes[:-1]) <= {48, 49, 50}
    steps = [TOKENS.count(text[one.start : two.start]) for one, two in pairwise(chunks[:-1])]
    assert set(steps) <= {29, 30, 31, 32}


@pytest.mark.parametrize("name", ["hydroponics.md", "scripts.txt"])
def test_chunks_equal_the_golden_file(name: str) -> None:
    check(f"fixed-{name}", cut(PLUGIN, sample(name), size=100, overlap=25))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 50, "overlap": 50}, "overlap (50) must be smaller than size (50)"),
        ({"size": 3}, "greater than or equal to 4"),
        ({"overlap": -1}, "greater than or equal to 0"),
        ({"unit": "words"}, "'tokens' or 'characters'"),
        ({"overlap": 5, "neighbours": 0.3}, "neighbours needs overlap: 0"),
        ({"min_tokens": 90, "max_tokens": 80}, "min_tokens (90) must not exceed max_tokens (80)"),
        ({"sizes": 5}, "Extra inputs are not permitted"),
    ],
)
def test_options_that_contradict_are_refused(options: Options, message: str) -> None:
    assert message in refusal(PLUGIN, options)
