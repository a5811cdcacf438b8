"""How documents become records: a parser, its memory, chunkers and vectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from ingestor.core.document_json import Parsed
from ingestor.core.fingerprint import text_digest
from ingestor.model import Blob, Chunk, Chunking, Document, Sums
from ingestor.parsers.text import PLUGIN as TEXT
from ingestor.ports import BadDocument, Embed
from tests.simulation.ports.chaos import Chaos
from tests.simulation.ports.files import Files


@dataclass
class Parsing:
    """The parser for text, which fails at times."""

    files: Files
    chaos: Chaos

    def parse(self, blob: Blob) -> Document:
        self.chaos.fault("parse")
        if self.files.parser_broken:
            raise BadDocument("the parser takes nothing any more")
        document: Document = TEXT.build(TEXT.options()).parse(blob)
        return document


class Remembered(dict[tuple[str, str], tuple[str, Parsed]]):
    """A reading.Memory that outlives the process, and forgets."""

    def __init__(self, chaos: Chaos) -> None:
        super().__init__()
        self.chaos = chaos

    def find(self, source: str, key: str, stamp: str) -> Parsed | None:
        if self.chaos.random.random() < 0.2:
            self.pop((source, key), None)
        kept, parsed = self.get((source, key), ("", None))
        return parsed if kept == stamp else None

    def keep(self, source: str, key: str, stamp: str, parsed: Parsed) -> None:
        self.chaos.point("keep")
        self[source, key] = stamp, parsed

    def rename(self, old: str, new: str, keys: Sequence[str]) -> None:
        for key in keys:
            if (old, key) in self:
                self[new, key] = self.pop((old, key))


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
