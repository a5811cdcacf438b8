"""Reads durations and sizes as people write them (``2s``, ``50MB``) and times as web servers send them, and
writes counts and durations in words. Pure."""

import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Annotated

from pydantic import BeforeValidator

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_BYTES |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}


_LONGEST = 3650 * _SECONDS["d"]  # ten years: safe for clocks and timers
_LARGEST = 10**6 * _BYTES["tb"]  # safe for SQLite's integers


def seconds(value: object) -> float:
    """Parse a duration and return seconds: ``"500ms"`` is 0.5.

    A bare number is seconds. Raises ValueError.
    """
    parsed = _parse(value, _SECONDS, "a duration such as 500ms, 2s, 5m, 1h or 7d")
    return _at_most(parsed, _LONGEST, "3650d")


def size(value: object) -> int:
    """Parse a size and return bytes: ``"50MB"`` is 50_000_000, ``"50MiB"`` 52_428_800.

    A bare number is bytes. Raises ValueError.
    """
    parsed = _parse(value, _BYTES, "a size such as 500KB, 50MB or 2GB")
    return int(_at_most(parsed, _LARGEST, "1000000TB"))


def _at_most(parsed: float, most: float, in_words: str) -> float:
    if parsed > most:
        raise ValueError(f"must be at most {in_words}")
    return parsed


def _parse(value: object, units: dict[str, float] | dict[str, int], wanted: str) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"expected {wanted}")
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", value)
        unit = match and (match[2].lower() or None)
        if not match or (unit is not None and unit not in units):
            raise ValueError(f"expected {wanted}, not {value!r}")
        return float(match[1]) * (units[unit] if unit else 1)
    if not value >= 0:  # nan is not, either
        raise ValueError(f"expected {wanted}, not {value!r}")
    return float(value)


def http_date(text: str | None) -> float | None:
    """Parse an HTTP date, and return POSIX seconds; None if it is invalid.

    A date without a time zone is in UTC.
    """
    try:
        moment = parsedate_to_datetime(text or "")
    except (ValueError, OverflowError):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def retry_after(header: str | None, now: float) -> float | None:
    """Return the wait that a Retry-After header asks for, in seconds; None without a valid header.

    ``header``: a number of seconds or a date. ``now``: POSIX seconds.
    """
    if re.fullmatch(r"\d{1,9}(\.\d*)?", wanted := (header or "").strip()):
        return float(wanted)
    at = http_date(wanted)
    return None if at is None else max(0.0, at - now)


def quantity(number: int, one: str, several: str = "") -> str:
    """Return a number with its noun, such as ``1 document`` or ``2,000 documents``.

    ``several``: the plural, if it is irregular.
    """
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def size_in_words(count: float) -> str:
    """Return a number of bytes in words, in the largest suitable unit: ``900 B``, ``27.4 kB``, ``310 MB``."""
    if count < 1000:
        return f"{count:.0f} B"
    for unit in ("kB", "MB", "GB"):
        count /= 1000
        if count < 1000 or unit == "GB":
            break
    return f"{count:,.0f} {unit}" if 100 <= count < 1000 else f"{count:,.1f} {unit}"


def in_words(duration: float) -> str:
    """Return a duration in words, in the largest unit that gives a whole number.

    ``duration``: seconds. For example, 3600 gives "1 hour", and 5400 "90 minutes".
    """
    for length, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if duration and duration % length == 0:
            return quantity(int(duration // length), unit)
    return quantity(int(duration), "second") if duration == int(duration) else f"{duration:g} seconds"


Duration = Annotated[float, BeforeValidator(seconds)]
Size = Annotated[int, BeforeValidator(size)]
