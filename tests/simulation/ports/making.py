"""How documents become records: a parser, its memory, chunkers and vectors."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ingestor.core.document_json import Parsed
from ingestor.core.fingerprint import text_digest
from ingestor.engine.vectors import HARMLESS
from ingestor.model import (
    Blob,
    Chunk,
    Chunking,
    Digest,
    Document,
    Fingerprint,
    SourceName,
    Sums,
    Vector,
)
from ingestor.parsers.text import PLUGIN as TEXT
from ingestor.ports import BadDocument, Embed
from ingestor.state.cache import Parses, VectorCache
from tests.simulation.ports.chaos import Chaos

if TYPE_CHECKING:
    from tests.simulation.world import World


class Parsing:
    """The parser for text, which fails at times."""

    def __init__(self, world: "World") -> None:
        self._world = world

    def parse(self, blob: Blob) -> Document:
        self._world.chaos.fault("parse")
        if self._world.files.parser_broken:
            raise BadDocument("the parser takes nothing any more")
        document: Document = TEXT.build(TEXT.options()).parse(blob)
        return document


_WORD = text_digest(HARMLESS)


class Remembered(Parses):
    """The real memory of parsed documents, which forgets, and in which the process dies."""

    def __init__(self, cache: VectorCache, chaos: Chaos) -> None:
        super().__init__(cache)
        self.chaos = chaos

    def find(self, source: SourceName, key: str, stamp: str) -> Parsed | None:
        if self.chaos.random.random() < 0.2:
            self.forget(source, key)
        return super().find(source, key, stamp)

    def keep(self, source: SourceName, key: str, stamp: str, parsed: Parsed) -> None:
        self.chaos.point("keep")
        super().keep(source, key, stamp, parsed)


class Forgetful(VectorCache):
    """The real cache, in which half of the vectors are gone when they are asked for.

    It keeps the word by which a server's model is recognised: whoever deletes it as well is believed.
    """

    def __init__(self, path: Path, size: int, chaos: Chaos) -> None:
        super().__init__(path, size)
        self.chaos = chaos
        self._db.execute("PRAGMA synchronous = OFF")

    def get(self, embedder: Fingerprint, digests: Sequence[Digest]) -> dict[Digest, Vector]:
        kept = [each for each in digests if each == _WORD or self.chaos.remembers(each)]
        return super().get(embedder, kept)


class Lines:
    """One chunk a line; the smallest chunker there is."""

    def __init__(self, per_chunk: int = 1) -> None:
        self.per_chunk = per_chunk

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        spans = line_spans(document.text, self.per_chunk)
        return Chunking(tuple(Chunk(start, end, document.text[start:end]) for start, end in spans))


class Fickle(Lines):
    """Its cuts depend on the mean line length of the whole collection: one chunk a line, or two."""

    statistic = "mean line length"

    def value(self, total: Sums) -> int:
        return int(total[1] // max(1, total[0]))

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        lines = [line for line in document.text.split("\n") if line]
        sums = np.array([len(lines), sum(map(len, lines))], np.int64)
        pivot = 3 + len(lines) % 5  # documents differ in where they change
        small = self.value(sums if others is None else sums + others) < pivot
        spans = line_spans(document.text, 1 if small else 2)
        chunks = tuple(Chunk(start, end, document.text[start:end]) for start, end in spans)
        return Chunking(chunks, None, sums, (0, pivot - 1) if small else (pivot, 10**9))


def line_spans(text: str, per_chunk: int) -> list[tuple[int, int]]:
    spans, start = [], 0
    for line in text.split("\n"):
        if line:
            spans.append((start, start + len(line)))
        start += len(line) + 1
    groups = [spans[i : i + per_chunk] for i in range(0, len(spans), per_chunk)]
    return [(group[0][0], group[-1][1]) for group in groups]


@cache
def vector(text: str, recipe: str) -> np.ndarray:
    seed = int(text_digest(recipe + text)[:8], 16)
    found = np.random.default_rng(seed).standard_normal(4).astype(np.float32)
    found /= np.linalg.norm(found)
    found.flags.writeable = False
    return found
