"""The changes of a listing, found while the listing is read.

Memory holds eight bytes for each listed document, the keys that vanished, and a page of changed items.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ingestor.core.decisions import Changes, Scope
from ingestor.core.listings.key_set import KeySet
from ingestor.model import INSIDE, Item

_PAGE = 5000  # items that differ


class Versions(Protocol):
    """Versions of documents that a source had, by key. Any thread."""

    def of(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Return the known versions of these keys, skipping unknown keys."""
        ...

    def below(self, under: str) -> Mapping[str, str]:
        """Return the versions at and below a key; "" is every key."""
        ...


class KnownVersions(Versions, Protocol):
    """The versions that a source had in one edition."""

    def keys(self, under: Sequence[str]) -> Iterator[str]:
        """Yield the known keys at and below these keys, of which none lies below another."""
        ...

    def count(self) -> int:
        """Return the number of documents in the whole source."""
        ...


class VersionTable:
    """KnownVersions that are in memory."""

    def __init__(self, versions: Mapping[str, str]) -> None:
        self._versions, self._keys = versions, sorted(versions)

    def of(self, keys: Sequence[str]) -> Mapping[str, str]:
        return {key: self._versions[key] for key in keys if key in self._versions}

    def below(self, under: str) -> Mapping[str, str]:
        return {key: self._versions[key] for key in self.keys([under])}

    def keys(self, under: Sequence[str]) -> Iterator[str]:
        for top in under:
            if top == "":
                yield from self._keys
                continue
            yield from self.of([top])
            first, end = (bisect_left(self._keys, top + mark) for mark in "/0")  # 0 follows /
            yield from self._keys[first:end]

    def count(self) -> int:
        return len(self._versions)


class Differing(NamedTuple):
    """A listed item that is new, or of another version."""

    item: Item
    at: int  # how many items were listed before it
    new: bool


class DifferingPages(Protocol):
    """Pages of differing items, in the order in which they are added; a list is such pages."""

    def append(self, page: list[Differing], /) -> None: ...
    def __getitem__(self, number: int, /) -> list[Differing]: ...
    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class ListingChanges:
    """The changes of a finished listing in one edition."""

    pages: DifferingPages
    vanished: tuple[str, ...]  # keys
    appeared: int  # how many documents are new
    listed: int
    repeated: KeySet | None = None  # all keys, if some were listed twice

    def changed(self) -> Iterator[Item]:
        """Yield the items that are new or have another version."""
        for number in range(len(self.pages)):
            yield from self._page(number)

    @property
    def parts(self) -> int:
        return max(1, len(self.pages))

    def part(self, number: int) -> Changes:
        """Return a part of the changes; parts are applied one after another.

        The first part has all vanished keys: a document must not be read under its new name while the journal
        has its old name.
        """
        changed = self._page(number) if self.pages else []
        return Changes(changed, () if number else self.vanished)

    def _page(self, number: int) -> list[Item]:
        return [one.item for one in _first(self.pages[number], self.repeated)]


class ListingComparison:
    """A listing under way, compared with the items that one edition knows.

    Of a key that is listed twice the first counts. ``pages``: holds what differs.
    """

    def __init__(self, known: KnownVersions, pages: DifferingPages) -> None:
        self._known, self._pages = known, pages
        self._listed = KeySet()
        self._page: list[Differing] = []
        self._number = self._new = 0

    def add(self, items: Sequence[Item]) -> None:
        """The next items of the listing."""
        versions = self._known.of([item.key for item in items])
        for item in items:
            version = versions.get(item.key)
            if version is None and is_as_known(item):
                continue  # it is listed only because another edition knows it
            if version != item.version:
                self._page.append(Differing(item, self._number, version is None))
                self._new += version is None
                if len(self._page) >= _PAGE:
                    self._turn()
            self._listed.add(item.key)
            self._number += 1

    def _turn(self) -> None:
        self._pages.append(self._page)
        self._page = []

    def changes(self, scope: Scope) -> ListingChanges:
        """Return the changes, after the last item. ``scope``: the part that was listed."""
        if self._page:
            self._turn()
        listed, appeared = len(self._listed), self._new
        repeated = self._listed if listed < self._number else None
        if repeated is not None:
            kept = (_first(self._pages[number], repeated) for number in range(len(self._pages)))
            appeared = sum(one.new for page in kept for one in page)
        vanished = filter(scope.covers, self._listed.absent(self._known.keys(scope.under)))
        return ListingChanges(self._pages, tuple(vanished), appeared, listed, repeated)


def _first(page: list[Differing], repeated: KeySet | None) -> list[Differing]:
    """Drop items whose key was listed before."""
    if repeated is None:
        return page
    first = repeated.first([one.item.key for one in page])
    return [one for one, at in zip(page, first, strict=True) if one.at == at]


def is_as_known(item: Item) -> bool:
    """Whether an item is a known member of a container that was not opened: its size and time are missing."""
    return INSIDE in item.key and item.size is None
