"""Pieces: complete, ordered, within their size, and soon the same again after an edit."""

import random
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ingestor.text.pieces import pieces
from ingestor.text.spans import Span
from tests.chunkers.laws import TOKENS, lose_nothing, odd_texts, texts
from tests.examples import examples

WORDS = ["the", "river", "was", "low", "every", "boat", "lay", "on", "mud", "except", "ours"]


def cut(text: str, size: int = 50) -> list[str]:
    return [text[start:end] for start, end in pieces(text, TOKENS, size)]


@examples(100)
@example("".join(chr(0x4E00 + 37 * n % 5000) for n in range(200)), 20)
@given(texts | odd_texts, st.integers(4, 60))
def test_pieces_are_complete_ordered_and_small(text: str, size: int) -> None:
    lose_nothing(text, pieces(text, TOKENS, size))
    assert all(each == each.strip() and TOKENS.count(each) <= size for each in cut(text, size))


BORDERS = [
    (50, "One.\n\nTwo.\n\nThree.", ["One.\n\nTwo.\n\nThree."]),
    (6, "One and two.\n\nFour and five.", ["One and two.", "Four and five."]),
    (6, "One and two\nor three\nor four", ["One and two\nor three", "or four"]),
    (7, "One and two, or three. Four and five?", ["One and two, or three.", "Four and five?"]),
    (6, "One and two and three, or four and five", ["One and two and three,", "or four and five"]),
    (6, "one and two and three and four", ["one and two and three and", "four"]),
    (10, "Mr. Brown and Mrs. Green walked. They talked", ["Mr. Brown and Mrs. Green walked.", "They talked"]),
    (9, "一二三。四五六。七八九。", ["一二三。四五六。", "七八九。"]),
]


@pytest.mark.parametrize(("size", "text", "expected"), BORDERS)
def test_cuts_are_at_the_coarsest_border_that_serves(size: int, text: str, expected: list[str]) -> None:
    assert cut(text, size) == expected


WRAPPED = """\
The film must stay thin, for roots that are under
water for long can't breathe. If the pump stops on
a hot day, it is dry within an hour."""
LISTED = """\
The film must stay thin, for roots that are under
- water for long can't breathe; If the pump stops on
- a hot day, it is dry within an hour"""


def test_wrapped_line_is_no_border_but_an_item_of_a_list_is() -> None:
    sentence = WRAPPED.index("If")
    assert cut(WRAPPED, 24) == [WRAPPED[: sentence - 1], WRAPPED[sentence:]]
    assert cut(LISTED, 16) == LISTED.split("\n")


def test_lines_of_a_sentence_that_is_too_long_are_borders_after_all() -> None:
    text = "\n".join(["value of the next register plus one is stored into it"] * 4)
    assert cut(text, 24) == ["\n".join(text.split("\n")[:2])] * 2


def test_no_piece_reaches_across_a_break() -> None:
    text = "A little before. # Heading\nand a little after."
    at = text.index("#")
    assert pieces(text, TOKENS, 50, [at]) == [(0, at - 1), (at, len(text))]


def test_packs_are_filled() -> None:
    """Content-defined ends cost little: pieces of short lines are nearly as full as they can be."""
    sizes = TOKENS.counts(cut(lines(2000)))
    assert sum(sizes) / len(sizes) > 35


def lines(count: int) -> str:
    """Lines of one length, so that a greedy packing that lost its step would never find it again."""
    generator = random.Random(5)
    return "\n".join(" ".join(generator.choices(WORDS, k=9)) for _ in range(count))


def sentences(count: int) -> str:
    """One paragraph."""
    return lines(count).replace("\n", ". ")


def words(count: int) -> str:
    """One sentence."""
    return lines(count).replace("\n", " ")


def unspaced(count: int) -> str:
    generator = random.Random(6)
    return "".join(chr(generator.randrange(0x4E00, 0x9FFF)) for _ in range(count * 8))


REACH = {lines: 16_000, sentences: 16_000, words: 16_000, unspaced: 2_500}  # code points
"""A good dozen times the 256 tokens that are between content-defined ends on average."""


@cache
def long_text(make: Callable[[int], str]) -> tuple[str, list[Span]]:
    text = make(1200)
    return text, pieces(text, TOKENS, 50)


@pytest.mark.slow
@pytest.mark.parametrize("make", REACH)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.differing_executors])
@given(data=st.data(), gone=st.integers(0, 200), new=texts)
def test_pieces_far_from_an_edit_stay(
    make: Callable[[int], str], data: st.DataObject, gone: int, new: str
) -> None:
    (text, before), reach = long_text(make), REACH[make]
    assert len(text) > 3 * reach
    at = data.draw(st.integers(0, len(text) - gone))
    shift = len(new) - gone
    after = pieces(text[:at] + new + text[at + gone :], TOKENS, 50)
    assert [s for s in before if s[1] < at - reach] == [s for s in after if s[1] < at - reach]
    far = at + gone + reach
    kept = [(start + shift, end + shift) for start, end in before if start > far]
    assert kept == [s for s in after if s[0] > far + shift]


def test_edited_word_in_prose_makes_one_or_two_new_pieces() -> None:
    paragraphs = [sentences(3 + number % 5) + f" ({number})." for number in range(500)]
    before = set(cut("\n\n".join(paragraphs)))
    paragraphs[250] = paragraphs[250].replace("(250)", "(edited)")
    after = cut("\n\n".join(paragraphs))
    assert len(after) > 500
    assert 1 <= sum(piece not in before for piece in after) <= 2
