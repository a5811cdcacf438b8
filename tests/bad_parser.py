"""A parser that does whatever its document says, good or bad; ``installed`` makes it one that is found.

Found by the processes of isolation.py too, for these look for plugins as any process does.
"""

import ctypes
import os
import signal
import socket
import sys
import time
from pathlib import Path

from ingestor.model import Blob, Block, Document
from ingestor.ports import BadDocument
from ingestor.registry import Options, Plugin

LEAKED: list[bytes] = []


def installed(folder: Path, kind: str = "bad") -> str:
    """A folder to put on PYTHONPATH, in which this parser is installed under that name."""
    from tests.plugins import installed as install  # not in the copy's own process

    source = Path(__file__).read_text().replace('Plugin(kind="bad"', f'Plugin(kind="{kind}"')
    return install(folder, "parsers", kind, "bad_parser", source)


class BadParser:
    isolated = True

    def __init__(self, options: Options) -> None:
        del options

    def parse(self, blob: Blob) -> Document:
        word = blob.data.split()[-1].decode() if blob.data.strip() else ""
        text = str(DEEDS[word]()) if word in DEEDS else blob.data.decode()
        return Document(text, (Block("paragraph", 0, len(text), page=3),), extra=(("name", blob.name),))


def hang() -> None:
    while True:
        pass


def eat() -> None:
    while True:
        LEAKED.append(b"x" * 10_000_000)


def recurse() -> None:
    recurse()


def refuse() -> None:
    raise BadDocument("no good")


def fail() -> None:
    raise ValueError("a defect")


def network() -> str:
    try:
        socket.create_connection(("127.0.0.1", int(os.environ["PYTHON_TEST_PORT"])), timeout=5)
    except OSError as error:
        return f"refused: {error}"
    return "connected"


def write() -> str:
    try:
        Path(os.environ["PYTHON_TEST_FILE"]).write_bytes(bytes(10_000_000))
    except OSError as error:
        return f"refused: {error}"
    return "written"


def leak() -> int:
    LEAKED.append(b"x" * 100_000_000)
    return os.getpid()


def frail() -> str:
    return str(ctypes.string_at(0)) if LEAKED else "well"


def chatter() -> str:
    print("noise" * 1_000_000, flush=True)
    print("noise" * 1_000_000, file=sys.stderr, flush=True)
    return "quiet"


DEEDS = {
    "hang": hang,
    "sleep": lambda: time.sleep(10_000),
    "segfault": lambda: ctypes.string_at(0),
    "abort": os.abort,
    "eat": eat,
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "exit": lambda: os._exit(3),
    "recurse": recurse,
    "refuse": refuse,
    "fail": fail,
    "network": network,
    "write": write,
    "leak": leak,
    "chatter": chatter,
    "frail": frail,
    "pid": os.getpid,
    "environment": lambda: sorted(os.environ),
    "descriptors": lambda: sorted(
        str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()
    ),
}

PLUGIN = Plugin(kind="bad", version=1, options=Options, build=BadParser)
