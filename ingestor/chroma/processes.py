"""Finds the processes that use a port or a file, in Linux's /proc. On other systems it finds none."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

_PROC = Path("/proc")
_LISTEN = "0A"  # the state of a listening socket in /proc/net/tcp


def listener(port: int) -> int | None:
    """Return the id of a process that listens on a TCP port, or None.

    Processes of other users are not visible.
    """
    return next((pid for pid in _processes() if listens(pid, port)), None)


def listens(pid: int, port: int) -> bool | None:
    """Return whether a process listens on a TCP port; None if the system has no /proc."""
    if not (_PROC / "net/tcp").exists():
        return None
    return bool(_sockets_at(port) & {target for _, target in _descriptors(pid)})


def writers_of(file: Path) -> list[int]:
    """Return the ids of other processes that have a file open for writing."""
    path = str(file.resolve())
    others = (pid for pid in _processes() if pid != os.getpid())
    return [
        pid for pid in others
        if any(target == path and _writable(pid, name) for name, target in _descriptors(pid))
    ]  # fmt: skip


def describe(pid: int) -> str:
    """Return the id and the command line of a process, for messages."""
    words = command(pid)
    return f"process {pid} ({words[:120]})" if words else f"process {pid}"


def command(pid: int) -> str:
    """Return the command line of a process; "" if the process is ending.

    An ending process first frees its memory, which has the command line, and later its files and locks.
    """
    try:
        words = (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
    return words.strip()


def accepts(host: str, port: int, seconds: float) -> bool:
    """Return whether a process accepts a connection at this address in time."""
    try:
        socket.create_connection((host, port), seconds).close()
    except OSError:
        return False
    return True


def free_port(host: str) -> int:
    """Return a port on which no process listens now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def _sockets_at(port: int) -> set[str]:
    """Return the sockets that listen on a port at any address, as links in /proc/PID/fd name them."""
    rows = [
        line.split()
        for table in ("net/tcp", "net/tcp6")
        if (_PROC / table).exists()
        for line in (_PROC / table).read_text().splitlines()[1:]
    ]
    return {
        f"socket:[{row[9]}]"
        for row in rows
        if row[3] == _LISTEN and int(row[1].rpartition(":")[2], 16) == port
    }


def _processes() -> Iterator[int]:
    if _PROC.is_dir():
        yield from (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())


def _descriptors(pid: int) -> Iterator[tuple[str, str]]:
    """Yield each descriptor of a process with its target.

    Nothing is yielded if it ended or is another user's.
    """
    folder = f"{_PROC}/{pid}/fd"
    try:
        names = os.listdir(folder)  # noqa: PTH208 - every command that opens Chroma reads thousands of these
    except OSError:
        return
    for name in names:
        try:
            yield name, os.readlink(f"{folder}/{name}")  # noqa: PTH115
        except OSError:
            continue  # closed meanwhile


def _writable(pid: int, descriptor: str) -> bool:
    """Return whether a process has opened a file for writing. ``descriptor``: the file's descriptor there."""
    try:
        lines = (_PROC / str(pid) / "fdinfo" / descriptor).read_text().splitlines()
    except OSError:
        return False
    flags = next((line.split()[1] for line in lines if line.startswith("flags:")), "0")
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY
