"""What a hint has listed: a real journal and sources that tell which part of them was asked for."""

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from ingestor.core.decisions import Changes
from ingestor.core.entries import EditionName, Feed
from ingestor.core.listings import comparison
from ingestor.engine.scanner import Scanner
from ingestor.engine.workers.outcomes import Outcome
from ingestor.model import Blob, CollectionName, Hint, Item, SourceName
from ingestor.pipeline.listing import Source
from ingestor.ports import Transient
from ingestor.state.editions import Editions
from ingestor.state.journal import Journal
from ingestor.state.listings.last_listing import LastListing
from ingestor.state.sources import SourceRows
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
        self.scanner = Scanner(self.journal, self.pool, lambda: 1e9, lambda: 0.5, lambda collection: None)
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
            self.scanner.scanned(cast(Any, outcome.tag), outcome)

    def hint(self, *outcomes: Outcome) -> dict[str, list[str]]:
        for outcome in outcomes:
            self.scanner.hinted(cast(Any, outcome.tag), outcome)
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
        ([Outcome(PUSH, error=OSError("gone"))], {PUSH: [""]}),
        ([Outcome("old", Hint("", SourceName("wiki")))], {}),
    ],
)
def test_a_hint_has_the_source_listed_that_it_speaks_of(world: World, given: Any, asked: Any) -> None:
    assert world.hint(*given) == asked


def test_a_hint_of_an_unknown_source_is_said(world: World, caplog: pytest.LogCaptureFixture) -> None:
    assert world.hint(hint("a", "wikki")) == {}
    assert "source push sends a hint for source 'wikki', which is not in the config" in caplog.text


class Tree:
    """A source of folders: keys that can go, on a file system that can be another one."""

    def __init__(self, *keys: str) -> None:
        self.keys, self.root, self.listings, self.fails = set(keys), "disk", 0, False

    def scan(self) -> Iterator[Item]:
        return self.scan_under("")

    def scan_under(self, under: str) -> Iterator[Item]:
        self.listings += 1
        if self.fails:
            raise Transient("no answer")
        return (Item(key, "1", f"/{key}") for key in sorted(self.keys) if not under or key.startswith(under))

    def fetch(self, item: Item) -> Blob:
        raise NotImplementedError

    def identity(self) -> str:
        return self.root

    def lose(self, under: str) -> None:
        self.keys = {key for key in self.keys if not key.startswith(under)}


TREE = Feed(SourceName("tree"), EditionName("docs"))


@dataclass
class Listed:
    """One source after its first whole listing. ``look`` lists what hints name, or all where a time came."""

    journal: Journal
    tree: Tree

    def __post_init__(self) -> None:
        self.now = 1e9
        self.rows = SourceRows(self.journal)
        self.restart()

    def restart(self, max_loss: float = 0.5) -> None:
        self.pool = Inline()
        self.scanner = Scanner(
            self.journal, self.pool, lambda: self.now, lambda: 0.5, lambda collection: None
        )
        self.scanner.configure([Source(*TREE, self.tree, cast(Any, None), max_loss=max_loss)], watch=False)
        self.look()

    def look(self, *hints: str, after: float = 0.0) -> str | None:
        """Why the source is held afterwards, or None."""
        self.now += after
        for under in hints:
            self.scanner.hinted(TREE.source, Outcome(TREE.source, Hint(under)))
        self.scanner.start()
        while outcome := self.pool.next(0):
            self.scanner.scanned(cast(Any, outcome.tag), outcome)
            self.scanner.start()
        return self.rows.of(TREE[0]).held

    def versions(self, feed: Feed) -> Mapping[str, str]:
        return LastListing(self.journal, feed).below("")

    def left(self) -> int:
        return len(self.versions(TREE))


@pytest.fixture
def listed(tmp_path: Path) -> Iterator[Listed]:
    """Folders of 20, 10, 5, 3 and 2 documents."""
    journal = Journal(tmp_path / "journal.sqlite3")
    folders = zip("abcde", (20, 10, 5, 3, 2), strict=True)
    yield Listed(journal, Tree(*(f"{name}/{n}" for name, count in folders for n in range(count))))
    journal.close()


