"""Limits in tokens, for any list of spans."""

from hypothesis import given
from hypothesis import strategies as st

from ingestor.text.limits import SMALLEST, Ruler, limit, windows
from ingestor.text.spans import Span, union
from tests.chunkers.laws import TOKENS

PIECES = [
    "one", " two", ". ", "\n\n", "字", "水耕栽培。", "👩‍👩‍👧", "e\u0301", "𒀀", "   ", "naïve", "x" * 30,
    "\u200b",
]  # fmt: skip
pieces = st.lists(st.sampled_from(PIECES), max_size=60)


def shown(text: str, spans: list[Span]) -> list[str]:
    return [text[start:end] for start, end in spans]


def spans_of(parts: list[str]) -> tuple[str, list[Span]]:
    """A text of these parts, a blank between, and where they are."""
    spans, at = [], 0
    for part in parts:
        spans.append((at, at + len(part)))
        at += len(part) + 1
    return " ".join(parts), spans


def test_limit_joins_small_and_cuts_large_spans() -> None:
    for parts, least, most, expected in [
        (["a b c", "d e"], None, None, ["a b c", "d e"]), (["a b c d e f"], None, 4, ["a b c d", "e f"]),
        (["A b c. D e"], None, 5, ["A b c.", "D e"]),
        (["ab. cd efgh ij kl mn op"], None, 6, ["ab. cd efgh ij", "kl mn op"]),
        (["a", "b c d e"], 3, None, ["a b c d e"]), (["a b c", "d"], 3, None, ["a b c d"]),
        (["a b c", "d", "e f g"], 3, 6, ["a b c", "d e f g"]),
        (["a b c", "d", "e f g h i j"], 3, 6, ["a b c d", "e f g h i j"]),
        (["a b c d e f", "g", "h i j k l m"], 3, 6, ["a b c d e f", "g", "h i j k l m"]),
        (["a", "b", "c", "d", "e"], 2, 3, ["a b", "c d e"]), (["a"], 9, None, ["a"]),
        (["  ", "a"], 9, 9, ["a"]), ([], 1, 4, []),
    ]:  # fmt: skip
        text, spans = spans_of(parts)
        assert shown(text, limit(text, spans, TOKENS, least, most)) == expected


def test_overlapping_spans_stay_ordered_and_join_as_one() -> None:
    text = "a b c d e f g h"
    assert limit(text, [(0, 5), (4, 7), (6, 15)], TOKENS, 4, 20) == [(0, 7), (6, 15)]


def test_maximum_holds_where_two_texts_have_more_tokens_together() -> None:
    text = "scenariostarting"  # 1 + 1 tokens apart, 6 together
    assert max(TOKENS.counts(shown(text, limit(text, [(0, 8), (8, 16)], TOKENS, 4, 4)))) <= 4


def test_span_within_the_one_before_is_omitted() -> None:
    assert limit("a b c  ", [(0, 5), (2, 6), (4, 7)], TOKENS, None, None) == [(0, 5)]


@given(pieces, st.integers(SMALLEST, 12), st.integers(1, 12))
def test_maximum_holds_always_the_minimum_where_it_can(parts: list[str], most: int, least: int) -> None:
    text, spans = spans_of(["".join(parts[at : at + 5]) for at in range(0, len(parts), 5)])
    found = limit(text, spans, TOKENS, min(least, most), most)
    sizes = TOKENS.counts(shown(text, found))
    assert all(size <= most for size in sizes)
    assert "".join("".join(shown(text, found)).split()) == "".join(text.split())
    for first, second, size, other in zip(found, found[1:], sizes, sizes[1:], strict=False):
        if min(size, other) < min(least, most):
            start, end = union(first, second)
            assert TOKENS.count(text[start:end]) > most


@given(pieces, st.integers(5, 40), st.integers(1, 30), st.integers(SMALLEST, 12), st.integers(1, 12))
def test_overlapping_spans_keep_order(parts: list[str], step: int, back: int, most: int, least: int) -> None:
    text = "".join(parts)
    spans = [(max(at - back, 0), min(at + step, len(text))) for at in range(0, len(text), step)]
    found = limit(text, spans, TOKENS, min(least, most), most)
    assert [start for start, _ in found] == sorted(start for start, _ in found)
    assert [end for _, end in found] == sorted({end for _, end in found})
    assert all(size <= most for size in TOKENS.counts(shown(text, found)))
    covered = {at for start, end in found for at in range(start, end)}
    assert all(at in covered for at, character in enumerate(text) if character.strip())


@given(pieces, st.integers(SMALLEST, 12), st.integers(0, 3), st.booleans())
def test_windows_hold_the_size_and_cover_all(parts: list[str], size: int, overlap: int, soft: bool) -> None:
    text = "".join(parts)
    found = limit(text, windows(text, (0, len(text)), TOKENS, size, overlap, soft=soft), TOKENS, None, None)
    assert all(count <= size for count in TOKENS.counts(shown(text, found)))
    at = 0
    for start, end in found:
        assert not text[at:start].strip()
        assert end > at
        at = end
    assert not text[at:].strip()


def test_code_point_of_four_tokens_is_not_torn() -> None:
    text = "𒀀𒀁𒀂" * 5
    found = list(windows(text, (0, len(text)), TOKENS, SMALLEST))
    assert "".join(shown(text, found)) == text


def test_ruler_measures_parts_of_its_span() -> None:
    text = "ignored one two three"
    ruler = Ruler(text, (8, len(text)), TOKENS)
    assert [ruler.index(8), ruler.index(11), ruler.index(99)] == [0, 1, 3]
    assert [ruler.at(0), ruler.at(1), ruler.at(3)] == [8, 11, len(text)]
    assert ruler.size((11, len(text))) == 2
