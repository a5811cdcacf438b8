"""What came out of a container: members in a file without a name, from which any thread reads at any time.

Nothing is ever written under a name that an archive chose. The members come from a process that has read
hostile bytes, so all that it says of them is checked.
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

    Closed when nobody holds it any more.
    """

    def __init__(self) -> None:
        self._spool = TemporaryFile(buffering=0)  # noqa: SIM115 - as long as this
        self._starts: dict[str, int] = {}
        self._size = self._count = 0  # of all that came, dropped or not
        self.close = finalize(self, self._spool.close)
        self.members: dict[str, Member] = {}
        self.broken: dict[str, str] = {}

    def add(self, members: Sequence[Member], content: bytes | memoryview) -> None:
        """``content``: of all of them, one behind the other, less those with a problem.

        Raises BadDocument when that can't be right, OSError when there is no room.
        """
        sizes = [0 if member.problem else member.size for member in members]
        wrong = sum(sizes) != len(content) or min(sizes, default=0) < 0
        self._count += len(members)
        if wrong or self._count > MOST_MEMBERS or self._size + len(content) > MOST_BYTES:
            raise BadDocument("what was read of it makes no sense; exclude it")
        for member, size in zip(members, sizes, strict=True):
            if member.name in self.members or not is_harmless(member.name):
                raise BadDocument("the names in it make no sense; exclude it")
            self.members[member.name] = member
            self._starts[member.name] = self._size
            self._size += size
        self._write(content)

    def drop(self, name: str, reason: str) -> None:
        """The container of that name is broken: what came out of it before that was seen is left out.

        It was added last, but for its members. Raises BadDocument when that is not so.
        """
        inside = name + INSIDE
        last = next(reversed(self.members), None)
        while last is not None and last.startswith(inside):
            self.members.popitem()
            last = next(reversed(self.members), None)
        if last != name:
            raise BadDocument("what was read of it makes no sense; exclude it")
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
