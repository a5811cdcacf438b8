"""What a listing changes: as two sets in memory would tell it, and in a bounded memory."""

import tracemalloc
from collections.abc import Iterator, Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from ingestor.core.decisions import Changes, Scope
from ingestor.core.listings.comparison import ListingComparison, VersionTable
from ingestor.core.listings.key_set import KeySet
from ingestor.core.listings.pages import pages
from ingestor.model import INSIDE, Item

KEYS = st.sampled_from(["a", "a/b", "a/b/c", "ab", "b", "b/c", f"z{INSIDE}m", "é", "c", "d"])
VERSIONS = st.sampled_from("12")
KNOWN = st.dictionaries(KEYS, VERSIONS)
ITEMS = st.builds(lambda key, version: Item(key, version, f"/{key}", 1), KEYS, VERSIONS)
EVERYTHING = Scope()
SCOPES = [EVERYTHING, Scope(("a",)), Scope(("a", "b")), Scope(unknown=("a",)), Scope(("a",), ("a/b",))]


def compared(
    known: Mapping[str, str], items: Sequence[Item], scope: Scope = EVERYTHING, size: int = 3
) -> Changes:
    comparison = ListingComparison(VersionTable(known))
    for page in pages(items, size):
        comparison.add(page)
    return comparison.changes(scope)


@given(KNOWN, st.lists(ITEMS, max_size=12), st.sampled_from(SCOPES), st.integers(1, 5))
def test_it_equals_a_comparison_of_sets(
    known: dict[str, str], items: list[Item], scope: Scope, size: int
) -> None:
    """Of a key that is listed twice, the first version counts, also where the second is the known one."""
    first = {item.key: item for item in reversed(items)}
    found = compared(known, items, scope, size)
    assert {item.key: item for item in found.changed} == {
        key: item for key, item in first.items() if known.get(key) != item.version
    }
    assert len(found.changed) == len({item.key for item in found.changed})
    assert set(found.vanished) == {key for key in known if key not in first and scope.covers(key)}
    assert (found.appeared, found.listed) == (len(first.keys() - known.keys()), len(first))


def test_what_another_edition_knows_of_a_closed_container_is_not_listed() -> None:
    member = Item(f"a.zip{INSIDE}m", "1", "/a.zip!/m")
    assert compared({}, [member]) == Changes((), (), 0, 0)
    assert compared({member.key: "1"}, [member]) == Changes((), (), 0, 1)


@given(st.lists(st.text(max_size=3)), st.lists(st.text(max_size=3)))
def test_a_key_set_is_a_set(added: list[str], others: list[str]) -> None:
    keys = KeySet()
    for key in added:
        keys.add(key)
    assert len(keys) == len({*added})
    assert list(keys.absent(others)) == [key for key in others if key not in added]
    assert keys.first(added) == [added.index(key) for key in added]


class Numbers:
    """KnownVersions that take no memory."""

    def __init__(self, number: int) -> None:
        self.number = number

    def of(self, keys: Sequence[str]) -> Mapping[str, str]:
        return {key: "1" for key in keys if int(key) < self.number}

    def below(self, under: str) -> Mapping[str, str]:
        raise NotImplementedError

    def keys(self, under: Sequence[str]) -> Iterator[str]:
        return map(str, range(self.number))

    def count(self) -> int:
        return self.number


def peak(number: int) -> int:
    """Bytes that a listing takes in which one of so many documents vanished, and nothing else changed."""
    comparison = ListingComparison(Numbers(number))
    tracemalloc.start()
    for page in pages((Item(str(n), "1", f"/a/long/path/to/{n}", n) for n in range(1, number)), 500):
        comparison.add(page)
    found = comparison.changes(Scope())
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (found.changed, found.vanished) == ((), ("0",))
    return most


def test_unchanged_documents_take_little_memory() -> None:
    few, many = 10_000, 30_000
    assert peak(many) - peak(few) < 60 * (many - few)  # bytes; a key in a set of strings takes more
