"""A writer of OLE compound files, as little of it as Outlook's messages need. [MS-CFB]"""

import struct
from collections.abc import Mapping

_SECTOR, _SMALLEST = 512, 4096  # bytes; smaller streams would lie elsewhere, so they are filled up
_END, _FREE, _FAT = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD


def ole(streams: Mapping[str, bytes]) -> bytes:
    """``streams``: by path; folders are made."""
    names = ["Root Entry"]
    for path in streams:
        parts = path.split("/")
        names += [folder for at in range(1, len(parts)) if (folder := "/".join(parts[:at])) not in names]
    names += streams
    names[1:] = sorted(names[1:], key=lambda path: (len(path.rpartition("/")[2]), path.upper()))
    sectors: list[bytes] = []
    table: list[int] = []

    def put(data: bytes) -> int:
        first, count = len(sectors), -(-len(data) // _SECTOR)
        sectors.extend(data[at * _SECTOR : (at + 1) * _SECTOR].ljust(_SECTOR, b"\0") for at in range(count))
        table.extend([*range(first + 1, first + count), _END])
        return first

    placed = {path: put(data.ljust(_SMALLEST, b"\0")) for path, data in streams.items()}
    folder = b"".join(_entry(name, names, streams, placed) for name in names)
    directory = put(folder.ljust(-(-len(folder) // _SECTOR) * _SECTOR, b"\0"))
    count = 1 + (len(table) + 8) // 120
    fat = [*table, *[_FAT] * count]
    fat += [_FREE] * (count * 128 - len(fat))
    first = len(sectors)
    sectors.append(struct.pack(f"<{len(fat)}I", *fat))
    sizes = (0x3E, 3, 0xFFFE, 9, 6, 0, count, directory, 0, _SMALLEST, _END, 0, _END, 0, first)
    head = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<HHHHH6xIIIIIIIIII", *sizes)
    places = [*range(first + 1, first + count), *[_FREE] * (109 - count)]
    return head + struct.pack("<108I", *places) + b"".join(sectors)


def _entry(name: str, names: list[str], streams: Mapping[str, bytes], placed: Mapping[str, int]) -> bytes:
    """Of the directory: each folder's entries, by length and name, hang on each other to the right."""
    root, at = name == "Root Entry", names.index(name)
    inside = [n for n, other in enumerate(names) if n and _folder(other) == ("" if root else name)]
    after = [n for n, other in enumerate(names) if n > at and not root and _folder(other) == _folder(name)]
    is_stream = name in streams
    label = name.rpartition("/")[2].encode("utf-16-le") + b"\0\0"
    kind = 2 if is_stream else 5 if root else 1
    child = inside[0] if inside and not is_stream else _FREE
    size = max(len(streams[name]), _SMALLEST) if is_stream else 0
    start = placed[name] if is_stream else _END if kind == 5 else 0
    return (
        label.ljust(64, b"\0")
        + struct.pack("<HBBIII", len(label), kind, 1, _FREE, after[0] if after else _FREE, child)
        + bytes(36)
        + struct.pack("<IQ", start, size)
    )


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
