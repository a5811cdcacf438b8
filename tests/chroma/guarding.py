"""Requests to a guarded server, byte by byte and by Chroma's own client."""

import re
import socket
from pathlib import Path
from typing import Any

import chromadb
from chromadb.config import Settings

from tests.serving import HOST

ROOT = Path(__file__).parents[2]
TOKEN = "s3cret-of-the-tests"
WRITER = "may-write-in-the-tests"
HEARTBEAT = b"/api/v2/heartbeat"


def request(
    *headers: bytes,
    method: bytes = b"GET",
    path: bytes = HEARTBEAT,
    host: bytes = b"localhost",
    body: bytes = b"",
) -> bytes:
    lines = [b"%b %b HTTP/1.1" % (method, path), b"Host: " + host, *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


BEARER = b"Authorization: Bearer " + TOKEN.encode()


def said(port: int, *parts: bytes, end: bool = True, seconds: float = 10.0) -> bytes:
    """All that is answered to these bytes; ``end``: nothing more is sent then."""
    with socket.create_connection((HOST, port), seconds) as connection:
        for part in parts:
            connection.sendall(part)
        if end:
            connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


def statuses(answers: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", answers)]


def client(port: int, secret: str | None = None, **settings: Any) -> Any:
    """``secret``: of the server, if the client is to write."""
    headers = {"X-Chroma-Token": secret} if secret else None
    known = Settings(anonymized_telemetry=False, **settings)
    return chromadb.HttpClient(HOST, port, headers=headers, settings=known)


def with_token(port: int, token: str = TOKEN, **settings: Any) -> Any:
    return client(
        port,
        chroma_client_auth_provider="chromadb.auth.token_authn.TokenAuthClientProvider",
        chroma_client_auth_credentials=token,
        **settings,
    )