def test_what_goes_folder_by_folder_is_asked_about_as_if_it_went_at_once(listed: Listed) -> None:
    listed.tree.lose("a/")
    assert listed.look("a") is None  # half of 40
    listed.tree.lose("b/")
    assert (listed.look("b") or "").startswith("30 of 40 documents vanished since it was last listed whole")
    assert listed.left() == 20  # the second folder is known still
    listed.tree.lose("e/")
    assert (listed.look("e") or "").startswith("32 of 40")  # all is listed now, to see whether it is back
    assert listed.rows.accept(TREE[0])
    assert listed.look() is None
    assert listed.left() == 8
    listed.tree.lose("c/1")
    assert listed.look("c") is None  # counted anew from what was accepted


def test_documents_that_come_back_lift_the_hold_at_once(listed: Listed) -> None:
    before = set(listed.tree.keys)
    for folder in "ab":
        listed.tree.lose(f"{folder}/")
        held = listed.look(folder)
    assert held
    listed.tree.keys = before
    assert listed.look("b") is None
    assert listed.left() == 40


def test_a_listing_whose_time_passes_while_it_goes_on_is_made_once(listed: Listed) -> None:
    before = listed.tree.listings
    listed.now += 400
    for _ in range(3):  # rounds of the program before the listing ends
        listed.scanner.start()
    listed.look()
    assert listed.tree.listings == before + 1


def test_an_accepted_loss_is_looked_at_at_once_although_a_listing_before_failed(listed: Listed) -> None:
    listed.tree.fails = True
    listed.look("a")
    listed.tree.fails = False
    listed.tree.lose("a/")
    listed.tree.lose("b/")
    assert listed.look(after=400)
    listed.rows.accept(TREE[0])
    assert listed.look() is None
    assert listed.left() == 10


def test_an_acceptance_does_not_count_for_a_listing_that_began_before(listed: Listed) -> None:
    """A person brings the disk back and accepts, while a listing of the empty folder is under way."""
    keys, listed.tree.root, listed.tree.keys = listed.tree.keys, "empty", set()
    assert listed.look("")
    listed.scanner.hinted(TREE.source, Outcome(TREE.source, Hint("")))
    listed.scanner.start()
    listed.rows.accept(TREE[0])
    listed.tree.fails = True  # the next listing
    listed.look()
    assert listed.left() == 40
    listed.tree.fails, listed.tree.root, listed.tree.keys = False, "disk", keys
    assert listed.look(after=400) is None
    assert listed.left() == 40


def test_an_acceptance_does_not_count_for_another_disk(listed: Listed) -> None:
    """The loss is accepted, and before it is listed again the disk is taken away."""
    listed.tree.lose("a/")
    listed.tree.lose("b/")
    assert listed.look("a", "b")
    listed.rows.accept(TREE[0])
    keys, listed.tree.root, listed.tree.keys = listed.tree.keys, "empty", set()
    assert (listed.look("") or "").startswith("40 of 40 documents vanished, and another file system")
    listed.tree.root, listed.tree.keys = "disk", keys
    assert listed.left() == 40
    assert (listed.look("") or "").startswith("30 of 40")
    listed.rows.accept(TREE[0])
    assert listed.look() is None
    assert listed.left() == 10


def test_a_slow_loss_is_not_asked_about_for_ever(listed: Listed) -> None:
    for folder in "abc":
        listed.tree.lose(f"{folder}/")
        assert listed.look(folder) is None
        assert listed.look(after=400) is None  # a whole listing: what it left is what counts from now on
    assert listed.left() == 5


def test_losses_of_partial_listings_are_remembered_over_a_restart(listed: Listed) -> None:
    listed.tree.lose("a/")
    listed.look("a")
    listed.tree.lose("b/")
    listed.restart()
    assert (listed.look() or "").startswith("30 of 40")


def test_documents_that_appeared_since_are_set_off(listed: Listed) -> None:
    listed.tree.keys |= {f"new/{n}" for n in range(30)}
    assert listed.look("new") is None
    for folder in "ab":
        listed.tree.lose(f"{folder}/")
        assert listed.look(folder) is None


