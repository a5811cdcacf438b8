"""An OpenAI-compatible endpoint that says what a test wants it to say."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import shake_256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HOST = "127.0.0.1"
KEY = "sk-very-secret-0123456789"


@dataclass(frozen=True)
class Reply:
    """``missing``: bytes of the body that are announced and never sent; ``hang``: no answer at all."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    missing: int = 0
    hang: bool = False


Script = Callable[[dict[str, Any]], Reply]


@dataclass
class Endpoint:
    """What it was asked."""

    base_url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    @property
    def calls(self) -> int:
        return len(self.bodies)


def said(content: str | None, finish_reason: str = "stop", **more: Any) -> Reply:
    """A chat completion with this answer; ten tokens read, two written."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": content},
        "finish_reason": finish_reason,
    }
    usage = {"prompt_tokens": 10, "completion_tokens": 2}
    return Reply(body=json.dumps({"choices": [choice], "usage": usage, **more}).encode())


def refused(status: int, message: str, code: str = "", **headers: str) -> Reply:
    """An error as OpenAI words it."""
    body = json.dumps({"error": {"message": message, "type": "error", "code": code}}).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, body, named)


def in_turn(replies: Iterable[Reply]) -> Script:
    """One reply after another; the last one for ever."""
    waiting = list(replies)
    return lambda body: waiting.pop(0) if len(waiting) > 1 else waiting[0]


@contextmanager
def serving(script: Script) -> Iterator[Endpoint]:
    endpoint, over = Endpoint(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        disable_nagle_algorithm = True  # or an answer in two parts waits for 40 ms

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            endpoint.bodies.append(body)
            endpoint.headers.append({name.lower(): value for name, value in self.headers.items()})
            endpoint.paths.append(self.path)
            reply = script(body)
            if reply.hang:
                over.wait(60)
                return
            self.send_response(reply.status)
            self.send_header("Content-Length", str(len(reply.body) + reply.missing))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer((HOST, 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        endpoint.base_url = f"http://{HOST}:{http.server_port}/v1"
        try:
            yield endpoint
        finally:
            over.set()
            http.shutdown()
            thread.join()


def embedded(vectors: Sequence[Sequence[float]], tokens: int | None = None) -> Reply:
    """An answer with these vectors; a token a vector, where ``tokens`` does not say."""
    data = [{"object": "embedding", "index": n, "embedding": list(v)} for n, v in enumerate(vectors)]
    usage = {"prompt_tokens": len(vectors) if tokens is None else tokens}
    return Reply(body=json.dumps({"object": "list", "data": data, "usage": usage}).encode())


def embedding(body: dict[str, Any], dimensions: int = 8) -> Reply:
    """What a sound server answers: a vector of each text that differs with it, not of length 1."""
    return embedded([vector(text, body.get("dimensions", dimensions)) for text in body["input"]])


def vector(text: str, dimensions: int = 8) -> list[float]:
    return [(byte - 127.5) / 50 for byte in shake_256(text.encode()).digest(dimensions)]
