"""`verify` and repair: vectors, words and settings that differ, and records that no search finds."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from ingestor.chroma import backend
from ingestor.chroma.backend import Ownership
from ingestor.chroma.index import DEEP, FEW, NEAR, ChromaIndex
from ingestor.chroma.server import ChromaServer
from ingestor.embedders.hashing import HashingEmbedder
from ingestor.engine.comparison import Findings, ThoroughCheck, compare
from ingestor.lexical.check import words_of
from ingestor.lexical.file import open_for_reading
from ingestor.model import CollectionName, Record, RecordId, Vector, Vectors
from ingestor.ports import Index
from ingestor.state.cache import VectorCache
from ingestor.state.editions import Editions
from ingestor.state.journal import Journal
from tests.chroma.opening import catalog, chroma_in
from tests.e2e.in_process import Ask
from tests.e2e.project import Project, long_document
from tests.serving import HOST, client_of, free_port


@dataclass
class Approximate:
    """An index that finds some records only among that many neighbours."""

    index: Index
    hidden: frozenset[RecordId]
    depth: int

    def count(self) -> int:
        return self.index.count()

    def ids(self) -> Iterator[RecordId]:
        return self.index.ids()

    def read(self, ids: list[RecordId], *, vectors: bool = False) -> list[Record]:
        return self.index.read(ids, vectors=vectors)

    def nearest(self, vectors: Vectors, n: int) -> list[list[tuple[RecordId, float]]]:
        answers = self.index.nearest(vectors, n)
        if n >= self.depth:
            return answers
        return [[hit for hit in hits if hit[0] not in self.hidden] for hits in answers]


def examined(project: Project, hidden: int, depth: int) -> tuple[Findings, frozenset[RecordId]]:
    """By an index that hides so many records from searches for fewer than ``depth`` neighbours."""
    state = project.folder / "state"
    journal, cache = Journal(state / "journal.sqlite3"), VectorCache(state / "cache.sqlite3", 10**9)
    live = Editions(journal).live(CollectionName("docs"))
    with chroma_in(project.folder / "chroma") as client:
        index = catalog(client, Ownership(journal.owner)).find(live.chroma_name)
        assert index is not None
        some = frozenset(sorted(index.ids())[:hidden])
        with words_of(open_for_reading(state / "lexical.sqlite3"), live.uuids) as words:
            found = compare(journal, [Approximate(index, some, depth)], live, ThoroughCheck(cache, words))  # type: ignore[arg-type]
    cache.close()
    journal.close()
    return found, some


@pytest.mark.usefixtures("embedded")
def test_record_of_a_deeper_search_is_within_reach(project: Project) -> None:
    (project.docs / "a.txt").write_text(long_document(240))
    project.json("sync")
    assert examined(project, hidden=2, depth=NEAR + 1)[0].clean
    assert examined(project, hidden=FEW, depth=DEEP)[0].clean

    found, hidden = examined(project, hidden=2, depth=DEEP + 1)
    assert set(found.unreachable) == hidden
    assert len(found.rows) == 1
    found, hidden = examined(project, hidden=FEW + 1, depth=DEEP)
    assert set(found.unreachable) == hidden, "so many are not missed by a whole graph"


@pytest.mark.slow
def test_words_that_differ_are_found_and_repaired(project: Project) -> None:
    for n in range(3):
        (project.docs / f"{n}.txt").write_text(f"The pump number {n} is running.")
    assert project.json("sync")["documents"]["added"] == 3
    assert project.json("verify")["words"] == 0
    path = project.folder / "state/lexical.sqlite3"
    db = sqlite3.connect(path)
    db.execute("UPDATE records_1 SET terms = 'other' WHERE row = 1")
    db.execute("DELETE FROM records_1 WHERE row = 2")
    db.execute("INSERT INTO records_1 SELECT 99, 'surplus#0', x'00', '', '', '', ''")
    db.commit()
    db.close()
    found = project.json("verify", code=4)
    assert (found["words"], found["missing"], found["stale"]) == (3, 0, 0)
    mended = project.json("verify", "--repair")
    assert (mended["repaired"], mended["words"], mended["checked"]) == (True, 0, 3)

    path.write_bytes(b"damaged" * 1000)
    assert project.json("verify", code=4)["words"] == 3
    assert project.json("sync")["embedded"]["texts"] == 0
    assert project.json("verify")["words"] == 0


def test_verify_reports_changed_settings_and_repair_restores_them(project: Project) -> None:
    """An embedding function names what readers load, or where their questions and variables go."""
    (project.docs / "a.txt").write_text("words of the harbour")
    project.json("sync")
    assert project.json("verify")["settings"] == 0
    evil = {"type": "known", "name": "huggingface_server", "config": {"url": "http://evil.example"}}
    strange = {"embedding_function": evil, "hnsw": {"ef_search": 1}}
    server = ChromaServer(project.folder / "chroma", HOST, free_port(), project.folder / "log")
    with server, client_of(server) as client:
        client.change_collection(client.get_collection("docs").id, "configuration", strange)
    found = project.json("verify", code=4)
    assert (found["settings"], found["stale"], found["missing"]) == (2, 0, 0)
    assert any("readers embed by huggingface_server http://evil.example" in one for one in found["examples"])
    assert project.json("verify", "--repair")["repaired"]
    assert project.json("verify")["settings"] == 0


# --- Vectors in Chroma that are not those that were written: reported, and repaired without a model ---
KINDS = {
    "encoded": {"strategy": "recursive", "size": 60},
    "pooled": {"strategy": "changepoint"},
    "of neighbours": {"strategy": "recursive", "size": 60, "neighbours": 0.3},
}


@pytest.fixture
def sync_kind(embedded: Project, ask: Ask) -> Callable[[str], int]:
    """A project with vectors of that kind; returns how many."""

    def sync(kind: str) -> int:
        embedded.settings["chunking"] = KINDS[kind]
        embedded.configure()
        for n in range(2):
            (embedded.docs / f"{n}.txt").write_text(long_document(60, n))
        records: int = json.loads(ask("sync", "--json").out)["records"]["added"]
        return records

    return sync


def harmed(project: Project, change: Callable[[list[Vector]], list[Vector]]) -> None:
    """Every vector of the collection becomes what ``change`` makes of it."""
    with chroma_in(project.folder / "chroma") as client:
        [uuid] = client.names()
        index = ChromaIndex(client, UUID(uuid))
        records = index.read(sorted(index.ids()), vectors=True)
        vectors = change([record.vector.copy() for record in records])
        index.upsert(
            [
                Record(record.id, record.text, record.metadata, vector)
                for record, vector in zip(records, vectors, strict=True)
            ]
        )


def noise(vectors: list[Vector]) -> list[Vector]:
    drawn = np.random.default_rng(5).normal(size=(len(vectors), vectors[0].size)).astype(np.float32)
    return list(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))


def verified(ask: Ask, *words: str) -> tuple[int, int]:
    """Exit status, and how many records are called stale."""
    answer = ask("verify", "--json", *words)
    return answer.code, json.loads(answer.out)["stale"]


BITS = (31, 23, 13, 4)  # sign, exponent, what float16 keeps, what it does not


@pytest.mark.parametrize(
    "kind", ["pooled", *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != "pooled")]
)
def test_flipped_bit_is_reported_and_repaired_without_embedding(
    ask: Ask, project: Project, sync_kind: Callable[[str], int], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another bit in each of four vectors."""
    assert sync_kind(kind) > 3 + len(BITS)
    assert verified(ask) == (0, 0)

    def flip(vectors: list[Vector]) -> list[Vector]:
        for vector, bit in zip(vectors[3:], BITS, strict=False):
            at = int(np.argmax(np.abs(vector)))
            vector.view(np.uint32)[at] ^= np.uint32(1 << bit)
        return vectors

    harmed(project, flip)
    assert verified(ask) == (4, len(BITS))
    monkeypatch.setattr(HashingEmbedder, "embed", lambda *_: pytest.fail("the cache has every vector"))
    assert verified(ask, "--repair") == (0, 0)


