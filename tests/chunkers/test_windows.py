"""Strategies that cut by size: windows of units, separators, pauses and levels."""

import json
from collections import defaultdict
from itertools import pairwise
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.chunkers.dynamic import PLUGIN as DYNAMIC
from ingestor.chunkers.hierarchical import PLUGIN as HIERARCHICAL
from ingestor.chunkers.recursive import PLUGIN as RECURSIVE
from ingestor.chunkers.recursive import SEPARATORS, pack, split_large
from ingestor.chunkers.windows import FIXED, HYBRID, PARAGRAPH, SENTENCE
from ingestor.model import Chunk
from ingestor.text.limits import limit
from ingestor.text.sentences import sentences
from tests.chunkers.golden import corpus, langchain_spans
from tests.chunkers.laws import TOKENS, ChunkerLaws, Options, cut, essay, laws, lose_nothing, searching

TestFixed = laws(
    FIXED,
    {"size": 30},
    room=30,
    tight=({"size": 4}, {"size": 5, "overlap": 0}, {"size": 4, "unit": "characters"}),
)
TestFixedWithOverlap = laws(
    FIXED,
    {"size": 30, "overlap": 12},
    room=30,
    tight=({"size": 4, "overlap": 1}, {"size": 5, "overlap": 4}, {"size": 8, "overlap": 1}),
    overlaps=True,
)
TestFixedInCharacters = laws(
    FIXED, {"size": 120, "overlap": 40, "unit": "characters"}, room=15, overlaps=True
)
TestSentence = laws(SENTENCE, {"max_sentences": 2, "overlap": 0})
TestSentenceWithOverlap = laws(SENTENCE, {"max_sentences": 4, "overlap": 2, "max_tokens": 60}, overlaps=True)
TestParagraph = laws(PARAGRAPH, {"max_paragraphs": 1, "overlap": 0, "max_tokens": 60})
TestParagraphWithOverlap = laws(
    PARAGRAPH, {"max_paragraphs": 3, "overlap": 1, "max_tokens": 150}, overlaps=True
)
# Characters are what hybrid counts.
TestHybrid = laws(
    HYBRID,
    {"max_size": 150, "overlap": 0},
    room=12,
    tight=({"max_size": 50}, {"max_size": 51, "max_tokens": 4}),
)
TestHybridWithOverlap = laws(
    HYBRID,
    {"max_size": 200, "overlap": 80},
    room=12,
    tight=({"max_size": 50, "overlap": 1}, {"max_size": 50, "overlap": 49, "max_tokens": 5}),
    overlaps=True,
)


FIVE = "One is here. Two is here. Three is here. Four is here. Five is here."
A, B, C = (f"{letter} is the first of these. {letter} is the second of these." for letter in "ABC")
ABC = f"{A}\n\n{B}\n\n{C}"


def test_units_are_packed_into_windows() -> None:
    for plugin, options, text, expected in [
        (FIXED, {"size": 4}, "one two three four five six seven", ["one two three four", "five six seven"]),
        (
            FIXED, {"size": 4, "overlap": 2}, "one two three four five six",
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
            SENTENCE, {"max_sentences": 3, "overlap": 2, "max_tokens": 8}, FIVE,
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
            PARAGRAPH, {"max_paragraphs": 1, "overlap": 0, "min_tokens": 3}, "a\n\nb\n\nc\n\nd",
            ["a\n\nb", "c\n\nd"],
        ),
        (HYBRID, {"max_size": 120, "overlap": 0}, ABC, [f"{A}\n\n{B}", C]),
        (HYBRID, {"max_size": 120, "overlap": 40}, ABC, [f"{A}\n\n{B}", f"{B[25:]}\n\n{C}"]),
        (HYBRID, {"max_size": 120, "overlap": 24}, ABC, [f"{A}\n\n{B}", C]),
        (HYBRID, {"max_size": 60, "overlap": 0}, f"{A} {B}", [A, B]),
        (HYBRID, {"max_size": 60, "overlap": 30}, f"{A} {B}", [A, f"{A[25:]} {B[:24]}", B]),
    ]:  # fmt: skip
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


