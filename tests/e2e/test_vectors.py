"""Vectors in Chroma that are not those that were written: reported, and repaired without a model."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from uuid import UUID

import numpy as np
import pytest

from ingestor.chroma.client import embedded
from ingestor.chroma.collections import list_names
from ingestor.chroma.index import ChromaIndex
from ingestor.embedders.hashing import HashingEmbedder
from ingestor.model import Record, Vector
from tests.e2e.in_process import Ask
from tests.e2e.project import Project
from tests.e2e.test_sync import long_document

KINDS = {
    "encoded": {"strategy": "recursive", "size": 60},
    "pooled": {"strategy": "changepoint"},
    "of neighbours": {"strategy": "recursive", "size": 60, "neighbours": 0.3},
}


@pytest.fixture
def synced(project: Project, ask: Ask) -> Callable[[str], int]:
    """A project with vectors of that kind; returns how many."""

    def sync(kind: str) -> int:
        project.settings["chunking"] = KINDS[kind]
        project.configure()
        for n in range(2):
            (project.docs / f"{n}.txt").write_text(long_document(60, n))
        records: int = json.loads(ask("sync", "--json").out)["records"]["added"]
        return records

    return sync


def harmed(project: Project, change: Callable[[list[Vector]], list[Vector]]) -> None:
    """Every vector of the collection becomes what ``change`` makes of it."""
    with embedded(project.folder / "chroma") as client:
        [uuid] = list_names(client)
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


@pytest.mark.parametrize(
    "kind", ["encoded", *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != "encoded")]
)
def test_noise_in_place_of_every_vector_is_reported_and_repaired_without_embedding(
    project: Project, ask: Ask, synced: Callable[[str], int], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = synced(kind)
    assert verified(ask) == (0, 0)
    harmed(project, noise)
    assert verified(ask) == (4, records)
    monkeypatch.setattr(HashingEmbedder, "embed", lambda *_: pytest.fail("the cache has every vector"))
    assert verified(ask, "--repair") == (0, 0)


BITS = (31, 23, 13, 4)  # sign, exponent, what float16 keeps, what it does not


def test_one_flipped_bit_is_reported_and_repaired(
    project: Project, ask: Ask, synced: Callable[[str], int]
) -> None:
    """Another bit in each of four vectors."""
    assert synced("pooled") > 3 + len(BITS)

    def flip(vectors: list[Vector]) -> list[Vector]:
        for vector, bit in zip(vectors[3:], BITS, strict=False):
            at = int(np.argmax(np.abs(vector)))
            vector.view(np.uint32)[at] ^= np.uint32(1 << bit)
        return vectors

    harmed(project, flip)
    assert verified(ask) == (4, len(BITS))
    assert verified(ask, "--repair") == (0, 0)


def test_records_from_before_digests_were_kept_are_right_and_not_embedded_again(
    project: Project, ask: Ask, synced: Callable[[str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    records = synced("encoded")
    journal = project.folder / "state" / "journal.sqlite3"
    with closing(sqlite3.connect(journal)) as db, db:
        db.execute("UPDATE records SET vector_digest = x''")
    monkeypatch.setattr(HashingEmbedder, "embed", lambda *_: pytest.fail("nothing changed"))
    assert json.loads(ask("sync", "--json").out)["documents"]["unchanged"] == 2
    assert verified(ask) == (0, 0)
    harmed(project, noise)
    assert verified(ask) == (4, records), "the cache tells what these were"


def test_records_that_keep_their_vectors_keep_the_digests(
    project: Project, ask: Ask, synced: Callable[[str], int]
) -> None:
    """An edit at the top moves all records below it: their metadata alone is written."""
    synced("encoded")
    document = project.docs / "0.txt"
    document.write_text("A new beginning.\n\n" + document.read_text())
    assert json.loads(ask("sync", "--json").out)["records"]["patched"] > 0
    with closing(sqlite3.connect(project.folder / "state" / "journal.sqlite3")) as db:
        assert db.execute("SELECT count(*) FROM records WHERE length(vector_digest) != 8").fetchone() == (0,)
    harmed(project, noise)
    assert verified(ask)[1] == len(project.records())


def test_digests_of_pooled_vectors_from_before_are_noted_when_their_document_is_done_again(
    project: Project, ask: Ask, synced: Callable[[str], int]
) -> None:
    synced("pooled")
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
