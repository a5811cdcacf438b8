"""What crosses the pipe between the daemon and a process that parses: frames of bytes, documents as JSON.

Never pickles: the answers come from a process that has read hostile bytes.
"""

import json
import socket
import struct
import time
from dataclasses import fields
from operator import attrgetter
from typing import IO

from ingestor.model import Block, Document

OUT_OF_MEMORY = 77  # exit status of the process that parses
PATIENCE = 4  # wall seconds for each CPU second: the machine has other work, too
LARGEST = 2**30  # bytes of one frame
_LENGTH = struct.Struct("!Q")
_FIELDS = attrgetter(*(field.name for field in fields(Block)))


def send(pipe: socket.socket, *frames: bytes) -> None:
    """Within the timeout of ``pipe``. Raises OSError when the other side is gone or too slow."""
    for frame in frames:
        pipe.sendall(_LENGTH.pack(len(frame)))
        pipe.sendall(frame)


def take(stream: IO[bytes]) -> bytes:
    """The next frame, without a second copy of it in memory. Raises EOFError when the other side is gone."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    frame = stream.read(length)
    if len(frame) < length:
        raise EOFError
    return frame


def receive(pipe: socket.socket, deadline: float | None = None) -> bytes:
    """The next frame. Raises EOFError when the other side is gone, TimeoutError after ``deadline``."""
    (length,) = _LENGTH.unpack(_exactly(pipe, _LENGTH.size, deadline))
    if length > LARGEST:
        raise EOFError
    return bytes(_exactly(pipe, length, deadline))


def _exactly(pipe: socket.socket, length: int, deadline: float | None) -> bytearray:
    buffer = bytearray(length)
    rest = memoryview(buffer)
    while rest:
        if deadline is not None:
            pipe.settimeout(max(deadline - time.monotonic(), 1e-3))
        read = pipe.recv_into(rest)
        if not read:
            raise EOFError
        rest = rest[read:]
    return buffer


def encode(document: Document) -> dict[str, object]:
    """Only strings, numbers, lists and dicts."""
    return {
        "text": document.text,
        "blocks": [_FIELDS(block) for block in document.blocks],
        "content_type": document.content_type,
        "title": document.title,
        "language": document.language,
        "extra": document.extra,
    }


def decode(encoded: dict[str, object]) -> Document:
    """The document that ``encode`` was given, after its way through JSON."""
    blocks, extra = encoded.pop("blocks"), encoded.pop("extra")
    assert isinstance(blocks, list)
    assert isinstance(extra, list)
    return Document(
        **encoded,  # type: ignore[arg-type]
        blocks=tuple(Block(*block) for block in blocks),
        extra=tuple((key, value) for key, value in extra),
    )


def pack(value: object) -> bytes:
    """JSON; file names may hold bytes that are no text, which Python shows as lone surrogates."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
