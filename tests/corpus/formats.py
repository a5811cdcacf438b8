"""Old Office files, messages of Outlook; single packed files, books in XML, manual and wiki pages."""

import bz2
import gzip
import lzma
import struct
import sys
from functools import partial
from pathlib import Path

from tests.corpus.archives import cut, spoilt
from tests.corpus.case import Case, Make, files
from tests.hostile import LAUGHS, SPY
from tests.parsers.ole import ole

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_OLD = Path(__file__).parents[1] / "parsers" / "golden"
_FAT, _FIRST_DIRECTORY, _FIRST_DIFAT, _DIFATS, _FATS, _SHIFT = 0x4C, 0x30, 0x44, 0x48, 0x2C, 0x1E  # in a head
_ZEROS = bytes(2**20)


def _old(name: str) -> bytes:
    return (_OLD / name).read_bytes()


def _set(make: Make, at: int, form: str, *values: int) -> bytes:
    """With numbers written over what stands there."""
    data = bytearray(make())
    struct.pack_into(form, data, at, *values)
    return bytes(data)


def _looped_fat(make: Make) -> bytes:
    """Each sector is followed by itself."""
    data = bytearray(make())
    (sector,) = struct.unpack_from("<I", data, _FAT)
    struct.pack_into("<128I", data, 512 * (sector + 1), *range(128))
    return bytes(data)


def _looped_entries(make: Make) -> bytes:
    """Each entry of the directory is its own neighbour, and its own child."""
    data = bytearray(make())
    (sector,) = struct.unpack_from("<I", data, _FIRST_DIRECTORY)
    for at in range(4):
        struct.pack_into("<III", data, 512 * (sector + 1) + 128 * at + 68, at, at, at)
    return bytes(data)


def _large_entries(make: Make) -> bytes:
    """Each stream says that it has 2 GB."""
    data = bytearray(make())
    (sector,) = struct.unpack_from("<I", data, _FIRST_DIRECTORY)
    for at in range(4):
        struct.pack_into("<I", data, 512 * (sector + 1) + 128 * at + 120, 2**31 - 1)
    return bytes(data)


def _record(kind: int, content: bytes = b"") -> bytes:
    """Of a workbook (BIFF)."""
    return struct.pack("<HH", kind, len(content)) + content


def _workbook(*cells: bytes) -> bytes:
    """Of one sheet."""
    begin = _record(0x809, struct.pack("<HHHHII", 0x600, 5, 0, 1997, 0, 6))
    sheet = struct.pack("<IBBBB", len(begin) + 17, 0, 0, 1, 0) + b"a"
    book = begin + _record(0x85, sheet) + _record(0x0A)
    page = _record(0x809, struct.pack("<HHHHII", 0x600, 16, 0, 1997, 0, 6))
    return ole({"Workbook": book + page + b"".join(cells) + _record(0x0A)})


def _number(row: int, column: int) -> bytes:
    return _record(0x203, struct.pack("<HHHd", row, column, 0, 1.0))


def _slides(depth: int) -> bytes:
    """Records in each other."""
    inner = b""
    for _ in range(depth):
        inner = struct.pack("<HHI", 15, 0x03E8, len(inner)) + inner
    return ole({"PowerPoint Document": inner, "Current User": bytes(20)})


def _looped_edits() -> bytes:
    """The last edit follows itself, and its directory counts more than it holds."""
    edit = struct.pack("<HHI", 0, 0x0FF5, 28) + struct.pack("<IIIIII", 0, 0, 0, 36, 1, 1) + bytes(4)
    directory = struct.pack("<HHI", 0, 0x1772, 2**31) + struct.pack("<I", 0xFFF00001) + b"\xff" * 64
    return ole({"PowerPoint Document": edit + directory, "Current User": bytes(20)})


def _message(**streams: bytes) -> bytes:
    return ole(
        {"__properties_version1.0": bytes(32), **{f"__substg1.0_{n[1:]}": d for n, d in streams.items()}}
    )


def _rich() -> bytes:
    """Packed RTF of 16 bytes that says it has 4 GB, and repeats itself."""
    return struct.pack("<II4sI", 2**31, 2**32 - 1, b"LZFu", 0) + (b"\xff" + b"\x0f\xff" * 8) * 200_000


