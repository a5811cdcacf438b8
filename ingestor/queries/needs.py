"""Needs of the new records of a plan: disk, memory of Chroma, time, and the price of Chroma Cloud. Pure."""

import math
from dataclasses import dataclass, field

_PAGE = 4096  # bytes, as SQLite has them
_LINKS = 2 * 64 * 4 + 12  # bytes of a record's links in the graph: see GRAPH in chroma/backend.py
_SMALL = 1000  # records, among which
_EACH = 0.0025  # seconds of Chroma's processor go into another one, with all metadata keys
_MORE = 0.0012  # seconds more for it with each doubling of the collection, for its place in the graph
_GIB = 2**30


@dataclass(frozen=True, slots=True)
class Disk:
    """Disk space by file, in bytes."""

    chroma: int
    journal: int
    cache: int

    @property
    def total(self) -> int:
        return self.chroma + self.journal + self.cache


@dataclass(frozen=True, slots=True)
class Needs:
    """Needs of a sync. ``memory``: bytes that Chroma takes for all vectors of old and new collections.

    ``read_seconds``: to read and cut the documents, one after the other. ``write_seconds``: of Chroma's
    processor. ``embed_seconds``: None if no rate is known. ``written``, ``stored``: price of the new records,
    once and each month, by ``chroma.prices``.
    """

    disk: Disk = field(default_factory=lambda: Disk(0, 0, 0))
    memory: int = 0
    read_seconds: float = 0.0
    write_seconds: float = 0.0
    embed_seconds: float | None = None
    written: float = 0.0
    stored: float = 0.0

    def on(self, machines: int) -> float:
        """Estimate seconds on so many machines like this one: Chroma writes on one of them."""
        return max((self.read_seconds + (self.embed_seconds or 0.0)) / machines, self.write_seconds)


def disk(records: int, text: int, embedded: int, dimensions: int) -> Disk:
    """Estimate the disk for ``records`` with ``text`` bytes of text, and for ``embedded`` new vectors.

    Measured within 11 % of seven collections of 550 to 7,000 records. Chroma 1.5.9 keeps some thirty rows of
    metadata for each record, and an index of the text.
    """
    chroma = round(records * (3900 + 4 * dimensions) + 10.5 * text)
    row = 2 * dimensions + 100  # bytes in the cache: rows share a page, or take several
    cached = _PAGE / (_PAGE // row) if row < _PAGE else _PAGE * math.ceil(row / _PAGE)
    return Disk(chroma, 170 * records, round(embedded * cached))


def memory(records: int, dimensions: int) -> int:
    """Estimate Chroma's memory: dimensions x 4 bytes a record, and the links of our graph."""
    return records * (4 * dimensions + _LINKS)


def write_seconds(added: int, before: int) -> float:
    """Estimate seconds for writing ``added`` records to collections that hold ``before``."""
    return _seconds_to_write(before + added) - _seconds_to_write(before)


def _seconds_to_write(records: int) -> float:
    """Estimate seconds for all records from the first. Chroma searches a growing graph for neighbours.

    For 16,000 records of 384 dimensions these are 91 seconds; a core of an EPYC (Zen 3) took 89. For 100,000
    of 64 dimensions they are 876, and it took 598.
    """
    if records <= _SMALL:
        return records * _EACH
    doublings = records * math.log2(records / _SMALL) - (records - _SMALL) / math.log(2)
    return records * _EACH + doublings * _MORE


def gibibytes(records: int, text: int, metadata: int, dimensions: int) -> float:
    """Return the size of new records as sent: texts, metadata and vectors."""
    return (text + metadata + 4 * dimensions * records) / _GIB
