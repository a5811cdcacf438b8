"""Vectors of records without asking Chroma: those in the cache that the journal says were written.

The journal keeps the digest of each vector that was written, and says which records are in doubt. A cached
vector with that digest is the one in Chroma. Others are left out: those in doubt, those that the cache has
no longer, those made of more than the record's text, and those that are not exact in float16.
"""

import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock

import numpy as np

from ingestor.core.fingerprint import vector_digests
from ingestor.model import RecordId, Vectors

_FIND = """
    WITH wanted (id, document_id, slot, digest) AS (VALUES {})
    SELECT wanted.id, vector_digest, vector FROM wanted
    CROSS JOIN documents ON documents.document_id = wanted.document_id
        AND collection = (SELECT name FROM collections WHERE uuid = ?)
    CROSS JOIN records ON document = documents.id AND records.slot = wanted.slot AND NOT unsure
    CROSS JOIN cache.vectors ON vectors.embedder = ? AND vectors.digest = wanted.digest AND width = 2"""


class WrittenVectors:
    """Any thread. ``journal``, ``cache``: the files. Without a cache that can be read it finds none."""

    def __init__(self, journal: Path, cache: Path) -> None:
        """Raises sqlite3.Error if the journal cannot be opened."""
        self._lock = Lock()
        self._db = sqlite3.connect(
            f"{journal.absolute().as_uri()}?mode=ro", isolation_level=None, check_same_thread=False, uri=True
        )
        with suppress(sqlite3.Error):
            self._db.execute("ATTACH ? AS cache", (f"{cache.absolute().as_uri()}?mode=ro",))

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def of(self, uuid: str, embedder: str, texts: Mapping[RecordId, bytes]) -> tuple[list[RecordId], Vectors]:
        """Records and their vectors, a row for each. ``uuid``: the collection's. ``texts``: their digests."""
        found = self._found(uuid, embedder, texts) if texts else []
        same = [row for row in found if len(row[2]) == len(found[0][2])]  # another is a damaged one
        halves = np.frombuffer(b"".join(vector for *_, vector in same), "<f2")
        vectors = halves.reshape(len(same), -1 if same else 0).astype(np.float32)
        digests = zip(vector_digests(vectors), same, strict=True)
        sound = [at for at, (digest, row) in enumerate(digests) if digest == row[1]]
        return [RecordId(same[at][0]) for at in sound], vectors[sound]

    def _found(
        self, uuid: str, embedder: str, texts: Mapping[RecordId, bytes]
    ) -> list[tuple[str, bytes, bytes]]:
        """Ids, the digests of their vectors, and vectors in float16."""
        values: list[object] = []
        for id_, digest in texts.items():
            document, _, slot = id_.rpartition("#")
            values += (id_, document, int(slot) if slot.isdecimal() else -1, digest)
        query = _FIND.format(", ".join(["(?, ?, ?, ?)"] * len(texts)))
        try:
            with self._lock:
                return self._db.execute(query, (*values, uuid, bytes.fromhex(embedder))).fetchall()
        except (sqlite3.Error, ValueError):  # no cache, a damaged one, or no fingerprint
            return []
