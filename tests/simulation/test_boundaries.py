"""Histories at the boundaries: other collections, a server that embeds, people, readers, restless logs."""

import logging
from pathlib import Path

import pytest

from ingestor.app.parts import Parts
from ingestor.core.entries import Entry
from ingestor.engine import vectors, writer
from ingestor.engine.edition_store import EditionIndex
from ingestor.engine.outcomes import DocumentFlow
from ingestor.rechunk import policy
from ingestor.search import search
from ingestor.state.editions import Editions, Notices
from tests.simulation.checks.readers import EMBEDDERS, OTHER_MODEL
from tests.simulation.directed import begin, die_at, end, end_at_rest, run, run_listing
from tests.simulation.histories import History, Variants, detect
from tests.simulation.laws import (
    APPROVED,
    COMPLETE,
    EXACT,
    ONE_EMBEDDER,
    ONE_LIVE,
    ONE_STATE,
    OWN,
    REST,
    SETTINGS,
    STOOD,
)
from tests.simulation.play import LINES
from tests.simulation.ports.chaos import Crash
from tests.simulation.ports.files import UNREADABLE, Files
from tests.simulation.world import DOCS, MORE, World

_ASK, _SOURCES, _WRITE = DocumentFlow._ask_person, Parts.sources, writer.write


def _of_any(self, serves, role):
    return [edition for edition in self.all() if edition.role == role]


def _fed_by_all(self, serves, edition, *others, **named):
    for collection in self.config.collections:
        yield from _SOURCES(self, collection, edition, *others, **named)


def _dropped_first(journal, index, batch, *others):
    if ids := [record.id for prepared in batch for record in prepared.records]:
        index.drop(ids)
    return _WRITE(journal, index, batch, *others)


def _ask_as_if_alone(self: DocumentFlow, entry: Entry, reason: str) -> None:
    """Hold a source as if no edition were built to replace the one that readers see."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(self, "_sources", {})
        _ASK(self, entry, reason)


def want_approval(folder: Path) -> None:
    world = begin(folder, approves=True)
    world.configure(per_chunk=2)
    run(world, 5)
    end(world)


def update_the_parser_after_a_death(folder: Path) -> None:
    """The process dies while it writes the only readable document; an update has another parser."""
    world = World(folder, 1, approves=True)
    world.files.write("0.txt", UNREADABLE)
    world.settle()
    world.files.write("1.txt", "alpha")
    die_at(world, "after upsert")
    with pytest.raises(Crash):
        run_listing(world, 10)
    assert world.readers.seen()
    world.end()
    world.parser += 1
    world.start()
    run(world, 5)
    assert not Notices(world.journal).all("waits"), "no document was read by the former parser"
    end(world)


def feed_two(folder: Path) -> None:
    """Each of two sources feeds a collection of its own, and both collections are swapped."""
    world = begin(folder, two=True, mode="swap")
    world.places[MORE].write("a.txt", "alpha of another")
    world.settle()
    world.configure(per_chunk=2)
    run(world, 30)
    end(world)


def exchange_the_model(folder: Path) -> None:
    """The server embeds by another model, and nobody says so, when a document changes."""
    world = begin(folder, remote=True)
    world.server_model = OTHER_MODEL
    world.files.write("0.txt", "an edit")
    run_listing(world, 10)
    end(world)


def ask_during_edits(folder: Path) -> None:
    world = begin(folder, asking=True)
    for number in range(40):
        world.files.write(f"{number % 6}.txt", f"{LINES[number % 5]} {number}\n{LINES[number % 3]}")
        world.engine.scanner.request_listing()
        world.now += 1.0
        world.readers.question(world)
    end(world)


def change_the_model_of_none(folder: Path) -> None:
    """The model changes while the collection is empty; then documents come."""
    world = World(folder, 1)
    world.settle()
    world.engine.check_editions()
    world.settle()
    world.configure(embedder=EMBEDDERS[1])
    world.files.write("0.txt", LINES[0])
    world.engine.scanner.request_listing()
    end(world)


def exchange_the_server(folder: Path) -> None:
    """Another model comes to another server, which answers for the former one, too; a document changes."""
    world = World(folder, 1, remote=True, mode="swap", watched=True)
    for number in range(12):
        world.files.write(f"{number:02}.txt", f"alpha {number}")
    world.settle()
    world.files.write("00.txt", "an edit")
    world.server_model = EMBEDDERS[1]
    world.configure(embedder=world.server_model)
    run(world, 60, 5.0)
    end_at_rest(world)


def write_again(folder: Path) -> None:
    """Every record is in doubt, and is written again while readers ask."""
    world = begin(folder, asking=True)
    world.journal.doubt(Editions(world.journal).live(DOCS).name)
    run(world, 10, 5.0)
    end_at_rest(world)


BROKEN: Variants = {
    "nothing needs approval": (policy, "_asks", lambda now, rechunk: "", {APPROVED}, want_approval),
    "a source feeds every collection": (Parts, "sources", _fed_by_all, {OWN}, feed_two),
    "editions of other collections are one's own": (
        Editions, "of", _of_any, {ONE_LIVE, EXACT, REST, COMPLETE, OWN}, feed_two,
    ),
    "whatever a server embeds is believed": (
        vectors, "find_other_model", lambda *args: None, {ONE_EMBEDDER}, exchange_the_model,
    ),
    "an answer is given whatever was written meanwhile": (
        search, "AGAIN", 0, {ONE_STATE}, ask_during_edits,
    ),
    "an open collection fits every model": (
        EditionIndex, "is_made_for", lambda self, model: True, {SETTINGS}, change_the_model_of_none,
    ),
    "an edition that is replaced holds its source": (
        DocumentFlow, "_ask_person", _ask_as_if_alone, {REST}, exchange_the_server,
    ),
    "records are dropped before they are written": (writer, "write", _dropped_first, {STOOD}, write_again),
}  # fmt: skip


HISTORIES = dict.fromkeys([*(variant[-1] for variant in BROKEN.values()), update_the_parser_after_a_death])


@pytest.mark.parametrize("history", HISTORIES)
def test_pinned_boundaries_equal_a_fresh_run(history: History, tmp_path: Path) -> None:
    history(tmp_path)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_detected(name: str, tmp_path: Path) -> None:
    detect(BROKEN[name], tmp_path)


def test_document_that_always_changes_is_tried_rarely_and_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A watcher sees each of its changes; when it rests, it is indexed."""
    fetch, tries = Files.fetch, list[str]()
    monkeypatch.setattr(Files, "fetch", lambda self, item: (tries.append(item.key), fetch(self, item))[1])
    world = World(tmp_path, 1, watched=True)
    for name in ("a.txt", "b.txt"):
        world.files.write(name, "alpha")
    world.files.restless = {"a.txt"}
    with caplog.at_level(logging.INFO):
        for number in range(300):
            if number % 50 == 49:
                world.files.write("b.txt", f"beta {number}")
            world.now += 1.0
            world.engine_step()
    assert 10 < tries.count("a.txt") < 25, "300 s, and every 30 s but at first"
    assert 1 <= caplog.text.count("source files: a.txt changed") <= 2
    assert "beta 249" in {record.text for record in world.readers.seen()}
    world.files.restless.clear()
    run(world, 40)
    end_at_rest(world)
