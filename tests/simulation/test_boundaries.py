"""Histories at the boundaries: other collections, a server that embeds, people, readers, restless documents.

Two collections have recipes of their own and share the embedder. Its server is away at times, and becomes
another one. People approve changes of the config, undo them, or do neither. Readers ask before, within and
after every write, and documents grow while they are read.
"""

import logging
from pathlib import Path

import pytest

from ingestor.app.parts import Parts
from ingestor.core.entries import Entry
from ingestor.engine import writer
from ingestor.engine.edition_store import EditionIndex
from ingestor.engine.loop import DocumentFlow
from ingestor.engine.vectors import RemoteVectors
from ingestor.rechunk import policy
from ingestor.search import search
from ingestor.state.editions import Editions
from ingestor.state.sources import SourceRows
from tests.simulation.checks.at_rest import check
from tests.simulation.checks.readers import EMBEDDERS, OTHER_MODEL
from tests.simulation.directed import History, begin, end, go_on
from tests.simulation.histories import Seeds, Variants, crashes, show
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
    LawBroken,
    hold,
)
from tests.simulation.play import LINES
from tests.simulation.ports.files import Files
from tests.simulation.world import DOCS, FILES, MORE, World


def boundaries(seed: int) -> dict[str, object]:
    return {
        "two": True,
        "several": seed % 2 == 0,
        "remote": seed % 4 < 2,
        "approves": seed % 3 == 0,
        "asking": True,
        "restless": seed % 5 == 0,
    }


def test_every_history_equals_a_fresh_run(tmp_path: Path, seeds: Seeds) -> None:
    assert crashes(tmp_path, seeds(range(12), 1), boundaries).total() > 8


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_thousand_further_histories_equal_a_fresh_run(tmp_path: Path) -> None:
    assert crashes(tmp_path, range(12, 1012), boundaries).total() > 10_000


def _of_any(self, serves, role):
    return [edition for edition in self.all() if edition.role == role]


def _fed_by_all(self, serves, edition, *others, **named):
    for collection in self.config.collections:
        yield from _SOURCES(self, collection, edition, *others, **named)


_SOURCES = Parts.sources


def _dropped_first(journal, index, batch, *others):
    if ids := [record.id for prepared in batch for record in prepared.records]:
        index.drop(ids)
    return _WRITE(journal, index, batch, *others)


_WRITE = writer.write


BROKEN: Variants = {
    "nothing needs approval": (policy, "_asks", lambda now, rechunk: "", {APPROVED}),
    "a source feeds every collection": (Parts, "sources", _fed_by_all, {OWN}),
    "editions of other collections are one's own": (
        Editions, "of", _of_any, {ONE_LIVE, EXACT, REST, COMPLETE, OWN},
    ),
    "whatever a server embeds is believed": (
        RemoteVectors, "_other_server", lambda self, now: None, {ONE_EMBEDDER},
    ),
    "an answer is given whatever was written meanwhile": (search, "AGAIN", 0, {ONE_STATE}),
    "an open collection fits every model": (
        EditionIndex, "is_made_for", lambda self, model: True, {SETTINGS},
    ),
}  # fmt: skip


def want_approval(folder: Path) -> None:
    world = begin(folder, approves=True)
    world.per_chunk = 2
    world.configure()
    go_on(world, 5)
    end(world)


def feed_two(folder: Path) -> None:
    """Each of two sources feeds a collection of its own, and both collections are swapped."""
    world = begin(folder, two=True, mode="swap")
    world.places[MORE].write("a.txt", "alpha of another")
    world.settle()
    world.per_chunk = 2
    world.configure()
    go_on(world, 30)
    end(world)


def exchange_the_model(folder: Path) -> None:
    """The server embeds by another model, and nobody says so, when a document changes."""
    world = begin(folder, remote=True)
    world.server_model = OTHER_MODEL
    world.files.write("0.txt", "an edit")
    world.engine.scanner.request_listing()
    go_on(world, 10)
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
    world.engine.check_collections()
    world.settle()
    world.embedder = EMBEDDERS[1]
    world.configure()
    world.files.write("0.txt", LINES[0])
    world.engine.scanner.request_listing()
    end(world)


SHOWN_BY = dict(
    zip(
        BROKEN,
        (want_approval, feed_two, feed_two, exchange_the_model, ask_during_edits, change_the_model_of_none),
        strict=True,
    )
)


@pytest.mark.parametrize("history", dict.fromkeys(SHOWN_BY.values()))
def test_pinned_boundaries_equal_a_fresh_run(history: History, tmp_path: Path) -> None:
    history(tmp_path)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_detected(name: str, tmp_path: Path) -> None:
    show(BROKEN[name], SHOWN_BY[name], tmp_path)


def exchange_the_server(folder: Path) -> None:
    """Another model comes to another server, which answers for the former one, too; a document changes."""
    world = World(folder, 1, remote=True, mode="swap", watched=True)
    for number in range(12):
        world.files.write(f"{number:02}.txt", f"alpha {number}")
    world.settle()
    world.files.write("00.txt", "an edit")
    world.server_model = world.embedder = EMBEDDERS[1]
    world.configure()
    for _ in range(60):
        world.now += 5.0
        world.engine_step()
    hold(REST, not world.resting() and SourceRows(world.journal).of(FILES).held)
    check(world)
    world.end()


def test_missing_former_model_does_not_delay_the_next(tmp_path: Path) -> None:
    exchange_the_server(tmp_path)


def test_hold_by_an_edition_that_is_replaced_is_detected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = DocumentFlow._ask_person

    def ask_as_if_alone(self: DocumentFlow, entry: Entry, reason: str) -> None:
        """Hold a source as if no edition were built to replace the one that readers see."""
        with monkeypatch.context() as patch:
            patch.setattr(self, "_sources", {})
            ask(self, entry, reason)

    monkeypatch.setattr(DocumentFlow, "_ask_person", ask_as_if_alone)
    with pytest.raises(LawBroken) as found:
        exchange_the_server(tmp_path)
    assert found.value.law == REST


def test_document_that_always_changes_is_tried_rarely_and_logged_once_a_minute(
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
        for number in range(600):
            if number % 100 == 99:
                world.files.write("b.txt", f"beta {number}")
            world.now += 0.5
            world.engine_step()
    assert 10 < tries.count("a.txt") < 25, "300 s, and every 30 s but at first"
    assert 3 <= caplog.text.count("a.txt (files): changed") <= 6
    assert "beta 499" in {record.text for record in world.readers.seen()}
    world.files.restless.clear()
    for _ in range(80):
        world.now += 0.5
        world.engine_step()
    assert world.resting()
    check(world)
    world.end()


def write_again(folder: Path) -> None:
    """Every record is in doubt, and is written again while readers ask."""
    world = World(folder, 1, asking=True)
    for number in range(6):
        world.files.write(f"{number}.txt", f"alpha {number}\nbeta")
    world.settle()
    world.journal.doubt(Editions(world.journal).live(DOCS).name)
    for _ in range(10):
        world.now += 5.0
        world.engine_step()
    assert world.resting()
    check(world)
    world.end()


def test_records_that_are_written_again_stay_in_every_answer(tmp_path: Path) -> None:
    write_again(tmp_path)


def test_writer_that_drops_records_first_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "write", _dropped_first)
    with pytest.raises(LawBroken) as found:
        write_again(tmp_path)
    assert found.value.law == STOOD
