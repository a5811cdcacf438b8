"""Where a reader that goes through a text part by part begins anew."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from ingestor.model import Block, Document
from ingestor.text.sections import anchors, ranks, stretches

levels = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=60)


@given(levels, st.integers(1, 12))
def test_anchors_are_the_best_of_their_neighbourhood(found: list[tuple[int, int]], reach: int) -> None:
    chosen = anchors(found, [1] * len(found), reach)
    naive = [
        at
        for at in range(reach, len(found) - reach + 1)
        if at < len(found)
        and all(
            found[at] > found[other]
            for other in range(max(0, at - reach), min(len(found), at + reach + 1))
            if other != at
        )
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


@settings(max_examples=20)
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
