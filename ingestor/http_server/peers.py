"""Find the user whose program connected to a server of ours on this machine, by the kernel's sock_diag(7).

Only the standard library is imported: the guard's process opens its socket before it leaves the machine's
network.
"""

import os
import socket
import struct

_SOCK_DIAG, _BY_FAMILY, _REQUEST, _ALL_STATES = 4, 20, 1, 0xFFFFFFFF
_HEADER, _NO_COOKIE, _PATIENCE = 16, b"\xff" * 8, 1.0  # bytes of a message's head; seconds
_MAPPED = "::ffff:"  # begins an IPv4 address in a socket of IPv6


class PeerUsers:
    """Asks the kernel which user of this machine owns the other end of a connection.

    ``missing``: why the kernel cannot answer; "" if it can. The queries are about the network namespace of
    the process that creates the object.
    """

    def __init__(self) -> None:
        self._ours, self._asked = {0, os.geteuid()}, 0
        self._kernel: socket.socket | None = None
        self.missing = ""
        try:
            self._kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG)
            self._kernel.settimeout(_PATIENCE)
            with socket.create_server(("127.0.0.1", 0)) as server:
                here = server.getsockname()
                with socket.create_connection(here) as peer:
                    known = self._owner(peer.getsockname(), here) == os.geteuid()
            self.missing = "" if known else "the kernel does not know the users of sockets"
        except (AttributeError, OSError) as error:
            self.missing = f"the kernel does not report the users of sockets: {error}"

    def close(self) -> None:
        if self._kernel is not None:
            self._kernel.close()

    def is_ours(self, peer: tuple[str, int], here: tuple[str, int]) -> bool:
        """Return whether the program that opened a connection runs on this machine, by our user or by root.

        ``peer``: address and port of that program. ``here``: address and port of our server. If the kernel
        cannot answer, every connection over loopback counts as ours.
        """
        if not _plain(peer[0]).startswith("127.") and peer[0] != "::1":
            return False
        try:
            return bool(self.missing) or self._owner(peer, here) in self._ours
        except OSError:
            return False

    def _owner(self, peer: tuple[str, int], here: tuple[str, int]) -> int | None:
        """Return the user id that owns the client's socket; None if the socket is closed. Raises OSError."""
        assert self._kernel is not None
        family = socket.AF_INET6 if ":" in _plain(peer[0]) else socket.AF_INET
        addresses = (socket.inet_pton(family, _plain(each[0])).ljust(16, b"\0") for each in (peer, here))
        wanted = struct.pack("!HH", peer[1], here[1]) + b"".join(addresses)
        self._asked = self._asked % 0xFFFFFFFF + 1
        request = struct.pack("=BBBxI", family, socket.IPPROTO_TCP, 0, _ALL_STATES) + wanted
        request += struct.pack("=I", 0) + _NO_COOKIE
        head = struct.pack("=IHHII", _HEADER + len(request), _BY_FAMILY, _REQUEST, self._asked, 0)
        self._kernel.sendto(head + request, (0, 0))
        while True:
            reply = self._kernel.recv(8192)
            _, kind, _, serial, _ = struct.unpack_from("=IHHII", reply)
            if serial == self._asked:
                break  # an earlier answer came too late
        if kind != _BY_FAMILY or reply[_HEADER + 4 : _HEADER + 4 + len(wanted)] != wanted:
            return None  # no socket, or a listener on the peer's port
        *_, user, inode = struct.unpack_from("=IIIII", reply, _HEADER + 52)
        return user if inode else None  # the kernel reports root for a closed socket


def _plain(address: str) -> str:
    return address.removeprefix(_MAPPED)
