"""The members of a 7z archive, and their bytes in order.

[7-Zip, 7zFormat.txt] Methods: copy, LZMA, LZMA2, deflate, bzip2, Zstandard, with a delta or x86 filter where
LZMA2 follows: the methods that 7-Zip uses by default. Encrypted archives and PPMd are refused.
"""

import bz2
import lzma
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

_HEAD = struct.Struct("<6sBBIQQI")
_LARGEST_HEADER = 64 * 10**6  # bytes
_LARGEST_WINDOW = 2**27  # bytes of memory that unpacking may take
_CHUNK = 2**20
_EPOCH = 11_644_473_600  # seconds from 1601 to 1970
_COPY, _DELTA, _LZMA2, _LZMA, _PPMD = b"\x00", b"\x03", b"\x21", b"\x03\x01\x01", b"\x03\x04\x01"
_X86 = (b"\x03\x03\x01\x03", b"\x04")
_DEFLATE, _BZIP2, _ZSTD = b"\x04\x01\x08", b"\x04\x02\x02", b"\x04\xf7\x11\x01"
_AES = b"\x06\xf1\x07\x01"

Unpacker = Callable[[bytes], Iterator[bytes]]


class Damaged(ValueError):
    """The archive is inconsistent or cut off."""


class UnsupportedArchive(Damaged):
    """The archive is encrypted, or uses an unsupported method."""


@dataclass(frozen=True, slots=True)
class File:
    """``size`` in bytes, ``modified`` in POSIX seconds, ``crc`` of its bytes, where the archive says it."""

    name: str
    size: int
    modified: float | None
    crc: int | None