@pytest.mark.slow
def test_records_from_before_digests_were_kept_are_right_and_not_embedded_again(
    project: Project, ask: Ask, sync_kind: Callable[[str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    records = sync_kind("encoded")
    journal = project.folder / "state" / "journal.sqlite3"
    with closing(sqlite3.connect(journal)) as db, db:
        db.execute("UPDATE records SET vector_digest = x''")
    monkeypatch.setattr(HashingEmbedder, "embed", lambda *_: pytest.fail("nothing changed"))
    assert json.loads(ask("sync", "--json").out)["documents"]["unchanged"] == 2
    assert verified(ask) == (0, 0)
    harmed(project, noise)
    assert verified(ask) == (4, records), "the cache tells what these were"


@pytest.mark.slow
def test_records_that_keep_their_vectors_keep_the_digests(
    project: Project, ask: Ask, sync_kind: Callable[[str], int]
) -> None:
    """An edit at the top moves all records below it: their metadata alone is written."""
    sync_kind("encoded")
    document = project.docs / "0.txt"
    document.write_text("A new beginning.\n\n" + document.read_text())
    assert json.loads(ask("sync", "--json").out)["records"]["patched"] > 0
    with closing(sqlite3.connect(project.folder / "state" / "journal.sqlite3")) as db:
        assert db.execute("SELECT count(*) FROM records WHERE length(vector_digest) != 8").fetchone() == (0,)
    harmed(project, noise)
    assert verified(ask)[1] == len(project.records())


@pytest.mark.slow
def test_digests_of_pooled_vectors_from_before_are_noted_when_their_document_is_done_again(
    project: Project, ask: Ask, sync_kind: Callable[[str], int]
) -> None:
    sync_kind("pooled")
    count = (
        "SELECT count(*), count(nullif(vector_digest, x'')) FROM records GROUP BY document ORDER BY document"
    )
    with closing(sqlite3.connect(project.folder / "state" / "journal.sqlite3")) as db:
        db.execute("UPDATE records SET vector_digest = x''")
        db.commit()
        with (project.docs / "0.txt").open("a") as document:
            document.write(" One more sentence.")
        assert ask("sync").code == 0
        noted = db.execute(count).fetchall()
    assert sorted(known == records for records, known in noted) == [False, True]


# --- Every record is found by its own vector: after config changes, and after Chroma lost the way to some ---
def lose(project: Project, every: int) -> None:
    """Nothing finds every so many records by their vectors: these are nothing but zeros."""
    harmed(project, lambda vectors: [v if n % every else np.zeros_like(v) for n, v in enumerate(vectors)])


def uuid(project: Project) -> str:
    """Of the collection that readers see."""
    with closing(sqlite3.connect(project.folder / "state" / "journal.sqlite3")) as db:
        [(found,)] = db.execute("SELECT uuid FROM collections WHERE role = 'live'")
    return str(found)


def write(project: Project) -> None:
    for n in range(2):
        (project.docs / f"{n}.txt").write_text(long_document(800, n))


def clean(ask: Ask) -> bool:
    return ask("verify", "--json").code == 0


def status(ask: Ask) -> Any:
    return json.loads(ask("status", "--json").out)["collections"]["docs"]


def reconfigure(project: Project, chunking: dict[str, Any]) -> None:
    project.settings["chunking"] = chunking
    project.configure()


@pytest.mark.slow
def test_collection_with_unreachable_records_is_rebuilt_once_a_day(
    project: Project, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(3):
        (project.docs / f"{n}.txt").write_text(long_document(30, n))
    ask("sync")
    records, lost, looked = status(ask)["records"], set[str](), backend.probe
    monkeypatch.setattr(HashingEmbedder, "embed", lambda *_: pytest.fail("the cache has every vector"))

    def probe(index: ChromaIndex, turn: int) -> str | None:
        return looked(index, turn) or ("3 of 30 records are not found" if index.uuid in lost else None)

    monkeypatch.setattr(backend, "probe", probe)
    lost.add(uuid(project))
    assert status(ask)["reason"] == "3 of 30 records are not found"
    assert json.loads(ask("sync", "--json").out)["documents"]["rebuilt"] == 3
    assert (status(ask)["healthy"], status(ask)["records"]) == (True, records)
    assert clean(ask)

    lost.add(uuid(project))
    assert json.loads(ask("sync", "--json").out)["documents"]["rebuilt"] == 0
    assert status(ask)["healthy"] is False


@pytest.mark.slow
def test_few_records_out_of_reach_are_for_repair_alone(project: Project, ask: Ask) -> None:
    write(project)
    ask("sync")
    assert status(ask)["records"] > 500
    lose(project, 1000)
    assert json.loads(ask("sync", "--json").out)["documents"]["rebuilt"] == 0
    assert ask("verify", "--repair").code == 0
    assert clean(ask)
