"""Strategies that pack units into windows: ``fixed``, ``sentence``, ``paragraph`` and ``hybrid``."""

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

import pytest

from ingestor.chunkers.windows import FIXED, HYBRID, PARAGRAPH, SENTENCE
from ingestor.registry import Plugin
from ingestor.text.sentences import sentences
from tests.chunkers.golden import sample
from tests.chunkers.laws import TOKENS, ChunkerLaws, Options, cut, essay


class TestFixed(ChunkerLaws):
    plugin = FIXED
    options: ClassVar[Options] = {"size": 30}
    room = 30
    tight: ClassVar[Sequence[Options]] = (
        {"size": 4},
        {"size": 5, "overlap": 0},
        {"size": 4, "unit": "characters"},
    )


class TestFixedWithOverlap(ChunkerLaws):
    plugin = FIXED
    options: ClassVar[Options] = {"size": 30, "overlap": 12}
    room = 30
    tight: ClassVar[Sequence[Options]] = (
        {"size": 4, "overlap": 1},
        {"size": 5, "overlap": 4},
        {"size": 8, "overlap": 1},
    )
    overlaps = True


class TestFixedInCharacters(ChunkerLaws):
    plugin = FIXED
    options: ClassVar[Options] = {"size": 120, "overlap": 40, "unit": "characters"}
    room = 15
    overlaps = True


class TestSentence(ChunkerLaws):
    plugin = SENTENCE
    options: ClassVar[Options] = {"max_sentences": 2, "overlap": 0}


class TestSentenceWithOverlap(ChunkerLaws):
    plugin = SENTENCE
    options: ClassVar[Options] = {"max_sentences": 4, "overlap": 2, "max_tokens": 60}
    overlaps = True


class TestParagraph(ChunkerLaws):
    plugin = PARAGRAPH
    options: ClassVar[Options] = {"max_paragraphs": 1, "overlap": 0, "max_tokens": 60}


class TestParagraphWithOverlap(ChunkerLaws):
    plugin = PARAGRAPH
    options: ClassVar[Options] = {"max_paragraphs": 3, "overlap": 1, "max_tokens": 150}
    overlaps = True


class TestHybrid(ChunkerLaws):
    plugin = HYBRID
    room = 12  # characters are what this strategy counts
    options: ClassVar[Options] = {"max_size": 150, "overlap": 0}
    tight: ClassVar[Sequence[Options]] = ({"max_size": 50}, {"max_size": 51, "max_tokens": 4})


class TestHybridWithOverlap(ChunkerLaws):
    plugin = HYBRID
    room = 12  # characters are what this strategy counts
    options: ClassVar[Options] = {"max_size": 200, "overlap": 80}
    tight: ClassVar[Sequence[Options]] = (
        {"max_size": 50, "overlap": 1},
        {"max_size": 50, "overlap": 49, "max_tokens": 5},
    )
    overlaps = True


FIVE = "One is here. Two is here. Three is here. Four is here. Five is here."
A, B, C = (f"{letter} is the first of these. {letter} is the second of these." for letter in "ABC")
ABC = f"{A}\n\n{B}\n\n{C}"


