"""Members of containers (archives, mailboxes and mails): safe names and limits. Pure.

A container is opened with all containers in it. One budget limits them together, so that packing a file
several times does not evade the limit.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from ingestor.model import INSIDE
from ingestor.ports import BadDocument

DEEPEST = 3  # levels of nested containers
MOST_MEMBERS = 50_000
MOST_BYTES = 10**9  # unpacked bytes of all members together
LARGEST = 50 * 10**6  # bytes of a member
_RATIO = 200  # an archive may unpack to _FREE bytes, or to this multiple of its own size
_FREE = 100 * 10**6
_ODD = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a container, such as a file in an archive.

    ``name``: its path in the outermost container, such as ``mail.eml/!/a.zip/!/b.md``. ``version``: changes
    with its content or time. ``problem``: why the member cannot be read, or None.
    """

    name: str
    version: str
    size: int
    modified: float | None = None  # POSIX seconds
    content_type: str | None = None
    problem: str | None = None
    opened: bool = False  # whether it is a container whose members follow


@dataclass(frozen=True, slots=True)
class FoundMember:
    """A member of a container together with its bytes."""

    member: Member
    data: bytes


@dataclass(frozen=True, slots=True)
class BrokenContainer:
    """A damaged container inside another container, so that its members are not known."""

    name: str
    reason: str


class TooMuch(BadDocument):
    """Error: a container exceeds the limits together with all containers in it, so that none of them is
    opened."""


def budget() -> tuple[int, ...]:
    """Return all limits. If they change, containers that exceeded them are opened again."""
    return DEEPEST, MOST_MEMBERS, MOST_BYTES, LARGEST, _RATIO, _FREE


class Budget:
    """The limits that remain for an outermost container and all containers in it.

    ``packed``: its size in bytes.
    """

    def __init__(self, packed: int) -> None:
        self._packed = packed
        self._members = self._bytes = 0

    def spend(self, members: int, unpacked: int) -> None:
        """Count members and their unpacked bytes. Raises TooMuch if they exceed the limits."""
        self.foresee(members, unpacked)
        self._members += members
        self._bytes += unpacked

    def foresee(self, members: int, unpacked: int) -> None:
        """Raise TooMuch if this number of further members and unpacked bytes would exceed the limits."""
        total = self._bytes + unpacked
        if self._members + members > MOST_MEMBERS:
            raise TooMuch(
                f"the archive holds more than {MOST_MEMBERS:,} files; unpack it into the folder, or "
                "exclude it"
            )
        if total > MOST_BYTES or total > max(_FREE, _RATIO * self._packed):
            raise TooMuch(
                f"the archive, with all archives in it, would unpack to {total:,} bytes or more, too "
                f"much for {self._packed:,} packed bytes; unpack it into the folder, or exclude it"
            )


def refusal(size: int) -> str | None:
    """Return why a member of ``size`` bytes is too large to be read; None if it is not."""
    if size <= LARGEST:
        return None
    return (
        f"has {size:,} bytes, but a file in an archive may have at most {LARGEST:,}; unpack it, or exclude it"
    )


def is_wanted(name: str) -> bool:
    """Return whether a member should be read, by its name.

    Hidden files are left out, and the files that macOS adds to archives.
    """
    parts = PurePosixPath(name.replace("\\", "/")).parts
    return not any(part == "__MACOSX" or (part.startswith(".") and part.strip(".")) for part in parts)


def namer() -> Callable[[str], str]:
    """Return a function that makes the names of one container's members safe and unique.

    Call the function once for each member, in order.
    """
    seen: set[str] = set()
    counts = Counter[str]()

    def name(given: str) -> str:
        harmless = unique = _harmless(given)
        while unique in seen:
            counts[harmless] += 1
            path = PurePosixPath(harmless)
            unique = str(path.with_name(f"{path.stem}~{counts[harmless] + 1}{path.suffix}"))
        seen.add(unique)
        return unique

    return name


def is_harmless(name: str) -> bool:
    """Return whether a member's path is safe: ``namer`` could have made each name in it."""
    return all(_harmless(part) == part for part in name.split(INSIDE))


def _harmless(name: str) -> str:
    """Return a name as a safe relative path, without ``..``, control characters and our separator ``/!/``."""
    parts = [_ODD.sub("_", part) for part in name.replace("\\", "/").split("/")]
    kept = [f"{part}_" if part == "!" else part for part in parts if part not in ("", ".", "..")]
    return "/".join(kept) or "_"
