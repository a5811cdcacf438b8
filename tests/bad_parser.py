"""A parser that does whatever its document says, good or bad; ``installed`` makes it one that is found.

Found by the processes of sandbox/pool.py too, for these look for plugins as any process does.
"""

import ctypes
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
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


def ask() -> None:
    """Fail as a client of a library: the system's error is the cause."""
    try:
        socket.create_connection(("127.0.0.1", 9))
    except OSError as error:
        raise RuntimeError("cannot connect") from error


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


LIBC = ctypes.CDLL(None, use_errno=True)


def libc(function: str, *arguments: object) -> str:
    """The call as hostile native code would make it: Python's own guards do not see it."""
    result = getattr(LIBC, function)(*arguments)
    return f"done: {result}" if result >= 0 else f"refused: {os.strerror(ctypes.get_errno())}"


def connect() -> str:
    made = libc("socket", 2, 1, 0)
    if made.startswith("refused"):
        return made
    port = int(os.environ["PYTHON_TEST_PORT"])
    address = b"\x02\0" + port.to_bytes(2, "big") + bytes([127, 0, 0, 1]) + bytes(8)
    return libc("connect", int(made.split()[1]), address, 16)


def scribble() -> str:
    """Writes into the parent's memory, where it says."""
    ours = ctypes.create_string_buffer(b"changed")
    local = (ctypes.c_void_p * 2)(ctypes.addressof(ours), 7)
    remote = (ctypes.c_void_p * 2)(int(os.environ["PYTHON_TEST_ADDRESS"]), 7)
    return libc("process_vm_writev", os.getppid(), local, 1, remote, 1, 0)


def tried(action: Callable[[], object]) -> str:
    try:
        return f"done: {action()!r}"
    except OSError as error:
        return f"refused: {error.strerror}"


def threads() -> str:
    found: list[str] = []
    started = [threading.Thread(target=found.append, args=("x",)) for _ in range(3)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return "".join(found)


def file() -> str:
    return os.environ["PYTHON_TEST_FILE"]


HARM: dict[str, Callable[[], str]] = {
    "connect": connect,
    "unix": lambda: libc("socket", 1, 1, 0),
    "secrets": lambda: tried(lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes()),
    "memory": lambda: tried(lambda: os.open(f"/proc/{os.getppid()}/mem", os.O_RDWR)),
    "scribble": scribble,
    "trace": lambda: libc("ptrace", 16, os.getppid(), None, None),
    "signal": lambda: libc("kill", os.getppid(), 0),
    "limit": lambda: libc("prlimit64", os.getppid(), 0, (ctypes.c_ulong * 2)(1, 1), None),
    "fork": lambda: libc("fork"),
    "program": lambda: libc("execve", b"/bin/true", None, None),
    "spy": lambda: tried(lambda: Path(file()).read_bytes()),
    "list": lambda: tried(lambda: list(Path(file()).parent.iterdir())),
    "overwrite": lambda: tried(lambda: os.open(file(), os.O_WRONLY)),
    "truncate": lambda: libc("truncate", file().encode(), 0),
    "create": lambda: tried(lambda: os.open(file() + ".new", os.O_CREAT | os.O_WRONLY)),
    "delete": lambda: libc("unlink", file().encode()),
    "escape": lambda: libc("unshare", 0x10000000),
    "mount": lambda: libc("mount", b"none", b"/tmp", b"tmpfs", 0, None),
    "keys": lambda: libc("syscall", ctypes.c_long(250), ctypes.c_long(0), ctypes.c_long(-3)),
    "uring": lambda: libc("syscall", ctypes.c_long(425), ctypes.c_long(1), bytes(120)),
}


def pipe() -> int:
    """The descriptor of the way to the daemon."""
    return next(number for number in range(3, 64) if is_socket(number))


def is_socket(number: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(number).st_mode)
    except OSError:
        return False


def drip() -> None:
    """An answer that goes on for ever, by bytes that come before anybody has waited long."""
    os.write(pipe(), (10**6).to_bytes(8, "big"))
    while True:
        os.write(pipe(), b" ")
        time.sleep(0.01)


def boast() -> None:
    os.write(pipe(), (2**29).to_bytes(8, "big"))
    time.sleep(10_000)


def chatter() -> str:
    print("noise" * 1_000_000, flush=True)
    print("noise" * 1_000_000, file=sys.stderr, flush=True)
    return "quiet"


DEEDS: dict[str, Callable[[], object]] = {
    **HARM,
    "threads": threads,
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
    "ask": ask,
    "open": lambda: Path("/etc/hostname").read_text(),
    "run": lambda: subprocess.run(["true"], check=True),
    "network": network,
    "write": write,
    "leak": leak,
    "chatter": chatter,
    "drip": drip,
    "boast": boast,
    "frail": frail,
    "pid": os.getpid,
    "environment": lambda: sorted(os.environ),
    "descriptors": lambda: sorted(
        str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()
    ),
}

PLUGIN = Plugin(kind="bad", version=1, options=Options, build=BadParser)