@pytest.mark.parametrize(
    ("plugin", "options", "text", "expected"),
    [
        (FIXED, {"size": 4}, "one two three four five six seven", ["one two three four", "five six seven"]),
        (
            FIXED,
            {"size": 4, "overlap": 2},
            "one two three four five six",
            ["one two three four", "three four five six"],
        ),
        (FIXED, {"size": 4, "unit": "characters"}, "abcdefghij", ["abcd", "efgh", "ij"]),
        (FIXED, {"size": 4, "overlap": 1, "unit": "characters"}, "abcdefghij", ["abcd", "defg", "ghij"]),
        (FIXED, {"size": 4, "unit": "characters"}, "abce\u0301fgh", ["abc", "e\u0301fg", "h"]),
        (FIXED, {"size": 5, "unit": "characters"}, "ab cd ef", ["ab cd", "ef"]),
        (SENTENCE, {"max_sentences": 2, "overlap": 0}, FIVE, [FIVE[:25], FIVE[26:54], FIVE[55:]]),
        (SENTENCE, {"max_sentences": 3, "overlap": 1}, FIVE, [FIVE[:40], FIVE[26:]]),
        (SENTENCE, {"max_sentences": 3, "overlap": 2}, FIVE, [FIVE[:40], FIVE[13:54], FIVE[26:]]),
        (SENTENCE, {"max_sentences": 10}, FIVE, [FIVE]),
        (
            SENTENCE,
            {"max_sentences": 3, "overlap": 2, "max_tokens": 8},
            FIVE,
            [FIVE[:25], FIVE[13:40], FIVE[26:54], FIVE[41:]],
        ),
        (SENTENCE, {"max_sentences": 3, "max_tokens": 4}, FIVE, FIVE.replace(". ", ".|").split("|")),
        (SENTENCE, {}, "いち。に。さん。", ["いち。に。さん。"]),
        (SENTENCE, {"max_sentences": 1, "overlap": 0}, "いち。に。さん。", ["いち。", "に。", "さん。"]),
        (PARAGRAPH, {}, "a\n\nb\n\nc\n\nd\n\ne", ["a\n\nb\n\nc", "c\n\nd\n\ne"]),
        (PARAGRAPH, {"overlap": 0}, "a\n\nb\n\nc\n\nd", ["a\n\nb\n\nc", "d"]),
        (PARAGRAPH, {"overlap": 2}, "a\n\nb\n\nc\n\nd", ["a\n\nb\n\nc", "b\n\nc\n\nd"]),
        (PARAGRAPH, {"max_paragraphs": 1, "overlap": 0}, "a\nb\r\n \t\r\nc\r\rd", ["a\nb", "c", "d"]),
        (
            PARAGRAPH,
            {"max_paragraphs": 1, "overlap": 0, "min_tokens": 3},
            "a\n\nb\n\nc\n\nd",
            ["a\n\nb", "c\n\nd"],
        ),
        (HYBRID, {"max_size": 120, "overlap": 0}, ABC, [f"{A}\n\n{B}", C]),
        (HYBRID, {"max_size": 120, "overlap": 40}, ABC, [f"{A}\n\n{B}", f"{B[25:]}\n\n{C}"]),
        (HYBRID, {"max_size": 120, "overlap": 24}, ABC, [f"{A}\n\n{B}", C]),
        (HYBRID, {"max_size": 60, "overlap": 0}, f"{A} {B}", [A, B]),
        (HYBRID, {"max_size": 60, "overlap": 30}, f"{A} {B}", [A, f"{A[25:]} {B[:24]}", B]),
    ],
)
def test_units_are_packed_into_windows(
    plugin: Plugin, options: Options, text: str, expected: list[str]
) -> None:
    assert [chunk.text for chunk in cut(plugin, text, **options)] == expected


def test_every_window_but_the_last_is_full_and_steps_by_size_less_overlap() -> None:
    text = essay(40)
    chunks = cut(FIXED, text, size=50, overlap=20)
    sizes = TOKENS.counts([chunk.text for chunk in chunks])
    assert set(sizes[:-1]) <= {48, 49, 50}
    steps = [TOKENS.count(text[one.start : two.start]) for one, two in pairwise(chunks[:-1])]
    assert set(steps) <= {29, 30, 31, 32}


def test_only_a_sentence_over_the_limit_is_cut() -> None:
    long = "and so on and on " * 40
    chunks = cut(SENTENCE, f"Short one. Then {long}it ended. Short again.", max_tokens=50)
    assert chunks[0].text == "Short one."
    assert chunks[-1].text.endswith("Short again.")
    assert all(TOKENS.count(chunk.text) <= 50 for chunk in chunks)


def test_sentence_windows_end_with_a_sentence() -> None:
    document = sample("hydroponics.md")
    ends = {end for _, end in sentences(document.text)}
    assert {chunk.end for chunk in cut(SENTENCE, document, max_sentences=4)} <= ends
    amid = [chunk.end for chunk in cut(FIXED, document, size=60) if chunk.end not in ends]
    assert len(amid) > 5


def test_no_limit_but_the_number_of_sentences() -> None:
    (chunk,) = cut(SENTENCE, essay(2), max_tokens=None)
    assert chunk.text == essay(2)


def test_paragraph_over_the_limit_is_split_inside() -> None:
    long = essay(30).replace("\n\n", " ")
    text = f"Before.\n\n{long}\n\nAfter."
    chunks = cut(PARAGRAPH, text, overlap=0, max_paragraphs=1, max_tokens=80)
    assert (chunks[0].text, chunks[-1].text) == ("Before.", "After.")
    assert all(TOKENS.count(chunk.text) <= 80 for chunk in chunks)


def test_overlap_begins_at_a_sentence_within_its_limit() -> None:
    text = essay(40)
    chunks = cut(HYBRID, text, max_size=400, overlap=100)
    repeated = [first.end - second.start for first, second in pairwise(chunks)]
    assert max(repeated) > 0
    assert max(repeated) <= 100
    assert {chunk.start for chunk in chunks} <= {start for start, _ in sentences(text)}
    assert max(len(chunk.text) for chunk in chunks) <= 400


@pytest.mark.parametrize("size", [50, 51, 100, 1000])
@pytest.mark.parametrize("mark", ["\u2714 \ufe0f", "e \u0301", "。\u0301", "ﾊ ﾞ"])
def test_hybrid_marks_behind_spaces_lose_no_text(mark: str, size: int) -> None:
    text = " ".join(f"point {number} done {mark}open" for number in range(120))
    at = 0
    for chunk in cut(HYBRID, text, max_size=size, overlap=0):
        assert not text[at : chunk.start].strip()
        at = chunk.end
    assert not text[at:].strip()
