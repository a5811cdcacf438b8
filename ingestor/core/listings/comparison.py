"""What a listing changes, found while it goes on.

In memory are what differs, and sixteen bytes for each document that is listed.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from ingestor.core.decisions import Changes, Scope
from ingestor.core.listings.key_set import KeySet
from ingestor.model import INSIDE, Item


class Versions(Protocol):
    """Versions of documents that a source had, by key. Any thread."""

    def of(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Of these keys those that are known."""
        ...

    def below(self, under: str) -> Mapping[str, str]:
        """At and below that key; "" is all."""
        ...


class KnownVersions(Versions, Protocol):
    """Those that a source had in one edition."""

    def keys(self, under: Sequence[str]) -> Iterator[str]:
        """At and below these keys, of which none lies below another."""
        ...

    def count(self) -> int:
        """In the whole source."""
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


class ListingComparison:
    """A listing that is under way, against what one edition knows. Of a key that is listed twice the first
    counts."""

    def __init__(self, known: KnownVersions) -> None:
        self._known = known
        self._listed = KeySet()
        self._changed: dict[str, tuple[int, Item]] = {}  # with the number of keys listed before it
        self._new = set[str]()
        self._number = 0

    def add(self, items: Sequence[Item]) -> None:
        """The next items of the listing."""
        versions = self._known.of([item.key for item in items])
        for item in items:
            version = versions.get(item.key)
            if version is None and is_as_known(item):
                continue  # it is listed only because another edition knows it
            if version != item.version and item.key not in self._changed:
                self._changed[item.key] = self._number, item
                if version is None:
                    self._new.add(item.key)
            self._listed.add(item.key)
            self._number += 1

    def changes(self, scope: Scope) -> Changes:
        """After the last item. ``scope``: what was listed."""
        listed = len(self._listed)
        if listed < self._number:
            self._drop_repeated()
        vanished = filter(scope.covers, self._listed.absent(self._known.keys(scope.under)))
        changed = tuple(item for _, item in self._changed.values())
        return Changes(changed, tuple(vanished), len(self._new), listed)

    def _drop_repeated(self) -> None:
        """Forget changes of keys that had been listed before, without a change."""
        first = self._listed.first([*self._changed])
        kept = zip(self._changed.items(), first, strict=True)
        self._changed = {key: (at, item) for (key, (at, item)), before in kept if at == before}


def is_as_known(item: Item) -> bool:
    """Whether this is a known member of a container that was not opened: its size and time are missing."""
    return INSIDE in item.key and item.size is None
