"""What differs in a listing, on disk."""

import os
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.core.listings import Differing
from ingestor.model import Item
from ingestor.state.sources import PageStore

ITEMS = st.builds(
    Item, st.text(), st.text(), st.text(), st.none() | st.integers(), st.none() | st.floats(allow_nan=False),
    st.lists(st.tuples(st.text(), st.none() | st.booleans() | st.text())).map(tuple),
)  # fmt: skip
DIFFERING = st.builds(Differing, ITEMS, st.integers(0), st.booleans())
A, B, C = (
    Differing(Item(name, "1", f"/{name}"), at, new=True) for at, name in enumerate(["a", "b" * 99, "c"])
)


@given(st.lists(st.lists(DIFFERING)))
def test_page_store_is_a_list_of_pages(pages: list[list[Differing]]) -> None:
    store = PageStore()
    for page in pages:
        store.append(page)
    assert len(store) == len(pages)
    assert [store[number] for number in reversed(range(len(store)))] == pages[::-1]
    for number in (-1, len(pages)):
        with pytest.raises(IndexError):
            store[number]


def test_page_that_did_not_fit_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    store = PageStore()
    store.append([A])
    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", filling(os.pwrite))
        with pytest.raises(OSError, match="full"):
            store.append([B])
    store.append([C])
    assert [store[0], store[1]] == [[A], [C]]


def filling(pwrite: Callable[[int, bytes, int], int]) -> Callable[[int, bytes, int], int]:
    """The disk takes ten bytes more."""
    left = [10]

    def write(file: int, data: bytes, at: int) -> int:
        if not left:
            raise OSError("full")
        return pwrite(file, data[: left.pop()], at)

    return write
