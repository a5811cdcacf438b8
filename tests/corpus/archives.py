"""Archives that unpack to too much, lie about what they hold, name what is outside, or are damaged."""

import bz2
import gzip
import io
import lzma
import random
import struct
import tarfile
import zipfile
from collections.abc import Callable
from functools import partial

from tests.corpus.case import Case, Make, files
from tests.pipeline.packed import encrypted, tarred, zipped

ZEROS = "0" * 20_000_000
_END = struct.Struct("<4s4H2LH")


def _sound() -> bytes:
    words = random.Random(5)
    return zipped({f"{n}.txt": " ".join(str(words.random()) for _ in range(200)) for n in range(20)})


def cut(make: Make, seed: int) -> bytes:
    """Ends at a random place."""
    data = make()
    return data[: random.Random(seed).randrange(10, len(data))]


def spoilt(make: Make, seed: int) -> bytes:
    """Has 20 random bytes at random places."""
    chance, data = random.Random(seed), bytearray(make())
    for _ in range(20):
        data[chance.randrange(8, len(data))] = chance.randrange(256)
    return bytes(data)


def _lying(declared: int) -> bytes:
    """Both headers of its only member declare another size than it has."""
    data = zipped({"a.txt": ZEROS[:3_000_000]})
    return data.replace(struct.pack("<L", 3_000_000), struct.pack("<L", declared))


def _overlapping(entries: int, size: int) -> bytes:
    """Each entry of the directory is the same compressed member."""
    one = zipped({"a.txt": "a" * size})
    at = one.index(b"PK\x01\x02")
    entry = one[at : one.index(b"PK\x05\x06")]
    directory = b"".join(entry[:46] + b"%05d" % (n % 100_000) for n in range(entries))
    few = min(entries, 65_535)
    end = _END.pack(b"PK\x05\x06", 0, 0, few, few, len(directory), at, 0)
    wide = struct.pack(
        "<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, entries, entries, len(directory), at
    ) + struct.pack("<4sLQL", b"PK\x06\x07", 0, at + len(directory), 1)  # fmt: skip
    return one[:at] + directory + (wide if entries > few else b"") + end


def _matryoshka(levels: int, copies: int) -> bytes:
    data = zipped({"zeros.txt": ZEROS})
    for _ in range(levels):
        data = zipped({f"{n}.zip": data for n in range(copies)})
    return data


def _tape(change: Callable[[tarfile.TarInfo], None], content: bytes = b"") -> bytes:
    info = tarfile.TarInfo("a.txt")
    change(info)
    return info.tobuf() + content + bytes(1024)


def _special(kind: bytes, target: str) -> bytes:
    def change(info: tarfile.TarInfo) -> None:
        info.type, info.linkname = kind, target

    through = tarfile.TarInfo("a.txt/passwd.txt")
    return _tape(change)[:512] + through.tobuf() + bytes(1024)


def _sized(field: bytes) -> bytes:
    """A tar header with that field of size, and the checksum that fits."""
    head = bytearray(tarfile.TarInfo("a.txt").tobuf())
    head[124:136] = field
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head) + bytes(1024)


def _long_name() -> bytes:
    head = bytearray(tarfile.TarInfo("x").tobuf())
    head[156:157], head[124:136] = b"L", b"%011o\0" % 40_000_000
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head) + b"n" * 40_000_000 + bytes(1024)


def _same_names() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for n in range(1000):
            info = zipfile.ZipInfo("a.txt")
            archive.filelist.append(info)  # past the check for doubles
            archive.filelist.pop()
            archive.NameToInfo.clear()
            archive.writestr(info, f"text {n}")
    return file.getvalue()


def _sparse() -> bytes:
    """A member that claims a terabyte, most of it holes."""

    def change(info: tarfile.TarInfo) -> None:
        info.type, info.size = tarfile.GNUTYPE_SPARSE, 2**40

    return _tape(change)


_SLIPS = dict.fromkeys(
    ("../../up.txt", "/etc/cron.d/root.txt", "C:\\windows\\x.txt", "a/../../b.txt", "..", "./", "!"),
    "slipped",
)
_ODD = {
    f"{odd}.txt": "odd"
    for odd in ("a\nb", "a\x1b[31mb", "\u202etxt.a", "a\x00b", "\u2066a", "x" * 60_000, " ")
}


