"""Compares a listing of a source with the journal, and decides which actions the listing demands.

Items are compared while the listing is read. Memory holds eight bytes for each listed document, the vanished
keys, and a page of changed items. The scanner carries out the actions in the journal. `plan` carries out the
same actions in a copy of the journal, so a sync cannot decide otherwise.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, islice
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from ingestor.core.decisions import Changes, Scope, sudden_loss
from ingestor.core.entries import SourceRow
from ingestor.model import INSIDE, Item

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Hashes = npt.NDArray[np.int64]  # shape (n,)

T = TypeVar("T")


def pages(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of ``size`` items. The last list may be shorter; no list is empty."""
    left = iter(items)
    while page := list(islice(left, size)):
        yield page


_KEYS = 4096  # keys that are compared at once


class KeySet:
    """A set of keys that needs eight bytes for each key. All keys must be added before the first query.

    The set stores Python's 64-bit hashes, which differ in each process. In a million keys two share a hash
    with a probability of one in 40 million. Then one change is overlooked until the process ends.
    """

    def __init__(self) -> None:
        self._hashes = array("q")  # in the order in which they were added
        self._different: Hashes | None = None  # sorted, each once; None after a key was added
        self._first: npt.NDArray[np.intp] | None = None  # for each, the number of keys added before

    def add(self, key: str) -> None:
        self._hashes.append(hash(key))
        self._different = self._first = None

    def update(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.add(key)

    def __len__(self) -> int:
        """Return the number of different keys in the set."""
        return len(self._sort())

    def absent(self, keys: Iterable[str]) -> Iterator[str]:
        """Yield those of the given keys that were not added to the set, in the given order."""
        import numpy as np  # here: commands that list nothing start faster

        added = self._sort()
        for page in pages(keys, _KEYS):
            hashes = _hashes(page)
            yield from compress(
                page, np.searchsorted(added, hashes) == np.searchsorted(added, hashes, "right")
            )

    def first(self, keys: Sequence[str]) -> list[int]:
        """Return for each given key its position in the order of adding, counted from 0.

        If a key was added several times, the first position counts. All given keys must have been added.
        """
        import numpy as np

        if self._first is None:
            self._different, self._first = np.unique(np.array(self._hashes, np.int64), return_index=True)
        positions: list[int] = self._first[np.searchsorted(self._sort(), _hashes(keys))].tolist()
        return positions

    def _sort(self) -> Hashes:
        import numpy as np

        if self._different is None:
            hashes = np.array(self._hashes, np.int64)
            hashes.sort()  # in place: np.unique takes twice the memory
            again = hashes[1:] == hashes[:-1]
            self._different = hashes[np.append(True, ~again)] if again.any() else hashes
        return self._different


def _hashes(keys: Sequence[str]) -> Hashes:
    import numpy as np

    return np.array([hash(key) for key in keys], np.int64)


_PAGE = 5000  # differing items in a page


class Versions(Protocol):
    """The versions of a source's documents by key, as the journal knows them. Any thread may call."""

    def of(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Return the known versions of these keys, leaving out unknown keys."""

    def below(self, under: str) -> Mapping[str, str]:
        """Return the versions of a key and of all keys below it; ``under`` "" returns all versions."""


class KnownVersions(Versions, Protocol):
    """The versions of a source's documents in one edition, as the last listing left them in the journal."""

    def keys(self, under: Sequence[str]) -> Iterator[str]:
        """Yield the known keys that are in ``under`` or below a key in it.

        No key in ``under`` may lie below another.
        """

    def count(self) -> int:
        """Return the number of documents in the whole source."""


class Differing(NamedTuple):
    """A listed item that is new, or has another version than the journal."""

    item: Item
    at: int  # how many items were listed before it
    new: bool


class DifferingPages(Protocol):
    """A sequence of pages, each with items that differ from the journal; for example a list of lists."""

    def append(self, page: list[Differing], /) -> None: ...
    def __getitem__(self, number: int, /) -> list[Differing]: ...
    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class ListingChanges:
    """The changes that a finished listing brings to one edition."""

    pages: DifferingPages
    vanished: tuple[str, ...]  # keys
    appeared: int  # how many documents are new
    listed: int
    repeated: KeySet | None = None  # all keys, if some were listed twice

    def differences(self) -> Iterator[Item]:
        """Yield the listed items that are new or have another version."""
        for number in range(len(self.pages)):
            yield from self._page(number)

    @property
    def parts(self) -> int:
        return max(1, len(self.pages))

    def part(self, number: int) -> Changes:
        """Return one part of the changes, by its number from 0. Parts are stored in the journal one after
        another.

        The first part has all vanished keys. The journal must know of them before a renamed document is read
        under its new name; otherwise the document could not adopt its old records.
        """
        changed = self._page(number) if self.pages else []
        return Changes(changed, () if number else self.vanished)

    def _page(self, number: int) -> list[Item]:
        return [one.item for one in _first(self.pages[number], self.repeated)]


class ListingComparison:
    """Compares a listing, page by page, with the documents that one edition has.

    If a key is listed twice, its first item counts. ``pages``: receives the items that differ.
    """

    def __init__(self, known: KnownVersions, pages: DifferingPages) -> None:
        self._known, self._pages = known, pages
        self._listed = KeySet()
        self._page: list[Differing] = []
        self._number = self._new = 0

    def add(self, items: Sequence[Item]) -> None:
        """Compare the next items of the listing."""
        versions = self._known.of([item.key for item in items])
        for item in items:
            version = versions.get(item.key)
            if version is None and is_as_known(item):
                continue  # only another edition knows this member
            if version != item.version:
                self._page.append(Differing(item, self._number, version is None))
                self._new += version is None
                if len(self._page) >= _PAGE:
                    self._end_page()
            self._listed.add(item.key)
            self._number += 1

    def _end_page(self) -> None:
        self._pages.append(self._page)
        self._page = []

    def changes(self, scope: Scope) -> ListingChanges:
        """Return the changes.

        Call this after the last item was added. ``scope``: the part of the source that was listed.
        """
        if self._page:
            self._end_page()
        listed, appeared = len(self._listed), self._new
        repeated = self._listed if listed < self._number else None
        if repeated is not None:
            kept = (_first(self._pages[number], repeated) for number in range(len(self._pages)))
            appeared = sum(one.new for page in kept for one in page)
        vanished = filter(scope.covers, self._listed.absent(self._known.keys(scope.under)))
        return ListingChanges(self._pages, tuple(vanished), appeared, listed, repeated)


def _first(page: list[Differing], repeated: KeySet | None) -> list[Differing]:
    """Return the items of a page without those whose key was already listed.

    ``repeated``: all listed keys.
    """
    if repeated is None:
        return page
    first = repeated.first([one.item.key for one in page])
    return [one for one, at in zip(page, first, strict=True) if one.at == at]


def is_as_known(item: Item) -> bool:
    """Return whether an item was taken from the journal: it is a member of a container that was not opened.

    Such an item has no size.
    """
    return INSIDE in item.key and item.size is None


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """The result of listing a source.

    ``changes``: the changes for each edition. ``known``: for each edition, how many documents of the source
    the journal had before. If only a part of the source was listed and no document vanished in it, the number
    is 0. ``identity``: identity of the file system at the root. ``trouble``: why the listing is incomplete;
    None if it is complete.
    """

    changes: tuple[ListingChanges, ...]
    scope: Scope
    known: tuple[int, ...]
    identity: str
    trouble: str | None = None
    more: bool = False  # see ports.PartialScan

    def losses(self) -> Iterator[tuple[int, int]]:
        """Yield the numbers of vanished and of known documents, for each edition."""
        return zip((len(changes.vanished) for changes in self.changes), self.known, strict=True)


@dataclass(frozen=True, slots=True)
class Identify:
    """Action: store the identity of the file system at the source's root, if it is a new one.

    This precedes the documents. So if the process ends in between, a later loss of the root is still noticed.
    """

    identity: str


@dataclass(frozen=True, slots=True)
class Observe:
    """Action: write one part of an edition's changes (new versions, vanished documents) into the journal."""

    edition: int  # its position in Listing.changes
    changes: ListingChanges
    part: int


@dataclass(frozen=True, slots=True)
class Conclude:
    """Action: record that a complete listing is in the journal.

    ``documents``: how many documents the source has now.
    """

    documents: int


@dataclass(frozen=True, slots=True)
class ListAgain:
    """Action: list these keys and all keys below them again, as soon as possible."""

    under: tuple[str, ...] = ("",)


@dataclass(frozen=True, slots=True)
class Hold:
    """Action: hold the source until a person accepts the loss of documents.

    ``root``: identity of the root that lacks the documents.
    """

    reason: str
    root: str


Action = Identify | Observe | Conclude | ListAgain | Hold


def reconcile(
    listing: Listing, before: SourceRow, now: SourceRow, max_loss: float, only_loses: Sequence[bool] = ()
) -> tuple[Action, ...]:
    """Return the actions that a listing demands, in the order in which they must be carried out.

    ``before``, ``now``: the source's row when the listing began and ended. If a person accepted a loss in
    between, that applies to the next listing only: the person did not see this loss. ``only_loses``: for each
    edition, whether documents are only removed from it.

    If any edition loses too many documents, the source is held for all of them. The changes of the first
    edition are stored first, because documents get the same ids in other editions as in that one.
    """
    moved_root = now.identity not in (None, listing.identity)
    if moved_root and not listing.scope.whole:  # only a complete listing shows what another root lacks
        return (ListAgain(),)
    # new documents are not added to an edition that only loses documents, so they offset no loss there
    appeared = 0 if any(only_loses) else min(changes.appeared for changes in listing.changes)
    reasons = (
        # Losses of several listings add up in the first edition alone: another may still lack documents.
        sudden_loss(vanished, appeared, known, None if at else now.documents, max_loss, moved_root)
        for at, (vanished, known) in enumerate(listing.losses())
    )
    reason = next((each for each in reasons if each is not None), None)
    if reason is not None and now.accepted and not before.accepted:
        return (ListAgain(),)
    if reason is not None and not now.may_lose(listing.identity):
        return (Hold(reason, listing.identity),)
    first = listing.changes[0]
    added = 0 if any(only_loses[:1]) else first.appeared
    last: list[Action] = [ListAgain(listing.scope.under)] if listing.more else []
    if listing.scope.whole and not listing.more:
        last = [Conclude(listing.known[0] - len(first.vanished) + added)]
    identify = [Identify(listing.identity)] if now.identity != listing.identity else []
    return *identify, *observations(listing), *last


def observations(listing: Listing) -> list[Observe]:
    """Return the actions that store all changes of a listing in the journal."""
    return [
        Observe(edition, changes, part)
        for edition, changes in enumerate(listing.changes)
        for part in range(changes.parts)
    ]
