"""Sections of a document, and the anchors where one that reads a text part by part begins anew."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.model import Block, Document
from ingestor.text.sections import anchors, headings, ranks, sections, stretches, units


def test_labels_before_a_heading_begin_its_section() -> None:
    blocks = (Block("paragraph", 0, 2), Block("label", 3, 8), Block("heading", 9, 14, level=2))
    (heading,) = headings(Document("So\n_one:\nTitle", blocks))
    assert (heading.start, heading.end, heading.level) == (3, 14, 2)


A = "\\section{A}\na"
B = "\\subsection{B}\nb"
C = "\\section{C}\n\\subsection{D}\nd"
D = "\\section{E}"


@pytest.mark.parametrize(
    ("depth", "expected"),
    [
        (9, ["intro", A, B, C, D]),
        (2, ["intro", A, B, C, D]),
        (1, ["intro", f"{A}\n{B}", C, D]),
    ],
)
def test_sections_down_to_a_depth_and_those_without_a_body(depth: int, expected: list[str]) -> None:
    text = "\n".join(["intro", A, B, C, D])
    blocks = tuple(
        Block("heading", match.start(), match.end(), level=2 if match[1] else 1)
        for match in re.finditer(r"\\(sub)?section\{.\}", text)
    )
    document = Document(text, blocks)
    assert [text[start:end] for start, end in sections(document, depth)] == expected


def test_document_without_headings_is_one_section() -> None:
    assert sections(Document("a\n\nb"), 3) == [(0, 4)]
    assert sections(Document(" "), 3) == []


def test_units_are_blocks_and_what_lies_between_them() -> None:
    text = "a (left out) b"
    assert units(Document(text, (Block("paragraph", 0, 1), Block("paragraph", 13, 14)))) == [
        (0, 12),
        (13, 14),
    ]
    assert units(Document("a\n\nb")) == [(0, 1), (3, 4)]
    assert units(Document("")) == []


levels = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=60)


@given(levels, st.integers(1, 12))
def test_anchors_are_the_best_of_their_neighbourhood(found: list[tuple[int, int]], reach: int) -> None:
    chosen = anchors(found, [1] * len(found), reach)
    naive = [
        at
        for at in range(reach, min(len(found), len(found) - reach + 1))
        if all(found[at] > other for other in found[max(0, at - reach) : at] + found[at + 1 : at + reach + 1])
    ]
    assert chosen == naive
    assert all(later - earlier > reach for earlier, later in pairwise(chosen))


@given(levels, levels, levels, st.integers(1, 8))
def test_edit_moves_only_anchors_near_it(
    before: list[tuple[int, int]], old: list[tuple[int, int]], after: list[tuple[int, int]], reach: int
) -> None:
    def seen(middle: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
        parts = [*before, *middle, *after]
        found = anchors(parts, [1] * len(parts), reach)
        end = len(before) + len(middle)
        early = [at for at in found if at < len(before) - reach]
        return early, [at - end for at in found if at >= end + reach]

    assert seen(old) == seen([*old, (3, 100), (0, 0)])


@given(st.lists(st.integers(1, 30), min_size=1, max_size=80), st.integers(20, 60))
def test_stretches_are_all_parts_in_order(sizes: list[int], reach: int) -> None:
    text = " ".join("x" * size for size in sizes)
    starts = [sum(sizes[:at]) + at for at in range(len(sizes))]
    parts = [(start, start + size) for start, size in zip(starts, sizes, strict=True)]
    found = stretches(Document(text), parts, sizes, reach)
    assert [at for first, end in found for at in range(first, end)] == list(range(len(sizes)))


def test_empty_text_has_no_stretches() -> None:
    assert stretches(Document(""), [], [], 10) == []


def test_short_text_is_one_stretch() -> None:
    document = Document("# A\n\nb\n\n# C\n\nd", (Block("heading", 0, 3, 1), Block("heading", 8, 11, 1)))
    assert stretches(document, [(0, 3), (5, 6), (8, 11), (13, 14)], [5, 5, 5, 5], 20) == [(0, 4)]


def test_outer_headings_come_before_inner_ones_and_these_before_paragraphs() -> None:
    text = "# A\n\nb c\n\n## D\n\ne"
    document = Document(text, (Block("heading", 0, 3, 1), Block("heading", 10, 14, 2)))
    found = ranks(document, [(0, 3), (5, 6), (7, 8), (10, 14), (16, 17)])
    first, paragraph, within, second, last = (importance for importance, _ in found)
    assert first > second > paragraph == last > within
