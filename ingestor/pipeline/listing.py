"""One listing of a source, compared with what it had: runs on a worker, reads only."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ingestor.core.decisions import Changes, Scope, compare
from ingestor.model import CollectionName, Item, SourceName
from ingestor.pipeline.containers import outside
from ingestor.pipeline.prepare import Tools
from ingestor.ports import Connector, Identified, PartialScan, Scoped
from ingestor.state.rows import Feed

Expand = Callable[[Iterable[Item], Mapping[str, str]], Iterable[Item]]


def as_listed(items: Iterable[Item], known: Mapping[str, str]) -> Iterable[Item]:
    """Of a source in which nothing holds documents but folders."""
    del known
    return items


@dataclass(frozen=True, slots=True)
class Source:
    """One configured source; ``expand`` adds what is in its archives and mails."""

    name: SourceName
    collection: CollectionName
    connector: Connector
    tools: Tools
    max_loss: float = 0.5
    scan_every: float = 300.0  # seconds
    expand: Expand = as_listed
    primary: bool = True  # of two feeds of one source, that whose listings say how the source stands

    @property
    def feed(self) -> Feed:
        return self.name, self.collection


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """``known``: how many documents the source had; ``identity``: of the source when it was listed.

    ``trouble``: why not everything in its scope could be seen; None if all was.
    """

    changes: Changes
    scope: Scope
    known: int
    identity: str
    trouble: str | None = None
    more: bool = False  # see ports.PartialScan


@dataclass(slots=True)
class Progress:
    """How far a listing is: the worker that lists writes it, and anybody reads it."""

    since: float  # POSIX seconds
    seen: int = 0  # items so far
    at: str = ""  # key of the last one

    def note(self, item: Item) -> None:
        self.seen, self.at = self.seen + 1, item.key


def scope_of(source: Source, dirty: Iterable[str]) -> Scope:
    """The least that must be listed to cover every dirty key."""
    whole = "" in dirty or not isinstance(source.connector, Scoped)
    return Scope() if whole else Scope(outermost(map(outside, dirty)))


def take(
    source: Source, scope: Scope, known: dict[str, str], note: Callable[[Item], None] = lambda item: None
) -> Listing:
    """``known``: version by key; ``note`` is told of each item. Raises what the connector raises, but for
    PartialScan.
    """
    identity = source.connector.identity() if isinstance(source.connector, Identified) else ""
    broken_off: list[PartialScan] = []
    items = []
    for item in _items(source, scope, known, broken_off):
        note(item)
        items.append(item)
    scope = Scope(scope.under, tuple(key for error in broken_off for key in error.unknown))
    trouble = "; ".join(map(str, broken_off)) or None
    more = any(error.more for error in broken_off)
    return Listing(compare(known, items, scope), scope, len(known), identity, trouble, more)


def _items(
    source: Source, scope: Scope, known: Mapping[str, str], broken_off: list[PartialScan]
) -> Iterator[Item]:
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
    """Less those that lie below another."""
    kept: list[str] = []
    for key in sorted(set(keys), key=lambda key: key.split("/")):
        if not kept or not (key == kept[-1] or key.startswith(kept[-1] + "/")):
            kept.append(key)
    return tuple(kept)
