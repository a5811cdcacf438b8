"""Spans, and where a text may be cut."""

import regex
from hypothesis import given
from hypothesis import strategies as st

from ingestor.model import Chunk
from ingestor.text import spans

SCOTLAND = "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"
FAMILY = "👩‍👩‍👧"


def test_trim_removes_whitespace_at_both_ends() -> None:
    assert spans.trim("  ab ", (0, 5)) == (2, 4)
    assert spans.trim("ab", (0, 2)) == (0, 2)
    assert spans.trim(" \n\t", (0, 3)) == spans.trim("", (0, 0)) == (0, 0)
    assert spans.trim("x  y", (1, 3)) == (1, 1)
    assert spans.trim("\u3000字\u00a0", (0, 3)) == (1, 2)
    assert spans.trim_all(" a  b ", [(0, 3), (3, 4), (4, 6)]) == [(1, 2), (4, 5)]


def test_split_cuts_a_span_at_inner_places() -> None:
    assert spans.split((0, 9), [3, 6]) == [(0, 3), (3, 6), (6, 9)]
    assert spans.split((2, 5), [0, 2, 3, 5, 8]) == [(2, 3), (3, 5)]
    assert spans.split((2, 5), []) == [(2, 5)]


def test_union_spans_both() -> None:
    assert spans.union((0, 3), (5, 9)) == spans.union((0, 5), (3, 9)) == spans.union((0, 9), (3, 5)) == (0, 9)


def test_inside_clips_spans_to_the_whole() -> None:
    all_ = [(1, 4), (6, 8), (8, 12)]
    assert spans.inside(all_, (0, 20)) == all_
    assert spans.inside(all_, (2, 7)) == [(2, 4), (6, 7)]
    assert spans.inside(all_, (4, 6)) == spans.inside(all_, (12, 20)) == []
    assert spans.inside(all_, (8, 9)) == [(8, 9)]


def test_owner_is_the_range_that_contains_a_position() -> None:
    assert [spans.owner([1, 5], at) for at in (0, 1, 4, 5, 99)] == [-1, 0, 0, 1, 1]


def test_chunks_have_the_text_of_their_spans() -> None:
    assert spans.chunks("abcd", [(0, 1), (2, 4)]) == (Chunk(0, 1, "a"), Chunk(2, 4, "cd"))


def test_boundaries_split_no_user_perceived_character() -> None:
    for text, boundaries in [
        ("abc", [0, 1, 2, 3]), ("a\r\nb\n\r", [0, 1, 3, 4, 5, 6]), ("e\u0301a\u0323\u0302", [0, 2, 5]),
        (FAMILY + "x", [0, 5, 6]), ("👍🏽👍", [0, 2, 3]), ("🇫🇷🇩🇪🇮", [0, 2, 4, 5]),
        (SCOTLAND + "a", [0, 7, 8]), ("☃\ufe0f!", [0, 2, 3]), ("\u1112\u1161\u11ab\u1100", [0, 3, 4]),
        ("क्ष", [0, 3]), ("", [0]),
    ]:  # fmt: skip
        found = [at for at in range(len(text) + 1) if spans.is_boundary(text, at)]
        assert found == boundaries
        assert sorted(set(spans.clusters(text, (0, len(text))))) == boundaries


@given(st.text(st.sampled_from("\U0001f1e6\U0001f1f7\u200d\u0301\u0600\U0001f468a\r\n"), max_size=12))
def test_clusters_in_runs_of_flags_are_those_of_unicode(text: str) -> None:
    starts = [match.start() for match in regex.finditer(r"\X", text)]
    assert [at for at in spans.clusters(text, (0, len(text))) if at < len(text)] == starts


def test_boundary_is_the_last_one_before_a_position() -> None:
    assert spans.boundary(f"ab{FAMILY}", 5, 0) == 2
    assert spans.boundary(f"ab{FAMILY}", 2, 0) == 2


def test_run_of_joined_characters_is_torn_rather_than_searched_for_ever() -> None:
    text = "a" + "\u0301" * 1000
    assert spans.boundary(text, 500, 0) == 500
    edges = list(spans.clusters(text, (0, len(text))))
    assert max(after - before for before, after in spans.between(edges)) <= 32


def test_break_before_prefers_sentence_ends_over_words() -> None:
    for text, low, expected in [
        ("One. Two three", 0, 4), ("One. Two three", 4, 9), ("one two three", 0, 8), ("字。字、字字", 0, 4),
        ("onetwothree", 0, None), ("v1.2.3beta", 0, None),
    ]:  # fmt: skip
        assert spans.break_before(text, len(text) - 1, low) == expected


def test_windows_of_characters_have_size_and_overlap() -> None:
    for size, overlap, soft, expected in [
        (5, 0, False, ["one t", "wo th", "ree f", "our"]),
        (5, 2, False, ["one t", " two ", "o thr", "hree ", "e fou", "our"]),
        (5, 0, True, ["one ", "two ", "three", " four"]),
    ]:
        text = "one two three four"
        found = spans.by_characters(text, (0, len(text)), size, overlap, soft=soft)
        assert [text[start:end] for start, end in found] == expected


@given(
    st.lists(st.sampled_from(["a", " ", FAMILY, "e\u0301", "🇫🇷", "\r\n", ". "]), max_size=60).map("".join),
    st.integers(4, 12),
    st.integers(0, 3),
    st.booleans(),
)
def test_windows_of_characters_cover_the_text_and_end(text: str, size: int, overlap: int, soft: bool) -> None:
    found = list(spans.by_characters(text, (0, len(text)), size, overlap, soft=soft))
    assert all(0 < end - start <= size for start, end in found)
    reached = [0, *(end for _, end in found)]
    assert reached == sorted(set(reached))
    assert all(start <= before for (start, _), before in zip(found, reached, strict=False))
    assert reached[-1] == len(text)
