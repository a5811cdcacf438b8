"""Stands before a real Chroma server as Chroma Cloud does: holds its published quotas, and fails by script.

A request over a quota is answered 422 and reaches no server. ``faults``: what happens to the next requests
that write, in turn: a status with a Retry-After, or a connection cut before or after the server heard it.
"""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from tests.serving import HOST

BEFORE: Literal["cut before"] = "cut before"
AFTER: Literal["cut after"] = "cut after"
Fault = tuple[int, str] | Literal["cut before", "cut after"] | None  # status and Retry-After
WRITES = ("upsert", "add", "update", "delete")


@dataclass
class Cloud:
    """``refused``: quotas that were broken. ``at_once``: the most writes at a time."""

    target: int
    keys: int = 32
    key_bytes: int = 36
    value_bytes: int = 4096
    document_bytes: int = 16384
    records: int = 300
    results: int = 300
    faults: list[Fault] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    headers: list[dict[str, str]] = field(default_factory=list)
    at_once: int = 0
    _writing: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def broken(self, action: str, body: dict[str, Any]) -> tuple[str, int, int] | None:
        """The quota that a request breaks: its name, what was sent, what is allowed."""
        found = [
            (name, sent, most)
            for name, sent, most in self._sizes(action, body)
            if sent > most and not self.refused.update([name])
        ]
        return found[0] if found else None

    def _sizes(self, action: str, body: dict[str, Any]) -> Iterator[tuple[str, int, int]]:
        if action in WRITES:
            yield "Number of records", len(body.get("ids") or ()), self.records
            for metadata in body.get("metadatas") or ():
                yield "Number of metadata keys", len(metadata), self.keys
                for key, value in metadata.items():
                    yield "Metadata key size", len(key.encode()), self.key_bytes
                    texts = value if isinstance(value, list) else [value]
                    size = sum(len(str(text).encode()) for text in texts)
                    yield "Metadata value size", size, self.value_bytes
            for document in body.get("documents") or ():
                yield "Document size", len((document or "").encode()), self.document_bytes
        else:
            asked = body.get("limit"), body.get("n_results"), len(body.get("ids") or ())
            yield "Limit value", max(each or 0 for each in asked), self.results

    @contextmanager
    def write(self, action: str) -> Iterator[Fault]:
        """Counts writes at one time; what is to happen to this one."""
        with self._lock:
            self.requests[action] += 1
            if action not in WRITES:
                yield None
                return
            self._writing += 1
            self.at_once = max(self.at_once, self._writing)
            fault = self.faults.pop(0) if self.faults else None
        try:
            yield fault
        finally:
            with self._lock:
                self._writing -= 1


class Handler(BaseHTTPRequestHandler):
    disable_nagle_algorithm = True  # or an answer in two parts waits for 40 ms
    protocol_version = "HTTP/1.1"
    cloud: Cloud

    def handle_any(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        action = self.path.rpartition("/")[2].partition("?")[0]
        self.cloud.headers.append({key.lower(): value for key, value in self.headers.items()})
        with self.cloud.write(action) as fault:
            if fault == BEFORE:
                self._cut()
                return
            if isinstance(fault, tuple):
                self._answer(
                    fault[0], b'{"error":"RateLimited","message":"slow down"}', {"Retry-After": fault[1]}
                )
                return
            broken = self.cloud.broken(action, json.loads(data)) if data else None
            if broken is not None:
                name, sent, most = broken
                limit = f"current usage of {sent} exceeds limit of {most}"
                said = f"Quota exceeded: '{name}' exceeded quota limit for action '{action}': {limit}"
                self._answer(422, json.dumps({"error": "ChromaError", "message": said}).encode())
                return
            status, content = self._forwarded(data)
            if fault == AFTER:
                self._cut()
                return
        self._answer(status, content)

    def _forwarded(self, data: bytes) -> tuple[int, bytes]:
        connection = HTTPConnection(HOST, self.cloud.target, timeout=60)
        try:
            connection.request(self.command, self.path, data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def _answer(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.close()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def cloud_before(target: int, **quotas: int) -> Iterator[tuple[int, Cloud]]:
    """Its port, and what it sees. ``target``: the port of the Chroma server."""
    cloud = Cloud(target, **quotas)
    methods = {f"do_{method}": Handler.handle_any for method in ("GET", "POST", "PUT", "DELETE")}
    handler = type("OfThis", (Handler,), {"cloud": cloud, **methods})
    with ThreadingHTTPServer((HOST, 0), handler) as http:
        http.daemon_threads = True
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield http.server_port, cloud
        finally:
            http.shutdown()
            thread.join()
