"""Editions in shards keep the laws of ``Index``, their words are in step, and their names follow roles."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from ingestor.chroma.backend import DEATHS
from ingestor.core.entries import ChromaName, Edition, EditionName, Role
from ingestor.core.generations import Home, Model
from ingestor.engine.edition_store import EditionIndex, EditionStore, rename_to_roles
from ingestor.lexical.index import LexicalIndex
from ingestor.model import CollectionName, Fingerprint
from ingestor.ports import NeedsHuman, Torn, Transient
from ingestor.state.editions import Editions
from ingestor.state.journal import Journal
from tests.chroma.laws import IndexLaws, record
from tests.lexical.worlds import in_step, opened, upkeep_in
from tests.memory_index import MemoryIndex


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Callable[[], EditionIndex]]:
    """Make empty editions of three shards. At the end of the test the words of each are in step."""
    made = list[EditionIndex]()
    with opened(tmp_path / "lexical.sqlite3") as file:

        def new() -> EditionIndex:
            words = LexicalIndex(file, (f"uuid-{len(made)}",))
            made.append(EditionIndex([MemoryIndex() for _ in range(3)], words))
            return made[-1]

        yield new
        for edition in made:
            in_step(edition, edition.words)


class TestEditionInShards(IndexLaws):
    pass


@pytest.fixture
def edition(fresh: Callable[[], EditionIndex]) -> EditionIndex:
    return fresh()


def test_patch_of_the_language_stems_again(edition: EditionIndex) -> None:
    texts = [record("a#0", "running dogs", language="en"), record("b#0", "running dogs", language="de")]
    edition.upsert(texts)
    edition.patch([("a#0", {"language": "de-AT"}), ("b#0", {"language": None})])
    stored = {one.id: one.metadata.get("language") for one in edition.read(["a#0", "b#0"])}
    assert stored == {"a#0": "de-AT", "b#0": None}
    languages = {id_: row.decided.language for id_, row in edition.words.read(["a#0", "b#0"]).items()}
    assert languages == {"a#0": "de", "b#0": ""}


def test_language_without_a_code_stays(edition: EditionIndex) -> None:
    edition.upsert([record("a#0", "running dogs", language="en")])
    edition.upsert([record("a#0", "running cats")])
    assert edition.words.read(["a#0"])["a#0"][1:] == (("en", "", "", None), "run cat")


class CrashingServer:
    """A server that ends whenever it loads one collection; see chroma/backend.py for what it does then."""

    def __init__(self, fatal: str) -> None:
        self._fatal, self._down, self.restarts = fatal, False, 0
        self.deaths = Counter[str]()

    def open(self, name: ChromaName, model: Model) -> tuple[MemoryIndex, str]:
        if self.deaths[name] >= DEATHS:
            raise Torn("it crashes the server")
        self._down |= name == self._fatal
        if self._down:
            raise Transient("no answer")
        return MemoryIndex(), name

    def own_names(self, home: Home) -> dict[str, str]:
        return {}

    def trouble(self, name: ChromaName, error: Exception) -> None:
        if self._down:
            self.deaths[name] += 1
            self.restarts += 1
        self._down = False


def test_shard_that_crashes_the_server_is_blamed_alone(tmp_path: Path) -> None:
    server: Any = CrashingServer("docs-2-of-4")
    journal, docs = Journal(tmp_path / "journal.sqlite3"), EditionName("docs")
    Editions(journal).choose(docs, CollectionName("docs"), {"shards": 4})
    store = EditionStore(journal, server, upkeep_in(tmp_path), lambda name: Model(Fingerprint("e")))
    for _ in range(DEATHS):
        with pytest.raises(Transient) as raised:
            store.open(docs)
        store.note_failure(docs, raised.value)
    with pytest.raises(Torn) as torn:
        store.open(docs)
    assert torn.value.shard == 2
    assert server.deaths == {"docs-2-of-4": DEATHS}
    assert server.restarts == DEATHS
    journal.close()


# --- names --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [Transient("away"), NeedsHuman("not Chroma"), RuntimeError("unexpected")])
def test_names_after_an_error_are_unknown(tmp_path: Path, error: Exception) -> None:
    server: Any = SimpleNamespace(names=Mock(side_effect=error))
    with closing(Journal(tmp_path / "journal.sqlite3")) as journal:
        assert EditionStore(journal, server, upkeep_in(tmp_path), Mock()).names() == set()


C = CollectionName("docs")


@dataclass
class Register:
    """``squatters``: how often a client takes a name again as soon as it is free."""

    by_uuid: dict[str, str]
    squatters: int = 0
    ousted: list[str] = field(default_factory=list)

    def names(self) -> dict[str, str]:
        return dict(self.by_uuid)

    def rename(self, uuid: str, name: str) -> bool:
        if self.squatters and name == C:
            self.squatters -= 1
            self.by_uuid[f"squatter {self.squatters}"] = name
        if name in self.by_uuid.values():
            return False
        self.by_uuid[uuid] = name
        return True

    def evict(self, name: str) -> str:
        uuid = next(uuid for uuid, there in self.by_uuid.items() if there == name)
        del self.by_uuid[uuid]
        self.ousted.append(uuid)
        return "deleted"


def edition_of(name: str, role: Role, uuid: str | None) -> Edition:
    return Edition(CollectionName(name), C, role, uuids=(uuid,))


SWAPPED = [edition_of("docs", "previous", "old"), edition_of("docs--2", "live", "new")]
ROLLED_BACK = [edition_of("docs", "live", "old"), edition_of("docs--2", "previous", "new")]
LOST = [edition_of("docs", "live", None), edition_of("docs--2", "staging", "gone")]
AS_WISHED = {"old": "docs--1", "new": "docs"}


@pytest.mark.parametrize(
    ("editions", "before", "squatters", "renamed", "after"),
    [
        (SWAPPED, {"old": "docs", "new": "docs--2"}, 0, 2, AS_WISHED),
        (SWAPPED, {"old": "docs--1", "new": "docs--2"}, 0, 1, AS_WISHED),  # it died between the two
        (SWAPPED, AS_WISHED, 0, 0, AS_WISHED),
        (SWAPPED, {"old": "docs", "new": "docs--2"}, 2, 2, AS_WISHED),  # clients took the freed name
        (ROLLED_BACK, AS_WISHED, 0, 2, {"old": "docs", "new": "docs--2"}),
        (LOST, {"someone's": "docs"}, 0, 0, {"someone's": "docs"}),
    ],
)
def test_collections_get_the_names_of_their_roles(
    editions: list[Edition], before: dict[str, str], squatters: int, renamed: int, after: dict[str, str]
) -> None:
    register = Register(dict(before), squatters)
    assert rename_to_roles(register, editions) == renamed
    assert register.by_uuid == after
    assert len(register.ousted) == squatters


def test_client_that_keeps_taking_a_name_is_reported() -> None:
    with pytest.raises(Transient, match="a client keeps creating"):
        rename_to_roles(Register({"old": "docs", "new": "docs--2"}, squatters=99), SWAPPED)