def test_no_limit_but_the_number_of_sentences() -> None:
    (chunk,) = cut(SENTENCE, essay(2), max_tokens=None)
    assert chunk.text == essay(2)


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
    chunks = cut(HYBRID, text, max_size=size, overlap=0)
    lose_nothing(text, ((chunk.start, chunk.end) for chunk in chunks))


TestRecursive = laws(
    RECURSIVE,
    {"size": 30},
    tight=({"size": 4}, {"size": 5, "min_tokens": 2}, {"size": 8, "min_tokens": 4}),
    limited={"size": 40, "min_tokens": 12, "max_tokens": 40},
)
TestRecursiveWithOverlap = laws(
    RECURSIVE,
    {"size": 40, "overlap": 15},
    tight=({"size": 4, "overlap": 1}, {"size": 5, "overlap": 4}),
    overlaps=True,
)


def test_spans_equal_those_of_langchain() -> None:
    for options, text, expected in [
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
    ]:
        assert [chunk.text for chunk in cut(RECURSIVE, text, **options)] == expected


def test_pack_that_counts_more_than_its_parts_gives_its_last_to_the_next() -> None:
    text = "A b c d survivors of the storm were"  # " survivors" is one token, "survivors" three
    texts = [chunk.text for chunk in cut(RECURSIVE, text, size=4)]
    assert texts == ["A b c d", "survivors of", "the storm were"]


def test_size_without_fitting_separator_holds() -> None:
    chunks = cut(RECURSIVE, "x " * 500, size=50, separators=("\n\n",))
    assert max(TOKENS.count(chunk.text) for chunk in chunks) <= 50


@pytest.mark.parametrize("name", ["state_of_the_union", "wikitexts", "chatlogs"])
@pytest.mark.parametrize(("size", "overlap"), [(200, 0), (256, 25), (200, 40), (50, 0)])
def test_spans_are_those_of_langchain(name: str, size: int, overlap: int) -> None:
    chunks = cut(RECURSIVE, corpus(name), size=size, overlap=overlap)
    assert [(chunk.start, chunk.end) for chunk in chunks] == langchain_spans(f"{name}-{size}-{overlap}")


@pytest.mark.parametrize(
    ("name", "count"), [("state_of_the_union", 325), ("wikitexts", 838), ("chatlogs", 223)]
)
def test_pieces_of_fifty_tokens_are_as_many_as_the_report_has(name: str, count: int) -> None:
    text = corpus(name)
    packs = pack(text, (0, len(text)), TOKENS, 50, 0, SEPARATORS)
    assert len(limit(text, packs, TOKENS, None, 50)) == count


def test_large_paragraph_of_another_strategy_is_cut_between_sentences() -> None:
    for sentence, ends in [
        ("It was long, but clear. Nobody asked about v1.2 or www.example.org, e.g. its name. ", (".",)),
        ("他说：「我不去。」然后就走了。你要一起来吗？", ("。」", "。", "？")),
        ("one.two" * 4 + " ", ("one.two",)),
    ]:
        text = (sentence * 20).strip()
        parts = [text[start:end] for start, end in split_large(text, [(0, len(text))], TOKENS, 50)]
        assert len(parts) > 2 and all(part.endswith(ends) for part in parts), sentence


TestDynamic = laws(
    DYNAMIC,
    {"min_tokens": 12, "max_tokens": 40},
    tight=(
        {"min_tokens": 1, "max_tokens": 4},
        {"min_tokens": 2, "max_tokens": 5},
        {"min_tokens": 4, "max_tokens": 8},
    ),
)


PARAGRAPHS = "Alpha one two three.\n\nBeta one two three."
CLAUSES = ["Alpha one two three, beta one two three,", "gamma one two three, delta one two three"]
WORDS = ["one two three four five", "six seven eight nine"]


def test_best_pause_is_taken() -> None:
    for least, most, text, expected in [
        (4, 8, PARAGRAPHS, ["Alpha one two three.", "Beta one two three."]),
        (4, 8, PARAGRAPHS.replace("\n\n", " "), ["Alpha one two three.", "Beta one two three."]),
        (4, 11, " ".join(CLAUSES), CLAUSES),
        (4, 8, " ".join(WORDS), WORDS),
        (4, 30, PARAGRAPHS, [PARAGRAPHS]),
        (2, 9, "a b c. d e f. g h i. j", ["a b c. d e f.", "g h i. j"]),
    ]:
        assert [chunk.text for chunk in cut(DYNAMIC, text, min_tokens=least, max_tokens=most)] == expected


