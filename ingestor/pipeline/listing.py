"""Lists a source, and compares the listing with the documents that the journal knows for each edition.

``take`` runs on a thread of its own and only reads. The scanner stores the differences in the journal by
``observe``.
"""

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ingestor.connectors.shared.keys import cover
from ingestor.core.decisions import Changes, QueuePositions, Scope
from ingestor.core.entries import EditionName, Feed
from ingestor.core.listings import KnownVersions, Listing, ListingComparison, Observe, Versions, pages
from ingestor.model import Item, SourceName
from ingestor.pipeline.containers import outside
from ingestor.pipeline.prepare import Tools
from ingestor.ports import Connector, Identified, PartialScan, Scoped, Trackable, Transient
from ingestor.state.journal import Journal
from ingestor.state.reports import parsers_of
from ingestor.state.sources import PageStore

_PAGE = 500  # items compared at once
_PARTS = 1000  # folders and files that one listing names at most

Note = Callable[[Item], None]
Expand = Callable[[Iterable[Item], Versions], Iterable[Item]]  # items and known versions -> items and members


@dataclass(frozen=True, slots=True)
class Source:
    """A configured source, with the tools that prepare its documents for one edition.

    If a source feeds several editions, there is a ``Source`` for each, with the same connector. A config that
    changes which items are listed, or when, has another connector. ``max_loss``: the fraction of the
    documents that may vanish without approval. ``scan_every``: seconds between two complete listings.
    ``expand``: adds the members of archives and mails to the listed items. ``only_loses``: whether the
    edition's recipe cannot be reproduced here, for example because a plugin is missing. Then documents that
    vanish are removed from the edition, but no document is added.
    """

    name: SourceName
    edition: EditionName
    connector: Connector
    tools: Tools
    max_loss: float = 0.5
    scan_every: float = 300.0
    expand: Expand = lambda items, known: items
    only_loses: bool = False

    @property
    def feed(self) -> Feed:
        return Feed(self.name, self.edition)

    def is_moved(self, version: str, other: str) -> bool:
        """Return whether two versions belong to one item that was moved to another key.

        Only some connectors know.
        """
        return isinstance(self.connector, Trackable) and self.connector.same(version, other)


def store_feeds(journal: Journal, sources: Sequence[Source], leaving: Sequence[SourceName] = ()) -> None:
    """Store in the journal which editions each source feeds, and by which recipes.

    Documents that were prepared by another recipe become due. ``leaving``: sources whose documents are
    removed.
    """
    for name in {source.name for source in sources}:
        journal.relocate(name, [source.edition for source in sources if source.name == name])
    for name in leaving:
        journal.relocate(name, [])
    for source in sources:
        for parser in () if source.only_loses else parsers_of(journal, source.feed):
            journal.want_recipe(source.feed, parser, source.tools.recipe(parser))


def observe(
    journal: Journal,
    source: Source,
    actions: Iterable[Observe],
    remove_at: float = 0.0,
    positions: QueuePositions | None = None,
) -> None:
    """Store the changes that a listing found in the journal, for one edition of the source.

    For ``remove_at`` and ``positions`` see Journal.observe.
    """
    for action in actions:
        changes = action.changes.part(action.part)
        if source.only_loses:
            changes = Changes(vanished=changes.vanished)
        journal.observe(source.name, source.edition, changes, remove_at, positions)


def scope_of(source: Source, dirty: Iterable[str]) -> Scope:
    """Return a small part of a source to list that includes every key in ``dirty``.

    Return the whole source if its connector cannot list a part.
    """
    if not isinstance(source.connector, Scoped):
        return Scope()
    return Scope(tuple(cover(map(outside, dirty), _PARTS)))


def take(
    source: Source, scope: Scope, known: Sequence[KnownVersions], note: Note = lambda item: None
) -> Listing:
    """List a source, and compare the listing with the documents that each edition knows.

    ``known``: the documents that the journal knows, for each edition. ``note``: called with each item, to
    report progress. Raises the errors of the connector, except PartialScan: its reason is returned as
    ``trouble``. Raises Transient if another file system was mounted at the source's root during the listing.
    """
    connector, identity = source.connector, _identity(source.connector)
    shared = KnownToAll(known)
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
        raise Transient("another file system was mounted during the listing, which will be repeated")
    seen = Scope(scope.under, tuple(key for error in unfinished for key in error.unknown))
    changes = tuple(comparison.changes(seen) for comparison in comparisons)
    pairs = zip(known, changes, strict=True)
    before = tuple(one.count() if scope.whole or each.vanished else 0 for one, each in pairs)
    trouble = "; ".join(map(str, unfinished)) or None
    return Listing(changes, seen, before, identity, trouble, any(error.more for error in unfinished))


def _parts(connector: Connector, scope: Scope) -> list[Iterator[Item]]:
    if isinstance(connector, Scoped) and not scope.whole:
        return [connector.scan_under(under) for under in scope.under]
    return [connector.scan()]


def _identity(connector: Connector) -> str:
    return connector.identity() if isinstance(connector, Identified) else ""


class KnownToAll:
    """The versions of a source's items that all editions know, with the methods of ``Versions``.

    A container of which editions know different versions is unknown, so that it is opened again.
    """

    def __init__(self, known: Sequence[KnownVersions]) -> None:
        self._known = known

    def of(self, keys: Sequence[str]) -> Mapping[str, str]:
        first, *others = (one.of(keys) for one in self._known)
        return {key: seen for key, seen in first.items() if all(one.get(key) == seen for one in others)}

    def below(self, under: str) -> Mapping[str, str]:
        """Return the version of each member in the first edition that knows the member."""
        return dict(ChainMap(*(dict(one.below(under)) for one in self._known)))
