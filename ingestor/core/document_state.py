"""The states of a document in one edition, and the state that each event leads to. Pure.

The journal stores facts (versions, recipes, attempts), and ``state_of`` derives the state from them. SQL in
state/tables.py derives the same state. Every method of the journal that changes a document is one of the
events here. If the table lacks a pair of state and event, that event cannot happen in that state.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

State = Literal["absent", "due", "waiting", "settled", "quarantined", "unsupported", "gone"]
# absent       the journal has no row of the document
# due          the listed version or the recipe differs from the applied one; not tried since
# waiting      like due, after a failed attempt; a retry follows
# settled      the applied version and recipe are the wanted ones
# quarantined  the content cannot be read; no records until version or recipe change
# unsupported  no parser reads such content; no records, and no failure
# gone         the source lacks the document, or no longer feeds this edition; records are being deleted

Event = Literal[
    "listed", "reverted", "vanished", "recipe changed", "intended", "written", "refused", "skipped", "failed",
    "retried", "doubted", "removed", "adopted",
]  # fmt: skip


def _from(states: Iterable[State], to: State) -> dict[State, State]:
    return dict.fromkeys(states, to)


_TRIED: tuple[State, ...] = ("due", "waiting", "settled")
_LISTED: tuple[State, ...] = (*_TRIED, "quarantined", "unsupported")

MOVES: Mapping[Event, Mapping[State, State]] = {
    # the source lists the document in another version than before
    "listed": _from(("absent", *_LISTED, "gone"), "due"),
    # version and recipe are again those of the receipt, before anything was written or deleted
    "reverted": _from(("due", "gone"), "settled"),
    # a listing lacks the document, or its source no longer feeds this edition
    "vanished": _from((*_LISTED, "gone"), "gone"),
    "recipe changed": {**_from(_LISTED, "due"), "gone": "gone"},
    # records are about to be written or deleted: they are in doubt, and the receipt is void
    "intended": {"due": "due", "waiting": "waiting", "settled": "due", "gone": "gone"},
    # also for a settled document: it is chunked again, since the collection's statistic changed
    "written": _from(_TRIED, "settled"),
    # the content cannot be read
    "refused": _from(_TRIED, "quarantined"),
    # no parser reads such content
    "skipped": _from(_TRIED, "unsupported"),
    # an attempt failed for another reason
    "failed": _from(_TRIED, "waiting"),
    # a person asks for another attempt; for an unsupported document by its name
    "retried": _from(("waiting", "quarantined", "unsupported"), "due"),
    # records may have been lost
    "doubted": {**{state: state for state in (*_LISTED, "gone")}, "settled": "due"},
    # all records were deleted
    "removed": {"gone": "absent"},
    # a new document adopted the records: the document was renamed
    "adopted": {"gone": "absent"},
}
NEXT: Mapping[State, Mapping[Event, State]] = {
    state: {event: to[state] for event, to in MOVES.items() if state in to} for state in get_args(State)
}

PENDING = frozenset[State]({"due", "waiting"})  # to be prepared and written, now or later
WITHOUT_RECORDS = frozenset[State]({"quarantined", "unsupported"})

NO_PARSER = "-"  # in place of the parser of an unsupported document


Versions = tuple[str | None, str | None]  # of the document and of its recipe


def state_of(
    wanted: Versions, done: Versions, attempts: int, parser: str | None, *, quarantined: bool
) -> State:
    """Return the state of a document that has a row in the journal.

    ``wanted``: the listed version (None if the source no longer has the document), and the recipe by the
    config. ``done``: the version and recipe that were applied last. ``attempts``: number of failures in a
    row. ``parser``: the parser that read the document last.
    """
    if wanted[0] is None:
        return "gone"
    if quarantined:
        return "unsupported" if parser == NO_PARSER else "quarantined"
    if done == wanted:
        return "settled"
    return "waiting" if attempts > 0 else "due"


def visible_state(state: State) -> State:
    """Return the state that people are shown: a vanished document counts as due, since it must be removed."""
    return "due" if state == "gone" else state
