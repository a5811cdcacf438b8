"""Windows of sentences."""

from typing import ClassVar

import pytest

from ingestor.chunkers.windows import SENTENCE as PLUGIN
from ingestor.registry import find
from ingestor.text.sentences import sentences
from tests.chunkers.golden import check, sample
from tests.chunkers.laws import TOKENS, ChunkerLaws, Options, cut, essay, refusal


class TestSentence(ChunkerLaws):
    plugin = PLUGIN
    options: ClassVar[Options] = {"max_sentences": 2, "overlap": 0}


class TestSentenceWithOverlap(ChunkerLaws):
    plugin = PLUGIN
    options: ClassVar[Options] = {"max_sentences": 4, "overlap": 2, "max_tokens": 60}
    overlaps = True


FIVE = "One is here. Two is here. Three is here. Four is here. Five is here."


@pytest.mark.parametrize(
    ("options", "text", "expected"),
    [
        ({"max_sentences": 2, "overlap": 0}, FIVE, [FIVE[:25], FIVE[26:54], FIVE[55:]]),
        ({"max_sentences": 3, "overlap": 1}, FIVE, [FIVE[:40], FIVE[26:]]),
        ({"max_sentences": 3, "overlap": 2}, FIVE, [FIVE[:40], FIVE[13:54], FIVE[26:]]),
        ({"max_sentences": 10}, FIVE, [FIVE]),
        (
            {"max_sentences": 3, "overlap": 2, "max_tokens": 8},
            FIVE,
            [FIVE[:25], FIVE[13:40], FIVE[26:54], FIVE[41:]],
        ),
        ({"max_sentences": 3, "max_tokens": 4}, FIVE, FIVE.replace(". ", ".|").split("|")),
        ({}, "いち。に。さん。", ["いち。に。さん。"]),
        ({"max_sentences": 1, "overlap": 0}, "いち。に。さん。", ["いち。", "に。", "さん。"]),
    ],
)
def test_windows(options: Options, text: str, expected: list[str]) -> None:
    assert [chunk.text for chunk in cut(PLUGIN, text, **options)] == expected


def test_only_a_sentence_over_the_limit_is_cut() -> None:
    long = "and so on and on " * 40
    chunks = cut(PLUGIN, f"Short one. Then {long}it ended. Short again.", max_tokens=50)
    assert chunks[0].text == "Short one."
    assert chunks[-1].text.endswith("Short again.")
    assert all(TOKENS.count(chunk.text) <= 50 for chunk in chunks)


def test_sentence_windows_end_with_a_sentence() -> None:
    document = sample("hydroponics.md")
    ends = {end for _, end in sentences(document.text)}
    assert {chunk.end for chunk in cut(PLUGIN, document, max_sentences=4)} <= ends
    amid = [chunk.end for chunk in cut(find("chunkers", "fixed"), document, size=60) if chunk.end not in ends]
    assert len(amid) > 5


def test_no_limit_but_the_number_of_sentences() -> None:
    (chunk,) = cut(PLUGIN, essay(2), max_tokens=None)
    assert chunk.text == essay(2)


@pytest.mark.parametrize("name", ["hydroponics.md", "scripts.txt"])
def test_chunks_equal_the_golden_file(name: str) -> None:
    check(f"sentence-{name}", cut(PLUGIN, sample(name), max_sentences=5, overlap=1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_sentences": 2, "overlap": 2}, "overlap (2) must be smaller than max_sentences (2)"),
        ({"max_sentences": 0}, "greater than or equal to 1"),
        ({"neighbours": 0.3}, "neighbours needs overlap: 0"),
    ],
)
def test_options_that_contradict_are_refused(options: Options, message: str) -> None:
    assert message in refusal(PLUGIN, options)