@searching
@given(st.integers(1, 60), st.integers(10, 60))
def test_no_chunk_of_prose_is_under_the_minimum(paragraphs: int, least: int) -> None:
    text = essay(paragraphs)
    sizes = [TOKENS.count(chunk.text) for chunk in cut(DYNAMIC, text, min_tokens=least, max_tokens=2 * least)]
    assert min(sizes) >= min(least - 1, TOKENS.count(text))
    assert max(sizes) <= 2 * least


@pytest.mark.parametrize("least", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("unit", ["擦拭水泵、清洗过滤网、检查水位、", "𒀀𒀁𒀂", "ต้องเติมน้ำสะอาด", "𠮷野家。🜁🜂"])
def test_dynamic_letters_of_several_tokens_keep_both_limits(unit: str, least: int) -> None:
    most = max(2 * least, 8)
    sizes = [TOKENS.count(chunk.text) for chunk in cut(DYNAMIC, unit * 40, min_tokens=least, max_tokens=most)]
    assert min(sizes) >= least
    assert max(sizes) <= most


PASSAGE = {"name": "passage", "unit": "paragraph", "max_tokens": 120}
LEVELS = [PASSAGE, {"name": "sentences", "unit": "sentence", "max_tokens": 40}]


class TestHierarchical(ChunkerLaws):
    plugin = HIERARCHICAL
    options: ClassVar[Options] = {"levels": LEVELS}

    def may_join(self, first: Chunk, second: Chunk) -> bool:
        return dict(first.extra)["parent_index"] == dict(second.extra)["parent_index"]


def by_parent(chunks: tuple[Chunk, ...]) -> dict[tuple[int, int, int], list[Chunk]]:
    families = defaultdict(list)
    for chunk in chunks:
        extra = dict(chunk.extra)
        families[extra["parent_index"], extra["parent_start"], extra["parent_end"]].append(chunk)
    return families


@pytest.mark.parametrize("options", [{}, {"levels": LEVELS}, {"max_tokens": 30}])
def test_children_together_are_their_parent(options: Options) -> None:
    text = essay(50)
    families = by_parent(cut(HIERARCHICAL, text, **options))
    assert [number for number, _, _ in families] == list(range(len(families)))
    for (_, start, end), children in families.items():
        joined = "".join("".join(child.text.split()) for child in children)
        assert joined == "".join(text[start:end].split())


def test_each_level_keeps_its_size_and_lies_within_the_one_above() -> None:
    text = essay(50)
    chunks = cut(HIERARCHICAL, text)
    assert len(by_parent(chunks)) > 5
    for chunk in chunks:
        extra = dict(chunk.extra)
        (section, _, *outer), (passage, number, *inner) = json.loads(str(extra["parents"]))
        assert (section, passage) == ("section", "passage")
        assert (extra["level"], extra["parent_level"]) == ("sentences", "passage")
        assert [extra["parent_start"], extra["parent_end"], extra["parent_index"]] == [*inner, number]
        assert outer[0] <= inner[0] <= chunk.start < chunk.end <= inner[1] <= outer[1]
        sizes = [TOKENS.count(text[slice(*span)]) for span in (outer, inner, (chunk.start, chunk.end))]
        assert [size <= most for size, most in zip(sizes, (1500, 400, 100), strict=True)] == [True] * 3


def test_small_children_never_join_those_of_another_parent() -> None:
    text = "\n\n".join(f"Paragraph {number} is short." for number in range(40))
    levels = [{**LEVELS[0], "max_tokens": 20}, {**LEVELS[1], "max_tokens": 20}]
    alone = cut(HIERARCHICAL, text, levels=levels)
    joined = cut(HIERARCHICAL, text, levels=levels, min_tokens=20)
    assert by_parent(joined).keys() == by_parent(alone).keys()
    assert len(by_parent(alone)) > 10
