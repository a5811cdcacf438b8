"""Describes errors to people, and computes the waits before retries. Pure.

Waits are exponential with full jitter (M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog,
2015): the wait is drawn evenly from the range below the ceiling. So many failures of one cause are not
retried at once.
"""

import errno
import re
from email.utils import parsedate_to_datetime

BASE = 1.0  # seconds: the ceiling after the first failure
CAP = 300.0  # seconds: the highest ceiling where the cause is expected to pass
LONGEST = 3600.0  # seconds: the highest ceiling where the cause is unknown
_DOUBLINGS = 12  # 2**12 seconds are already beyond the longest wait
_PARTICULAR = re.compile(r"[\"'`(\[].*|(?<!\S)\S*[/\\]\S*|[\d.,]+")
_ADVICE = {
    errno.ENOENT: "{} is not there: make it, or correct the path",
    errno.EACCES: "this user may not use {}: give it the right to, or run as a user who has it",
    errno.EPERM: "this user may not use {}: give it the right to, or run as a user who has it",
    errno.ENOTDIR: "a part of {} is a file where a folder is needed: move it away, or correct the path",
    errno.EISDIR: "{} is a folder where a file is needed: correct the path",
    errno.EEXIST: "{} is there already: move it away, or choose another path",
    errno.ENOSPC: "the disk has no room for {}: free some space",
    errno.EDQUOT: "this user may store no more where {} lies: make room, or have the quota raised",
    errno.EROFS: "{} lies on a file system that can only be read: choose another path",
    errno.EMFILE: "too many files are open: raise the limit (ulimit -n)",
    errno.ENFILE: "too many files are open on this machine: raise its limit",
    errno.ELOOP: "{} is a link that leads to itself: correct it",
    errno.ENAMETOOLONG: "{} is too long a name: shorten it",
    errno.EIO: "{} can't be read or written: see whether its disk is sound",
    errno.ESTALE: "{} was on a network drive that has gone: mount it again",
    errno.EADDRINUSE: "another program uses that address: stop it, or choose another port",
    errno.ECONNREFUSED: "nothing listens at the other end: see that its server runs, and where",
}


class Slow(Exception):
    """Error: the document takes longer than a first attempt may; it waits for a turn among slow documents."""


class Stopped(Exception):
    """Error: the work was cancelled, or the program ends; nothing was written."""


def describe(error: BaseException) -> str:
    """Return an error in words for people: without errno, with the remedy if one is known."""
    if not isinstance(error, OSError) or error.errno is None:
        return str(error) or type(error).__name__
    advice = _ADVICE.get(error.errno)
    if advice is not None:
        return advice.format(_file_name(error.filename))
    return (
        f"{_file_name(error.filename)}: {error.strerror}" if error.filename else error.strerror or str(error)
    )


_DETAIL = re.compile(r" \([^()]*(?:\([^()]*\)[^()]*)*\)")


def shorten(reason: str, most: int) -> str:
    """Shorten "fault (detail); remedy" to ``most`` characters: omit details, then remedies, then truncate."""
    plain = reason if len(reason) <= most else _DETAIL.sub("", reason)
    while len(plain) > most and (end := max(plain.rfind("; "), plain.rfind(", "))) > 0:
        plain = plain[:end]
    return plain if len(plain) <= most else f"{plain[: max(0, most - 2)].rstrip()} …"


def _file_name(filename: object) -> str:
    if filename is None:
        return "a file"
    return filename.decode(errors="replace") if isinstance(filename, bytes) else str(filename)


def kind_of(reason: str | None) -> str:
    """Return a reason without names and numbers."""
    words = _PARTICULAR.sub("", (reason or "").partition(":")[0])
    return " ".join(words.split())[:60] or "other"


def longest_wait(attempt: int, cap: float = CAP) -> float:
    """Return the longest wait, in seconds, after failure number ``attempt``."""
    return min(cap, BASE * 2.0 ** min(max(attempt - 1, 0), _DOUBLINGS))


def delay(attempt: int, random: float, cap: float = CAP) -> float:
    """Return the seconds to wait after failure number ``attempt``; ``random`` is drawn evenly from [0, 1)."""
    return longest_wait(attempt, cap) * random


def has_passed(since: float, seconds: float, now: float) -> bool:
    """Return whether that many seconds passed; True if the clock was put back meanwhile."""
    return not since <= now < since + seconds


def retry_after(header: str | None, now: float) -> float | None:
    """Return the seconds that a header asks for, as a number or as a date; None without a value.

    ``now``: POSIX seconds.
    """
    if not header:
        return None
    if re.fullmatch(r"\d{1,9}(\.\d*)?", header.strip()):
        return float(header)
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - now)
    except (ValueError, OverflowError):
        return None
