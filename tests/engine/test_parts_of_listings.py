"""A listing that is taken over part by part, over a real journal."""

import sqlite3
from typing import Any, cast

import pytest

from ingestor.core import listings
from ingestor.engine.workers import Outcome
from ingestor.model import Hint
from ingestor.pipeline.listing import Source
from tests.engine.listed import TREE, Listed


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch, listed: Listed) -> Listed:
    """Listings are taken over in parts of ten documents."""
    monkeypatch.setattr(listings, "_PAGE", 10)
    listed.tree.keys |= {f"new/{n:02}" for n in range(25)}
    listed.scanner.take_hint(TREE.source, Outcome(TREE.source, Hint("")))
    listed.scanner.start()
    return listed


def next_part(listed: Listed) -> int:
    """How many documents the journal has after it."""
    outcome = listed.pool.next(0)
    assert outcome is not None
    listed.scanner.take_listing(cast(Any, outcome.tag), outcome)
    return listed.left()


def test_work_continues_between_parts_of_a_listing(parts: Listed) -> None:
    parts.tree.lose("e/")
    assert [next_part(parts), parts.scanner.is_busy()] == [50, True]
    parts.scanner.start()  # begins no other listing
    assert [next_part(parts), next_part(parts), parts.scanner.is_busy()] == [60, 65, False]
    assert parts.list_again() is None
    assert parts.rows.of(TREE.source).documents == 65


def test_first_part_of_a_listing_has_all_vanished_documents(
    listed: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or else a renamed document might be read before the journal knows that the old one is gone."""
    monkeypatch.setattr(listings, "_PAGE", 10)
    listed.tree.lose("a/")
    listed.tree.keys |= {f"new/{n:02}" for n in range(20)}
    listed.scanner.take_hint(TREE.source, Outcome(TREE.source, Hint("")))
    listed.scanner.start()
    assert [next_part(listed), next_part(listed)] == [30, 40]


def test_part_that_the_journal_cannot_take_is_repeated(
    parts: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert next_part(parts) == 50
    outcome = parts.pool.next(0)
    with monkeypatch.context() as full:
        full.setattr(parts.journal, "observe", raising(sqlite3.OperationalError("disk is full")))
        with pytest.raises(sqlite3.OperationalError):
            parts.scanner.take_listing(cast(Any, outcome).tag, cast(Any, outcome))
    parts.scanner.take_listing(cast(Any, outcome).tag, cast(Any, outcome))
    assert [parts.left(), next_part(parts)] == [60, 65]


def test_end_of_a_listing_that_the_journal_cannot_note_is_repeated(
    parts: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [next_part(parts), next_part(parts)] == [50, 60]
    outcome = parts.pool.next(0)
    with monkeypatch.context() as full:
        full.setattr(
            parts.scanner.source_rows, "note_listing", raising(sqlite3.OperationalError("disk is full"))
        )
        with pytest.raises(sqlite3.OperationalError):
            parts.scanner.take_listing(cast(Any, outcome).tag, cast(Any, outcome))
    assert parts.scanner.is_busy()
    parts.scanner.take_listing(cast(Any, outcome).tag, cast(Any, outcome))
    assert [parts.left(), parts.scanner.is_busy()] == [65, False]


def test_listing_is_unfinished_until_its_last_part(parts: Listed) -> None:
    assert parts.scanner.incomplete_sources() == set()
    assert [next_part(parts), parts.scanner.incomplete_sources()] == [50, {TREE.source}]
    assert [next_part(parts), parts.scanner.incomplete_sources()] == [60, {TREE.source}]
    assert [next_part(parts), parts.scanner.incomplete_sources()] == [65, set()]


def raising(error: Exception) -> Any:
    def method(*arguments: object) -> None:
        raise error

    return method


def test_listing_interrupted_by_a_new_config_is_completed_by_the_next_listing(parts: Listed) -> None:
    assert next_part(parts) == 50
    parts.scanner.configure([Source(*TREE, parts.tree, cast(Any, None), setting="new")], watch=False)
    assert next_part(parts) == 50
    parts.tree.lose("new/2")
    assert parts.list_again() is None
    assert parts.left() == 60
