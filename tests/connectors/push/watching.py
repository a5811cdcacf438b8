"""An endpoint in this process, watched, and connections to it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ingestor.connectors.push.connector import Push, PushOptions
from ingestor.model import Hint
from tests.connectors.pushing import TOKEN, Caller
from tests.serving import free_port
from tests.waiting import LONG, wait

SECRET = "s3cret-of-the-webhook"
OURS = f"Host: here\r\nAuthorization: bearer {TOKEN}"  # headers of a request that may pass


def connector(folder: Path, **more: Any) -> Push:
    options = {"folder": folder, "token": TOKEN, "port": free_port(), "webhook_secret": SECRET, **more}
    return Push(PushOptions.model_validate(options))


class Watch:
    """A watch of a connector, in a thread."""

    def __init__(self, of: Push) -> None:
        self.caller, self.folder = Caller(of._options.port), of._options.folder
        self.hints: list[Hint] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._gather, args=(of,))
        self._thread.start()
        wait(lambda: self.hints, every=0.01)
        self.hints.clear()

    def _gather(self, of: Push) -> None:
        for hint in of.watch(self._stop):
            self.hints.append(hint)

    def end(self) -> None:
        self._stop.set()
        self._thread.join(LONG)
        assert not self._thread.is_alive()


@contextmanager
def watched(of: Push) -> Iterator[Watch]:
    watch = Watch(of)
    try:
        yield watch
    finally:
        watch.end()


def raw(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def answer(connection: socket.socket) -> tuple[str, str]:
    """Head and body of all that comes until the connection ends."""
    with connection, connection.makefile("rb") as stream:
        head, _, body = stream.read().decode().partition("\r\n\r\n")
    return head, body
