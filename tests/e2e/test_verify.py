"""What ``verify`` calls unreachable: not what an approximate search misses, but what no search finds."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ingestor.app.verify import Findings, examine
from ingestor.chroma.client import embedded
from ingestor.chroma.collections import Ownership, find_collection, open_collection
from ingestor.chroma.reach import DEEP, FEW, NEAR, PAGE, reachable
from ingestor.chroma.server import ChromaServer
from ingestor.embedders.hashing import PLUGIN
from ingestor.lexical.check import words_of
from ingestor.lexical.file import reading
from ingestor.model import CollectionName, Fingerprint, Record, RecordId, Vectors
from ingestor.ports import Index
from ingestor.state.cache.store import VectorCache
from ingestor.state.editions import Editions
from ingestor.state.journal import Journal
from tests.e2e.project import Project
from tests.e2e.test_sync import long_document
from tests.serving import HOST, client_of, free_port, server


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
    with embedded(project.folder / "chroma") as client:
        index = find_collection(client, live.shown, owner=Ownership(journal.owner))
        assert index is not None
        some = frozenset(sorted(index.ids())[:hidden])
        recipe = Fingerprint(live.embedder or "")
        with words_of(reading(state / "lexical.sqlite3"), live.uuid) as words:
            found = examine(journal, [Approximate(index, some, depth)], live.name, cache, recipe, words)  # type: ignore[arg-type]
    cache.close()
    journal.close()
    return found, some


def test_what_a_deeper_search_finds_is_not_out_of_reach(project: Project) -> None:
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
def test_vectors_that_chroma_reads_wrong_are_found_and_mended_without_embedding(project: Project) -> None:
    for n in range(4):
        (project.docs / f"{n}.txt").write_text(long_document(900, n))
    records = project.json("sync")["records"]["added"]
    assert records > 1000, "Chroma has files only beyond a thousand"
    lengths = max((project.folder / "chroma").glob("*/length.bin"), key=lambda file: file.stat().st_size)
    lengths.write_bytes(bytes(lengths.stat().st_size))  # it loads, and scales every vector to nothing

    assert project.json("verify", code=4)["stale"] > 100
    mended = project.json("verify", "--repair")
    assert (mended["repaired"], mended["checked"], mended["stale"]) == (True, records, 0)
    assert project.json("sync")["embedded"]["texts"] == 0


@pytest.mark.slow
def test_words_that_differ_are_found_and_mended(project: Project) -> None:
    for n in range(3):
        (project.docs / f"{n}.txt").write_text(f"The pump number {n} is running.")
    assert project.json("sync")["documents"]["added"] == 3
    assert project.json("verify")["words"] == 0
    path = project.folder / "state/lexical.sqlite3"
    db = sqlite3.connect(path)
    db.execute("UPDATE records_1 SET terms = 'other' WHERE row = 1")
    db.execute("DELETE FROM records_1 WHERE row = 2")
    db.execute("INSERT INTO records_1 (id, text_key, language, terms) VALUES ('surplus#0', x'00', '', '')")
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


@pytest.mark.slow
def test_none_of_many_records_is_out_of_reach(tmp_path: Path) -> None:
    """Chroma misses one or two of these among the nearest ten of their own vector."""
    embedder = PLUGIN.build(PLUGIN.options(dimensions=64))
    texts = [f"Document {n} says hello to number {n * 7}." for n in range(17_000)]
    vectors = embedder.embed(texts)
    records = [Record(RecordId(f"{n}#0"), text, {"n": n}, vectors[n]) for n, text in enumerate(texts)]
    model: dict[str, Any] = {"model": None, "dimensions": 64, "owner": "ours"}
    with server(tmp_path) as running, client_of(running) as client:
        index = open_collection(client, CollectionName("docs"), **model)
        index.upsert(records)
        for start in range(0, len(records), PAGE):
            page = records[start : start + PAGE]
            assert reachable(index, page) == {record.id for record in page}


def test_verify_reports_changed_settings_and_repair_restores_them(project: Project) -> None:
    """An embedding function names what readers load, or where their questions and variables go."""
    (project.docs / "a.txt").write_text("words of the harbour")
    project.json("sync")
    assert project.json("verify")["settings"] == 0
    evil = {"type": "known", "name": "huggingface_server", "config": {"url": "http://evil.example"}}
    strange = {"embedding_function": evil, "hnsw": {"ef_search": 1}}
    server = ChromaServer(project.folder / "chroma", HOST, free_port(), project.folder / "log")
    with server, client_of(server) as client:
        client.api.reconfigure(client.api.get_collection("docs").id, strange)
    found = project.json("verify", code=4)
    assert (found["settings"], found["stale"], found["missing"]) == (2, 0, 0)
    assert any("readers embed by huggingface_server http://evil.example" in one for one in found["examples"])
    assert project.json("verify", "--repair")["repaired"]
    assert project.json("verify")["settings"] == 0
