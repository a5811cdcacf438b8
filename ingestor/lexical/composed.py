"""A collection in Chroma and its lexical index, written as a single index.

Every write goes to Chroma first, then to the lexical index, between the intent and the receipt of the
journal (engine/protocol.py). So after a crash the records that may differ are in doubt, and are written to
both again.
Everything is read from Chroma.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from ingestor.lexical.file import Unusable
from ingestor.lexical.index import LexicalIndex
from ingestor.model import Hit, Metadata, Record, RecordId, Vector, Vectors
from ingestor.ports import Index


class ComposedIndex:
    """``lost``: called when the lexical index had to be made again, so that it must be filled."""

    def __init__(self, dense: Index, lexical: LexicalIndex, lost: Callable[[], None]) -> None:
        self._dense, self._lexical, self._lost = dense, lexical, lost

    def upsert(self, records: Sequence[Record]) -> None:
        self._dense.upsert(records)
        self._mirror(lambda: self._lexical.upsert(records))

    def patch(self, metadata: Sequence[tuple[RecordId, Metadata]]) -> None:
        self._dense.patch(metadata)
        self._mirror(lambda: self._index_again(metadata))

    def drop(self, ids: Sequence[RecordId]) -> None:
        self._dense.drop(ids)
        self._mirror(lambda: self._lexical.drop(ids))

    def count(self) -> int:
        return self._dense.count()

    def read(self, ids: Sequence[RecordId], *, vectors: bool = False) -> list[Record]:
        return self._dense.read(ids, vectors=vectors)

    def ids(self) -> Iterator[RecordId]:
        return self._dense.ids()

    def facts(self) -> Mapping[str, object]:
        return self._dense.facts()

    def note(self, facts: Mapping[str, str]) -> None:
        self._dense.note(facts)

    def query(self, vectors: Vectors, n: int, where: dict[str, object] | None = None) -> list[list[Hit]]:
        return self._dense.query(vectors, n, where)

    def nearest(
        self, vectors: Vectors | Sequence[Vector], n: int, where: dict[str, object] | None = None
    ) -> list[list[tuple[RecordId, float]]]:
        return self._dense.nearest(vectors, n, where)

    def _index_again(self, metadata: Sequence[tuple[RecordId, Metadata]]) -> None:
        changed = self._lexical.patch(metadata)
        if changed:
            self._lexical.upsert(list(map(as_kept, self._dense.read(changed))))

    def _mirror(self, write: Callable[[], None]) -> None:
        """A lexical index that had to be made again stops no write: it is filled from Chroma."""
        try:
            write()
        except Unusable:
            self._lost()


def as_kept(record: Record) -> Record:
    """A record as Chroma holds it: a language, context or title that is not named is none."""
    named = {"language": None, "context": None, "title": None}
    return Record(record.id, record.text, {**named, **record.metadata}, record.vector)
