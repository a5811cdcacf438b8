"""Describes errors to people, and computes how long to wait before retries. Pure.

Waits grow exponentially with full jitter (M. Brooker, "Exponential Backoff And Jitter", AWS Architecture
Blog, 2015): each wait is drawn evenly from the range below a ceiling. So many failures with one cause are not
all retried at the same moment.
"""

import errno
import re

BASE = 1.0  # seconds: the ceiling after the first failure
CAP = 300.0  # seconds: the highest ceiling for causes that are expected to pass
LONGEST = 3600.0  # seconds: the highest ceiling for unknown causes
_DOUBLINGS = 12  # of BASE; more would exceed LONGEST
_PARTICULAR = re.compile(r"[\"'`(\[].*|(?<!\S)\S*[/\\]\S*|[\d.,]+")
_ADVICE = {
    errno.ENOENT: "{} does not exist: create it, or correct the path",
    errno.EACCES: "permission denied for {}: grant this user access, or run as another user",
    errno.EPERM: "permission denied for {}: grant this user access, or run as another user",
    errno.ENOTDIR: "a part of the path {} is a file, not a folder: move that file, or correct the path",
    errno.EISDIR: "{} is a folder, not a file: correct the path",
    errno.EEXIST: "{} exists already: move it, or choose another path",
    errno.ENOSPC: "the disk has no room for {}: free some space",
    errno.EDQUOT: "the disk quota of this user has no room for {}: free some space, or raise the quota",
    errno.EROFS: "{} is on a read-only file system: choose another path",
    errno.EMFILE: "too many files are open: raise the limit (ulimit -n)",
    errno.ENFILE: "too many files are open on this machine: raise the limit (sysctl fs.file-max)",
    errno.ELOOP: "{} is a symbolic link to itself: correct the link",
    errno.ENAMETOOLONG: "the name {} is too long: shorten it",
    errno.EIO: "{} cannot be read or written: check the disk",
    errno.ESTALE: "the network drive of {} is not available: mount it again",
    errno.EADDRINUSE: "another program uses this address: stop that program, or choose another port",
    errno.ECONNREFUSED: "no server answers at this address: start the server, or correct the address",
}


class Slow(Exception):
    """Error: parsing takes longer than a first attempt may take. The next attempt has more time."""


class Stopped(Exception):
    """Error: the work was cancelled, or the program ends; nothing was written."""


def describe(error: BaseException) -> str:
    """Return the message of an error for people.

    Errors of the operating system get a remedy if one is known.
    """
    if not isinstance(error, OSError) or error.errno is None:
        return str(error) or type(error).__name__
    name, advice = _file_name(error.filename), _ADVICE.get(error.errno)
    if advice is not None:
        return advice.format(name)
    return f"{name}: {error.strerror}" if error.filename else error.strerror or str(error)


_DETAIL = re.compile(r" \([^()]*(?:\([^()]*\)[^()]*)*\)")


def shorten(reason: str, most: int) -> str:
    """Shorten a reason of the form "fault (detail); remedy" to ``most`` characters.

    Details are omitted first, then remedies. If the fault alone is still too long, it is truncated.
    """
    plain = reason if len(reason) <= most else _DETAIL.sub("", reason)
    while len(plain) > most and (end := max(plain.rfind("; "), plain.rfind(", "))) > 0:
        plain = plain[:end]
    return plain if len(plain) <= most else f"{plain[: max(0, most - 2)].rstrip()} …"


def _file_name(filename: object) -> str:
    if filename is None:
        return "a file"
    return filename.decode(errors="replace") if isinstance(filename, bytes) else str(filename)


def kind_of(reason: str | None) -> str:
    """Return a reason without names and numbers, so that failures of one kind can be counted together."""
    words = _PARTICULAR.sub("", (reason or "").partition(":")[0])
    return " ".join(words.split())[:60] or "other"


def longest_wait(attempt: int, cap: float = CAP) -> float:
    """Return the longest possible wait after failure number ``attempt`` (from 1), in seconds.

    ``cap``: the wait never exceeds this number of seconds.
    """
    return min(cap, BASE * 2.0 ** min(max(attempt - 1, 0), _DOUBLINGS))


def delay(attempt: int, random: float, cap: float = CAP) -> float:
    """Return the seconds to wait after failure number ``attempt`` (from 1).

    ``random``: a number drawn evenly from [0, 1). ``cap``: the wait never exceeds this number of seconds.
    """
    return longest_wait(attempt, cap) * random


def has_passed(since: float, seconds: float, now: float) -> bool:
    """Return whether ``seconds`` have passed since ``since``; True if the clock was put back in between."""
    return not since <= now < since + seconds
