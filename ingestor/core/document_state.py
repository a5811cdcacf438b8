"""The states of a document in one edition, and the state that each event leads to. Pure.

The journal stores facts (versions, recipes, attempts), from which ``state_of`` tells the state;
state/rows.py tells the same in SQL. Every method of the journal that changes a document is one of the
events here. A pair of state and event that the table lacks cannot happen.
"""

from collections.abc import Mapping
from typing import Literal

State = Literal["absent", "due", "waiting", "settled", "quarantined", "unsupported", "gone"]
# absent       the journal has no row of it
# due          its content or recipe is not what was applied last; never tried, or not since that changed
# waiting      the same after a failed attempt: it is retried
# settled      what was applied is what is wanted
# quarantined  its content cannot be read: it has no records until its version or recipe changes
# unsupported  no parser reads such content: likewise, but no failure
# gone         its source no longer has it, or no longer feeds this edition: its records are removed

Event = Literal[
    "listed",  # its source lists it in another version than before
    "reverted",  # version or recipe are again those of its receipt, before anything was written
    "vanished",  # a listing lacks it, or its source no longer feeds this edition
    "recipe changed",
    "intended",  # its records are about to be written or deleted: they are in doubt, its receipt is void
    "written",
    "refused",  # it is quarantined: its content cannot be read
    "skipped",  # no parser reads it
    "failed",  # an attempt failed for another reason
    "retried",  # by a person
    "doubted",  # its records may have been lost
    "removed",  # its records were deleted
    "adopted",  # a new document took over its records: it was renamed
]

NEXT: Mapping[State, Mapping[Event, State]] = {
    "absent": {"listed": "due"},
    "due": {
        "listed": "due",
        "reverted": "settled",
        "vanished": "gone",
        "recipe changed": "due",
        "intended": "due",
        "written": "settled",
        "refused": "quarantined",
        "skipped": "unsupported",
        "failed": "waiting",
        "doubted": "due",
    },
    "waiting": {
        "listed": "due",
        "vanished": "gone",
        "recipe changed": "due",
        "intended": "waiting",
        "written": "settled",
        "refused": "quarantined",
        "skipped": "unsupported",
        "failed": "waiting",
        "retried": "due",
        "doubted": "waiting",
    },
    "settled": {
        "listed": "due",
        "vanished": "gone",
        "recipe changed": "due",
        "intended": "due",
        "written": "settled",  # cut again: the collection's statistic moved
        "refused": "quarantined",
        "skipped": "unsupported",
        "failed": "waiting",
        "doubted": "due",
    },
    "quarantined": {
        "listed": "due",
        "vanished": "gone",
        "recipe changed": "due",
        "retried": "due",
        "doubted": "quarantined",
    },
    "unsupported": {
        "listed": "due",
        "vanished": "gone",
        "recipe changed": "due",
        "retried": "due",  # by name
        "doubted": "unsupported",
    },
    "gone": {
        "listed": "due",
        "reverted": "settled",  # it is back before its records were deleted
        "vanished": "gone",
        "recipe changed": "gone",
        "intended": "gone",
        "doubted": "gone",
        "removed": "absent",
        "adopted": "absent",
    },
}

PENDING = frozenset[State]({"due", "waiting"})  # to be prepared and written, now or later
WITHOUT_RECORDS = frozenset[State]({"quarantined", "unsupported"})

NO_PARSER = "-"  # in place of the parser of an unsupported document


def state_of(
    wanted: tuple[str | None, str | None],
    done: tuple[str | None, str | None],
    attempts: int,
    parser: str | None,
    *,
    quarantined: bool,
) -> State:
    """The state of a document that has a row.

    ``wanted``, ``done``: version and recipe, as the source and the config ask for and as last applied.
    ``attempts``: failures in a row. ``parser``: that read it.
    """
    if wanted[0] is None:
        return "gone"
    if quarantined:
        return "unsupported" if parser == NO_PARSER else "quarantined"
    if is_settled(wanted, done):
        return "settled"
    return "waiting" if attempts > 0 else "due"


def is_settled(wanted: tuple[str | None, str | None], done: tuple[str | None, str | None]) -> bool:
    """Whether the applied version and recipe are the wanted ones."""
    return done == wanted


def shown(state: State) -> State:
    """The state to show to people: a vanished document is due, too."""
    return "due" if state == "gone" else state
