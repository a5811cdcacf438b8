"""Vectors that search takes from the cache: those alone that the journal says are in Chroma."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingestor.core.entries import CollectionRow, EditionName
from ingestor.core.fingerprint import text_digest, vector_digest, vector_digests
from ingestor.model import Fingerprint, RecordId
from ingestor.state.cache.store import VectorCache
from ingestor.state.journal import Journal
from ingestor.state.queries.written_vectors import WrittenVectors

RECIPE, OTHER = Fingerprint("ab12"), Fingerprint("cd34")
TEXTS = [f"text {n}" for n in range(4)]
VECTORS = np.array([[1, 0, 0], [0, -0.0, 1], [0.5, 0.5, 0.25], [0, 1, 0]], np.float32)
WANTED = {RecordId(f"doc#{n}"): bytes.fromhex(text_digest(text)) for n, text in enumerate(TEXTS)}


@pytest.fixture
def written(tmp_path: Path) -> Iterator[WrittenVectors]:
    """Four records of one document, all in Chroma and in the cache."""
    journal, cache = Journal(tmp_path / "journal"), VectorCache(tmp_path / "cache", 10**6)
    journal.note_collection(EditionName("docs"), CollectionRow("uuid", RECIPE))
    with journal.transaction() as db:
        keys = "id, document_id, source, collection, key"
        db.execute(f"INSERT INTO documents ({keys}) VALUES (1, 'doc', 'folder', 'docs', 'a.md')")
        rows = [(1, n, "", "", "", 0, vector_digest(vector)) for n, vector in enumerate(VECTORS)]
        db.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    cache.put(RECIPE, [text_digest(text) for text in TEXTS], VECTORS)
    found = WrittenVectors(tmp_path / "journal", tmp_path / "cache")
    yield found
    found.close()
    cache.close()
    journal.close()


def change(path: Path, statement: str, *values: object) -> None:
    db = sqlite3.connect(path)
    assert db.execute(statement, values).rowcount > 0
    db.commit()
    db.close()


def test_what_was_written_is_found_bit_for_bit(written: WrittenVectors) -> None:
    ids, vectors = written.of("uuid", RECIPE, WANTED)
    assert ids == list(WANTED)
    assert vectors.tobytes() == VECTORS.tobytes()
    assert vector_digests(VECTORS) == [vector_digest(vector) for vector in VECTORS]


@pytest.mark.parametrize(
    ("file", "statement"),
    [
        ("journal", "UPDATE records SET unsure = 1 WHERE slot = 2"),
        ("journal", "UPDATE records SET vector_digest = x'' WHERE slot = 2"),
        ("journal", "UPDATE records SET vector_digest = x'0011223344556677' WHERE slot = 2"),
        ("journal", "DELETE FROM records WHERE slot = 2"),
        ("cache", "UPDATE vectors SET vector = x'000000000000' WHERE rowid = 3"),
        ("cache", "UPDATE vectors SET vector = x'0000' WHERE rowid = 3"),
        ("cache", "UPDATE vectors SET width = 4 WHERE rowid = 3"),
        ("cache", "DELETE FROM vectors WHERE rowid = 3"),
    ],
)
def test_chroma_is_asked_for_what_is_not_certain(
    written: WrittenVectors, tmp_path: Path, file: str, statement: str
) -> None:
    change(tmp_path / file, statement)
    ids, vectors = written.of("uuid", RECIPE, WANTED)
    assert ids == ["doc#0", "doc#1", "doc#3"]
    assert vectors.tobytes() == VECTORS[[0, 1, 3]].tobytes()


@pytest.mark.parametrize(
    ("uuid", "embedder", "texts"),
    [
        ("other", RECIPE, WANTED),
        ("uuid", OTHER, WANTED),
        ("uuid", "no fingerprint", WANTED),
        ("uuid", RECIPE, {}),
        ("uuid", RECIPE, {RecordId("doc#9"): WANTED[RecordId("doc#0")], RecordId("odd"): b""}),
        ("uuid", RECIPE, {RecordId("doc#0"): b"other text"}),
    ],
)
def test_what_is_of_something_else_is_left_out(
    written: WrittenVectors, uuid: str, embedder: str, texts: dict[RecordId, bytes]
) -> None:
    ids, vectors = written.of(uuid, embedder, texts)
    assert (ids, len(vectors)) == ([], 0)


@pytest.mark.parametrize("content", [None, b"", b"no database at all" * 300])
def test_without_a_cache_nothing_is_found(tmp_path: Path, content: Any) -> None:
    Journal(tmp_path / "journal").close()
    if content is not None:
        (tmp_path / "cache").write_bytes(content)
    found = WrittenVectors(tmp_path / "journal", tmp_path / "cache")
    assert found.of("uuid", RECIPE, WANTED)[0] == []
    found.close()
    assert (tmp_path / "cache").exists() == (content is not None)
