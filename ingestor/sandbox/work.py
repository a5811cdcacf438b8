"""The work of a confined process: it parses one document, or opens one container, at a time.

A request is a frame of JSON and a frame with the bytes. The answer is a frame of JSON. If a container is
opened, its members are sent before the answer, in batches. A batch is a frame of JSON that describes the
members, and a frame with their bytes.
"""

import gc
import math
import os
import resource
import signal
import socket
import time
import traceback
from collections.abc import Iterable
from dataclasses import astuple
from functools import cache
from json import loads
from typing import Any

from ingestor.archives.members import BrokenContainer, FoundMember
from ingestor.core.document_json import encode, pack
from ingestor.model import Blob, Document
from ingestor.ports import BadDocument, Parser
from ingestor.registry import find
from ingestor.sandbox.wire import BATCH, CROWD, DOCUMENT, EXTENSIONS, OUT_OF_MEMORY, PATIENCE, send, take

_DOCUMENTS = 200  # documents after which the process is replaced, because libraries leak memory
_ALLOCATIONS = 100_000  # between two garbage collections: a document that grows has no cycles to collect
_TEXT = 100_000_000  # characters of a document's text
_LONGEST_REASON = 10_000  # characters of a reason or of a traceback


def serve(pipe: socket.socket, memory: int, layers: dict[str, str]) -> None:
    """Answer requests until the parent ends, the process must be replaced, or memory runs out.

    ``memory``: limit of this process in bytes. ``layers``: the state of its confinement, which is sent to the
    parent.
    """
    collect_rarely()
    try:
        _serve(pipe, memory, layers)
    except EOFError:
        pass
    except MemoryError:
        os._exit(OUT_OF_MEMORY)


def collect_rarely() -> None:
    """Make Python collect garbage rarely: each collection walks over the whole document being built."""
    gc.set_threshold(_ALLOCATIONS)


def _serve(pipe: socket.socket, memory: int, layers: dict[str, str]) -> None:
    stream = pipe.makefile("rb")
    send(pipe, pack(layers))
    parsed = 0
    while True:
        request, data = loads(take(stream)), take(stream)
        deed, seconds, *words = request
        parsed += deed == "parse"
        _allow(seconds)
        answer = _answer(pipe, deed, words, data)
        signal.alarm(0)
        last = parsed == _DOCUMENTS or _memory_used() > memory // 4
        packed = pack({**answer, "last": last})
        if len(packed) > DOCUMENT:
            bad = f"has more than {DOCUMENT:,} bytes; exclude it, or split it"
            packed = pack({"bad": bad, "last": last})
        send(pipe, packed)
        del request, data, answer, packed
        if last:
            return


def _allow(seconds: float) -> None:
    """Limit the CPU time of a request.

    Also limit its elapsed time, in case the parent no longer watches it.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time() + seconds), hard))
    signal.alarm(math.ceil(seconds * PATIENCE * (1 + EXTENSIONS)) + 10)


def _answer(pipe: socket.socket, deed: str, words: list[Any], data: bytes) -> dict[str, object]:
    try:
        return _parse(words, data) if deed == "parse" else _unpack(pipe, words, data)
    except BadDocument as bad:
        return {"bad": str(bad)[:_LONGEST_REASON]}
    except RecursionError:
        return {"bad": "is nested too deeply; exclude it"}
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    except Exception as error:  # noqa: BLE001 - a defect of the parser, which the parent reports
        reason = f"{type(error).__name__}: {error}"[:_LONGEST_REASON]
        if any(isinstance(each, OSError) for each in (error, error.__cause__, error.__context__)):
            reason += "; no parser has files, network or programs, unless its class sets `isolated = False`"
        return {"defect": reason, "trace": traceback.format_exc()[-_LONGEST_REASON:]}


def _parse(words: list[Any], data: bytes) -> dict[str, object]:
    kind, options, name, content_type, metadata = words
    document: Document = _parser(kind, options).parse(Blob(data, name, content_type, metadata))
    if len(document.text) > _TEXT:
        raise BadDocument(f"has more than {_TEXT:,} characters of text; split it, or exclude it")
    return {"document": encode(document)}


@cache
def _parser(kind: str, options: str) -> Parser:
    plugin = find("parsers", kind)
    parser: Parser = plugin.build(plugin.options.model_validate_json(options))
    return parser


def _unpack(pipe: socket.socket, words: list[Any], data: bytes) -> dict[str, object]:
    from ingestor.archives.unpack import unpack  # most processes open nothing

    name, content_type, archives = words
    _send_all(pipe, unpack(Blob(data, name, content_type), archives))
    return {"opened": True}


def _send_all(pipe: socket.socket, members: Iterable[FoundMember | BrokenContainer]) -> None:
    batch: list[bytes] = []
    content: list[bytes] = []
    size = 0
    for one in members:
        row = pack([one.name, one.reason] if isinstance(one, BrokenContainer) else astuple(one.member))
        if len(row) > BATCH:
            raise BadDocument("holds a file whose name is too long; rename that file, or exclude the archive")
        batch.append(row)
        content.append(b"" if isinstance(one, BrokenContainer) else one.data)
        size += len(row) + len(content[-1])
        if size >= BATCH or len(batch) >= CROWD:
            _send(pipe, batch, content)
            batch, content, size = [], [], 0
    _send(pipe, batch, content)


def _send(pipe: socket.socket, batch: list[bytes], content: list[bytes]) -> None:
    send(pipe, b'{"members":[' + b",".join(batch) + b"]}", b"".join(content))


def _memory_used() -> int:
    """Return how many bytes of memory this process uses now; 0 if the system does not report it.

    ``ru_maxrss`` is no substitute, because it starts with the memory of the parent.
    """
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return 0
