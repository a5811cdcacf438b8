"""The rows of the cache as values: their columns, their checksums, how a vector is packed. Pure.

A checksum covers a row's key and its content. Without the key, a damaged index page could lead to another
row, whose content is valid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zlib import crc32

from ingestor.model import Digest, Fingerprint

if TYPE_CHECKING:
    from ingestor.model import Vector

Key = tuple[bytes | str, ...]
Content = tuple[Any, ...]

NONE_YET = -1  # the checksum of answers and documents of earlier versions


@dataclass(frozen=True, slots=True)
class CacheTable:
    """``key``: the columns that identify a row; ``content``: those with its value.

    Every row also has ``used``, the day of its last use, and ``checksum``.
    """

    name: str
    key: tuple[str, ...]
    content: tuple[str, ...]

    @property
    def columns(self) -> str:
        return ", ".join((*self.key, *self.content, "used", "checksum"))

    @property
    def outline(self) -> str:
        """A query that returns no row, and fails if a column is missing."""
        return f"SELECT {self.columns} FROM {self.name} LIMIT 0"

    @property
    def find(self) -> str:
        """A query for a row's number, day, checksum and content."""
        return f"SELECT rowid, used, checksum, {', '.join(self.content)} FROM {self.name} WHERE {self._where}"

    @property
    def own_key(self) -> str:
        """A query for the key in the row with a number, which a damaged index may contradict."""
        return f"SELECT {', '.join(self.key)} FROM {self.name} NOT INDEXED WHERE rowid = ?"

    @property
    def put(self) -> str:
        marks = ", ".join("?" * (len(self.key) + len(self.content) + 2))
        return f"INSERT OR REPLACE INTO {self.name} ({self.columns}) VALUES ({marks})"

    @property
    def touch(self) -> str:
        return f"UPDATE {self.name} SET used = ?, checksum = ? WHERE {self._where}"

    @property
    def drop(self) -> str:
        return f"DELETE FROM {self.name} WHERE {self._where}"

    @property
    def _where(self) -> str:
        return " AND ".join(f"{column} = ?" for column in self.key)


VECTORS = CacheTable("vectors", ("embedder", "digest"), ("width", "vector"))
ANSWERS = CacheTable("answers", ("key",), ("text",))
DOCUMENTS = CacheTable("documents", ("item",), ("stamp", "data"))
TABLES = (VECTORS, ANSWERS, DOCUMENTS)


def checksum(key: Key, content: Content) -> int:
    """CRC-32 of all values with types and lengths: one flipped bit can turn text into bytes."""
    found = 0
    for value in (*key, *content):
        data = value if isinstance(value, bytes) else str(value).encode()
        found = crc32(data, crc32(f"{type(value).__name__} {len(data)} ".encode(), found))
    return found


def sound_before(found: object, content: Content) -> bool:
    """Whether a row is valid by the checksum of earlier versions, which does not cover its key.

    It covers a vector's bytes alone; answers and documents have none.
    """
    match content:
        case [2 | 4 as width, bytes(data)]:
            return found == crc32(data) and len(data) % width == 0
        case [str()] | [str(), bytes()]:
            return found == NONE_YET
    return False


def vector_key(embedder: Fingerprint, digest: Digest) -> Key:
    return bytes.fromhex(embedder), bytes.fromhex(digest)


def packed(vector: Vector) -> Content:
    """Bytes per number, and the numbers: float16 if that is exact, else float32."""
    import numpy as np

    half = vector.astype("<f2")
    data = (half if np.array_equal(half, vector) else vector.astype("<f4")).tobytes()
    return len(data) // len(vector), data


def unpacked(content: Content) -> Vector:
    import numpy as np

    width, data = content
    return np.frombuffer(data, f"<f{width}").astype(np.float32)
