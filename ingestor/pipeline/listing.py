"""A listing of a source, compared with the last listing of each edition. Runs on a worker; reads only."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ingestor.core.decisions import Changes, QueueTurns, Scope
from ingestor.core.entries import EditionName, Feed
from ingestor.core.listings import Action, KnownVersions, Listing, ListingComparison, Observe, Versions, pages
from ingestor.model import INSIDE, Item, SourceName
from ingestor.pipeline.containers import outside
from ingestor.pipeline.prepare import Tools
from ingestor.ports import Connector, Identified, PartialScan, Scoped, Trackable, Transient
from ingestor.state.journal import Journal
from ingestor.state.reports import parsers_of
from ingestor.state.sources import PageStore

_PAGE = 500  # items compared at once

Expand = Callable[[Iterable[Item], Versions], Iterable[Item]]


def as_listed(items: Iterable[Item], known: Versions) -> Iterable[Item]:
    """Return the items unchanged, for a source without containers."""
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

    def is_moved(self, version: str, other: str) -> bool:
        """Return whether items of these versions are known to be one under two keys."""
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
        for parser in () if source.only_loses else parsers_of(journal, source.feed):
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


def scope_of(source: Source, dirty: Iterable[str]) -> Scope:
    """Return the smallest scope that covers every dirty key."""
    if "" in dirty or not isinstance(source.connector, Scoped):
        return Scope()
    kept = list[str]()
    for key in sorted(set(map(outside, dirty)), key=lambda key: key.split("/")):
        if not kept or not (key == kept[-1] or key.startswith(kept[-1] + "/")):
            kept.append(key)
    return Scope(tuple(kept))


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
    connector, identity = source.connector, _identity(source.connector)
    shared = known[0] if len(known) == 1 else KnownToAll(known)
    unfinished = list[PartialScan]()

    def items() -> Iterator[Item]:
        for part in _parts(connector, scope):
            try:
                for item in source.expand(part, shared):
                    note(item)
                    yield item
            except PartialScan as error:
                unfinished.append(error)

    comparisons = [ListingComparison(one, PageStore()) for one in known]
    for page in pages(items(), _PAGE):
        for comparison in comparisons:
            comparison.add(page)
    if _identity(connector) != identity:
        raise Transient("another file system was mounted during the listing")
    seen = Scope(scope.under, tuple(key for error in unfinished for key in error.unknown))
    changes = tuple(comparison.changes(seen) for comparison in comparisons)
    before = tuple(
        one.count() if scope.whole or each.vanished else 0 for one, each in zip(known, changes, strict=True)
    )
    trouble = "; ".join(map(str, unfinished)) or None
    return Listing(changes, seen, before, identity, trouble, any(error.more for error in unfinished))


def _parts(connector: Connector, scope: Scope) -> list[Iterator[Item]]:
    if scope.whole:
        return [connector.scan()]
    assert isinstance(connector, Scoped)
    return [connector.scan_under(under) for under in scope.under]


def _identity(connector: Connector) -> str:
    return connector.identity() if isinstance(connector, Identified) else ""


class KnownToAll:
    """Versions on which all editions agree: a container that they know in different ones is opened again.

    A member has the version of the first edition that knows it.
    """

    def __init__(self, known: Sequence[KnownVersions]) -> None:
        self._known = known

    def of(self, keys: Sequence[str]) -> Mapping[str, str]:
        return self._agree([one.of(keys) for one in self._known])

    def below(self, under: str) -> Mapping[str, str]:
        return self._agree([one.below(under) for one in self._known])

    def _agree(self, known: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
        first = {key: version for one in reversed(known) for key, version in one.items()}
        return {
            key: version if INSIDE in key or all(one.get(key) == version for one in known) else ""
            for key, version in first.items()
        }
