"""The crash laws over collections in shards, whose number changes; and that they can fail."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from ingestor.chroma import shards as sharding
from ingestor.core import entries
from ingestor.engine import edition_store
from ingestor.engine.edition_store import EditionStore
from ingestor.ports import Transient
from ingestor.rechunk import policy
from tests.memory_index import MemoryIndex
from tests.simulation.checks.at_rest import check
from tests.simulation.checks.durable import place
from tests.simulation.directed import begin, die_at, end, fail_at, run
from tests.simulation.histories import History, Variants, detect
from tests.simulation.laws import CLEAN, EXACT, IN_PLACE, ONE_SET, SUPERSET
from tests.simulation.world import World


@pytest.mark.parametrize("gone", [False, True])
def test_harmed_shard_rewrites_only_its_own_documents(
    gone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, 1, shards=3)
    for number in range(30):
        world.files.write(f"{number}.txt", f"alpha\nbeta {number}")
    world.settle()
    written: list[str] = []
    upsert = MemoryIndex.upsert
    name = "docs-1-of-3"
    before = {record.id for record in world.shelves.records(name)}
    if gone:
        del world.shelves.collections[name]
        world.end()
        world.start()
    else:
        world.shelves.collections[name][0].torn = True
        world.engine.health.mark("docs")  # type: ignore[arg-type]
    with monkeypatch.context() as patched:
        patched.setattr(
            MemoryIndex,
            "upsert",
            lambda self, rows: (written.extend(row.id for row in rows), upsert(self, rows)),
        )
        world.settle()
    assert set(written) == before
    assert {place(id_, 3) for id_ in written} == {1}
    check(world)
    world.end()


_DECIDE, _DIVIDED, _SHARD_OF = policy.decide, sharding.Shards._divide, entries.shard_of
_NOTE_LEFTOVERS = EditionStore._note_leftovers


def _by_slot(id_: str, shards: int) -> int:
    """As if each record were hashed, and not its document."""
    return _SHARD_OF(id_.replace("#", "-"), shards)


def _salted(self: Any, parts: Any) -> None:
    """As Python's own hash, which differs between two runs."""
    self.parts = tuple(parts)
    salt = Random(str(parts)).random()
    self._divide = lambda items, id_of: _DIVIDED(self, items, lambda item: f"{salt}{id_of(item)}")


def _new_names_first(editions: Any, key: Any) -> Any:
    return sorted(editions, key=key, reverse=True)


def _in_place(now: policy.CollectionSituation, rechunk: Any) -> policy.Decision:
    return policy.Decision("follow", now.wanted) if now.resharded else _DECIDE(now, rechunk)


def _note_before_the_first_write(self: EditionStore) -> None:
    if not all(edition.uuids for edition in self._editions.all()):
        _NOTE_LEFTOVERS(self)


def divide_again(folder: Path) -> None:
    """The process starts anew. Shards change their number; Chroma fails in a rename, or the process dies."""
    world = begin(folder, shards=2)
    world.end()
    world.start()
    world.files.write("0.txt", "an edit")
    world.settle()
    check(world)
    for number in (3, 1, 2):
        world.configure(shards=number)
        fail_at(world, "rename", 2)
        run(world, 30)
        world.settle()
    for times in range(1, 9):
        world.configure(shards=1 + times % 3)
        die_at(world, "after commit", times)
        world.step(20)
        world.settle()
    end(world)


def divide_before_they_are_known(folder: Path) -> None:
    """Chroma fails, or the process dies, at new shards; their number changes before the next try."""
    world = World(folder, 1, shards=3)
    world.files.write("0.txt", "alpha")
    fail_at(world, "facts")
    run(world, 1)
    world.configure(shards=2)
    die_at(world, "after create", 2)
    world.step(1)
    world.configure(shards=1)
    end(world)


def divide_while_new_shards_cannot_be_opened(folder: Path) -> None:
    """Shards that were lost are made anew, and replaced by others before the journal knows them."""
    world = begin(folder, shards=3)
    world.end()
    world.shelves.collections.clear()
    world.start()
    fail_at(world, "facts")
    run(world, 1)
    for index, _ in world.shelves.collections.values():
        index.facts = _refuse  # type: ignore[method-assign]
    world.configure(shards=2)
    end(world)


def _refuse() -> dict[str, object]:
    raise Transient("Chroma does not answer")


BROKEN: Variants = {
    "records of a document are in several shards": (
        sharding, "shard_of", _by_slot, {IN_PLACE}, divide_again,
    ),
    "a hash differs between runs": (
        sharding.Shards, "__init__", _salted, {IN_PLACE, EXACT, CLEAN}, divide_again,
    ),
    "new shards get their names before old ones lose them": (
        edition_store, "sorted", _new_names_first, {ONE_SET}, divide_again,
    ),
    "another number of shards is written in place": (
        policy, "decide", _in_place, {CLEAN, EXACT, SUPERSET, ONE_SET}, divide_again,
    ),
    "shards that the journal does not know stay": (
        EditionStore, "_note_leftovers", lambda self: None, {ONE_SET}, divide_before_they_are_known,
    ),
    "shards that the journal does not know outlive their edition": (
        EditionStore, "_note_leftovers", _note_before_the_first_write,
        {ONE_SET}, divide_while_new_shards_cannot_be_opened,
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "history",
    [divide_again, divide_before_they_are_known, divide_while_new_shards_cannot_be_opened],
    ids=["known", "unknown", "never opened"],
)
def test_shards_that_are_divided_again_equal_a_fresh_run(history: History, tmp_path: Path) -> None:
    history(tmp_path)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_detected(name: str, tmp_path: Path) -> None:
    detect(BROKEN[name], tmp_path)
