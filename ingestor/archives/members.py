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
    """A member of a container.

    ``name``: its name in the outermost container, as in ``mail.eml/!/a.zip/!/b.md``. ``version``: differs if
    content or time differs. ``problem``: why the member cannot be read, or None.
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
    """A member and its bytes."""

    member: Member
    data: bytes


@dataclass(frozen=True, slots=True)
class BrokenContainer:
    """A damaged container inside another container. Its members are unknown."""

    name: str
    reason: str


class TooMuch(BadDocument):
    """Error: a container exceeds its budget, and is refused with all containers in it."""


def budget() -> tuple[int, ...]:
    """Return all limits, by which to notice that a refused container may be opened by now."""
    return DEEPEST, MOST_MEMBERS, MOST_BYTES, LARGEST, _RATIO, _FREE


class Budget:
    """The budget of one outermost container. ``packed``: its bytes."""

    def __init__(self, packed: int) -> None:
        self._packed = packed
        self._members = self._bytes = 0

    def spend(self, members: int, unpacked: int) -> None:
        """Count members and their unpacked bytes. Raises TooMuch if they exceed the limits."""
        self.foresee(members, unpacked)
        self._members += members
        self._bytes += unpacked

    def foresee(self, members: int, unpacked: int) -> None:
        """Raise TooMuch if more members and unpacked bytes would exceed the limits."""
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
    """Return why a member of ``size`` bytes is too large, or None."""
    return f"has {size:,} bytes; members of archives may have {LARGEST:,}" if size > LARGEST else None


def is_wanted(name: str) -> bool:
    """Return False for the name of a hidden file, or of a file that macOS adds to archives."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    return not any(part == "__MACOSX" or (part.startswith(".") and part.strip(".")) for part in parts)


def namer() -> Callable[[str], str]:
    """Return a function that makes the names of the members of one container safe and unique."""
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
    """Return whether a name in the outermost container is one that ``namer`` could have made."""
    return all(_harmless(part) == part for part in name.split(INSIDE))


def _harmless(name: str) -> str:
    """Return a relative name without ``..``, control characters and our separator of containers."""
    parts = [_ODD.sub("_", part) for part in name.replace("\\", "/").split("/")]
    kept = [f"{part}_" if part == "!" else part for part in parts if part not in ("", ".", "..")]
    return "/".join(kept) or "_"
