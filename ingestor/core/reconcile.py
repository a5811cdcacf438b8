"""Actions that follow from a listing of a source. Pure.

The scanner carries the actions out in the journal. `plan` carries them out in a copy of the journal, so a
sync cannot decide otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ingestor.core import decisions
from ingestor.core.decisions import Changes, Scope
from ingestor.core.entries import SourceRow
from ingestor.core.listings.comparison import ListingChanges


@dataclass(frozen=True, slots=True, eq=False)
class Listing:
    """The result of a listing.

    ``changes``, ``known``: one for each edition. ``known``: number of documents before, in the whole source;
    not counted, and 0, for a part in which none vanished.
    ``identity``: of the source's root. ``trouble``: why the listing of its scope is incomplete; None if it is
    complete.
    """

    changes: tuple[ListingChanges, ...]
    scope: Scope
    known: tuple[int, ...]
    identity: str
    trouble: str | None = None
    more: bool = False  # see ports.PartialScan

    def loss(self) -> tuple[int, int]:
        """Return the numbers of vanished and of known documents of the edition that loses most."""
        each = zip((len(changes.vanished) for changes in self.changes), self.known, strict=True)
        return max(each, key=lambda one: one[0])


@dataclass(frozen=True, slots=True)
class Identify:
    """Note the identity of the root at the first listing, before its documents, for a crash in between."""

    identity: str


@dataclass(frozen=True, slots=True)
class Observe:
    """Write a part of the changes into the journal: new versions of one edition, and what vanished."""

    edition: int  # its place in the listing
    changes: ListingChanges
    part: int

    def all(self) -> Changes:
        return self.changes.part(self.part)


@dataclass(frozen=True, slots=True)
class Conclude:
    """Note that a whole listing is in the journal. ``documents``: their number now."""

    documents: int


@dataclass(frozen=True, slots=True)
class ListAgain:
    """List these keys and what is below them once more, as soon as possible."""

    under: tuple[str, ...] = ("",)


@dataclass(frozen=True, slots=True)
class Hold:
    """Change nothing of the source until a person accepts the loss. ``root``: which root lacks documents."""

    reason: str
    root: str


Action = Identify | Observe | Conclude | ListAgain | Hold


def reconcile(
    listing: Listing, before: SourceRow, now: SourceRow, max_loss: float, only_loses: Sequence[bool] = ()
) -> tuple[Action, ...]:
    """Return the actions that follow from a listing, in their order.

    ``before``, ``now``: the source's row at the start of the listing, and at its end. An acceptance in
    between holds for the next listing only. ``only_loses``: for each edition, whether it gets no documents.

    The edition that loses most decides for all. All parts of the first edition precede those of the others,
    whose documents get their ids from it.
    """
    moved_root = now.identity not in (None, listing.identity)
    if moved_root and not listing.scope.whole:  # only a whole listing shows what another root lacks
        return (ListAgain(),)
    # readers never get what appears for an edition that only loses documents, so it makes up for no loss
    appeared = 0 if any(only_loses) else min(changes.appeared for changes in listing.changes)
    vanished, known = listing.loss()
    reason = decisions.sudden_loss(vanished, appeared, known, now.documents, max_loss, moved_root)
    if reason is not None and now.accepted and not before.accepted:
        return (ListAgain(),)
    if reason is not None and not now.may_lose(listing.identity):
        return (Hold(reason, listing.identity),)
    first = listing.changes[0]
    added = 0 if any(only_loses[:1]) else first.appeared
    last: list[Action] = [ListAgain(listing.scope.under)] if listing.more else []
    if listing.scope.whole and not listing.more:
        last = [Conclude(listing.known[0] - len(first.vanished) + added)]
    return (
        *([Identify(listing.identity)] if now.identity is None else []),
        *observations(listing),
        *last,
    )


def observations(listing: Listing) -> list[Observe]:
    """Return all changes of a listing."""
    return [
        Observe(edition, changes, part)
        for edition, changes in enumerate(listing.changes)
        for part in range(changes.parts)
    ]
