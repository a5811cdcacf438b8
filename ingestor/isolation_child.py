"""The process in which binary formats are parsed, one document at a time; see isolation.py.

Its standard input is a socket to the parent: a request is a frame of JSON and a frame with the document's
bytes, the answer a frame of JSON. When the parent is gone, however it went, the socket ends and so does this.
"""

import ctypes
import math
import os
import resource
import signal
import socket
import sys
import time
import traceback
from functools import cache
from json import loads
from typing import Any

from ingestor.isolation_wire import encode, pack, receive, send
from ingestor.model import Blob, Document
from ingestor.ports import BadDocument, Parser
from ingestor.registry import find

OUT_OF_MEMORY = 77  # exit status
PATIENCE = 4  # wall seconds for each CPU second: the machine has other work, too
_DOCUMENTS = 200  # and this process has done its part: what libraries leak ends with it
_TEXT = 100_000_000  # characters
_NEW_USER, _NEW_NET = 0x10000000, 0x40000000  # flags of unshare(2)


def main(memory: int, seconds: float) -> None:
    """Answers until it has done enough, or was asked for too much, or the parent is gone."""
    pipe = socket.socket(fileno=os.dup(0))
    _confine(memory)
    _fall_silent()
    send(pipe, b"ready")
    for served in range(1, _DOCUMENTS + 1):
        request, data = loads(receive(pipe)), receive(pipe)
        _allow(seconds)
        answer = _answer(request, data)
        signal.alarm(0)
        last = served == _DOCUMENTS or _held() > memory // 4
        send(pipe, pack({**answer, "last": last}))
        del request, data, answer
        if last:
            return


def _fall_silent() -> None:
    """What a library reads from standard input or prints is not for the parent."""
    with open(os.devnull, "r+b") as nothing:
        for standard in (0, 1, 2):
            os.dup2(nothing.fileno(), standard)


def _confine(memory: int) -> None:
    for what, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 64),
    ):
        resource.setrlimit(what, (most, most))
    if not _has_no_network():
        sys.addaudithook(_refuse_network)


def _has_no_network() -> bool:
    """Whether the kernel gave this process a network namespace of its own, which holds nothing."""
    unshare = getattr(ctypes.CDLL(None), "unshare", None)
    return unshare is not None and 0 in map(unshare, (_NEW_NET, _NEW_USER | _NEW_NET))


def _refuse_network(event: str, arguments: tuple[Any, ...]) -> None:
    """Second best: what Python's own sockets do."""
    if event in ("socket.__new__", "socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto"):
        raise PermissionError("parsers have no network")


def _allow(seconds: float) -> None:
    """So much CPU time from now on, and an end even when the parent is gone and this hangs."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time() + seconds), hard))
    signal.alarm(math.ceil(seconds * PATIENCE) + 10)


def _answer(request: list[Any], data: bytes) -> dict[str, object]:
    kind, options, name, content_type = request
    try:
        document: Document = _parser(kind, options).parse(Blob(data, name, content_type))
        if len(document.text) > _TEXT:
            return {"bad": f"gives more than {_TEXT:,} characters of text; exclude it, or split it"}
        return {"document": encode(document)}
    except BadDocument as bad:
        return {"bad": str(bad)}
    except RecursionError:
        return {"bad": "is nested too deeply; exclude it"}
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    except Exception as error:  # noqa: BLE001 - a defect of the parser: the parent says so
        return {"defect": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}


@cache
def _parser(kind: str, options: str) -> Parser:
    plugin = find("parsers", kind)
    parser: Parser = plugin.build(plugin.options.model_validate_json(options))
    return parser


def _held() -> int:
    """Bytes of memory that this process holds now; 0 where the system does not tell.

    Not ru_maxrss: that begins with what the parent held when it started us.
    """
    try:
        with open("/proc/self/statm") as told:
            return int(told.read().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), float(sys.argv[2]))
    except EOFError:
        pass
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
