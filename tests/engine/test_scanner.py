"""Listings by hints, under a new config, and in parts: a real journal, and sources that note each listing."""

import logging
import sqlite3
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest

from ingestor.core import listings
from ingestor.core.entries import EditionName
from ingestor.core.errors import Stopped
from ingestor.engine.workers import Outcome
from ingestor.model import Blob, Hint, Item, SourceName
from ingestor.pipeline.listing import Source
from ingestor.ports import NeedsHuman, Transient
from ingestor.state.journal import Journal
from tests.engine.worlds import DOCS, TREE, Listed, scanner_of
from tests.simulation.ports.workers import Inline

# --- hints --------------------------------------------------------------------------------------------------


@dataclass
class Whole:
    asked: list[str] = field(default_factory=list)

    def scan(self) -> Iterator[Item]:
        self.asked.append("")
        return iter(())

    def fetch(self, item: Item) -> Blob:
        raise NotImplementedError


class InParts(Whole):
    def scan_under(self, under: str) -> Iterator[Item]:
        self.asked.append(under)
        return iter(())


@dataclass
class World:
    """Sources by name; what each was asked for since all were listed. The wiki has two editions."""

    journal: Journal
    sources: dict[str, Whole]

    def __post_init__(self) -> None:
        self.pool = Inline()
        self.scanner = scanner_of(self.journal, self.pool)
        tools = cast(Any, None)
        listed = [Source(SourceName(n), DOCS, source, tools) for n, source in self.sources.items()]
        self.scanner.configure([*listed, replace(listed[1], edition=EditionName("docs--2"))], watch=True)
        self.hint()
        for source in self.sources.values():
            source.asked.clear()

    def hint(self, *outcomes: Outcome) -> dict[str, list[str]]:
        for outcome in outcomes:
            self.scanner.take_hint(cast(Any, outcome.tag), outcome)
        self.scanner.start()
        while outcome := self.pool.next(0):  # type: ignore[assignment]
            self.scanner.take_listing(cast(Any, outcome.tag), outcome)
        return {name: source.asked for name, source in self.sources.items() if source.asked}


class Dispatcher(InParts):
    sources: Collection[str] = ()


PUSH, WIKI, MAIL = "push", "wiki", "mail"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    journal = Journal(tmp_path / "journal.sqlite3")
    yield World(journal, {PUSH: Dispatcher(), WIKI: InParts(), MAIL: Whole()})
    journal.close()


def hint(under: str = "", source: str | None = None) -> Outcome:
    return Outcome(PUSH, Hint(under, None if source is None else SourceName(source)))


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ([hint("a/b")], {PUSH: ["a/b"]}),
        ([hint()], {PUSH: [""]}),
        ([hint("a/b", "wiki")], {WIKI: ["a/b"]}),
        ([hint("", "wiki")], {WIKI: [""]}),
        ([hint("a/b", "mail")], {MAIL: [""]}),
        ([hint("a/b", "wiki"), hint("a", "wiki"), hint("c")], {PUSH: ["c"], WIKI: ["a"]}),
        ([Outcome("old", Hint("", SourceName("wiki")))], {}),
    ],
)
def test_hint_about_another_source_lists_that_source(world: World, given: Any, asked: Any) -> None:
    assert world.hint(*given) == asked


def test_dispatching_connector_knows_all_sources(world: World) -> None:
    push = world.sources[PUSH]
    assert isinstance(push, Dispatcher)
    assert push.sources == (PUSH, WIKI, MAIL)


def test_hint_about_an_unknown_source_is_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    assert world.hint(hint("a", "wikki")) == {}
    assert "source push reports a change in source 'wikki', which is not in the config" in caplog.text


def test_watch_that_fails_again_and_again_lists_its_source_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    failed = Outcome(PUSH, error=OSError("too many watches"))
    assert world.hint(failed) == {PUSH: [""]}
    assert world.hint(failed, failed) == {PUSH: [""]}
    assert caplog.text.count("source push: watching for changes failed") == 1
    assert world.hint(hint("a")) == {PUSH: ["", "a"]}, "it watches again"
    assert world.hint(failed) == {PUSH: ["", "a", ""]}


# --- new configs --------------------------------------------------------------------------------------------


def reload(listed: Listed, *sources: Source) -> tuple[int, int]:
    """Return how many watches ended, and how many listings began."""
    ended, listings = listed.pool.ended, listed.tree.listings
    listed.configure(*sources, watch=True)
    busy = listed.scanner.is_busy()
    listed.scanner.start()
    assert busy is (listed.tree.listings > listings)
    return listed.pool.ended - ended, listed.tree.listings - listings


@pytest.fixture
def watched(listed: Listed) -> Listed:
    listed.configure(listed.source(), watch=True)
    listed.list_again()
    return listed


@pytest.mark.parametrize(
    ("collection", "listings"),
    [(DOCS, 0), (EditionName("other"), 1)],
)
def test_new_config_lists_only_changed_sources(
    watched: Listed, collection: EditionName, listings: int
) -> None:
    _, begun = reload(watched, watched.source(edition=collection))
    assert begun == listings


def test_watch_survives_reloads_that_leave_its_place(watched: Listed) -> None:
    live = watched.source()
    built = replace(live, edition=EditionName("docs--2"))
    assert reload(watched, live) == (0, 0)
    assert reload(watched, live, built) == (0, 1), "a new edition needs every document"
    watched.list_again()
    assert reload(watched, built) == (0, 0), "after the swap, what it feeds was listed before"
    assert reload(watched, replace(built, connector=watched.tree.twin())) == (1, 1)


def test_source_in_trouble_is_listed_again_and_keeps_its_watch(watched: Listed) -> None:
    watched.tree.lose("")
    assert watched.list_again("") is not None
    assert reload(watched, watched.source()) == (0, 1)


