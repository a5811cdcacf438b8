"""Office files of ISO/IEC 29500 Strict read as the usual ones; ODF and PDF also where they begin oddly."""

import io
import zipfile

import pytest

from ingestor.model import Blob, Document
from ingestor.parsers.shared.detect import parser_of
from ingestor.registry import find
from tests.parsers.files import docx, odf, paragraph, pdf, pptx, shape, strict, xlsx

HEADING = '<w:style w:styleId="H" w:type="paragraph"><w:name w:val="heading 1"/></w:style>'
WORD = docx(
    paragraph("Title", "H")
    + paragraph("Some words")
    + "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p>"
    "</w:tc><w:tc><w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr></w:tbl>",
    styles=HEADING,
)
SHEET = xlsx({"Prices": '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1"><v>2</v></c></row>'}, ["bread"])
SLIDES = pptx(shape("Title", placeholder="title") + shape("Some words"))


def read(data: bytes, name: str = "file") -> Document:
    blob = Blob(data, name)
    plugin = find("parsers", parser_of(blob))
    document: Document = plugin.build(plugin.options()).parse(blob)
    return document


@pytest.mark.parametrize("usual", [WORD, SHEET, SLIDES], ids=["docx", "xlsx", "pptx"])
def test_strict_open_xml_reads_as_the_usual_one(usual: bytes) -> None:
    document = read(usual)
    assert document.text
    assert read(strict(usual)) == document


def rezipped(data: bytes, *names: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, parts[name])
    return file.getvalue()


MANIFEST = (
    '<m:manifest xmlns:m="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"><m:file-entry m:full-path="/"'
    ' m:media-type="application/vnd.oasis.opendocument.spreadsheet"/></m:manifest>'
)


def test_odf_with_a_late_mimetype_is_detected() -> None:
    table = (
        '<table:table table:name="S"><table:table-row><table:table-cell><text:p>a</text:p></table:table-cell>'
    )
    usual = odf("spreadsheet", f"{table}</table:table-row></table:table>", manifest=MANIFEST)
    late = rezipped(usual, "content.xml", "META-INF/manifest.xml", "meta.xml", "mimetype")
    without = rezipped(usual, "content.xml", "META-INF/manifest.xml", "meta.xml")
    assert [block.kind for block in read(usual).blocks] == ["heading", "paragraph"]
    assert read(late) == read(usual) == read(without)


@pytest.mark.parametrize("before", [bytes(128), b"POST /print HTTP/1.1\r\n\r\n", bytes(1024)])
def test_pdf_behind_another_header_is_read(before: bytes) -> None:
    assert "Some words" in read(before + pdf([[(72, 700, 12, "Some words")]])).text
