"""The chunks of a strategy, searched as readers search a collection: by vectors, by words, or by both.

Vectors are compared exactly. Words are found by a lexical index of the chunks in a folder of its own, and
both are fused as in ``ingestor.search``.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection
from tempfile import TemporaryDirectory

import numpy as np

from ingestor.lexical.file import LexicalFile, reading
from ingestor.lexical.index import LexicalIndex
from ingestor.lexical.ranking import ByWords, ranked
from ingestor.model import Metadata, Record, RecordId, Vectors
from ingestor.search.fusion import document_of, fused
from ingestor.search.search import DEPTH
from ingestor.search.values import Mode

_BLOCK = 64  # questions that are compared at a time
_SAMPLE = "sample"  # in place of the UUID of a collection


@dataclass(frozen=True, slots=True, eq=False)
class Chunks:
    """Chunks to search. ``documents``: number of each chunk's document. ``described``: their metadata."""

    texts: Sequence[str]
    vectors: Vectors
    documents: Sequence[int]
    described: Sequence[Metadata]

    @property
    def ids(self) -> list[RecordId]:
        return [RecordId(f"{document}#{at}") for at, document in enumerate(self.documents)]


def search(
    mode: Mode, questions: Sequence[str], vectors: Vectors, chunks: Chunks, count: int
) -> list[list[int]]:
    """The best ``count`` chunks for each question, best first; fewer where words find fewer.

    ``vectors``: of the questions.
    """
    if mode == "dense":
        return nearest(vectors, chunks.vectors, count)
    with _words(chunks) as (db, number):
        by_words = [ranked(db, number, question, max(DEPTH, count)) for question in questions]
        if mode == "lexical":
            return [[_place(id_) for id_, _ in each.order[:count]] for each in by_words]
        ids = chunks.ids
        return [
            _fuse(vector, chunks.vectors, ids, words, count)
            for vector, words in zip(vectors, by_words, strict=True)
        ]


def nearest(asked: Vectors, vectors: Vectors, count: int) -> list[list[int]]:
    """The ``count`` chunks of the greatest cosine for each question; of equals the first."""
    best: list[list[int]] = []
    for start in range(0, len(asked), _BLOCK):
        similar = asked[start : start + _BLOCK] @ vectors.T
        best += np.argsort(-similar, axis=1, kind="stable")[:, :count].tolist()
    return best


@contextmanager
def _words(chunks: Chunks) -> Iterator[tuple[Connection, int]]:
    """A lexical index of the chunks."""
    empty = np.zeros(0, np.float32)
    records = [
        Record(id_, text, described, empty)
        for id_, text, described in zip(chunks.ids, chunks.texts, chunks.described, strict=True)
    ]
    with TemporaryDirectory(prefix="ingestor-") as folder:
        path = Path(folder) / "lexical.sqlite3"
        file = LexicalFile(path, synchronous="OFF")
        try:
            LexicalIndex(file, (_SAMPLE,)).upsert(records)
            number = file.number((_SAMPLE,))
        finally:
            file.close()
        with reading(path) as db:
            yield db, number


def _fuse(
    vector: Vectors, vectors: Vectors, ids: Sequence[RecordId], words: ByWords, count: int
) -> list[int]:
    cosines = vectors @ vector
    best = np.argsort(-cosines, kind="stable")[: max(DEPTH, count)].tolist()
    dense = [(ids[at], float(cosines[at])) for at in best]
    others = {id_: float(cosines[_place(id_)]) for id_, _ in words.order}
    if words.named:
        others |= {id_: float(cosines[at]) for at, id_ in enumerate(ids) if document_of(id_) in words.named}
    return [_place(one.id) for one in fused(dense, words.order, others, words.most, count, named=words.named)]


def _place(id_: RecordId) -> int:
    return int(id_.rpartition("#")[2])
