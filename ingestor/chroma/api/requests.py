"""Writes as requests that a server with quotas takes: fewer keys each, and fewer records where it says so."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

from ingestor.chroma.api.values import Refused
from ingestor.model import Metadata, RecordId
from ingestor.ports import BadDocument, NeedsHuman

_TOO_LARGE = 413  # HTTP's status
_QUOTA = re.compile(r"'(?P<what>[^']+)' exceeded quota limit")

Row = TypeVar("Row")
Patches = list[tuple[RecordId, Metadata]]


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
                f"Chroma refuses a record of it: {error}; cut it into smaller chunks"
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
