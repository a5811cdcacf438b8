"""A listing of a source, compared with the last listing of each edition. Runs on a worker; reads only."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ingestor.core.decisions import Changes, QueueTurns, Scope
from ingestor.core.entries import EditionName, Feed
from ingestor.core.listings.comparison import KnownVersions, ListingComparison, Versions
from ingestor.core.listings.pages import pages
from ingestor.core.reconcile import Action, Listing, Observe
from ingestor.model import INSIDE, Item, SourceName
from ingestor.pipeline.containers import outside
from ingestor.pipeline.prepare import Tools
from ingestor.ports import Connector, Identified, PartialScan, Scoped, Trackable, Transient
from ingestor.state.journal import Journal
from ingestor.state.listings import PageStore

_PAGE = 500  # items compared at once

Expand = Callable[[Iterable[Item], Versions], Iterable[Item]]


def as_listed(items: Iterable[Item], known: Versions) -> Iterable[Item]:
    """The items unchanged, for a source without containers."""
    del known
    return items


@dataclass(frozen=True, slots=True)
class Source:
    """A configured source, with the tools that prepare its documents in one edition.

    ``expand`` adds the members of archives and mails. All editions of a source have the same connector.
    ``setting``: the part of the config that decides what is listed and when; None if unknown.
    ``only_loses``: whether nothing here can make records of the edition, so that it only loses documents.
    """

    name: SourceName
    collection: EditionName
    connector: Connector
    tools: Tools
    max_loss: float = 0.5
    scan_every: float = 300.0  # seconds
    expand: Expand = as_listed
    setting: object = None
    only_loses: bool = False

    @property
    def feed(self) -> Feed:
        return Feed(self.name, self.collection)

    def moved(self, version: str, other: str) -> bool:
        """Whether items of these versions are known to be one under two keys."""
        return isinstance(self.connector, Trackable) and self.connector.same(version, other)


def want(journal: Journal, sources: Sequence[Source], leaving: Sequence[SourceName] = ()) -> None:
    """Note in the journal which editions sources feed, and by which recipes.

    ``leaving``: sources whose documents are removed.
    """
    for name in {source.name for source in sources}:
        journal.relocate(name, [source.collection for source in sources if source.name == name])
    for name in leaving:
        journal.relocate(name, [])
    for source in sources:
        for parser in () if source.only_loses else journal.parsers(source.feed):
            journal.want_recipe(source.feed, parser, source.tools.recipe(parser))


def observe(
    journal: Journal,
    source: Source,
    actions: Iterable[Action],
    remove_at: float = 0.0,
    turns: QueueTurns | None = None,
) -> None:
    """Carry out the observations among these actions in one edition of the source.

    ``remove_at``, ``turns``: see Journal.observe.
    """
    for action in actions:
        if isinstance(action, Observe):
            changes = action.all()
            if source.only_loses:
                changes = Changes(vanished=changes.vanished)
            journal.observe(source.name, source.collection, changes, remove_at, turns)


@dataclass(slots=True)
class Progress:
    """Progress of a listing, written by its worker and read by any thread."""

    since: float  # POSIX seconds
    seen: int = 0  # items so far
    at: str = ""  # key of the last one

    def note(self, item: Item) -> None:
        self.seen, self.at = self.seen + 1, item.key


def scope_of(source: Source, dirty: Iterable[str]) -> Scope:
    """The smallest scope that covers every dirty key."""
    whole = "" in dirty or not isinstance(source.connector, Scoped)
    return Scope() if whole else Scope(outermost(map(outside, dirty)))


def take(
    source: Source,
    scope: Scope,
    known: Sequence[KnownVersions],
    note: Callable[[Item], None] = lambda item: None,
) -> Listing:
    """List a source and compare it with what each edition knows of it.

    ``note``: called with each item. Raises what the connector raises, except PartialScan, which becomes
    ``trouble``; and Transient if the source's root became another one meanwhile.
    """
    identity = _identity(source.connector)
    broken_off: list[PartialScan] = []
    comparisons = [ListingComparison(one, PageStore()) for one in known]
    for page in pages(_noted(_items(source, scope, known_to_all(known), broken_off), note), _PAGE):
        for comparison in comparisons:
            comparison.add(page)
    if _identity(source.connector) != identity:
        raise Transient("another file system was mounted during the listing")
    scope = Scope(scope.under, tuple(key for error in broken_off for key in error.unknown))
    trouble = "; ".join(map(str, broken_off)) or None
    more = any(error.more for error in broken_off)
    changes = tuple(comparison.changes(scope) for comparison in comparisons)
    before = tuple(
        one.count() if scope.whole or each.vanished else 0 for one, each in zip(known, changes, strict=True)
    )
    return Listing(changes, scope, before, identity, trouble, more)


def _identity(connector: Connector) -> str:
    return connector.identity() if isinstance(connector, Identified) else ""


def known_to_all(known: Sequence[KnownVersions]) -> Versions:
    """Return the versions that ``expand`` may rely on: known to all editions."""
    return known[0] if len(known) == 1 else _KnownToAll(known)


class _KnownToAll:
    """A container that editions know in different versions is opened again. Members are those of any."""

    def __init__(self, known: Sequence[KnownVersions]) -> None:
        self._known = known

    def of(self, keys: Sequence[str]) -> Mapping[str, str]:
        return _together([one.of(keys) for one in self._known])

    def below(self, under: str) -> Mapping[str, str]:
        return _together([one.below(under) for one in self._known])


def _together(known: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
    """A version in which all agree. Of members it is that of the first edition which knows them."""
    together = {key: version for one in reversed(known) for key, version in one.items()}
    return {
        key: version if INSIDE in key or all(one.get(key) == version for one in known) else ""
        for key, version in together.items()
    }


def _noted(items: Iterable[Item], note: Callable[[Item], None]) -> Iterator[Item]:
    for item in items:
        note(item)
        yield item


def _items(source: Source, scope: Scope, known: Versions, broken_off: list[PartialScan]) -> Iterator[Item]:
    for part in _parts(source.connector, scope):
        try:
            yield from source.expand(part, known)
        except PartialScan as error:
            broken_off.append(error)


def _parts(connector: Connector, scope: Scope) -> list[Iterator[Item]]:
    if scope.whole:
        return [connector.scan()]
    assert isinstance(connector, Scoped)
    return [connector.scan_under(under) for under in scope.under]


def outermost(keys: Iterable[str]) -> tuple[str, ...]:
    """The keys without those that lie below another."""
    kept: list[str] = []
    for key in sorted(set(keys), key=lambda key: key.split("/")):
        if not kept or not (key == kept[-1] or key.startswith(kept[-1] + "/")):
            kept.append(key)
    return tuple(kept)