@dataclass(frozen=True, slots=True)
class _Folder:
    """Bytes that are packed together. ``coders``: (method, properties); the last one unpacks first."""

    coders: tuple[tuple[bytes, bytes], ...]
    packed: tuple[int, int]  # where its bytes begin, and how many they are
    size: int
    parts: tuple[tuple[int, int | None], ...]  # size and checksum of what is in it


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def bytes(self, size: int) -> bytes:
        if not 0 <= size <= len(self._data) - self._at:
            raise Damaged("its header is cut off")
        self._at += size
        return self._data[self._at - size : self._at]

    def byte(self) -> int:
        return self.bytes(1)[0]

    def number(self) -> int:
        """A number; the leading one bits of its first byte are the count of the bytes that follow."""
        first, value = self.byte(), 0
        for more in range(8):
            mask = 0x80 >> more
            if not first & mask:
                return value | (first & (mask - 1)) << (8 * more)
            value |= self.byte() << (8 * more)
        return value

    def count(self) -> int:
        """A count of things that take at least a byte each."""
        number = self.number()
        if number > len(self._data):
            raise Damaged("its header is inconsistent")
        return number

    def bits(self, count: int) -> list[bool]:
        data = self.bytes((count + 7) // 8)
        return [bool(data[at // 8] & 0x80 >> at % 8) for at in range(count)]

    def defined(self, count: int) -> list[bool]:
        return [True] * count if self.byte() else self.bits(count)

    def checksums(self, count: int) -> list[int | None]:
        return [int.from_bytes(self.bytes(4), "little") if there else None for there in self.defined(count)]


def files(data: bytes, zstd: Unpacker) -> tuple[list[File], Iterator[bytes]]:
    """Its files in the order of their bytes, and the bytes of all of them together. Raises Damaged.

    ``zstd``: unpacks Zstandard. What comes out must be counted by the caller.
    """
    header = _header(data, zstd)
    if header is None:
        return [], iter(())
    folders = _streams(header) if (kind := header.number()) == 4 else []
    kind = header.number() if kind == 4 else kind
    found = _files(header, [part for folder in folders for part in folder.parts]) if kind == 5 else []
    return found, (chunk for folder in folders for chunk in _unpacked(data, folder, zstd))


def _header(data: bytes, zstd: Unpacker) -> _Reader | None:
    """The header, behind its first property; None if the archive is empty."""
    if len(data) < _HEAD.size:
        raise Damaged("it is cut off")
    *_, offset, size, crc = _HEAD.unpack_from(data)
    raw = data[_HEAD.size + offset : _HEAD.size + offset + size] if offset < len(data) else b""
    if not size and len(data) == _HEAD.size:
        return None
    if not size or len(raw) != size or zlib.crc32(raw) != crc:
        raise Damaged("it is cut off")
    for _ in range(4):
        reader = _Reader(raw)
        kind = reader.number()
        if kind == 1:
            return reader
        if kind != 0x17:
            break
        folders = _streams(reader)
        if len(folders) != 1 or folders[0].size > _LARGEST_HEADER:
            break
        raw = b"".join(_unpacked(data, folders[0], zstd))
    raise Damaged("its header is of no known form")


def _streams(reader: _Reader) -> list[_Folder]:
    packed: list[tuple[int, int]] = []
    made: list[tuple[tuple[tuple[bytes, bytes], ...], int]] = []
    checks: list[int | None] = []
    parts: list[tuple[tuple[int, int | None], ...]] = []
    while kind := reader.number():
        if kind == 6:
            packed = _packed(reader)
        elif kind == 7:
            made, checks = _folders(reader)
        elif kind == 8:
            parts = _parts(reader, [size for _, size in made], checks)
        else:
            raise Damaged("its header is of no known form")
    parts = parts or [((size, check),) for (_, size), check in zip(made, checks, strict=True)]
    if len(packed) != len(made):
        raise UnsupportedArchive("packed in a way that is not read (several streams); pack it again as zip")
    return [
        _Folder(coders, place, size, inside)
        for (coders, size), place, inside in zip(made, packed, parts, strict=True)
    ]


def _packed(reader: _Reader) -> list[tuple[int, int]]:
    at, count = _HEAD.size + reader.number(), reader.count()
    sizes: list[int] = []
    while kind := reader.number():
        if kind == 9:
            sizes = [reader.number() for _ in range(count)]
        elif kind == 10:
            reader.checksums(count)
        else:
            raise Damaged("its header is of no known form")
    places = []
    for size in sizes:
        places.append((at, size))
        at += size
    return places


def _folders(
    reader: _Reader,
) -> tuple[list[tuple[tuple[tuple[bytes, bytes], ...], int]], list[int | None]]:
    """Coders and size of each folder, and the checksums that the header has."""
    if reader.number() != 11:
        raise Damaged("its header is of no known form")
    count = reader.count()
    if reader.byte():
        raise Damaged("its header lies elsewhere")
    coders = [_coders(reader) for _ in range(count)]
    sizes: list[int] = []
    checks: list[int | None] = [None] * count
    while kind := reader.number():
        if kind == 12:
            sizes = [[reader.number() for _ in chain][first] for chain, first in coders]
        elif kind == 10:
            checks = reader.checksums(count)
        else:
            raise Damaged("its header is of no known form")
    if len(sizes) != count:
        raise Damaged("its header is of no known form")
    return [(tuple(chain), size) for (chain, _), size in zip(coders, sizes, strict=True)], checks


def _coders(reader: _Reader) -> tuple[list[tuple[bytes, bytes]], int]:
    """A chain of coders, each reading the output of the next, and the index of the first in the header."""
    count = reader.count()
    found = []
    for _ in range(count):
        flags = reader.byte()
        method = reader.bytes(flags & 15)
        if flags & 16:
            raise UnsupportedArchive("packed in a way that is not read (BCJ2); pack it again as zip")
        found.append((method, reader.bytes(reader.number()) if flags & 32 else b""))
    fed = {reader.number(): reader.number() for _ in range(count - 1)}  # which coder gives it its input
    chain = [at for at in range(count) if at not in fed.values()]
    while chain and chain[-1] in fed and len(chain) < count:
        chain.append(fed[chain[-1]])
    if sorted(chain) != list(range(count)) or not count:
        raise UnsupportedArchive("packed in a way that is not read; pack it again as zip")
    return [found[at] for at in chain], chain[0]


def _parts(
    reader: _Reader, sizes: Sequence[int], checks: Sequence[int | None]
) -> list[tuple[tuple[int, int | None], ...]]:
    """Size and checksum of each file in each folder."""
    kind = reader.number()
    counts = [1] * len(sizes)
    if kind == 13:
        counts = [reader.count() for _ in sizes]
        kind = reader.number()
    each: list[list[int]] = []
    for whole, count in zip(sizes, counts, strict=True):
        firsts = [reader.number() for _ in range(count - 1)] if kind == 9 else []
        each.append([*firsts, whole - sum(firsts)] if count else [])
    if any(size < 0 for folder in each for size in folder) or any(
        len(folder) != count for folder, count in zip(each, counts, strict=True)
    ):
        raise Damaged("its sizes contradict each other")
    kind = reader.number() if kind == 9 else kind
    known = [check if count == 1 else None for check, count in zip(checks, counts, strict=True)]
    more: Iterator[int | None] = iter(())
    if kind == 10:
        open_ = sum(count for count, check in zip(counts, known, strict=True) if check is None)
        more = iter(reader.checksums(open_))
        kind = reader.number()
    if kind:
        raise Damaged("its header is of no known form")
    return [
        tuple((size, check if check is not None else next(more, None)) for size in folder)
        for folder, check in zip(each, known, strict=True)
    ]


def _files(reader: _Reader, parts: Sequence[tuple[int, int | None]]) -> list[File]:
    """Files with content, in its order. Folders and empty files are left out."""
    count = reader.count()
    names, times, empty = [""] * count, [None] * count, [False] * count
    while kind := reader.number():
        inside = _Reader(reader.bytes(reader.number()))
        if kind == 14:
            empty = inside.bits(count)
        elif kind == 17:
            names = _names(inside, count)
        elif kind == 20:
            times = _times(inside, count)  # type: ignore[assignment]
    full = [at for at in range(count) if not empty[at]]
    if len(full) != len(parts):
        raise Damaged("it lists other files than it holds")
    return [File(names[at], size, times[at], crc) for at, (size, crc) in zip(full, parts, strict=True)]


def _names(reader: _Reader, count: int) -> list[str]:
    if reader.byte():
        raise Damaged("its names lie elsewhere")
    rest = reader._data[1:].decode("utf-16-le", "replace").split("\0")
    if len(rest) <= count:
        raise Damaged("its names are cut off")
    return rest[:count]


def _times(reader: _Reader, count: int) -> list[float | None]:
    """Times, stored in tenths of microseconds since 1601."""
    there = reader.defined(count)
    if reader.byte():
        return [None] * count
    return [int.from_bytes(reader.bytes(8), "little") / 10**7 - _EPOCH if one else None for one in there]


def _unpacked(data: bytes, folder: _Folder, zstd: Unpacker) -> Iterator[bytes]:
    """The unpacked bytes, as many as the header says, in chunks."""
    at, size = folder.packed
    if at + size > len(data):
        raise Damaged("it is cut off")
    left = folder.size
    for chunk in _chunks(data[at : at + size], folder.coders, zstd):
        if not left:
            return
        yield chunk[:left]
        left -= min(left, len(chunk))
    if left:
        raise Damaged("it is cut off")


def _chunks(packed: bytes, coders: tuple[tuple[bytes, bytes], ...], zstd: Unpacker) -> Iterator[bytes]:
    methods = [method for method, _ in coders]
    if _AES in methods:
        raise UnsupportedArchive("encrypted; pack it again without a password")
    if methods == [_COPY]:
        return (packed[at : at + _CHUNK] for at in range(0, len(packed), _CHUNK))
    if methods == [_DEFLATE]:
        return _run(zlib.decompressobj(-15), packed)
    if methods == [_BZIP2]:
        return _run(bz2.BZ2Decompressor(), packed)
    if methods == [_ZSTD]:
        return zstd(packed)
    return _run(lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=_filters(coders)), packed)


def _filters(coders: tuple[tuple[bytes, bytes], ...]) -> list[dict[str, int]]:
    *before, (last, properties) = coders
    if last == _LZMA and not before and len(properties) == 5:
        return [_lzma(properties)]
    if last != _LZMA2 or len(properties) != 1:
        raise UnsupportedArchive("packed in a way that is not read (PPMd or another); pack it again as zip")
    size = (2 | properties[0] & 1) << (properties[0] // 2 + 11)
    filters = [_filter(method, given) for method, given in before]
    return [*filters, {"id": lzma.FILTER_LZMA2, "dict_size": _window(size)}]


def _lzma(properties: bytes) -> dict[str, int]:
    rest, lc = divmod(properties[0], 9)
    pb, lp = divmod(rest, 5)
    if pb > 4 or lc + lp > 4:
        raise UnsupportedArchive("packed in a way that is not read; pack it again as zip")
    size = max(4096, int.from_bytes(properties[1:], "little"))
    return {"id": lzma.FILTER_LZMA1, "lc": lc, "lp": lp, "pb": pb, "dict_size": _window(size)}


def _filter(method: bytes, properties: bytes) -> dict[str, int]:
    if method in _X86:
        return {"id": lzma.FILTER_X86}
    if method == _DELTA and len(properties) == 1:
        return {"id": lzma.FILTER_DELTA, "dist": properties[0] + 1}
    raise UnsupportedArchive("packed in a way that is not read; pack it again as zip")


def _window(size: int) -> int:
    if size > _LARGEST_WINDOW:
        raise UnsupportedArchive(
            f"packed with a dictionary of {size:,} bytes; pack it again with a smaller one"
        )
    return size


def _run(
    unpacker: "lzma.LZMADecompressor | bz2.BZ2Decompressor | zlib._Decompress", packed: bytes
) -> Iterator[bytes]:
    """Unpack at most _CHUNK bytes at a time."""
    while not unpacker.eof:
        chunk = unpacker.decompress(packed, _CHUNK)
        packed = getattr(unpacker, "unconsumed_tail", b"")
        if not chunk and not packed:
            return
        yield chunk
