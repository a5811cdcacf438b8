"""A file system that hangs, as one of a server that is gone, mounted by FUSE.

From the first request of one kind on nothing is answered. What comes before is answered by a few lines, for
the protocol of the kernel is simple.
"""

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest

from tests.waiting import LONG

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT = 1, 2, 3, 14, 15, 17, 18, 25, 26
OPENDIR, READDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = 27, 28, 29, 36, 42
_HEAD = struct.Struct("IIQQ16x")  # length, operation, number of the request, node
_SIZE = 2**20
_NO_FLUSH = 1 << 5  # closing a file asks nothing
_DETACH = 2  # of umount2(2)
_LIBC = ctypes.CDLL(None, use_errno=True)


@contextmanager
def hanging_mount(folder: Path, names: Sequence[str], silent: int) -> Iterator[None]:
    """Files of those names in ``folder``. ``silent``: the first such operation fails, and later ones hang.

    Skips the test where this process may not mount.
    """
    try:
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        pytest.skip(f"/dev/fuse: {error.strerror}")
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other"
    if _LIBC.mount(b"hanging", os.fsencode(folder), b"fuse", 0, options.encode()):
        os.close(device)
        pytest.skip(f"mount: {os.strerror(ctypes.get_errno())}")
    serving = Thread(target=_serve, args=(device, names, silent), daemon=True)
    serving.start()
    try:
        yield
    finally:
        _LIBC.umount2(os.fsencode(folder), _DETACH)
        os.close(device)  # whoever still waits gets an error
        serving.join(LONG)


def _serve(device: int, names: Sequence[str], silent: int) -> None:
    """What was not even read by a server can be killed while it waits, as on NFS; so all is left unread."""
    operation = 0
    with suppress(OSError):  # it is mounted no more
        while operation != silent:
            request = os.read(device, _SIZE)
            _, operation, number, node = _HEAD.unpack_from(request)
            if operation in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            failed = operation == silent
            answer = errno.EIO if failed else _answer(operation, node, request[_HEAD.size :], names)
            error, data = (0, answer) if isinstance(answer, bytes) else (-answer, b"")
            os.write(device, struct.pack("IiQ", 16 + len(data), error, number) + data)


def _answer(operation: int, node: int, data: bytes, names: Sequence[str]) -> bytes | int:
    """The answer, or the number of an error. Node 1 is the folder, the files follow."""
    deeds: dict[int, Callable[[], bytes | int]] = {
        INIT: lambda: struct.pack("IIIIHHI", 7, 19, 0, 0, 12, 9, _SIZE // 2),
        GETATTR: lambda: struct.pack("QII", 0, 0, 0) + _attributes(node),
        LOOKUP: lambda: _found(data.rstrip(b"\0").decode(), names),
        STATFS: lambda: struct.pack("5Q4I24x", 9, 9, 9, 9, 9, 512, 255, 512, 0),
        OPENDIR: lambda: bytes(16),
        OPEN: lambda: struct.pack("QII", 0, _NO_FLUSH, 0),
        READDIR: lambda: _listed(names) if struct.unpack_from("QQ", data)[1] == 0 else b"",
        RELEASE: lambda: b"",
        RELEASEDIR: lambda: b"",
        FLUSH: lambda: b"",
    }
    return deeds[operation]() if operation in deeds else errno.ENOSYS


def _attributes(node: int) -> bytes:
    mode, size = (stat.S_IFDIR | 0o755, 0) if node == 1 else (stat.S_IFREG | 0o644, 100)
    return struct.pack("6Q10I", node, size, 1, 1, 1, 1, 0, 0, 0, mode, 1, os.getuid(), os.getgid(), 0, 512, 0)


def _found(name: str, names: Sequence[str]) -> bytes | int:
    if name not in names:
        return errno.ENOENT
    node = names.index(name) + 2
    return struct.pack("QQQQII", node, 0, 0, 0, 0, 0) + _attributes(node)


def _listed(names: Sequence[str]) -> bytes:
    """All at once; they fit into one page."""
    entries = b""
    for at, name in enumerate(names):
        raw = name.encode()
        entries += struct.pack("QQII", at + 2, at + 1, len(raw), 8) + raw + bytes(-len(raw) % 8)
    return entries
