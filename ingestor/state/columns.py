"""The columns of the journal's table of documents: conditions in SQL, and how entries are packed. Pure."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ingestor.core.completeness import Shortfall
from ingestor.core.document_state import NO_PARSER
from ingestor.core.entries import Entry
from ingestor.model import Item, Known

if TYPE_CHECKING:
    from ingestor.model import Sums

_NAMES = (
    *("row", "document_id", "source", "collection", "key", "done_version", "done_recipe", "facts"),
    *("digest", "parser", "attempts", "wanted_recipe", "quarantined"),
    *("wanted_version", "uri", "size", "modified", "extra"),
    *("statistic", "sums", "lo", "hi", "shortfall", "shortfall_reason"),
)
COLUMNS = "id AS " + ", ".join(_NAMES)

# Conditions on ``documents``: in an edition that is kept in step; in a live one; not settled.
IN_FORCE = "collection NOT IN (SELECT name FROM collections WHERE role NOT IN ('live', 'staging'))"
LIVE = "collection NOT IN (SELECT name FROM collections WHERE role != 'live')"
SETTLED = "(done_version IS wanted_version AND done_recipe IS wanted_recipe)"
_UNSETTLED = "(done_version IS NOT wanted_version OR done_recipe IS NOT wanted_recipe)"
PENDING = (
    f"({_UNSETTLED} AND wanted_version IS NOT NULL)"  # due or waiting; as the index ``unsettled`` has it
)
GONE = "wanted_version IS NULL"

# Assigned where a document becomes due: ``since`` is the time of the oldest change that is not applied yet.
NOW = "((julianday('now') - 2440587.5) * 86400.0)"  # POSIX seconds
DUE_SINCE = f"since = CASE WHEN {_UNSETTLED} THEN coalesce(since, {NOW}) ELSE {NOW} END"
# Assigned where it vanishes: from then on it waits for its removal, or for its heir (heirs.py).
VANISHED_SINCE = f"since = iif({GONE}, coalesce(since, {NOW}), {NOW})"
UNSUPPORTED = f"(quarantined AND parser IS '{NO_PARSER}')"

# The state of a document, see core/document_state.py.
STATE = f"""CASE WHEN {GONE} THEN 'gone'
                WHEN {UNSUPPORTED} THEN 'unsupported'
                WHEN quarantined THEN 'quarantined'
                WHEN {SETTLED} THEN 'settled'
                WHEN attempts > 0 THEN 'waiting' ELSE 'due' END"""


_NO_EXTRA = json.dumps([])


def marks(values: Sequence[object]) -> str:
    """A placeholder for each value."""
    return ", ".join("?" * len(values))


def to_entry(row: tuple[Any, ...], known: tuple[Known, ...]) -> Entry:
    """Build an entry from a row with the values of COLUMNS."""
    id_, document_id, source, collection, key, done_version, done_recipe, facts = row[:8]
    digest, parser, attempts, wanted_recipe, quarantined = row[8:13]
    version, uri, size, modified, extra = row[13:18]
    statistic, sums, lo, hi, state, reason = row[18:]
    pairs = () if extra == _NO_EXTRA else tuple(map(_pair, json.loads(extra)))
    item = None if version is None else Item(key, version, uri, size, modified, pairs)
    return Entry(
        id_, document_id, source, collection, key, item, done_version, done_recipe, facts, digest, parser,
        attempts, wanted_recipe, bool(quarantined), known, statistic,
        sums=None if sums is None else unpack(sums),
        interval=None if lo is None else (lo, hi),
        shortfall=None if state is None else Shortfall(state, reason),
    )  # fmt: skip


def _pair(pair: list[Any]) -> tuple[str, Any]:
    name, value = pair
    return name, tuple(value) if isinstance(value, list) else value


def item_columns(item: Item) -> tuple[object, ...]:
    """key, wanted_version, uri, size, modified, extra."""
    return item.key, item.version, item.uri, item.size, item.modified, json.dumps(item.extra)


def pack(sums: Sums) -> bytes:
    """Packed in the smallest integer type that fits; the first byte says which."""
    import numpy as np

    narrow = sums.astype(np.int32)
    plain = b"4" + narrow.tobytes() if np.array_equal(narrow, sums) else b"8" + sums.tobytes()
    small = b"z" + zlib.compress(plain, 1)
    return small if 2 * len(small) < len(plain) else plain


def unpack(packed: bytes) -> Sums:
    import numpy as np

    plain = zlib.decompress(packed[1:]) if packed[:1] == b"z" else packed
    return np.frombuffer(plain[1:], np.int32 if plain[:1] == b"4" else np.int64).astype(np.int64)