@pytest.mark.parametrize("max_loss", [0.5, 1.0])
def test_another_file_system_is_asked_about_though_it_has_as_many_files(
    listed: Listed, max_loss: float
) -> None:
    listed.restart(max_loss)
    listed.tree.root = "other disk"
    listed.tree.keys = {f"x/{n}" for n in range(50)}
    expected = "40 of 40 documents vanished, and another file system is mounted there"
    assert (listed.look("x") or "").startswith(expected)  # a hint of a part is answered by a whole listing
    assert (listed.look("x") or "").startswith(expected)
    assert listed.left() == 40
    listed.rows.accept(TREE[0])
    assert listed.look() is None
    assert listed.left() == 50
    listed.tree.lose("x/1")
    assert listed.look("x") is None


def test_a_disk_that_has_all_the_files_may_take_the_place_of_another(listed: Listed) -> None:
    listed.tree.root = "other disk"
    listed.tree.keys.add("f/new")
    assert listed.look("f") is None
    listed.tree.lose("e/1")
    assert listed.look("e") is None  # it is known by now
    assert listed.left() == 40


def building(listed: Listed, known: str | None = None) -> Feed:
    """The source feeds another edition, too, whose documents were listed under ``known``."""
    editions, docs = Editions(listed.journal), CollectionName("docs")
    editions.choose(TREE.edition, docs, "{}")
    new = Feed(TREE.source, editions.build(docs, "{}", 0.0).name)
    if known is not None:
        listed.journal.observe(*new, Changes(tuple(listed.tree.scan_under(known))), 0.0)
    sources = [Source(*feed, listed.tree, cast(Any, None)) for feed in (TREE, new)]
    listed.scanner.configure(sources, watch=False)
    return new


def test_a_second_edition_that_is_being_listed_lost_nothing(listed: Listed) -> None:
    """What the source had is counted in the edition that readers see."""
    new = building(listed, "e")
    listed.tree.lose("e/1")
    assert listed.look() is None
    assert len(listed.versions(new)) == 39


def test_a_source_is_listed_once_for_all_its_editions(listed: Listed) -> None:
    before, new = listed.tree.listings, building(listed)
    assert listed.look() is None
    assert listed.tree.listings == before + 1
    assert listed.versions(new) == listed.versions(TREE)
    assert all(listed.scanner.listed(feed.edition) for feed in (TREE, new))
    ids = {entry.key: entry.document_id for entry in listed.journal.of_collection(TREE.edition)}
    assert {entry.key: entry.document_id for entry in listed.journal.of_collection(new.edition)} == ids


def test_a_hold_keeps_the_documents_of_all_editions(listed: Listed) -> None:
    new = building(listed)
    listed.look()
    for folder in "ab":
        listed.tree.lose(f"{folder}/")
    assert (listed.look("") or "").startswith("30 of 40")
    assert len(listed.versions(new)) == 40
    listed.rows.accept(TREE.source)
    listed.look()
    assert len(listed.versions(new)) == 10


# --- in parts ----------------------------------------------------------------------------------------------


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch, listed: Listed) -> Listed:
    """Listings are taken over in parts of ten documents."""
    monkeypatch.setattr(comparison, "_PAGE", 10)
    listed.tree.keys |= {f"new/{n:02}" for n in range(25)}
    listed.scanner.hinted(TREE.source, Outcome(TREE.source, Hint("")))
    listed.scanner.start()
    return listed


def next_part(listed: Listed) -> int:
    """How many documents the journal has after it."""
    outcome = listed.pool.next(0)
    assert outcome is not None
    listed.scanner.scanned(cast(Any, outcome.tag), outcome)
    return listed.left()


def test_work_goes_on_between_the_parts_of_a_listing(parts: Listed) -> None:
    parts.tree.lose("e/")
    assert [next_part(parts), parts.scanner.busy()] == [50, True]
    parts.scanner.start()  # begins no other listing
    assert [next_part(parts), next_part(parts), parts.scanner.busy()] == [60, 65, False]
    assert parts.look() is None
    assert parts.rows.of(TREE.source).documents == 65


