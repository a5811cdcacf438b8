"""Servers for tests: on this machine's own address, on free ports, ended with the test."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from ingestor.chroma import processes
from ingestor.chroma.client import Client
from ingestor.chroma.server import ChromaServer

HOST = "127.0.0.1"


def free_port() -> int:
    return processes.free_port(HOST)


def server(folder: Path, port: int | None = None) -> ChromaServer:
    """Not started yet; its data lies in ``folder/db``."""
    folder.mkdir(parents=True, exist_ok=True)
    return ChromaServer(folder / "db", HOST, port or free_port(), folder / "chroma.log")


def shared_server(folder: Path) -> ChromaServer:
    """A server in which everybody may write, as one that somebody else runs. Not started yet."""
    folder.mkdir(parents=True, exist_ok=True)
    log, everybody = folder / "chroma.log", [(None, "write")]
    return ChromaServer(folder / "db", HOST, free_port(), log, tokens=everybody)


@contextmanager
def client_of(running: ChromaServer, **options: float) -> Iterator[Client]:
    with Client(running.host, running.port, token=running.secret, **options) as client:
        yield client


@contextmanager
def answering(status: int, body: bytes) -> Iterator[tuple[int, list[dict[str, str]]]]:
    """Something at a port that gives every request this answer; its port, and the headers it was sent."""
    seen: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        disable_nagle_algorithm = True  # or an answer in two parts waits for 40 ms

        def do_GET(self):
            seen.append({key.lower(): value for key, value in self.headers.items()})
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer((HOST, 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield http.server_port, seen
        finally:
            http.shutdown()
            thread.join()


@contextmanager
def silent() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.create_server((HOST, 0)) as listening:
        yield listening.getsockname()[1]
