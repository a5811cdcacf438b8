"""Slots: unchanged chunks keep theirs, changed ones replace in place, only then any is added or dropped."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.core.slots import Delta, Keys, assign, delta
from ingestor.model import Known


def known(*letters: str, unsure: str = "") -> list[Known]:
    """Slot n holds the n-th letter; "" is a slot that was never taken."""
    return [Known(n, c, c, f"{c}{n}", c in unsure) for n, c in enumerate(letters) if c]


def wanted(letters: str) -> list[Keys]:
    return [Keys(c, c) for c in letters]


@pytest.mark.parametrize(
    ("before", "after", "slots"),
    [
        (known(), "abc", [0, 1, 2]),
        (known("a", "b", "c"), "abc", [0, 1, 2]),
        (known("a", "b", "c"), "xabc", [3, 0, 1, 2]),  # inserted in front: nothing else moves
        (known("a", "b", "c"), "axc", [0, 1, 2]),  # replaced in place
        (known("a", "b", "c"), "cab", [2, 0, 1]),  # moved: only positions change
        (known("a", "b", "c"), "c", [2]),
        (known("a", "", "c"), "acx", [0, 2, 1]),  # a gap is filled before the end grows
        (known("a", "a", "b"), "baa", [2, 0, 1]),  # twins
        (known("a", "b", unsure="a"), "ab", [0, 1]),  # unsure: the slot is used, its content is not believed
        (known("a", "b"), "", []),
    ],
)
def test_assign_keeps_slots_of_unchanged_chunks(before: list[Known], after: str, slots: list[int]) -> None:
    assert assign(before, wanted(after)) == slots


def test_same_text_keeps_its_slot_when_its_vector_changes() -> None:
    before = [Known(0, "a", "v0", ""), Known(1, "b", "v1", "")]
    assert assign(before, [Keys("b", "v2"), Keys("c", "v3")]) == [1, 0]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (known("a", "b"), known("a", "b"), Delta()),
        (known("a"), known("a", "b"), Delta(add=(1,))),
        (known("a", "b"), known("a"), Delta(delete=(1,))),
        (known("a", "b"), known("a", "x"), Delta(replace=(1,))),
        (known("a", unsure="a"), known("a"), Delta(replace=(0,))),
        ([Known(0, "a", "a", "old")], [Known(0, "a", "a", "new")], Delta(patch=(0,))),
        ([Known(0, "a", "old", "m")], [Known(0, "a", "new", "m")], Delta(replace=(0,))),
    ],
)
def test_delta_lists_slots_to_add_replace_patch_and_drop(
    before: list[Known], after: list[Known], expected: Delta
) -> None:
    assert delta(before, after) == expected


LETTERS = st.text("abcd", max_size=8)
SLOT = st.tuples(st.integers(0, 12), st.sampled_from("abcd"), st.booleans())
SLOTS = st.lists(SLOT, unique_by=lambda slot: slot[0])


@given(SLOTS, LETTERS)
def test_slots_are_distinct_and_writes_are_few(slots: list[tuple[int, str, bool]], letters: str) -> None:
    before = [Known(slot, letter, letter, "m", unsure) for slot, letter, unsure in slots]
    found = assign(before, wanted(letters))
    assert len(set(found)) == len(found) == len(letters)
    after = [Known(slot, c, c, "m") for slot, c in zip(found, letters, strict=True)]
    change = delta(before, after)
    sure = [k.text_key for k in before if not k.unsure]
    kept = sum(min(sure.count(c), letters.count(c)) for c in set(letters))
    assert len(change.add) + len(change.replace) == len(letters) - kept
    assert len(change.add) == max(0, len(letters) - len(before))
    assert len(change.delete) == max(0, len(before) - len(letters))
