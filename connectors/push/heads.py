"""The head of a request: gathered as it comes, and passed to the reader of the request. Opens no sockets."""

import socket
from dataclasses import dataclass, field
from io import RawIOBase
from typing import Any

LARGEST = 2**17  # bytes: more than any field may have, and as much again for the others


@dataclass(slots=True)
class Head:
    """``data``: all that came so far, which may go on beyond the head."""

    address: Any
    data: bytearray = field(default_factory=bytearray)

    def completed(self, data: bytes) -> bool:
        """Add what came; whether the head is there as a whole. Only what is new is looked through."""
        begin = max(0, len(self.data) - 3)
        self.data += data
        return any(self.data.find(end, begin) >= 0 for end in (b"\r\n\r\n", b"\n\n", b"\n\r\n"))


class Resumed(RawIOBase):
    """What was read from a connection already, then what it has to say besides."""

    def __init__(self, said: bytes, connection: socket.socket) -> None:
        self._said, self._connection = said, connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._said:
            return self._connection.recv_into(buffer)
        taken = self._said[: len(buffer)]
        self._said = self._said[len(taken) :]
        buffer[: len(taken)] = taken
        return len(taken)
