"""Push endpoints in this process, and in one of their own that can be killed; a small client.

Run as a program it opens an endpoint for each line of its input, a JSON object of options.
"""

import http.client
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ingestor.connectors.push.connector import Push, PushOptions
from ingestor.model import Hint
from tests.serving import free_port
from tests.waiting import LONG, wait

REPOSITORY = Path(__file__).resolve().parents[2]
TOKEN = "t0ken-of-the-test"
SECRET = "s3cret-of-the-webhook"
OURS = f"Host: here\r\nAuthorization: bearer {TOKEN}"  # headers of a request that may pass


@dataclass(frozen=True)
class Said:
    status: int
    body: bytes
    headers: Message  # names in any case

    @property
    def error(self) -> str:
        return str(json.loads(self.body)["error"])


@dataclass
class Caller:
    """Asks an endpoint, with the right token unless told otherwise."""

    port: int
    headers: dict[str, str] = field(default_factory=lambda: {"Authorization": f"Bearer {TOKEN}"})

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Said:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, {**self.headers, **headers})
            answer = connection.getresponse()
            return Said(answer.status, answer.read(), answer.headers)
        finally:
            connection.close()

    def put(self, key: str, data: bytes, **headers: str) -> Said:
        return self.ask("PUT", f"/documents/{quote(key, safe='')}", data, **headers)

    def put_sometime(self, key: str, data: bytes) -> int:
        """As whoever tries again does: while a config is taken over, nobody listens for a moment."""

        def tried() -> int:
            try:
                return self.put(key, data).status
            except ConnectionError:
                return 0

        return int(wait(tried, every=0.01))

    def get(self, key: str) -> Said:
        return self.ask("GET", f"/documents/{quote(key, safe='')}")

    def delete(self, key: str) -> Said:
        return self.ask("DELETE", f"/documents/{quote(key, safe='')}")

    def look(self, query: str, **headers: str) -> Said:
        return self.ask("POST", f"/look?{query}", **headers)

    def is_answered(self) -> bool:
        try:
            return self.ask("GET", "/documents").status == 200
        except OSError:
            return False


class Endpoints:
    """The process."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.connectors.pushing"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, cwd=REPOSITORY)

    def open(self, folder: Path, port: int) -> Caller:
        assert self.process.stdin
        print(json.dumps({"folder": str(folder), "port": port, "token": TOKEN}), file=self.process.stdin)
        self.process.stdin.flush()
        caller = Caller(port)
        wait(caller.is_answered, every=0.01)
        return caller

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)
        assert self.process.stdin
        self.process.stdin.close()


@contextmanager
def endpoints() -> Iterator[Endpoints]:
    running = Endpoints()
    try:
        yield running
    finally:
        running.kill()


class PushedWorld:
    """The ``World`` of the connector laws: what it does goes over the wire, to another process."""

    def __init__(self, root: Path, served: Endpoints) -> None:
        self.root = root
        root.mkdir(parents=True)
        self.source: dict[str, object] = {"folder": str(root / "pushed"), "token": TOKEN, "port": free_port()}
        options = PushOptions.model_validate(self.source)
        self.caller = served.open(options.folder, options.port)
        self.connector = Push(options)

    def put(self, key: str, data: bytes) -> None:
        assert self.caller.put(key, data).status in (200, 201, 204)

    def delete(self, key: str) -> None:
        assert self.caller.delete(key).status == 204

    def move(self, old: str, new: str) -> None:
        data = self.caller.get(old).body
        self.delete(old)
        self.put(new, data)

    def fail(self) -> None:
        self.root.rename(self.root.with_name("aside"))


def connector(folder: Path, **more: Any) -> Push:
    options = {"folder": folder, "token": TOKEN, "port": free_port(), "webhook_secret": SECRET, **more}
    push = Push(PushOptions.model_validate(options))
    push.sources = ("wiki", "a")
    return push


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


@contextmanager
def answering(folder: Path, **options: Any) -> Iterator[Watch]:
    """Watch an endpoint that takes requests."""
    with watched(connector(folder, **options)) as watch:
        wait(watch.caller.is_answered, every=0.01)
        yield watch


def raw(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def answer(connection: socket.socket) -> tuple[str, str]:
    """Head and body of all that comes until the connection ends."""
    with connection, connection.makefile("rb") as stream:
        head, _, body = stream.read().decode().partition("\r\n\r\n")
    return head, body


def serve() -> None:
    for line in sys.stdin:
        hints = Push(PushOptions.model_validate_json(line)).watch(threading.Event())
        threading.Thread(target=list, args=(hints,), daemon=True).start()


if __name__ == "__main__":
    serve()
