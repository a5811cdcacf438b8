"""Windows of paragraphs."""

from typing import ClassVar

import pytest

from ingestor.chunkers.windows import PARAGRAPH as PLUGIN
from tests.chunkers.golden import check, sample
from tests.chunkers.laws import TOKENS, ChunkerLaws, Options, cut, essay, refusal


class TestParagraph(ChunkerLaws):
    plugin = PLUGIN
    options: ClassVar[Options] = {"max_paragraphs": 1, "overlap": 0, "max_tokens": 60}


class TestParagraphWithOverlap(ChunkerLaws):
    plugin = PLUGIN
    options: ClassVar[Options] = {"max_paragraphs": 3, "overlap": 1, "max_tokens": 150}
    overlaps = True


@pytest.mark.parametrize(
    ("options", "text", "expected"),
    [
        ({}, "a\n\nb\n\nc\n\nd\n\ne", ["a\n\nb\n\nc", "c\n\nd\n\ne"]),
        ({"overlap": 0}, "a\n\nb\n\nc\n\nd", ["a\n\nb\n\nc", "d"]),
        ({"overlap": 2}, "a\n\nb\n\nc\n\nd", ["a\n\nb\n\nc", "b\n\nc\n\nd"]),
        ({"max_paragraphs": 1, "overlap": 0}, "a\nb\r\n \t\r\nc\r\rd", ["a\nb", "c", "d"]),
        ({"max_paragraphs": 1, "overlap": 0, "min_tokens": 3}, "a\n\nb\n\nc\n\nd", ["a\n\nb", "c\n\nd"]),
    ],
)
def test_windows(options: Options, text: str, expected: list[str]) -> None:
    assert [chunk.text for chunk in cut(PLUGIN, text, **options)] == expected


def test_paragraph_over_the_limit_is_split_inside() -> None:
    long = essay(30).replace("\n\n", " ")
    text = f"Before.\n\n{long}\n\nAfter."
    chunks = cut(PLUGIN, text, overlap=0, max_paragraphs=1, max_tokens=80)
    assert (chunks[0].text, chunks[-1].text) == ("Before.", "After.")
    assert all(TOKENS.count(chunk.text) <= 80 for chunk in chunks)


@pytest.mark.parametrize("name", ["hydroponics.md", "scripts.txt"])
def test_chunks_equal_the_golden_file(name: str) -> None:
    check(f"paragraph-{name}", cut(PLUGIN, sample(name)))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"max_paragraphs": 1}, "overlap (1) must be smaller than max_paragraphs (1)")],
)
def test_options_that_contradict_are_refused(options: Options, message: str) -> None:
    assert message in refusal(PLUGIN, options)
