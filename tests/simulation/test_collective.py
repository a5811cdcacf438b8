"""The crash laws for the strategies whose cuts depend on the whole collection, in the real engine.

Whatever happened, documents are cut as a run from nothing would cut them, bit for bit; and without accidents
only those are visited whose interval the collection's statistic has left.
"""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from ingestor.core.entries import EditionName
from ingestor.engine.writer import Writer
from ingestor.model import Chunking, Document, Sums
from ingestor.ports import Collective, Embed
from ingestor.registry import find
from ingestor.state.backlog import Backlog
from ingestor.text.tokens import Tokens
from tests.simulation import play as playing
from tests.simulation.checks.at_rest import check
from tests.simulation.directed import end, run
from tests.simulation.histories import Bounds, Variants, detect
from tests.simulation.laws import AT_ONCE, EXACT
from tests.simulation.ports import plugins
from tests.simulation.world import DOCS, World
from tests.state.journals import of_collection

TOKENS = Tokens()
STRATEGIES: dict[str, dict[str, Any]] = {
    "cluster": {"min_tokens": 6, "max_tokens": 24},
    "changepoint": {"target": 10, "vectors": "pooled"},
}
LINES = [
    f"{what} {does} here." for what in ("Basil", "A pump", "Copper") for does in ("grows", "waits", "is")
]


class Noting:
    """A real chunker."""

    asked: list[str] = []  # noqa: RUF012 - the texts of documents it was given, by all of them

    def __init__(self, kind: str) -> None:
        plugin = find("chunkers", kind)
        self.chunker = plugin.build(plugin.options(**STRATEGIES[kind]), TOKENS)
        assert isinstance(self.chunker, Collective)
        self.statistic, self.value = self.chunker.statistic, self.chunker.value

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        self.asked.append(document.text)
        made: Chunking = self.chunker.chunk(document, embed, others)
        return made


def bounds_of(strategy: str) -> Bounds:
    return (plugins, "Fickle", lambda: Noting(strategy)), (playing, "LINES", LINES)


@pytest.fixture(params=STRATEGIES)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    for each in bounds_of(request.param):
        monkeypatch.setattr(*each)
    return str(request.param)


def _flush_when_all_are_read(self: Writer, collection: EditionName, *args: Any, **options: Any) -> bool:
    """As it was: documents were held while others of their collection had not been read."""
    unread = self._journal.select("SELECT COUNT(*) FROM documents WHERE digest IS NULL AND NOT quarantined")
    waiting = self._flight.queues[collection].documents
    return unread[0][0] <= len(waiting) and _FLUSH(self, collection, *args, **options)


_FLUSH = Writer._flush


def change(world: World, random: Random) -> str:
    """Replace or delete a document. Returns its name."""
    changed = f"{random.randrange(20)}.txt"
    world.files.delete(changed)
    if random.random() < 0.8:
        lines = random.choices(LINES, k=random.randrange(1, 12))
        world.files.write(changed, "\n".join([*lines, f"Note {random.random()}."]))
    return changed


def drift(folder: Path) -> None:
    """Documents change, and one of them cannot be read at first."""
    random, world = Random(5), World(folder, 5, collective=True)
    for _ in range(15):
        change(world, random)
    world.files.locked = {min(world.files.contents)}
    run(world, 10)
    for _ in range(15):
        change(world, random)
        world.settle()
    end(world)


BROKEN: Variants = {
    "statistics that moved disturb nobody": (Backlog, "find_drifted", lambda self, *args: [], {EXACT}, drift),
    "documents wait until all are read": (Writer, "_flush", _flush_when_all_are_read, {AT_ONCE}, drift),
}


def test_moving_statistic_equals_a_fresh_run(tmp_path: Path, kind: str) -> None:
    drift(tmp_path)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_detected(name: str, tmp_path: Path, kind: str) -> None:
    detect(BROKEN[name], tmp_path)


def test_documents_are_visited_only_if_their_interval_was_crossed(tmp_path: Path, kind: str) -> None:
    random, world, visits = Random(5), World(tmp_path, 5, collective=True), 0
    chunker = Noting(kind)
    for _ in range(30):
        changed = change(world, random)
        others = [entry for entry in of_collection(world.journal, DOCS) if entry.key != changed]
        chunker.asked.clear()
        world.settle()
        total = world.journal.total(DOCS, chunker.statistic)
        value = 0 if total is None else chunker.value(total)
        intervals = {entry.key: entry.interval or (0, 0) for entry in others}
        crossed = {key for key, (least, most) in intervals.items() if not least <= value <= most}
        due = [world.files.contents[key] for key in {changed, *crossed} if key in world.files.contents]
        assert sorted(chunker.asked) == sorted(due)
        visits += len(crossed)
    check(world)
    world.end()
    assert visits > 1
