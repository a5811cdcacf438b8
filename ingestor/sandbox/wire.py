"""Sends and receives frames (byte strings with their length) between the daemon and a confined process.

Frames are never pickles, because answers come from a process that has read hostile bytes.
"""

import socket
import struct
from collections.abc import Callable
from typing import IO

OUT_OF_MEMORY = 77  # exit status of a confined process that got no memory
PATIENCE = 4  # wall seconds for each CPU second: the machine has other work, too
EXTENSIONS = 14  # extensions of a deadline, each as long as the first period, while a parser works
TICK = 0.5  # seconds until a wait notices a stop
LARGEST = 2**30  # bytes of a document
# The largest frames of JSON that the daemon reads, in bytes.
GREETING = 2**16  # the state of the confinement
DESCRIPTIONS = 4 * 10**6  # descriptions of members, or the result of opening a container
DOCUMENT = 400 * 10**6
BATCH = 2**18  # bytes of members, or of their descriptions, that are sent together
CROWD = 1000  # members that are sent together
_LENGTH = struct.Struct("!Q")


class Oversized(Exception):
    """Error: the other side announced a frame of more bytes than it may send."""


def send(pipe: socket.socket, *frames: bytes) -> None:
    """Send frames one after the other. Raises OSError if the other side has ended."""
    for frame in frames:
        pipe.sendall(_LENGTH.pack(len(frame)))
        pipe.sendall(frame)


def send_watched(pipe: socket.socket, watch: Callable[[], None], *frames: bytes) -> None:
    """Send frames one after the other.

    ``watch``: called at least every ``TICK`` seconds. If it raises an exception, the sending ends with it.
    """
    for frame in frames:
        for part in (_LENGTH.pack(len(frame)), frame):
            rest = memoryview(part)
            while rest:
                watch()
                pipe.settimeout(TICK)
                try:
                    rest = rest[pipe.send(rest) :]
                except TimeoutError:
                    continue


def take(stream: IO[bytes]) -> bytes:
    """Return the next frame of a stream. Raises EOFError if the other side has ended.

    The frame is read at once, so that it is never in memory twice.
    """
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    frame = stream.read(length)
    if len(frame) < length:
        raise EOFError
    return frame


def receive(pipe: socket.socket, most: int, watch: Callable[[], None]) -> bytes:
    """Return the next frame. ``most``: the largest size in bytes that is accepted.

    ``watch``: called after each part of the frame, and at least every ``TICK`` seconds. If it raises an
    exception, the waiting ends with it. Raises Oversized, or EOFError if the other side has ended.
    """
    (length,) = _LENGTH.unpack(_exactly(pipe, _LENGTH.size, watch))
    if length > most:
        raise Oversized(f"{length:,} bytes instead of {most:,}")
    return bytes(_exactly(pipe, length, watch))


def _exactly(pipe: socket.socket, length: int, watch: Callable[[], None]) -> bytearray:
    buffer = bytearray(length)
    rest = memoryview(buffer)
    while rest:
        watch()
        pipe.settimeout(TICK)
        try:
            read = pipe.recv_into(rest)
        except TimeoutError:
            continue
        if not read:
            raise EOFError
        rest = rest[read:]
    return buffer
