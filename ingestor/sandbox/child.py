"""The process in which binary formats are parsed and containers are opened; see sandbox/pool.py.

Its standard input is a socket to the parent. When the parent ends for any reason, the socket ends and
so does this process. The order of the steps matters: namespaces need a process of one thread, and numpy
starts threads when it is imported, so all walls stand before anything but the standard library is imported.
"""

import mimetypes
import os
import resource
import socket
import sys
from typing import Any

from ingestor.sandbox.confinement import detach, restrict

# Readable besides Python's folders: shared libraries, fonts, time zones, facts about the processor.
_SYSTEM = (
    "/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64",
    "/nix/store", "/gnu/store", "/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo",
    "/usr/share/fonts", "/usr/local/share/fonts", "/usr/share/X11/fonts", "/dev/urandom", "/proc/self",
    "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu",
)  # fmt: skip

_SAID = 2**16  # bytes of a message why it does not start


def main(memory: int, folders: list[str]) -> None:
    """``folders``: of plugins that are not on the search path."""
    layers = {"namespaces": detach()}
    pipe = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDWR)
    _limit_files()
    layers |= restrict([*_SYSTEM, *_python(), *map(str, mimetypes.knownfiles), *folders])
    if layers["namespaces"] and layers["seccomp"]:
        sys.addaudithook(_refuse_network)
    from ingestor.sandbox.work import serve

    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    for standard in (0, 1, 2):  # libraries must not read or write the socket
        os.dup2(nothing, standard)
    serve(pipe, memory, layers)


def _python() -> list[str]:
    libraries = [os.path.join(prefix, "lib") for prefix in (sys.prefix, sys.base_prefix)]  # noqa: PTH118
    return [*map(str, sys.path), *libraries, *os.environ.get("LD_LIBRARY_PATH", "").split(":")]


def _limit_files() -> None:
    for what, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, _SAID),
        (resource.RLIMIT_NOFILE, 64),
    ):
        resource.setrlimit(what, (most, most))


def _refuse_network(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse Python's own sockets, on systems that have no other wall against the network."""
    if event in ("socket.__new__", "socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto"):
        raise PermissionError("parsers have no network")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
