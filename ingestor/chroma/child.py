"""The process that runs Chroma and the guard in front of it. It ends with its parent (chroma/server.py).

It is a script. Its argument is the folder of Chroma's data, and its standard input is a socket to the parent.
The parent sends a line of JSON with four keys. ``listener`` is the descriptor of a bound socket that does not
listen yet, and ``secret`` the daemon's token. For ``names`` see http_server/access.py, for ``tokens``
guard_rules.py. When the guard listens, the process answers with a line about how the port is guarded. Later
it sends lines about wrong tokens, at most one a minute. When the parent ends for any reason, the socket is
closed, and the process ends.

The guard uses the listening socket, which the parent opened in the machine's network. Chroma listens in a
network namespace of this process, if the system allows one. Guard and Chroma are one process, so that neither
can outlive the other.
"""

import fcntl
import json
import os
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from ingestor.chroma.processes import accepts, free_port, listens
from ingestor.confinement.walls import detach
from ingestor.http_server.peers import PeerUsers

_SIOCSIFFLAGS, _UP = 0x8914, 0x41  # of netdevice(7): IFF_UP | IFF_RUNNING


def enter_private_network() -> str:
    """Enter a network namespace that has only a loopback device. Return "", or why that is not possible.

    A copy of this process tries first, since a process cannot return from a namespace. Some systems allow a
    new namespace, but do not allow to set up loopback in it.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, _enter().encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        why = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    return why or ("trying it failed" if status else _enter())


def _enter() -> str:
    """Enter a new network namespace, and set up loopback in it. Return "", or why that is not possible."""
    if why := detach():
        return why
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _UP))
    except OSError as error:
        return f"loopback can't be set up: {error.strerror}"
    return ""


_LOCAL = "127.0.0.1"
_PATIENCE = 30.0  # seconds for Chroma to persist its memory before SIGKILL
_MOMENT = 0.01  # seconds between two checks whether Chroma listens
_KEPT_COLLECTIONS = {
    "collections_with_segments_provider": {
        "cache": {"memory": {"capacity": 1000}},  # collections
        "cache_ttl_secs": 60,  # a request that changes a collection also ends its time in the cache
        "permitted_parallelism": 100,
    }
}
_FAILED = 70  # exit status: the guard ended by a fault


def main(path: str) -> NoReturn:
    """Run Chroma and the guard in front of it. ``path``: folder of Chroma's data."""
    os.umask(0o077)  # Chroma's files quote documents
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it, and Chroma would write on
    parent = socket.socket(fileno=os.dup(0))
    line = parent.makefile("rb").readline()
    if not line.endswith(b"\n"):
        sys.exit("the process that started Chroma is gone")
    settings = json.loads(line)
    peers = PeerUsers()  # before the namespace is entered, since it reads the machine's connections
    missing = {"without_users": peers.missing, "without_namespace": enter_private_network()}
    closing: list[Callable[[], object]] = []
    port = free_port(_LOCAL)

    def send(message: object) -> None:
        parent.sendall(json.dumps(message).encode() + b"\n")

    def announce(close: Callable[[], object]) -> None:
        closing.append(close)
        send({**missing, "port": port})

    def guard() -> None:
        """Start the guard as soon as Chroma listens. If the guard ends, end the process."""
        try:
            sys.modules["ssl"] = None  # type: ignore[assignment]  # spares 5 ms: asyncio needs no TLS here
            import asyncio

            from ingestor.chroma.guard import serve
            from ingestor.chroma.guard_rules import access
            from ingestor.http_server.access import rules

            # another process could accept a connection before Chroma listens
            while listens(os.getpid(), port) is False or not accepts(_LOCAL, port, 5):
                time.sleep(_MOMENT)
            listener = socket.socket(fileno=settings["listener"])
            who = access(rules(settings["names"], None), settings["secret"], settings["tokens"])
            asyncio.run(
                serve(who, peers, listener, port, announce, lambda number, client: send([number, client]))
            )
        except Exception:  # noqa: BLE001 - printed into Chroma's log
            traceback.print_exc()
        os._exit(_FAILED)

    threading.Thread(target=_end_with_parent, args=(parent, closing), daemon=True).start()
    threading.Thread(target=guard, daemon=True).start()
    import chromadb_rust_bindings  # type: ignore[import-untyped]

    chromadb_rust_bindings.cli(["chroma", "run", *_options(path, port)])
    sys.stdout.flush()
    os._exit(0)  # a normal exit would wait for the other threads


def _options(path: str, port: int) -> list[str]:
    """Return the arguments of the command ``chroma run``.

    They include a setting by which Chroma keeps descriptions of collections in memory. Otherwise each request
    reads them from SQLite, which is most of the work of a short request. Only a settings file can set this,
    so a file in memory is passed.
    """
    if not hasattr(os, "memfd_create"):
        return ["--path", path, "--host", _LOCAL, "--port", str(port)]
    settings = {"persist_path": path, "listen_address": _LOCAL, "port": port, **_KEPT_COLLECTIONS}
    file = os.memfd_create("chroma.yaml")
    os.write(file, json.dumps(settings, ensure_ascii=False).encode())
    return [f"/proc/self/fd/{file}"]


def _end_with_parent(parent: socket.socket, closing: list[Callable[[], object]]) -> None:
    """Wait until the parent ends, then stop Chroma, with time to write its memory to disk."""
    with suppress(OSError):  # a connection reset: the parent was killed before it read our answer
        while parent.recv(1):
            pass
    for close in closing:  # the port before the files, since the next server waits for the files only
        close()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_PATIENCE)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1])