def test_watch_that_failed_is_started_again_by_a_new_config(watched: Listed) -> None:
    watched.scanner.take_hint(TREE.source, Outcome(None, error=OSError("too many watches")))
    assert reload(watched, watched.source()) == (1, 1)


def test_problem_of_source_set_as_before_is_logged_once(
    watched: Listed, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    keys = set(watched.tree.keys)
    watched.tree.lose("")
    for _ in range(3):
        assert watched.list_again("") is not None
        watched.configure(watched.source(), watch=True)
    assert [vars(one)["event"] for one in caplog.records] == ["source_held"]
    assert "nothing is removed until `ingestor accept tree`" in caplog.text
    watched.tree.keys = keys
    assert watched.list_again("") is None
    assert [vars(one)["event"] for one in caplog.records] == ["source_held", "source_listed"]


@pytest.mark.parametrize(
    ("errors", "held", "trouble"),
    [
        ([NeedsHuman("no folder"), Transient("no answer")], "no answer", None),
        ([Transient("no answer"), NeedsHuman("no folder")], "no folder", None),
        ([Transient("no answer"), Transient("busy")], None, "busy"),
    ],
)
def test_listing_that_fails_again_has_only_its_last_reason(
    listed: Listed,
    errors: list[Exception],
    held: str | None,
    trouble: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for error in errors:
        monkeypatch.setattr(listed.tree, "scan_under", Mock(side_effect=error))
        listed.list_again(after=400)
    row = listed.rows.of(TREE.source)
    assert (row.held, row.trouble) == (held, trouble)


@pytest.mark.parametrize("reloads", [False, True])
def test_running_listing_is_not_repeated_when_it_is_due_or_by_a_reload(listed: Listed, reloads: bool) -> None:
    """A first listing may take hours."""
    listed.configure(listed.source(), watch=True)
    before = listed.tree.listings
    listed.now += 400
    for _ in range(3):  # rounds of the program before the listing ends
        listed.scanner.start()
        if reloads:
            listed.configure(listed.source(), watch=True)
    listed.list_again()
    assert listed.tree.listings == before + 1
    assert listed.scanner.has_listed(TREE.edition)


def test_listing_that_was_stopped_is_repeated(listed: Listed, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(tag: object, work: object, *, scan: bool = False, lane: object = None) -> None:
        listed.pool.outcomes.append(Outcome(tag, error=Stopped()))

    with monkeypatch.context() as stopping:
        stopping.setattr(listed.pool, "submit", stop)
        listed.begin("a")
    next_part(listed)
    assert not listed.scanner.under_way()
    assert listed.rows.of(TREE.source).trouble is None
    before = listed.tree.listings
    listed.list_again()
    assert listed.tree.listings == before + 1


# --- listings in parts --------------------------------------------------------------------------------------


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch, listed: Listed) -> Listed:
    """Listings are applied in parts of ten documents."""
    monkeypatch.setattr(listings, "_PAGE", 10)
    listed.tree.keys |= {f"new/{n:02}" for n in range(25)}
    listed.begin("")
    return listed


def next_part(listed: Listed) -> int:
    """Apply a part, and return how many documents the journal has after it."""
    outcome = listed.pool.next(0)
    assert outcome is not None
    listed.scanner.take_listing(cast(Any, outcome.tag), outcome)
    return listed.left()


def test_work_continues_between_parts_of_a_listing(parts: Listed) -> None:
    assert parts.scanner.incomplete_sources() == set()
    parts.tree.lose("e/")
    assert [next_part(parts), parts.scanner.is_busy()] == [50, True]
    parts.scanner.start()  # begins no other listing
    assert [next_part(parts), parts.scanner.incomplete_sources()] == [60, {TREE.source}]
    assert [next_part(parts), parts.scanner.is_busy()] == [65, False]
    assert parts.scanner.incomplete_sources() == set()
    assert parts.list_again() is None
    assert parts.rows.of(TREE.source).documents == 65


def test_first_part_of_a_listing_has_all_vanished_documents(parts: Listed) -> None:
    """Or else a renamed document might be read before the journal knows that the old one is gone."""
    while parts.scanner.is_busy():
        next_part(parts)
    parts.tree.lose("a/")
    parts.tree.keys |= {f"newer/{n:02}" for n in range(20)}
    parts.begin("")
    assert [next_part(parts), next_part(parts)] == [55, 65]


@pytest.mark.parametrize(("done", "method"), [(1, "observe"), (2, "note_listing")])
def test_part_that_the_journal_cannot_take_is_repeated(
    parts: Listed, monkeypatch: pytest.MonkeyPatch, done: int, method: str
) -> None:
    def fail(*arguments: object) -> None:
        raise sqlite3.OperationalError("disk is full")

    assert [next_part(parts) for _ in range(done)] == [50, 60][:done]
    outcome = cast(Any, parts.pool.next(0))
    with monkeypatch.context() as full:
        full.setattr(parts.journal if method == "observe" else parts.scanner.source_rows, method, fail)
        with pytest.raises(sqlite3.OperationalError):
            parts.scanner.take_listing(outcome.tag, outcome)
    assert parts.scanner.is_busy()
    parts.scanner.take_listing(outcome.tag, outcome)
    while parts.scanner.is_busy():
        next_part(parts)
    assert parts.left() == 65


def test_listing_interrupted_by_a_new_config_is_completed_by_the_next_listing(parts: Listed) -> None:
    assert next_part(parts) == 50
    parts.configure(parts.source(connector=parts.tree.twin()))
    assert next_part(parts) == 50
    parts.tree.lose("new/2")
    assert parts.list_again() is None
    assert parts.left() == 60
