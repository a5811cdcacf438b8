r"""Converts file names to keys of documents, and handles subtrees of keys. Pure.

A file system allows any bytes but ``/`` and NUL in a name; the journal and Chroma want valid UTF-8. A name
that is valid UTF-8 stays unchanged. In any other, each invalid byte becomes ``\xE9`` and each backslash
``\x5C``. A valid name that already holds such an escape is escaped likewise, so that no two names collide.
Every escape in a key was written here, and one substitution reverses all escapes.

A *name* here is one path component as ``os.fsdecode`` gives it; a *key* is escaped names joined by ``/``.
"""

import os
import re
from collections.abc import Iterable

_ESCAPE = re.compile(rb"\\x([0-9A-F]{2})")
_INVALID = re.compile("[\udc80-\udcff]")


def escape(name: str) -> str:
    """Convert a name to valid UTF-8. Different names give different texts."""
    if name.isascii() and "\\" not in name:
        return name
    raw = os.fsencode(name)
    text = raw.decode("utf-8", "surrogateescape")
    if not _INVALID.search(text) and not _ESCAPE.search(raw):
        return text
    return _INVALID.sub(lambda byte: f"\\x{ord(byte[0]) - 0xDC00:02X}", text.replace("\\", "\\x5C"))


def unescape(text: str) -> str:
    """Convert an escaped text back to the name."""
    if "\\" not in text:
        return os.fsdecode(text.encode("utf-8"))
    return os.fsdecode(_ESCAPE.sub(lambda byte: bytes([int(byte[1], 16)]), text.encode("utf-8")))


def key_of(names: list[str]) -> str:
    """Return the key for the components of a path."""
    return "/".join(map(escape, names))


def names_of(key: str) -> list[str]:
    """Return the path components of a key. Raises ValueError for a key that could lead to another folder."""
    names = [unescape(part) for part in key.split("/")] if key else []
    if any(name in ("", ".", "..") or "/" in name or "\0" in name for name in names):
        raise ValueError(f"not the key of a file: {key!r}")
    return names


def cover(keys: Iterable[str], limit: int) -> list[str]:
    """Return at most ``limit`` keys that together cover all of ``keys``, sorted.

    A key covers itself and all keys below it. If the result would be too long, the deepest keys are replaced
    by their parents. The key "" covers all keys. No key of the result lies below another. ``limit``: at least
    1.
    """
    kept = _outermost(set(keys))
    while len(kept) > limit:
        depth = max(key.count("/") for key in kept)
        kept = _outermost({key.rpartition("/")[0] if key.count("/") == depth else key for key in kept})
    return sorted(kept)


def is_covered(key: str, by: set[str]) -> bool:
    """Return whether a key lies below one of the keys in ``by``."""
    if "" in by:
        return key != ""
    cut = key.find("/")
    while cut >= 0:
        if key[:cut] in by:
            return True
        cut = key.find("/", cut + 1)
    return False


def _outermost(keys: set[str]) -> set[str]:
    """Return the keys that lie below no other key of the set."""
    return {key for key in keys if not is_covered(key, keys)}
