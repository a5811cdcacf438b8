"""An edition keeps the laws of ``Index`` in any number of shards, and its words follow every write."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ingestor.chroma.supervision import DEATHS
from ingestor.core.backend import Model
from ingestor.core.entries import ChromaName, EditionName
from ingestor.engine.edition_store import EditionIndex, EditionStore
from ingestor.lexical.index import LexicalIndex
from ingestor.model import CollectionName, Fingerprint
from ingestor.ports import Torn, Transient
from ingestor.state.editions import Editions
from ingestor.state.journal import Journal
from tests.chroma.laws import IndexLaws, record
from tests.lexical.worlds import in_step, opened, upkeep_in
from tests.memory_index import MemoryIndex


def editions(folder: Path, shards: int) -> Iterator[Callable[[], EditionIndex]]:
    """Yield a function that makes empty editions. At the end of the test the words of each are in step."""
    numbers, made = count(), list[EditionIndex]()
    with opened(folder / "lexical.sqlite3") as file:

        def new() -> EditionIndex:
            words = LexicalIndex(file, (f"uuid-{next(numbers)}",))
            made.append(EditionIndex([MemoryIndex() for _ in range(shards)], words))
            return made[-1]

        yield new
        for edition in made:
            in_step(edition, edition.words)


class TestEdition(IndexLaws):
    @pytest.fixture
    def fresh(self, tmp_path: Path) -> Iterator[Callable[[], EditionIndex]]:
        yield from editions(tmp_path, 1)


class TestEditionInShards(IndexLaws):
    @pytest.fixture
    def fresh(self, tmp_path: Path) -> Iterator[Callable[[], EditionIndex]]:
        yield from editions(tmp_path, 3)


@pytest.fixture
def edition(tmp_path: Path) -> Iterator[EditionIndex]:
    for new in editions(tmp_path, 2):
        yield new()


def test_patch_of_the_language_stems_again(edition: EditionIndex) -> None:
    texts = [record("a#0", "running dogs", language="en"), record("b#0", "running dogs", language="de")]
    edition.upsert(texts)
    edition.patch([("a#0", {"language": "de-AT"}), ("b#0", {"language": None})])
    assert {one.id: one.metadata.get("language") for one in edition.read(["a#0", "b#0"])} == {
        "a#0": "de-AT",
        "b#0": None,
    }
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

    def names(self) -> dict[str, str]:
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
