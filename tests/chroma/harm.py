"""Harm done to Chroma's files, as a failing disk does it."""

import struct
from pathlib import Path

_HEADER = struct.Struct("<i4Q")  # of header.bin: its version, then sizes; the last is that of a record


def mislead(vectors: Path) -> None:
    """Every link between vectors leads outside of the file, so every search crashes the server.

    Harm to some links would not do: whether a search follows them is chance.
    """
    *_, size = _HEADER.unpack_from(vectors.with_name("header.bin").read_bytes())
    data = bytearray(vectors.read_bytes())
    links = struct.pack("<16i", 15, *[0x7FFFFFFF] * 15)  # their number comes first
    for at in range(0, len(data), size):
        data[at : at + len(links)] = links
    vectors.write_bytes(data)
