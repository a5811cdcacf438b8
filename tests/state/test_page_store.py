"""What differs in a listing, on disk."""

import os
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.model import Item
from ingestor.state.listings.page_store import PageStore

ITEMS = st.builds(Item, st.text(), st.text(), st.text(), st.none() | st.integers(), st.none() | st.floats())


@given(st.lists(st.lists(ITEMS)))
def test_it_is_a_list_of_pages(pages: list[list[Item]]) -> None:
    store = PageStore[Item]()
    for page in pages:
        store.append(page)
    assert len(store) == len(pages)
    assert repr([store[number] for number in reversed(range(len(store)))]) == repr(
        pages[::-1]
    )  # nan is not nan
    for number in (-1, len(pages)):
        with pytest.raises(IndexError):
            store[number]


def test_a_page_that_did_not_fit_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    store = PageStore[str]()
    store.append(["a"])
    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", filling(os.pwrite))
        with pytest.raises(OSError, match="full"):
            store.append(["b" * 100])
    store.append(["c"])
    assert [store[0], store[1]] == [["a"], ["c"]]


def filling(pwrite: Callable[[int, bytes, int], int]) -> Callable[[int, bytes, int], int]:
    """The disk takes ten bytes more."""
    left = [10]

    def write(file: int, data: bytes, at: int) -> int:
        if not left:
            raise OSError("full")
        return pwrite(file, data[: left.pop()], at)

    return write
