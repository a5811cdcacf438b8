"""The journal against the table of states in core/document_state.py: by SQL, by Python, event by event."""

from collections.abc import Callable
from itertools import product
from typing import get_args

import pytest

from ingestor.core.decisions import NEVER, Changes, Failure
from ingestor.core.document_state import NEXT, NO_PARSER, PENDING, Event, State, state_of
from ingestor.core.entries import Entry, Intent, Receipt
from ingestor.model import Item, Known
from ingestor.state import tables
from ingestor.state.journal import Journal
from ingestor.state.reports import parsers_of
from tests.state.journals import C, S, of_collection

REFUSED = Failure("it can't be read", 1, NEVER, quarantined=True)
LATER = Failure("away", 1, 50.0, quarantined=False)


def test_sql_and_python_derive_the_same_state(journal: Journal) -> None:
    """Every combination of the columns that decide it, those included that no event leads to."""
    texts = (None, "1", "2")
    values = (texts, texts, texts, texts, (0, 1), (0, 1), (None, "", NO_PARSER, "text"))
    facts = list(product(*values))
    with journal.transaction() as db:
        db.executemany(
            """INSERT INTO documents (document_id, source, collection, key, wanted_version, wanted_recipe,
                   done_version, done_recipe, attempts, quarantined, parser, extra)
               VALUES (?1, 's', 'docs', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, '[]')""",
            [(str(number), *row) for number, row in enumerate(facts)],
        )
    shown = f"{tables.STATE}, {tables.PENDING} AND NOT quarantined, {tables.GONE}"
    query = f"SELECT {shown} FROM documents ORDER BY id"
    found = journal.select(query)
    for row, (by_sql, pending, gone) in zip(facts, found, strict=True):
        wanted_version, wanted_recipe, done_version, done_recipe, attempts, quarantined, parser = row
        state = state_of(
            (wanted_version, wanted_recipe), (done_version, done_recipe), attempts, parser,
            quarantined=bool(quarantined),
        )  # fmt: skip
        assert by_sql == state, row
        assert (state in PENDING, state == "gone") == (bool(pending), bool(gone)), row
    assert {state for state, _, _ in found} == set(get_args(State)) - {"absent"}
    by_entry = [entry.state for entry in of_collection(journal, C)]
    assert by_entry == [state for state, _, _ in found]


def observe(journal: Journal, version: str, key: str = "a") -> None:
    journal.observe(S, C, Changes((Item(key, version, "/a"),)), 0.0)


def vanish(journal: Journal) -> None:
    journal.observe(S, C, Changes((), ("a",)), 0.0)


def the(journal: Journal, key: str = "a") -> Entry | None:
    return next((entry for entry in of_collection(journal, C) if entry.key == key), None)


def row_of(journal: Journal) -> int:
    entry = the(journal)
    assert entry is not None
    return entry.row


def settle(journal: Journal, parser: str = "text", failure: Failure | None = None) -> None:
    entry = the(journal)
    assert entry is not None
    assert entry.item is not None
    records = () if failure else (Known(0, "t", "v", "m"),)
    done = Receipt(entry.row, entry.item.version, "r", "f", "d", parser, records, failure=failure)
    journal.settle([done])


def fail(journal: Journal) -> None:
    entry = the(journal)
    assert entry is not None
    assert entry.item is not None
    journal.fail(entry.row, entry.item.version, LATER)


def adopt(journal: Journal) -> None:
    """A new document takes over the records of ``a``."""
    observe(journal, "1", key="b")
    new = the(journal, "b")
    assert new is not None
    journal.intend([Intent(row_of(journal), (), new.row)])


def change_recipe(journal: Journal, recipe: str = "other") -> None:
    for parser in parsers_of(journal, (S, C)):
        journal.want_recipe((S, C), parser, recipe)


REACH: dict[State, list[Callable[[Journal], None]]] = {
    "absent": [],
    "due": [lambda j: observe(j, "1")],
    "waiting": [lambda j: observe(j, "1"), settle, lambda j: observe(j, "2"), fail],
    "settled": [lambda j: observe(j, "1"), settle],
    "quarantined": [lambda j: observe(j, "1"), lambda j: settle(j, "", REFUSED)],
    "unsupported": [lambda j: observe(j, "1"), lambda j: settle(j, NO_PARSER, REFUSED)],
    "gone": [lambda j: observe(j, "1"), settle, vanish],
}
HAPPENS: dict[Event, Callable[[Journal], None]] = {
    "listed": lambda j: observe(j, "2"),
    "vanished": lambda j: vanish(j) if the(j) and the(j).item else j.relocate(S, []),  # type: ignore[union-attr]
    "recipe changed": change_recipe,
    "intended": lambda j: j.intend([Intent(row_of(j), (0,))]),
    "written": settle,
    "refused": lambda j: settle(j, "", REFUSED),
    "skipped": lambda j: settle(j, NO_PARSER, REFUSED),
    "failed": fail,
    "retried": lambda j: j.retry([row_of(j)]) and None,
    "doubted": lambda j: j.doubt(C),
    "removed": lambda j: j.remove([row_of(j)]),
    "adopted": adopt,
}


def reached(journal: Journal, state: State) -> None:
    for step in REACH[state]:
        step(journal)
    assert current(journal) == state


def current(journal: Journal) -> State:
    entry = the(journal)
    return "absent" if entry is None else entry.state


@pytest.mark.parametrize(
    ("state", "event"), [(state, event) for state in NEXT for event in NEXT[state] if event != "reverted"]
)
def test_every_event_leads_to_the_state_of_the_table(journal: Journal, state: State, event: Event) -> None:
    reached(journal, state)
    HAPPENS[event](journal)
    assert current(journal) == NEXT[state][event]


@pytest.mark.parametrize(
    "away",
    [[lambda j: observe(j, "2"), lambda j: observe(j, "1")], [vanish, lambda j: observe(j, "1")],
     [change_recipe, lambda j: change_recipe(j, "r")]],
    ids=["version", "vanished", "recipe"],
)  # fmt: skip
@pytest.mark.parametrize(("state", "expected"), [("settled", "settled"), ("quarantined", "due")])
def test_document_that_returns_to_its_receipt_is_settled_unless_quarantined(
    journal: Journal, state: State, expected: State, away: list[Callable[[Journal], None]]
) -> None:
    """A document that could not be read has no records: its receipt does not outlive the quarantine."""
    reached(journal, state)
    for step in away:
        step(journal)
    assert current(journal) == expected


def test_every_state_is_reached_and_every_event_happens() -> None:
    assert set(NEXT) == set(get_args(State)) == set(REACH)
    assert {event for row in NEXT.values() for event in row} == set(get_args(Event))
    ends = {state for row in NEXT.values() for state in row.values()}
    assert ends == set(get_args(State))
