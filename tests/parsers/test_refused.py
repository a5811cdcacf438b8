"""Documents that no parser reads, each refused with a reason."""

import struct
from pathlib import Path

import pytest
from olefile import OleFileIO

from ingestor.model import Blob
from ingestor.ports import BadDocument
from tests.parsers.files import P, R, W, docx, epub, paragraph, xlsx, zipped
from tests.parsers.laws import parser
from tests.parsers.ole import ole

GOLDEN = Path(__file__).parent / "golden"
OUTLINE = (GOLDEN / "outline.pdf").read_bytes()
LOCKED = b"/Encrypt<</Filter/Standard/V 1/R 2/P -1/O(%b)/U(%b)>>/ID[(a)(b)]/Info" % (b"x" * 32, b"y" * 32)
UNKNOWN = f"<w:document {W.replace('openxml', 'example')}><w:body>{paragraph('x')}</w:body></w:document>"
RIGHTS = '<e xmlns:enc="http://www.w3.org/2001/04/xmlenc#"><enc:CipherReference URI="OEBPS/z.xhtml"/></e>'
SLIDE = f'<p:presentation {P} {R}><p:sldIdLst><p:sldId r:id="r0"/></p:sldIdLst></p:presentation>'
ODT = {"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": b"\x8f\x01garbage",
       "META-INF/manifest.xml": "<m><manifest:encryption-data/></m>"}  # fmt: skip
BOUNDARIES = (b"Content-Type: multipart/mixed; boundary=%d\n\n--%d\n" % (i, i) for i in range(5000))
CASES: list[tuple[str, bytes | str, str]] = [
    ("docx", zipped({"[Content_Types].xml": "<Types/>"}), "its part word/document.xml is missing"),
    ("docx", docx("<w:p>"), "is damaged"),
    ("docx", docx("<w:sdt>" * 5000 + "</w:sdt>" * 5000), "nested too deeply"),
    ("docx", docx("<w:sdt>" * 280 + "</w:sdt>" * 280), "nested too deeply"),
    ("docx", zipped({"word/document.xml": UNKNOWN}), "is damaged .*no document body"),
    ("pptx", zipped({"ppt/presentation.xml": SLIDE}), "a slide is missing"),
    ("xlsx", xlsx({"S": '<row r="1"><c r="A1" t="s"><v>7</v></c></row>'}), "a cell's text is missing"),
    ("odf", zipped(ODT), "is encrypted; save it without a password"),
    ("epub", epub({"z.xhtml": "x"}, ["z.xhtml"], {"META-INF/encryption.xml": RIGHTS}), "digital rights"),
    ("epub", zipped({"mimetype": "application/epub+zip"}), "no list of its chapters"),
    ("pdf", b"%PDF-1.7\ngarbage", "is a damaged or cut-off PDF"),
    ("pdf", OUTLINE.replace(b"/Info", LOCKED), "is encrypted; save it without a password"),
    ("pdf", OUTLINE.replace(b"/Info", b"/Encrypt<</Filter/Adobe.PubSec/V 1>>/Info"), "is encrypted"),
    ("notebook", "[]", "is not a notebook, because it holds no JSON object"),
    *(("notebook", data, "valid notebook") for data in ("a", "[" * 99_999, '{"a":' * 99_999, '{"cells": [')),
    ("notebook", b"\0\1\2" * 9, "is not text"),
    ("mail", b"".join(BOUNDARIES), "nested"),
    ("mail", b"Content-Type: message/rfc822\n\n" * 5000, "nested"),
    *(("html", source, "nested") for source in ("<div>" * 300_000, "<div/>" * 300_000, "<ul><li>" * 20_000)),
    ("html", "".join(f"<font size={i}>" for i in range(1000)) + "<p>x" * 20_000, "never closed"),
    ("html", "<p " + " ".join(f"a{i}" for i in range(100_000)) + ">", "attributes"),
    ("office97", ole({"Contents": b"x"}), "contains no document of Word, Excel, PowerPoint or Outlook"),
    ("office97", ole({"WordDocument": struct.pack("<HH", 0xA5DC, 0x68)}), "from before 1997"),
    ("office97", ole({"WordDocument": struct.pack("<HH6xH", 0xA5EC, 0xC1, 0x100)}), "is encrypted"),
    ("office97", ole({"WordDocument": struct.pack("<HH6xH", 0xA5EC, 0xC1, 0)}), "is damaged or cut off"),
    ("office97", ole({"Workbook": b"x"}), "is damaged"),
    ("office97", (GOLDEN / "harbours.doc").read_bytes()[:3000], "is damaged"),
]


@pytest.mark.parametrize(("kind", "data", "reason"), CASES, ids=range(len(CASES)))
def test_unreadable_document_is_refused_with_a_reason(kind: str, data: bytes | str, reason: str) -> None:
    with pytest.raises(BadDocument, match=reason):
        parser(kind).parse(Blob(data if isinstance(data, bytes) else data.encode(), "a"))


@pytest.mark.parametrize("folder", ["", "PP97_DUALSTORAGE/"])
def test_presentation_of_before_1997_is_refused_with_the_remedy(folder: str) -> None:
    with OleFileIO(GOLDEN / "harbours.ppt") as file:
        today = {name: file.openstream(name).read() for name in ("PowerPoint Document", "Current User")}
    old = {name: b"\3\0\0\0 of 1995".ljust(40, b"\0") for name in today}
    beside = {f"{folder}{name}": data for name, data in today.items()} if folder else {}
    with pytest.raises(BadDocument, match=r"a presentation from before 1997: save it as \.pptx"):
        parser("office97").parse(Blob(ole({**old, **beside}), "a.ppt"))
