"""A network namespace of this process, in which no other process can open or reach a port.

Sockets that were opened before stay in their namespace. Only the standard library is imported: the process
must have one thread. See decision 0033.
"""

import fcntl
import os
import socket
import struct

from ingestor.confinement.walls import detach

_SIOCSIFFLAGS, _UP = 0x8914, 0x41  # of netdevice(7): IFF_UP | IFF_RUNNING


def enter_private_network() -> str:
    """Enter a network namespace with loopback alone. Returns "", or why that is not possible.

    A copy of this process tries first: there is no way back, and some systems allow a new namespace but
    forbid to set up loopback in it.
    """
    return _tried() or _entered()


def _entered() -> str:
    if why := detach():
        return why
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _UP))
    except OSError as error:
        return f"loopback can't be set up: {error.strerror}"
    return ""


def _tried() -> str:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, _entered().encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        why = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    return why or ("" if status == 0 else "trying it failed")