def _method() -> bytes:
    """Both headers of its only member name a method of compression that is not read."""
    data = bytearray(zipped({"a.txt": "a" * 99}))
    data[8], data[data.index(b"PK\x01\x02") + 10] = 99, 99
    return bytes(data)


def _links() -> bytes:
    info = zipfile.ZipInfo("link.txt")
    info.create_system, info.external_attr = 3, 0o120777 << 16
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(info, "/etc/passwd")
    return file.getvalue()


_MADE: dict[str, Make] = {
    "!member.zip": lambda: zipped({"zeros.txt": b"0" * 60_000_000}),
    "!sum.zip": lambda: zipped({f"{n}.txt": ZEROS for n in range(6)}),
    "!small-told.zip": lambda: _lying(10),
    "!large-told.zip": lambda: _lying(4_000_000_000),
    "!bomb.tar.gz": lambda: gzip.compress(tarred({f"{n}.txt": ZEROS for n in range(6)}), mtime=0),
    "!bomb.tar.bz2": lambda: bz2.compress(tarred({f"{n}.txt": ZEROS for n in range(6)})),
    "!bomb.tar.xz": lambda: lzma.compress(tarred({f"{n}.txt": ZEROS for n in range(6)})),
    "zeros.tgz": lambda: gzip.compress(bytes(300_000_000), 1),
    "!zeros.gz": lambda: gzip.compress(bytes(300_000_000), 1),
    "!many-streams.tgz": lambda: gzip.compress(b"") * 200_000,
    "copies.zip": lambda: _matryoshka(3, 16),
    "deep.zip": lambda: _matryoshka(12, 1),
    "!overlap.zip": lambda: _overlapping(5000, 100_000),
    "!million.zip": lambda: _overlapping(900_000, 1),
    "!empty-members.zip": lambda: zipped({f"{n}.txt": "" for n in range(50_001)}),
    "same-names.zip": _same_names,
    "slips.zip": lambda: zipped(_SLIPS),
    "slips.tar": lambda: tarred(_SLIPS),
    "odd-names.zip": lambda: zipped(_ODD),
    "long-way.zip": lambda: zipped({"a/" * 20_000 + "b.txt": "far"}),
    "link.zip": _links,
    "link.tar": lambda: _special(tarfile.SYMTYPE, "/etc"),
    "hard-link.tar": lambda: _special(tarfile.LNKTYPE, "/etc/passwd"),
    "device.tar": lambda: _special(tarfile.CHRTYPE, ""),
    "!negative.tar": lambda: _sized(b"\xff" * 12),
    "!endless.tar": lambda: _sized(b"\x80" + b"\x7f" * 11),
    "!no-number.tar": lambda: _sized(b"no number!! "),
    "!long-name.tar": _long_name,
    "sparse.tar": _sparse,
    "!locked.zip": lambda: encrypted(zipped({"a.txt": "secret"})),
    "!method.zip": _method,
    "!two-ends.zip": lambda: _sound() + _END.pack(b"PK\x05\x06", 0, 0, 9, 9, 99, 2**31, 0),
    "far-start.zip": lambda: b"MZ" * 500_000 + _sound(),
    "!stub.7z": lambda: b"7z\xbc\xaf\x27\x1c" + bytes(1000),
    "!stub.rar": lambda: b"Rar!\x1a\x07\x01\x00" + bytes(1000),
    "!letters.mbox": lambda: b"From a@b Tue Jan  2 03:04:05 2024\nSubject: a\n\nb\n\n" * 50_001,
    **{f"!cut-{n}.zip": partial(cut, _sound, n) for n in range(3)},
    **{f"spoilt-{n}.zip": partial(spoilt, _sound, n) for n in range(3)},
    **{f"!cut-{n}.tgz": partial(cut, lambda: gzip.compress(tarred(_SLIPS), mtime=0), n) for n in range(2)},
    **{f"spoilt-{n}.tar": partial(spoilt, lambda: tarred(_SLIPS), n) for n in range(2)},
}


def cases() -> list[Case]:
    return files(_MADE)