def _attached() -> bytes:
    streams, packed = {"__properties_version1.0": bytes(32)}, gzip.compress(_ZEROS * 40)
    for n in range(60):
        streams[f"__attach_version1.0_#{n:08}/__substg1.0_37010102"] = packed
        streams[f"__attach_version1.0_#{n:08}/__substg1.0_3707001F"] = f"../../{n % 3}.gz".encode("utf-16-le")
    return ole(streams)


def _repeated(text: str, times: int = 100_000, before: str = "", after: str = "") -> Make:
    return lambda: (before + text * times + after).encode()


def _page(text: str, times: int = 100_000) -> Make:
    return _repeated(text, times, ".TH A 1\n.SH NAME\n")


_OFFICE: dict[str, Make] = {
    **{
        f"cut-{n}.{end}": partial(cut, partial(_old, name), n)
        for end, name in (("doc", "harbours.doc"), ("ppt", "harbours.ppt"), ("xls", "prices.xls"))
        for n in range(2)
    },
    **{
        f"spoilt.{end}": partial(spoilt, partial(_old, name), 7)
        for end, name in (("doc", "harbours.doc"), ("ppt", "harbours.ppt"), ("xls", "prices.xls"))
    },
    "!fat-loop.doc": partial(_looped_fat, partial(_old, "harbours.doc")),
    "fat-loop.xls": partial(_looped_fat, partial(_old, "prices.xls")),
    "entries-loop.ppt": partial(_looped_entries, partial(_old, "harbours.ppt")),
    "entries-large.xls": partial(_large_entries, partial(_old, "prices.xls")),
    "many-fats.doc": lambda: _set(partial(_old, "harbours.doc"), _FATS, "<I", 2**32 - 1),
    "difat-loop.doc": lambda: _set(partial(_old, "harbours.doc"), _FIRST_DIFAT, "<II", 0, 2**31),
    "!sector-shift.xls": lambda: _set(partial(_old, "prices.xls"), _SHIFT, "<H", 65535),
    "small-sectors.doc": lambda: _set(partial(_old, "harbours.doc"), 0x38, "<III", 2**32 - 1, 0, 2**31),
    "corners.xls": lambda: _workbook(_number(0, 0), _number(65535, 255)),
    "all-corners.xls": lambda: _workbook(*(_number(row, 255) for row in range(65536))),
    "dimensions.xls": lambda: _workbook(
        _record(0x200, struct.pack("<IIHHH", 0, 2**32 - 1, 0, 65535, 0)), _number(1, 1)
    ),
    "column.xls": lambda: _workbook(_number(65535, 65535)),
    "strings.xls": lambda: _workbook(
        _record(0xFC, struct.pack("<II", 2**31, 2**31) + b"\xff" * 100), _number(1, 1)
    ),
    "merged.xls": lambda: _workbook(
        *[_record(0xE5, struct.pack("<HHHHH", 1, 0, 65535, 0, 255))] * 500, _number(1, 1)
    ),
    "deep.ppt": lambda: _slides(30_000),
    "edits-loop.ppt": _looped_edits,
    "records.ppt": lambda: ole(
        {
            "PowerPoint Document": struct.pack("<HHI", 15, 0x03E8, 2**31) + bytes(8) * 800_000,
            "Current User": bytes(20),
        }
    ),
}
_MAILS: dict[str, Make] = {
    "rich.msg": lambda: _message(x10090102=_rich()),
    "groups.msg": lambda: _message(
        x10090102=struct.pack("<IIII", 0, 2**20, 0x414C454D, 0) + rb"{\rtf1 " + b"{" * 2**20
    ),
    "page.msg": lambda: _message(x10130102=b"<b><i><a href=x><p>" * 50_000),
    "subject.msg": lambda: _message(x0037001F="\u202ea\0".encode("utf-16-le") * 900_000),
    "properties.msg": lambda: ole({"__properties_version1.0": b"\xff" * 6_000_000}),
    "attached.msg": _attached,
    "cut.msg": partial(cut, lambda: _message(x1000001F="a few words ".encode("utf-16-le") * 500), 3),
}
_PACKED: dict[str, Make] = {
    "!bomb.gz": lambda: gzip.compress(_ZEROS * 100) * 20,
    "members.gz": lambda: gzip.compress(b"") * 500_000,
    "!bomb.zst": lambda: b"".join([zstd.compress(_ZEROS * 64)] * 40),
    "!frames.zst": lambda: zstd.compress(b"") * 500_000,
    "window.zst": lambda: b"\x28\xb5\x2f\xfd\x00\xf8" + b"\x01\x00\x00" * 10,
    "!bomb.xz": lambda: lzma.compress(_ZEROS * 100) * 15,
    "!bomb.bz2": lambda: bz2.compress(_ZEROS * 60) * 20,
    "tower.txt.gz.gz.gz.gz": lambda: gzip.compress(
        gzip.compress(gzip.compress(gzip.compress(_ZEROS * 100) * 5))
    ),
}
_BOOKS: dict[str, Make] = {
    "laughs.dbk": lambda: f"{LAUGHS}<article><para>&b;</para></article>".encode(),
    "spy.dbk": lambda: f"{SPY}<article><para>&b;</para></article>".encode(),
    "deep.dbk": _repeated("<section>", 100_000, "<article>"),
    "lists.dbk": lambda: (
        "<article>"
        + "<itemizedlist><listitem><para>a</para>" * 99
        + "</listitem></itemizedlist>" * 99
        + "</article>"
    ).encode(),
    "footnotes.dbk": lambda: (
        "<article><para>" + "a<footnote><para>b" * 140 + "</para></footnote>" * 140 + "</para></article>"
    ).encode(),
    "crowd.dbk": _repeated("<para/>", 1_000_000, "<article>", "</article>"),
    "unclosed.dbk": _repeated("<info><!--<?x ", 100_000, "<article><para>text</para></article>"),
    "doctype.dbk": _repeated("<!DOCTYPE a [ ", 100_000),
    "laughs.fb2": lambda: f"{LAUGHS}<FictionBook><body><p>&b;</p></body></FictionBook>".encode(),
    "deep.fb2": _repeated("<section>", 100_000, "<FictionBook><body>"),
    "sections.fb2": _repeated(
        "<section><title><p>a</p></title></section>", 100_000, "<FictionBook><body>", "</body></FictionBook>"
    ),
    "binary.fb2": lambda: b"<FictionBook><binary>" + b"QUJD" * 8_000_000 + b"</binary></FictionBook>",
    "infos.fb2": _repeated(
        "<author><first-name>a</first-name></author>",
        200_000,
        "<FictionBook><description><title-info>",
        "</title-info></description></FictionBook>",
    ),
}
_PAGES: dict[str, Make] = {
    "itself.man": lambda: b".TH A 1\n.de A\n.A\n..\n" + b".A\n" * 200_000,
    "sources.man": _page(".so man1/itself.man\n"),
    "endless.man": _page(".de A\n"),
    "fonts.man": _page("\\f[", 300_000),
    "strings.man": _page("\\*[a", 300_000),
    "measures.man": _page("\\h'", 300_001),
    "quotes.man": _page('"', 300_001),
    "macro-quotes.man": lambda: b".TH A 1\n.B " + b'""a\\ ' * 100_000,
    "flags.man": lambda: b".Dd a\n.Dt A 1\n.Nm " + b"Fl Op Nm " * 100_000,
    "table.man": lambda: b".TH A 1\n.TS\ntab(;);\nl.\n" + b"a;" * 2_000_000,
    "tables.man": _page(".TS\n", 200_000),
    "templates.wiki": _repeated("{{a|", 100_000),
    "templates-deep.wiki": lambda: b"{{a|" * 100_000 + b"}}" * 100_000,
    "links.wiki": _repeated("[[a|", 100_000),
    "files.wiki": _repeated("[[File:a|", 50_000),
    "files-in-files.wiki": _repeated("[[File:a|[[b]]", 50_000),
    "code.wiki": _repeated("<pre>", 100_000),
    "references.wiki": _repeated("<ref>a", 100_000),
    "closed-references.wiki": lambda: b"<ref>" * 50_000 + b"</ref>" * 50_000,
    "equals.wiki": lambda: b"=" + b" " * 200_000 + b"x" + b" =" * 50_000 + b" y",
    "comments.wiki": _repeated("<!-- ", 300_000),
    "tables.wiki": _repeated("{|\n| a || b\n", 50_000),
    "attributes.wiki": lambda: b"{|\n| " + b'a="b" ' * 50_000 + b"\n|}",
    "placeholders.wiki": lambda: b"\x00" * 10 + b"<math>a</math>" * 50_000,
    "export.wiki": lambda: (
        b'<mediawiki xmlns="http://a"><page><title>a</title><revision><text>'
        + b"{{" * 50_000
        + b"</text></revision></page>" * 2
    ),
}


def cases() -> list[Case]:
    return files({**_OFFICE, **_MAILS, **_PACKED, **_BOOKS, **_PAGES})