def test_what_vanished_is_in_the_first_part(listed: Listed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or else a renamed document might be read before the journal knows that the old one is gone."""
    monkeypatch.setattr(comparison, "_PAGE", 10)
    listed.tree.lose("a/")
    listed.tree.keys |= {f"new/{n:02}" for n in range(20)}
    listed.scanner.hinted(TREE.source, Outcome(TREE.source, Hint("")))
    listed.scanner.start()
    assert [next_part(listed), next_part(listed)] == [30, 40]


def test_a_part_that_the_journal_cannot_take_is_repeated(
    parts: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert next_part(parts) == 50
    outcome = parts.pool.next(0)
    with monkeypatch.context() as full:
        full.setattr(parts.journal, "observe", raising(sqlite3.OperationalError("disk is full")))
        with pytest.raises(sqlite3.OperationalError):
            parts.scanner.scanned(cast(Any, outcome).tag, cast(Any, outcome))
    parts.scanner.scanned(cast(Any, outcome).tag, cast(Any, outcome))
    assert [parts.left(), next_part(parts)] == [60, 65]


def test_the_end_of_a_listing_that_the_journal_cannot_note_is_repeated(
    parts: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [next_part(parts), next_part(parts)] == [50, 60]
    outcome = parts.pool.next(0)
    with monkeypatch.context() as full:
        full.setattr(parts.scanner.source_rows, "scanned", raising(sqlite3.OperationalError("disk is full")))
        with pytest.raises(sqlite3.OperationalError):
            parts.scanner.scanned(cast(Any, outcome).tag, cast(Any, outcome))
    assert parts.scanner.busy()
    parts.scanner.scanned(cast(Any, outcome).tag, cast(Any, outcome))
    assert [parts.left(), parts.scanner.busy()] == [65, False]


def test_a_listing_is_being_taken_over_until_its_last_part(parts: Listed) -> None:
    assert parts.scanner.taking_over() == set()
    assert [next_part(parts), parts.scanner.taking_over()] == [50, {TREE.source}]
    assert [next_part(parts), parts.scanner.taking_over()] == [60, {TREE.source}]
    assert [next_part(parts), parts.scanner.taking_over()] == [65, set()]


def raising(error: Exception) -> Any:
    def method(*arguments: object) -> None:
        raise error

    return method


def test_under_another_config_the_rest_of_a_listing_is_found_by_the_next_one(parts: Listed) -> None:
    assert next_part(parts) == 50
    parts.scanner.configure([Source(*TREE, parts.tree, cast(Any, None), setting="new")], watch=False)
    assert next_part(parts) == 50
    parts.tree.lose("new/2")
    assert parts.look() is None
    assert parts.left() == 60


# --- another config ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "listings"),
    [({}, 0), ({"setting": "b"}, 1), ({"setting": None}, 1), ({"collection": EditionName("other")}, 1)],
)
def test_a_new_config_lists_only_what_is_set_otherwise(
    listed: Listed, change: dict[str, Any], listings: int
) -> None:
    source = Source(*TREE, listed.tree, cast(Any, None), setting="a")
    listed.scanner.configure([source], watch=False)
    listed.look()
    before = listed.tree.listings
    listed.scanner.configure([replace(source, **change)], watch=False)
    assert listed.scanner.busy() is bool(listings)
    listed.scanner.start()
    assert listed.tree.listings == before + listings


def test_a_source_in_trouble_is_listed_again_under_a_new_config(listed: Listed) -> None:
    source = Source(*TREE, listed.tree, cast(Any, None), setting="a")
    listed.scanner.configure([source], watch=False)
    listed.look()
    listed.tree.lose("")
    assert listed.look("") is not None
    listed.scanner.configure([source], watch=False)
    assert listed.scanner.busy()


def test_a_watch_goes_on_unless_it_failed(listed: Listed) -> None:
    source = Source(*TREE, listed.tree, cast(Any, None), setting="a")
    listed.scanner.configure([source], watch=True)
    listed.look()
    ended: list[str] = []
    listed.scanner._watches[TREE.source].end = lambda: ended.append("first")
    listed.scanner.configure([source], watch=True)
    assert ended == []
    listed.scanner.hinted(TREE.source, Outcome(None, error=OSError("too many watches")))
    listed.scanner.configure([source], watch=True)
    assert ended == ["first"]
