"""Writes as Chroma takes them: values that it keeps, and requests of a size that it and its quotas bear."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

from ingestor.chroma.api import Refused
from ingestor.model import Metadata, Record, RecordId
from ingestor.ports import BadDocument, NeedsHuman

SECONDS = 0.5  # of a request that writes; decision 0058 has the figures
_FIRST = 100  # records, before anything is known
_LARGEST = 2**63  # beyond it Chroma turns an integer into a float
_TOO_LARGE = 413  # HTTP's status
_QUOTA = re.compile(r"'(?P<what>[^']+)' exceeded quota limit")

Row = TypeVar("Row")
Patches = list[tuple[RecordId, Metadata]]


class WritePace:
    """How many records a request writes: as many as Chroma adds in half a second.

    Chroma answers no reader of a collection while it adds the records of a request to its graph.
    ``least``: records of a request, however long they take.
    """

    def __init__(self, least: int) -> None:
        self._least, self._each = least, SECONDS / _FIRST

    @property
    def records(self) -> int:
        return max(self._least, int(SECONDS / self._each))

    def wrote(self, records: int, seconds: float) -> None:
        """Slower records count at once, faster ones by halves. A small request says little of its records."""
        if records >= self._least:
            now = max(seconds / records, 1e-9)
            self._each = max(now, (self._each + now) / 2)


def rounds(rows: Sequence[tuple[RecordId, Metadata]], most: int | None) -> Iterator[Patches]:
    """The changes of each record in parts of at most ``most`` keys, the values first, then removals.

    The first round has every record.
    """
    parts = [(name, _parts(metadata, most)) for name, metadata in rows]
    for turn in range(max((len(each) for _, each in parts), default=1)):
        yield [(name, each[turn]) for name, each in parts if turn < len(each)]


def _parts(metadata: Metadata, most: int | None) -> list[Metadata]:
    if most is None or len(metadata) <= most:
        return [metadata]
    rest = iter(sorted(metadata.items(), key=lambda item: item[1] is None))
    parts: list[Metadata] = []
    while part := dict(islice(rest, most)):
        parts.append(part)
    return parts


def sent(rows: Sequence[Row], send: Callable[[Sequence[Row]], None]) -> None:
    """Send the rows in one request; in halves while the server says that it is too much.

    Raises BadDocument for a text that is too long, NeedsHuman if the collection is full or the config does
    not know the server's quotas, and what ``send`` raises.
    """
    try:
        send(rows)
    except Refused as error:
        quota = _QUOTA.search(str(error))
        if quota and "ollection" in quota["what"]:
            raise NeedsHuman(
                f"Chroma takes no more records into this collection: {error}; have the quota raised, or feed "
                "another collection"
            ) from error
        if not quota and error.status != _TOO_LARGE:
            raise
        if len(rows) == 1 and quota and "ocument" not in quota["what"]:
            raise _untold(error) from error
        if len(rows) == 1:
            raise BadDocument(
                f"Chroma rejects a record of the document: {error}; use smaller chunks"
            ) from error
        half = len(rows) // 2
        sent(rows[:half], send)
        sent(rows[half:], send)


@contextmanager
def within_quotas() -> Iterator[None]:
    """Raises NeedsHuman if a request to read is more than the server allows."""
    try:
        yield
    except Refused as error:
        if _QUOTA.search(str(error)):
            raise _untold(error) from error
        raise


def _untold(error: Refused) -> NeedsHuman:
    return NeedsHuman(f"Chroma: {error}; set chroma.quotas to what this server allows")


def check_records(records: Sequence[Record]) -> None:
    """Raises ValueError, naming the record: a defect of ours, not of the document."""
    import numpy as np

    check_ids([record.id for record in records])
    for record in records:
        if not np.isfinite(record.vector).all():
            raise ValueError(f"record {record.id!r}: the vector holds NaN or infinity")
        _check_text(record.id, record.text)
        _check_metadata(record.id, record.metadata)


def check_patches(patches: Sequence[tuple[RecordId, Metadata]]) -> None:
    """Raises ValueError, naming the record."""
    check_ids([name for name, _ in patches])
    for name, metadata in patches:
        _check_metadata(name, metadata)


def check_ids(ids: Sequence[RecordId]) -> None:
    """Raises ValueError if an id occurs twice: which one wins would depend on the batches."""
    if len(set(ids)) < len(ids):
        repeated = sorted({name for name in ids if ids.count(name) > 1})
        raise ValueError(f"records named twice in one call: {', '.join(map(repr, repeated))}")


def _check_metadata(name: RecordId, metadata: Metadata) -> None:
    _check_text(name, *metadata)
    _check_text(name, *[value for value in metadata.values() if isinstance(value, str)])
    for key, value in metadata.items():
        if value is None or isinstance(value, str):
            continue
        if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
            _check_text(name, *value)
        elif not _storable(value):
            raise ValueError(f"record {name!r}: {key} = {value!r} can't be stored")


def _storable(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and -_LARGEST <= value < _LARGEST


def _check_text(name: RecordId, *texts: str) -> None:
    if "".join(texts).isascii():
        return
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"record {name!r}: lone surrogate at {error.start} of {text[:40]!r}") from error
