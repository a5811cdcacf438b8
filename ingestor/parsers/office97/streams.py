"""The streams of a compound file. Pure."""

from typing import Any


def stream(file: Any, data: bytes, name: str) -> bytes:
    """Return the bytes of a stream as olefile does, in a fifth of the time if the stream is whole.

    ``data``: all bytes of the file. Raises OSError.
    """
    entry = next((one for one in file.root.kids if one.name.lower() == name.lower()), None)
    if entry is None or entry.size < file.minisectorcutoff:
        return bytes(file.openstream(name).read())
    size, at, next_of = file.sectorsize, entry.isectStart, file.fat
    left, parts, sectors = -(-entry.size // size), list[memoryview](), memoryview(data)
    while left > 0 and at < len(next_of):
        end = at + 1
        while end - at < left and end < len(next_of) and next_of[end - 1] == end:
            end += 1
        parts.append(sectors[(at + 1) * size : (end + 1) * size])
        left -= end - at
        at = next_of[end - 1]
    whole = b"".join(parts)[: entry.size]
    return whole if len(whole) == entry.size else bytes(file.openstream(name).read())
