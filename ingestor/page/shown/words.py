"""Numbers and times as people read them. Pure."""

from datetime import UTC, datetime

_STEPS = ((60, "s"), (60, "min"), (24, "h"))


def span(seconds: float) -> str:
    """``90``: 1 min."""
    left = max(0.0, seconds)
    for most, unit in _STEPS:
        if left < most:
            return f"{int(left)} {unit}"
        left /= most
    return f"{int(left):,} d"


def size(count: float | None) -> str:
    """Bytes; empty if unknown."""
    if count is None:
        return ""
    left = float(count)
    for unit in ("B", "kB", "MB"):
        if left < 1000:
            return f"{left:.0f} {unit}" if unit == "B" or left >= 100 else f"{left:.1f} {unit}"
        left /= 1000
    return f"{left:.1f} GB"


def number(value: float) -> str:
    return f"{value:,.0f}"


def moment(at: float) -> str:
    """POSIX seconds as a time in UTC, for HTML's ``datetime``."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def clock(at: float) -> str:
    """POSIX seconds as a time in UTC, for people."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def ago(at: float, now: float) -> str:
    """``in 3 min`` where it is still to come. ``now`` may be a second old."""
    return f"{span(now - at)} ago" if at <= now + 2 else f"in {span(at - now)}"
