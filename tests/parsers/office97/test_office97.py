"""Old Office files that are damaged or odd, and messages. Sound files are among the golden files."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from olefile import OleFileIO

from ingestor.archives.members import FoundMember
from ingestor.archives.unpack import unpack
from ingestor.core.completeness import shortfall
from ingestor.model import Blob, Document
from ingestor.parsers.office97.msg import unpack_rtf
from ingestor.parsers.office97.parser import PLUGIN
from ingestor.parsers.shared.detect import content_type, parser_of
from ingestor.ports import BadDocument
from ingestor.registry import Options
from tests.parsers.laws import obeys_laws, texts
from tests.parsers.ole import ole

PARSER = PLUGIN.build(Options())
FILES = Path(__file__).parents[1] / "golden"
OLD = sorted(path for path in FILES.iterdir() if path.suffix in (".doc", ".ppt", ".xls"))


def parse(data: bytes) -> Document:
    assert parser_of(Blob(data, "file")) == "office97"
    document = obeys_laws(PARSER, Blob(data, "file"))
    assert document is not None
    assert shortfall(document) is None
    return document


def blocks(document: Document) -> list[tuple[str, int, str]]:
    return [(b.kind, b.level, text) for b, text in zip(document.blocks, texts(document), strict=True)]


@pytest.mark.parametrize("folder", ["", "PP97_DUALSTORAGE/"])
def test_presentation_of_before_1997_is_refused_with_the_remedy(folder: str) -> None:
    with OleFileIO(FILES / "harbours.ppt") as file:
        today = {name: file.openstream(name).read() for name in ("PowerPoint Document", "Current User")}
    old = {name: b"\3\0\0\0 of 1995".ljust(40, b"\0") for name in today}
    beside = {f"{folder}{name}": data for name, data in today.items()} if folder else {}
    with pytest.raises(BadDocument, match=r"a presentation from before 1997: save it as \.pptx"):
        PARSER.parse(Blob(ole({**old, **beside}), "a.ppt"))


def test_workbook_with_an_unknown_name_formula_is_read() -> None:
    assert parse(ole({"Workbook": with_name(b"\x2d" + bytes(8))})).blocks[0].title == "Prices"


def test_workbook_with_an_overlong_comment_is_read() -> None:
    """At the end of its first sheet: row, column, flags, number and author, and bytes that nobody expects."""
    stream = workbook()
    note = struct.pack("<HHHHHB", 0, 0, 0, 1, 3, 0) + b"Adaxxxx"
    end = _ends(stream)[1]
    book = stream[:end] + struct.pack("<HH", 0x1C, len(note)) + note + stream[end:]
    assert parse(ole({"Workbook": _moved(book, end, len(note) + 4)})).blocks[0].title == "Prices"


def test_workbook_stream_in_capitals_is_read() -> None:
    assert parse(ole({"WORKBOOK": workbook()})).blocks[0].title == "Prices"


def test_workbook_with_shared_sectors_is_refused() -> None:
    """As old programs left them: Excel opens it."""
    stream = workbook()
    data = bytearray(ole({"Workbook": stream}))
    root = data.index("Root Entry".encode("utf-16-le"))
    struct.pack_into("<IQ", data, root + 116, 0, 4096)  # the container of small streams, where the book lies
    assert parse(bytes(data)).blocks[0].title == "Prices"


@settings(max_examples=30)
@given(st.binary(max_size=200))
def test_damaged_properties_are_as_if_not_there(stream: bytes) -> None:
    properties = bytes(44) + struct.pack("<I", 48) + stream
    assert parse(ole({"Workbook": workbook(), "\x05SummaryInformation": properties})).blocks


def workbook() -> bytes:
    with OleFileIO(FILES / "prices.xls") as file:
        return bytes(file.openstream("Workbook").read())


def _ends(stream: bytes) -> list[int]:
    """Where the last record of each part stands: of the book, and of its sheets."""
    found, at = [], 0
    while at + 4 <= len(stream):
        kind, size = struct.unpack_from("<HH", stream, at)
        found += [at] if kind == 0x0A else []
        at += 4 + size
    return found


def _moved(stream: bytes, behind: int, by: int) -> bytes:
    """The workbook, its sheets behind that place named further behind."""
    moved, at, kind = bytearray(stream), 0, 0
    while kind != 0x0A:
        kind, size = struct.unpack_from("<HH", stream, at)
        if kind == 0x85 and (place := struct.unpack_from("<I", stream, at + 4)[0]) > behind:
            struct.pack_into("<I", moved, at + 4, place + by)
        at += 4 + size
    return bytes(moved)


def with_name(formula: bytes) -> bytes:
    """The workbook with a NAME record more at the end of its first part; its sheets lie further behind."""
    stream = workbook()
    body = struct.pack("<HBBHHH4x", 0, 0, 1, len(formula), 0, 0) + b"\0N" + formula
    record = struct.pack("<HH", 0x18, len(body)) + body
    end = _ends(stream)[0]
    return _moved(stream[:end] + record + stream[end:], 0, len(record))


def message(**properties: str | bytes) -> bytes:
    """Properties by their numbers: text, or bytes with a type behind the number."""
    dates = struct.pack("<IIQ", 0x00390040, 0, (1_704_164_645 + 11_644_473_600) * 10**7)
    codepage = struct.pack("<IIQ", 0x3FFD0003, 0, 1251)
    streams = {"__properties_version1.0": bytes(32) + dates + codepage}
    for name, value in properties.items():
        folder, _, number = name.rpartition("x")
        path = f"__attach_version1.0_#{folder[1:]}/" if folder else ""
        if isinstance(value, str):
            streams[f"{path}__substg1.0_{number}001F"] = value.encode("utf-16-le")
        else:
            streams[f"{path}__substg1.0_{number}"] = value
    return ole(streams)


def test_outlook_message_is_read_with_its_head() -> None:
    data = message(
        x0037="Greetings", x1000="Hello,\r\n\r\nsee below.\r\n> quoted\r\n", x0C1A="Ada",
        x0C1F="ada@example.org", x0E04="Bo; Cy",
    )  # fmt: skip
    document = parse(data)
    assert blocks(document) == [
        ("heading", 1, "Greetings"), ("paragraph", 0, "From: Ada <ada@example.org>\nTo: Bo; Cy"),
        ("paragraph", 0, "Hello,"), ("paragraph", 0, "see below."),
        ("quote", 0, "> quoted"),
    ]  # fmt: skip
    assert (document.title, document.content_type) == ("Greetings", "application/vnd.ms-outlook")
    assert dict(document.extra) == {
        "author": "Ada", "from": "Ada <ada@example.org>", "to": "Bo; Cy", "date": "2024-01-02T03:04:05+00:00",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"x1000001E": "Привет".encode("cp1251")}, ["Привет"]),
        ({"x10130102": "<h1>Größe</h1><p>Text</p>".encode().ljust(4096)}, ["Größe", "Text"]),
        ({"x10090102": b"\0\0\0\0\x28\0\0\0MELA\0\0\0\0{\\rtf1 Rich \\b text\\b0\\par}"}, ["Rich text"]),
    ],
)  # fmt: skip
def test_outlook_body_of_each_kind_is_read(properties: dict[str, bytes], expected: list[str]) -> None:
    assert texts(parse(message(**properties))) == expected


def test_html_of_outlook_wins_over_a_plain_teaser() -> None:
    page = b"<p>We agreed to buy twelve chairs and to paint the hall in June.".ljust(4096)
    teaser = message(x1000="Please use HTML.", x10130102=page)
    assert texts(parse(teaser)) == ["We agreed to buy twelve chairs and to paint the hall in June."]
    whole = message(x1000="We agreed to buy twelve chairs\n\nand to paint the hall in June.", x10130102=page)
    assert texts(parse(whole)) == ["We agreed to buy twelve chairs", "and to paint the hall in June."]


@pytest.mark.parametrize("change", [str.upper, str.lower, str.swapcase])
def test_names_of_streams_in_any_case_are_found(change: Callable[[str], str]) -> None:
    names = {"__properties_version1.0": bytes(32), "__substg1.0_1000001F": "Body".encode("utf-16-le")}
    attached = "__attach_version1.0_#00000000/__substg1.0_37010102"
    data = ole({change(name): content for name, content in {**names, attached: b"more"}.items()})
    assert texts(parse(data)) == ["Body"]
    assert len(list(unpack(Blob(data, "a.msg"), archives=False))) == 1


def test_packed_rtf_is_unpacked() -> None:
    """The example of [MS-OXRTFCP] 3.1.1."""
    packed = bytes.fromhex(
        "2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c090020627705b06c647d0a800fa0"
    )
    assert unpack_rtf(packed) == b"{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n"


def test_attachment_of_a_message_is_a_document_of_its_own() -> None:
    data = message(
        x0037="S", x1000="Body", a00000000x3707="notes.md", a00000000x37010102=b"# Notes\n".ljust(4096),
        a00000001x37010102=b"more".ljust(4096),
    )  # fmt: skip
    found = list(unpack(Blob(data, "a.msg"), archives=False))
    assert [(one.member.name, one.data.strip()) for one in found if isinstance(one, FoundMember)] == [
        ("notes.md", b"# Notes"), ("attachment-2", b"more"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (ole({"Contents": b"x"}), "contains no document of Word, Excel, PowerPoint or Outlook"),
        (ole({"WordDocument": struct.pack("<HH", 0xA5DC, 0x68)}), "from before 1997"),
        (ole({"WordDocument": struct.pack("<HH6xH", 0xA5EC, 0xC1, 0x100)}), "is encrypted"),
        (ole({"WordDocument": struct.pack("<HH6xH", 0xA5EC, 0xC1, 0)}), "is damaged or cut off"),
        (ole({"Workbook": b"x"}), "is damaged"),
        ((FILES / "harbours.doc").read_bytes()[:3000], "is damaged"),
    ],
)
def test_unreadable_file_is_refused_with_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(BadDocument, match=reason):
        PARSER.parse(Blob(data, "a.doc"))


@settings(deadline=None)
@given(st.sampled_from(OLD), st.integers(0, 15_000), st.binary(min_size=1, max_size=9))
def test_laws_hold_for_any_damage(file: Path, at: int, damage: bytes) -> None:
    data = bytearray(file.read_bytes())
    data[at : at + len(damage)] = damage
    obeys_laws(PARSER, Blob(bytes(data), "a"), sound=False)


def test_types_follow_from_the_streams() -> None:
    names = {".doc": "msword", ".ppt": "vnd.ms-powerpoint", ".xls": "vnd.ms-excel"}
    for file in OLD:
        assert content_type(Blob(file.read_bytes(), "x")) == f"application/{names[file.suffix]}"
