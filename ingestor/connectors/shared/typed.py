"""Converts values of database columns and fields to metadata. Pure; imports only the standard library."""

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from math import isfinite
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ingestor.model import Scalar


def scalar(value: object) -> "Scalar":
    """Convert a value to metadata: text, a boolean, a number of at most 64 bits, or None.

    Other values become text: times in ISO 8601, lists with commas, mappings in JSON, decimals with all their
    digits. Numbers that are not finite become None, and so do objects whose text only has their address in
    memory.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return str(value) if abs(value) >= 2**63 else int(value)
    if isinstance(value, float):
        return float(value) if isfinite(value) else None
    kind = type(value)
    is_shown = kind.__str__ is not object.__str__ or kind.__repr__ is not object.__repr__
    return text(_show(value)) if is_shown else None


def posix(moment: datetime) -> float:
    """Return POSIX seconds of a time. A time without a zone is in UTC."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def text(given: str) -> str:
    """Return the text without lone surrogates."""
    return given.encode("utf-8", "replace").decode()


def _show(value: object) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, set | frozenset):
        return ", ".join(sorted(map(_show, value)))
    if isinstance(value, list | tuple):
        return ", ".join(map(_show, value))
    if isinstance(value, Mapping):
        return json.dumps(dict(value), ensure_ascii=False, sort_keys=True, default=_show)
    return str(value)
