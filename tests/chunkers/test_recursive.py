"""Splitting by separators, as LangChain does."""

from collections.abc import Sequence
from typing import ClassVar

import pytest

from ingestor.chunkers.recursive import PLUGIN, pieces
from tests.chunkers.golden import corpus, langchain_spans
from tests.chunkers.laws import TOKENS, ChunkerLaws, Options, cut, essay


class TestRecursive(ChunkerLaws):
    plugin = PLUGIN
    options: ClassVar[Options] = {"size": 30}
    tight: ClassVar[Sequence[Options]] = (
        {"size": 4},
        {"size": 5, "min_tokens": 2},
        {"size": 8, "min_tokens": 4},
    )
    limited: ClassVar[Options] = {"size": 40, "min_tokens": 12, "max_tokens": 40}


class TestRecursiveWithOverlap(ChunkerLaws):
    plugin = PLUGIN
    options: ClassVar[Options] = {"size": 40, "overlap": 15}
    tight: ClassVar[Sequence[Options]] = ({"size": 4, "overlap": 1}, {"size": 5, "overlap": 4})
    overlaps = True


@pytest.mark.parametrize(
    ("options", "text", "expected"),
    [
        ({"size": 4}, "one\n\ntwo three", ["one\n\ntwo three"]),
        ({"size": 4}, "one two three\n\nfour five six", ["one two three", "four five six"]),
        ({"size": 4}, "A b c d e. F g h.", ["A b c d", "e", ". F g h", "."]),
        ({"size": 8}, "A b c d e. F g h i j.", ["A b c d e", ". F g h i j."]),
        ({"size": 4, "separators": (" ",)}, "a b c d e f", ["a b c d", "e f"]),
        ({"size": 4, "separators": ("|", "")}, "a|b|c|d", ["a|b", "|c|d"]),
        ({"size": 4, "overlap": 2, "separators": (" ",)}, "a b c d e f", ["a b c d", "c d e f"]),
        ({"size": 4}, "wordwordword", ["word", "word", "word"]),
        ({"size": 5}, "日本語の文章です。もう一つ。", ["日本語の", "文章です。", "もう一つ。"]),
        (
            {"size": 6, "overlap": 3},
            "One two. Three four five!\nSix seven eight nine ten eleven?",
            ["One two", ". Three four five!", "Six seven eight nine ten", "eight nine ten eleven", "?"],
        ),
    ],
)
def test_spans_equal_those_of_langchain(options: Options, text: str, expected: list[str]) -> None:
    """All of them as LangChain splits them."""
    assert [chunk.text for chunk in cut(PLUGIN, text, **options)] == expected


@pytest.mark.parametrize(
    "options", [{"size": 100}, {"size": 100, "overlap": 50}, {"size": 100, "max_tokens": 30}]
)
def test_size_is_never_exceeded(options: Options) -> None:
    most = min(options["size"], options.get("max_tokens", 100))
    assert max(TOKENS.count(chunk.text) for chunk in cut(PLUGIN, essay(60), **options)) <= most


def test_pack_that_counts_more_than_its_parts_gives_its_last_to_the_next() -> None:
    text = "A b c d survivors of the storm were"  # " survivors" is one token, "survivors" three
    texts = [chunk.text for chunk in cut(PLUGIN, text, size=4)]
    assert texts == ["A b c d", "survivors of", "the storm were"]


def test_size_without_fitting_separator_holds() -> None:
    chunks = cut(PLUGIN, "x " * 500, size=50, separators=("\n\n",))
    assert max(TOKENS.count(chunk.text) for chunk in chunks) <= 50


@pytest.mark.parametrize("name", ["state_of_the_union", "wikitexts", "chatlogs"])
@pytest.mark.parametrize(("size", "overlap"), [(200, 0), (256, 25), (200, 40), (50, 0)])
def test_spans_are_those_of_langchain(name: str, size: int, overlap: int) -> None:
    chunks = cut(PLUGIN, corpus(name), size=size, overlap=overlap)
    assert [(chunk.start, chunk.end) for chunk in chunks] == langchain_spans(f"{name}-{size}-{overlap}")


@pytest.mark.parametrize(
    ("name", "count"), [("state_of_the_union", 325), ("wikitexts", 838), ("chatlogs", 223)]
)
def test_pieces_of_fifty_tokens_are_as_many_as_the_report_has(name: str, count: int) -> None:
    text = corpus(name)
    assert len(pieces(text, (0, len(text)), TOKENS, 50)) == count
