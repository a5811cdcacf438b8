"""What a hint or another config has listed: a real journal, and sources that tell what was asked for."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from ingestor.core.entries import EditionName
from ingestor.core.errors import Stopped
from ingestor.engine.workers import Outcome
from ingestor.model import Blob, Hint, Item, SourceName
from ingestor.pipeline.listing import Source
from ingestor.state.journal import Journal
from tests.engine.listed import TREE, Listed, scanner_of
from tests.simulation.ports.workers import Inline


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
        sources = [Source(SourceName(n), EditionName("docs"), s, tools) for n, s in self.sources.items()]
        second = replace(sources[1], collection=EditionName("docs--2"))
        self.scanner.configure([*sources, second], watch=False)
        self.step()
        for source in self.sources.values():
            source.asked.clear()

    def step(self) -> None:
        self.scanner.start()
        while outcome := self.pool.next(0):
            self.scanner.take_listing(cast(Any, outcome.tag), outcome)

    def hint(self, *outcomes: Outcome) -> dict[str, list[str]]:
        for outcome in outcomes:
            self.scanner.take_hint(cast(Any, outcome.tag), outcome)
        self.step()
        return {name: source.asked for name, source in self.sources.items() if source.asked}


PUSH, WIKI, MAIL = "push", "wiki", "mail"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    journal = Journal(tmp_path / "journal.sqlite3")
    yield World(journal, {PUSH: InParts(), WIKI: InParts(), MAIL: Whole()})
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


def test_hint_about_an_unknown_source_is_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    assert world.hint(hint("a", "wikki")) == {}
    assert "source push reports a change in source 'wikki', which is not in the config" in caplog.text


def test_listing_that_becomes_due_while_it_runs_is_not_repeated(listed: Listed) -> None:
    before = listed.tree.listings
    listed.now += 400
    for _ in range(3):  # rounds of the program before the listing ends
        listed.scanner.start()
    listed.list_again()
    assert listed.tree.listings == before + 1


@pytest.mark.parametrize(
    ("change", "listings"),
    [({}, 0), ({"setting": "b"}, 1), ({"setting": None}, 1), ({"collection": EditionName("other")}, 1)],
)
def test_new_config_lists_only_changed_sources(listed: Listed, change: dict[str, Any], listings: int) -> None:
    source = Source(*TREE, listed.tree, cast(Any, None), setting="a")
    listed.scanner.configure([source], watch=False)
    listed.list_again()
    before = listed.tree.listings
    listed.scanner.configure([replace(source, **change)], watch=False)
    assert listed.scanner.is_busy() is bool(listings)
    listed.scanner.start()
    assert listed.tree.listings == before + listings


def test_source_in_trouble_is_listed_again_under_a_new_config(listed: Listed) -> None:
    source = Source(*TREE, listed.tree, cast(Any, None), setting="a")
    listed.scanner.configure([source], watch=False)
    listed.list_again()
    listed.tree.lose("")
    assert listed.list_again("") is not None
    listed.scanner.configure([source], watch=False)
    assert listed.scanner.is_busy()


def test_problem_of_source_set_as_before_is_logged_once(
    listed: Listed, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    source, keys = Source(*TREE, listed.tree, cast(Any, None), setting="a"), set(listed.tree.keys)
    listed.scanner.configure([source], watch=True)
    listed.tree.lose("")
    for _ in range(3):
        assert listed.list_again("") is not None
        listed.scanner.configure([source], watch=True)
    assert [vars(one)["event"] for one in caplog.records] == ["source_held"]
    assert "nothing is removed until `ingestor accept tree`" in caplog.text
    listed.tree.keys = keys
    assert listed.list_again("") is None
    assert [vars(one)["event"] for one in caplog.records] == ["source_held", "source_listed"]


def test_watch_under_a_new_config_continues_unless_it_failed(listed: Listed) -> None:
    source = Source(*TREE, listed.tree, cast(Any, None), setting="a")
    listed.scanner.configure([source], watch=True)
    listed.list_again()
    ended: list[str] = []
    listed.scanner._watches[TREE.source].end = lambda: ended.append("first")
    listed.scanner.configure([source], watch=True)
    assert ended == []
    listed.scanner.take_hint(TREE.source, Outcome(None, error=OSError("too many watches")))
    listed.scanner.configure([source], watch=True)
    assert ended == ["first"]


@dataclass
class Edge:
    """A source, its watch and its listings, as one reload changes them."""

    listed: Listed
    ended: int = 0

    def reload(self, *sources: Source) -> tuple[int, int]:
        """Return how often the watch ended, and how many listings were made."""
        ended, listings = self.ended, self.listed.tree.listings
        self.listed.scanner.configure(sources, watch=True)
        self.listed.scanner.start()
        return self.ended - ended, self.listed.tree.listings - listings

    def end(self) -> None:
        self.ended += 1


def edge(listed: Listed, *sources: Source) -> Edge:
    made = Edge(listed)
    listed.scanner.configure(sources, watch=True)
    listed.list_again()
    listed.scanner._watches[TREE.source].end = made.end
    return made


def test_watch_survives_reloads_that_leave_its_place(listed: Listed) -> None:
    live = Source(*TREE, listed.tree, cast(Any, None), setting="a")
    built = replace(live, collection=EditionName("docs--2"))
    made = edge(listed, live)
    assert made.reload(live) == (0, 0)
    assert made.reload(live, built) == (0, 1), "a new edition needs every document"
    listed.list_again()
    assert made.reload(built) == (0, 0), "after the swap, what it feeds was listed before"
    assert made.reload(replace(built, setting="b")) == (1, 1)


def test_source_in_trouble_keeps_its_watch(listed: Listed) -> None:
    live = Source(*TREE, listed.tree, cast(Any, None), setting="a")
    made = edge(listed, live)
    listed.tree.lose("")
    assert listed.list_again("") is not None
    assert made.reload(live) == (0, 1)


def test_running_listing_survives_a_reload(listed: Listed) -> None:
    """A first listing may take hours."""
    live = Source(*TREE, listed.tree, cast(Any, None), setting="a")
    listed.scanner.configure([live], watch=True)
    before = listed.tree.listings
    listed.scanner.start()
    listed.scanner.configure([live], watch=True)
    listed.list_again()
    assert listed.tree.listings == before + 1
    assert listed.scanner.has_listed(TREE.edition)


def test_watch_that_fails_again_and_again_lists_its_source_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    failed = Outcome(PUSH, error=OSError("too many watches"))
    world.scanner.configure(_sources(world), watch=True)
    world.step()
    world.hint()
    for source in world.sources.values():
        source.asked.clear()
    assert world.hint(failed) == {PUSH: [""]}
    assert world.hint(failed, failed) == {PUSH: [""]}
    assert caplog.text.count("source push: watching for changes failed") == 1
    assert world.hint(hint("a")) == {PUSH: ["", "a"]}, "it watches again"
    assert world.hint(failed) == {PUSH: ["", "a", ""]}


def _sources(world: World) -> list[Source]:
    return [source for each in world.scanner._sources.values() for source in each]


def test_listing_that_was_stopped_is_repeated(listed: Listed) -> None:
    class Stopping(Inline):
        def submit(self, tag: object, work: object, *, scan: bool = False, lane: object = None) -> None:
            self.outcomes.append(Outcome(tag, error=Stopped()))

    listed.scanner.pool, listed.pool = Stopping(), listed.pool
    listed.scanner.request_listing(TREE.source, "a")
    listed.scanner.start()
    stopped = cast(Any, listed.scanner.pool.next(0))
    listed.scanner.take_listing(stopped.tag, stopped)
    assert not listed.scanner.under_way()
    assert listed.rows.of(TREE.source).trouble is None
    listed.scanner.pool, before = listed.pool, listed.tree.listings
    listed.list_again()
    assert listed.tree.listings == before + 1
