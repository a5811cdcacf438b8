"""Decompress a response body, within a limit. Pure.

A few kilobytes can unpack to gigabytes, so a body is unpacked in small steps that end at the limit.
"""

import zlib
from dataclasses import dataclass, field
from typing import Any

ACCEPTED = "gzip, deflate"  # sent to servers as Accept-Encoding
_GZIP, _ZLIB, _RAW = 31, 15, -15  # zlib's window bits for each


class TooLarge(Exception):
    """Error: a body exceeds the limit, before or after it is decompressed."""


class Broken(Exception):
    """Error: the data is truncated, or not in the declared format."""


@dataclass(slots=True)
class Body:
    """Body of a response: collects the parts as they arrive, and decompresses them.

    ``encoding``: value of the header Content-Encoding. Raises Broken for an encoding that was not requested.
    """

    encoding: str
    limit: int  # bytes, packed and unpacked
    _kept: bytearray = field(default_factory=bytearray)
    _taken: int = 0
    _unpack: Any = None

    def __post_init__(self) -> None:
        self.encoding = self.encoding.strip().lower()
        if self.encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise Broken(f"compressed with {self.encoding!r}, which was not requested")

    def add(self, piece: bytes) -> None:
        """Add the next part of the body. Raises TooLarge or Broken."""
        self._taken += len(piece)
        if self._taken > self.limit:
            raise TooLarge
        if self.encoding in ("", "identity"):
            self._kept += piece
            return
        while piece:
            piece = self._unpack_some(piece)

    def finish(self) -> bytes:
        """Return the whole body. Raises Broken if the compressed data is truncated."""
        if self._unpack is not None and not self._unpack.eof:
            raise Broken("the compressed body is truncated")
        return bytes(self._kept)

    def _unpack_some(self, piece: bytes) -> bytes:
        """Decompress a part of the body. Return the bytes that are not decompressed yet.

        These are bytes beyond the limit of one call, or after the end of a compressed stream. A body may have
        several compressed streams, with zero bytes as padding behind them.
        """
        if self._unpack is None or self._unpack.eof:
            if self._kept and not piece.strip(b"\0"):
                return b""
            self._unpack = zlib.decompressobj(self._window(piece))
        try:
            self._kept += self._unpack.decompress(piece, self.limit + 1 - len(self._kept))
        except zlib.error as error:
            raise Broken(f"the body can't be decompressed: {error}") from error
        if len(self._kept) > self.limit:
            raise TooLarge
        rest: bytes = self._unpack.unconsumed_tail or self._unpack.unused_data
        return rest

    def _window(self, piece: bytes) -> int:
        """Return the parameter by which zlib recognises the format of a compressed stream (window bits).

        ``piece``: beginning of the stream. Servers send deflate with the header that the standard demands, or
        without.
        """
        if self.encoding != "deflate":
            return _GZIP
        return (
            _ZLIB
            if piece[0] & 0x0F == 8 and (piece[0] >> 4) <= 7 and int.from_bytes(piece[:2]) % 31 == 0
            else _RAW
        )


def gunzip(data: bytes, limit: int) -> bytes:
    """Decompress a gzip file. Return other data unchanged. Raises TooLarge or Broken."""
    if not data.startswith(b"\x1f\x8b"):
        return data
    body = Body("gzip", limit)
    body.add(data)
    return body.finish()
