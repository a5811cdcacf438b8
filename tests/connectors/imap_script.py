"""A server that speaks IMAP by a script: what it is to say, where it breaks off, what it heard."""

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from ingestor.connectors.imap.connector import Imap, ImapOptions
from tests.waiting import LONG

PASSWORD = "s3cret-word"
SCRIPT: Mapping[str, bytes] = {
    "": b"* OK ready\r\n",
    "CAPABILITY": b"* CAPABILITY IMAP4rev1 AUTH=PLAIN\r\nTAG OK done\r\n",
    "LIST": b'* LIST (\\HasNoChildren) "/" INBOX\r\n* LIST () "/" {5}\r\nA b c\r\nTAG OK done\r\n',
    "EXAMINE": b"* 3 EXISTS\r\n* OK [UIDVALIDITY 17] fine\r\nTAG OK [READ-ONLY]\r\n",
    "UID FETCH 1:*": b'* 1 FETCH (UID 4 RFC822.SIZE 5 INTERNALDATE "01-Jan-2026 00:00:00 +0000" FLAGS ())\r\n'
    b'* 2 FETCH (UID 7 RFC822.SIZE 9 INTERNALDATE "02-Jan-2026 00:00:00 +0000" FLAGS (\\Seen))\r\n'
    b'* 3 FETCH (FLAGS (\\Deleted) UID 9 INTERNALDATE "03-Jan-2026 00:00:00 +0000" RFC822.SIZE 9)\r\n'
    b"TAG OK done\r\n",
    "UID FETCH": b"* 2 FETCH (UID 7 BODY[] {9}\r\nx: y\r\n\r\nz)\r\nTAG OK done\r\n",
    "LOGOUT": b"* BYE\r\nTAG OK done\r\n",
}


@dataclass
class Scripted:
    """``script``: answers by the beginning of a command, TAG being its tag; ``cut``: bytes said in all."""

    script: Mapping[str, bytes]
    cut: int | None = None
    heard: list[str] = field(default_factory=list)
    open: int = 0
    most: int = 0  # open at a time
    said: int = 0
    port: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)
    connections: list[socket.socket] = field(default_factory=list)
    broken: tuple[bytes, str, bytes] | None = None  # a folder, and a command that is answered so in it
    drips: str | None = None  # the command whose answer comes a byte at a time, for ever

    def serve(self, listener: socket.socket) -> None:
        threads = []
        with suppress(OSError):
            while True:
                self.connections.append(listener.accept()[0])
                threads.append(threading.Thread(target=self._talk, args=self.connections[-1:]))
                threads[-1].start()
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(LONG)

    def connector(self, **options: object) -> Imap:
        source = {"host": "127.0.0.1", "port": self.port, "tls": False, "username": "ada"}
        return Imap(ImapOptions.model_validate({**source, "password": PASSWORD, **options}))

    def _talk(self, connection: socket.socket) -> None:
        self._count(1)
        folder = b""
        with suppress(OSError), connection, connection.makefile("rb") as lines:
            self._say(connection, self.script[""])
            for line in lines:
                tag, _, command = line.decode("latin-1").strip().partition(" ")
                with self.changed:
                    self.heard.append(command)
                if command.startswith("AUTHENTICATE"):
                    self._say(connection, b"+ \r\n")
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
                    lines.readline()
                if self.drips is not None and command.startswith(self.drips):
                    while True:
                        self._say(connection, b"x")
                        time.sleep(0.05)
                folder = line if command.startswith("EXAMINE") else folder
                answer = self._answer(command)
                if self.broken and self.broken[0] in folder and command.startswith(self.broken[1]):
                    answer = self.broken[2]
                self._say(connection, answer.replace(b"TAG", tag.encode()))
                if answer.startswith(b"* BYE"):
                    break
        self._count(-1)

    def _answer(self, command: str) -> bytes:
        fitting = [start for start in self.script if start and command.startswith(start)]
        return self.script[max(fitting, key=len)] if fitting else b"TAG OK done\r\n"

    def _say(self, connection: socket.socket, words: bytes) -> None:
        with self.changed:
            left = len(words) if self.cut is None else max(0, self.cut - self.said)
            self.said += len(words)
        connection.sendall(words[:left])
        if left < len(words):
            raise ConnectionAbortedError

    def _count(self, step: int) -> None:
        with self.changed:
            self.open += step
            self.most = max(self.most, self.open)
            self.changed.notify_all()


@contextmanager
def scripted(answers: Mapping[str, bytes] | None = None, cut: int | None = None) -> Iterator[Scripted]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Scripted({**SCRIPT, **(answers or {})}, cut, port=listener.getsockname()[1])
        thread = threading.Thread(target=server.serve, args=(listener,))
        thread.start()
        try:
            yield server
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join(30)
    assert not thread.is_alive()
