"""Members of archives and mails: their names made harmless, and the limits that keep them so. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from ingestor.ports import BadDocument

MOST_MEMBERS = 20_000
MOST_BYTES = 10**9  # unpacked, of all members together
LARGEST = 50 * 10**6  # bytes of a member
_RATIO = 200  # times its own size, to which an archive may unpack beyond _FREE
_FREE = 100 * 10**6
_ODD = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Member:
    """``version`` differs whenever content or time does; ``problem``: why it can't be read, if so."""

    name: str
    version: str
    size: int
    modified: float | None = None  # POSIX seconds
    content_type: str | None = None
    start: int = 0  # in the spool
    problem: str | None = None


def within_limits(members: int, unpacked: int, packed: int) -> None:
    if members > MOST_MEMBERS:
        raise BadDocument(
            f"it holds more than {MOST_MEMBERS:,} files; unpack it into the folder, or exclude it"
        )
    if unpacked > MOST_BYTES or unpacked > max(_FREE, _RATIO * packed):
        raise BadDocument(
            f"it would unpack to {unpacked:,} bytes or more, which is too much for its {packed:,};"
            " unpack it into the folder, or exclude it"
        )


def refusal(size: int) -> str | None:
    return f"{size:,} bytes, more than the {LARGEST:,} that are read of a member" if size > LARGEST else None


def is_wanted(name: str) -> bool:
    """Hidden files are no documents, nor is what macOS adds to archives."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    return not any(part == "__MACOSX" or (part.startswith(".") and part.strip(".")) for part in parts)


def named_apart(members: Iterable[Member]) -> Iterator[Member]:
    """Under harmless names, no two of which are the same."""
    seen: set[str] = set()
    counts = Counter[str]()
    for member in members:
        name = unique = _harmless(member.name)
        while unique in seen:
            counts[name] += 1
            path = PurePosixPath(name)
            unique = str(path.with_name(f"{path.stem}~{counts[name] + 1}{path.suffix}"))
        seen.add(unique)
        yield replace(member, name=unique)


def _harmless(name: str) -> str:
    """Relative, without steps upwards, control characters, or parts that mean something to us."""
    parts = [_ODD.sub("_", part) for part in name.replace("\\", "/").split("/")]
    kept = [f"{part}_" if part == "!" else part for part in parts if part not in ("", ".", "..")]
    return "/".join(kept) or "_"
