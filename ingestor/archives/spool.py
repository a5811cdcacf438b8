"""The unpacked members of a container, in an unnamed file that any thread can read.

No file gets a name from an archive. The members come from a process that has read hostile bytes, so its
answers are checked.
"""

import os
from collections.abc import Sequence
from tempfile import TemporaryFile
from weakref import finalize

from ingestor.archives.members import MOST_BYTES, MOST_MEMBERS, Member, is_harmless
from ingestor.model import INSIDE
from ingestor.ports import BadDocument


class Unpacked:
    """``members`` by name; ``broken``: why containers among them could not be opened.

    Closed when the last reference is gone.
    """

    def __init__(self) -> None:
        self._spool = TemporaryFile(buffering=0)  # noqa: SIM115 - as long as this
        self._starts: dict[str, int] = {}
        self._size = self._count = 0  # of all members so far, also dropped ones
        self.close = finalize(self, self._spool.close)
        self.members: dict[str, Member] = {}
        self.broken: dict[str, str] = {}

    def add(self, members: Sequence[Member], content: bytes | memoryview) -> None:
        """Add members. ``content``: the bytes of all members in order, except members with a problem.

        Raises BadDocument if the sizes do not match, OSError if the disk is full.
        """
        sizes = [0 if member.problem else member.size for member in members]
        wrong = sum(sizes) != len(content) or min(sizes, default=0) < 0
        self._count += len(members)
        if wrong or self._count > MOST_MEMBERS or self._size + len(content) > MOST_BYTES:
            raise BadDocument("the list of members is invalid; exclude the file")
        for member, size in zip(members, sizes, strict=True):
            if member.name in self.members or not is_harmless(member.name):
                raise BadDocument("the names of members are unsafe or repeated; exclude the file")
            self.members[member.name] = member
            self._starts[member.name] = self._size
            self._size += size
        self._write(content)

    def drop(self, name: str, reason: str) -> None:
        """Remove the members of a container that turned out to be damaged.

        The container was added last, before its members. Raises BadDocument otherwise.
        """
        inside = name + INSIDE
        last = next(reversed(self.members), None)
        while last is not None and last.startswith(inside):
            self.members.popitem()
            last = next(reversed(self.members), None)
        if last != name:
            raise BadDocument("the list of members is invalid; exclude the file")
        self.broken[name] = reason

    def read(self, member: Member) -> bytes:
        """Raises BadDocument when the member has a problem."""
        if member.problem is not None:
            raise BadDocument(member.problem)
        return os.pread(self._spool.fileno(), member.size, self._starts[member.name])

    def _write(self, content: bytes | memoryview) -> None:
        rest = memoryview(content)
        while rest:
            rest = rest[self._spool.write(rest) :]
