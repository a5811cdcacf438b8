"""Office documents: options, definitions, odd characters and numbers, messages of Outlook.

Other sound documents are among the golden files.
"""

# ruff: noqa: E501 - markup reads better in one line

import struct
from collections.abc import Callable
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest
from hypothesis import given
from hypothesis import strategies as st
from olefile import OleFileIO

from ingestor.archives.members import FoundMember
from ingestor.archives.unpack import unpack
from ingestor.core.completeness import shortfall
from ingestor.model import Blob
from ingestor.parsers.office.number_format import formats
from ingestor.parsers.office.tree import CAPTION, CODE, QUOTE, TITLE, style_mark
from ingestor.parsers.office97.msg import unpack_rtf
from ingestor.parsers.shared import sheets
from ingestor.parsers.shared.detect import content_type
from ingestor.ports import BadDocument
from tests.parsers.files import docx, odf, paragraph, pptx, shape, xlsx
from tests.parsers.laws import kinds, parser, read, texts
from tests.parsers.ole import ole

GOLDEN = Path(__file__).parent / "golden"
CLAIM = '<w:p><w:r><w:t>A claim.</w:t><w:commentReference w:id="7"/></w:r></w:p>' + paragraph("More.")
COMMENT = '<w:comment w:id="7" w:author="Bo"><w:p><w:r><w:t>Says who?</w:t></w:r></w:p></w:comment>'
NOTE = "<office:annotation><dc:creator>Bo</dc:creator><text:p>Says who?</text:p></office:annotation>"


def test_comments_follow_their_block_if_configured() -> None:
    word, text = docx(CLAIM, comments=COMMENT), odf("text", f"<text:p>A claim{NOTE}.</text:p>")
    assert read(word, "a.docx").text == "A claim.\n\nMore."
    comment = ("comment", "Bo: Says who?")
    assert kinds(read(word, "a.docx", comments=True)) == [
        ("paragraph", "A claim."), comment, ("paragraph", "More."),
    ]  # fmt: skip
    assert read(text, "a.odt").text == "A claim."
    assert kinds(read(text, "a.odt", comments=True)) == [("paragraph", "A claim."), comment]
    slides = (GOLDEN / "figures.pptx").read_bytes()
    assert "Is this so?" not in read(slides, "a.pptx").text
    last = read(slides, "a.pptx", comments=True)
    assert (kinds(last)[-1], last.blocks[-1].page) == (("comment", "Is this so?"), 0)


def test_hidden_sheets_are_read_if_configured() -> None:
    cells = '<row><c t="inlineStr"><is><t>cell</t></is></c></row>'
    file = xlsx({"A": cells, "hidden": cells})
    assert texts(read(file, "a.xlsx")) == ["A", "cell"]
    assert texts(read(file, "a.xlsx", hidden_sheets=True)) == ["A", "cell", "hidden", "cell"]
    file = (GOLDEN / "sheets.ods").read_bytes()
    shown, whole = read(file, "a.ods"), read(file, "a.ods", hidden_sheets=True)
    assert "Secret" not in shown.text and "Secret" in texts(whole)
    assert shown.blocks[-1].page == whole.blocks[-1].page == 4
    assert ("comment", "Bo: Says who?") in kinds(read(file, "a.ods", comments=True))


def word(inner: str) -> str:
    return f'<w:r><w:t xml:space="preserve">{inner}</w:t></w:r>'


def row(*cells: str) -> str:
    return f"<w:tr>{''.join(f'<w:tc>{paragraph(cell)}</w:tc>' for cell in cells)}</w:tr>"


def field(form: str, result: str = "") -> str:
    begin, *others = (
        f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "separate", "end")
    )
    begin = begin.replace("/></w:r>", f"><w:ffData>{form}</w:ffData></w:fldChar></w:r>")
    return f"<w:p>{begin}{others[0]}{result}{others[1]}{word(' a')}</w:p>"


CHOICES = '<w:ddList><w:result w:val="1"/><w:listEntry w:val="no"/><w:listEntry w:val="yes"/></w:ddList>'


def test_words_are_those_that_a_reader_of_the_document_sees() -> None:
    struck = "<w:r><w:rPr><w:strike/></w:rPr><w:t>b</w:t></w:r>"
    line = '<style:style style:name="S" style:family="text"><style:text-properties style:text-line-through-style="solid"/></style:style>'
    shape_ = '<p:sp><p:nvSpPr><p:cNvPr id="1" name="" hidden="{}"/></p:nvSpPr><p:txBody><a:p><a:r><a:rPr strike="{}"/><a:t>b</a:t></a:r></a:p></p:txBody></p:sp>'
    raised = '<row><c t="inlineStr"><is><r><t>m</t></r><r><rPr><vertAlign val="superscript"/></rPr><t>2</t></r></is></c></row>'
    ruby = f"<w:p><w:r><w:ruby><w:rt>{word('とう')}</w:rt><w:rubyBase>{word('東')}</w:rubyBase></w:ruby></w:r></w:p>"
    rows = f"<w:tbl><w:sdt><w:sdtContent>{row('a', 'b')}</w:sdtContent></w:sdt>{row('c', 'd')}</w:tbl>"
    for file, name, text in [
        (docx(f"<w:p>{word('a ')}{struck}{word('c')}</w:p>"), "a.docx", "a c"),
        (odf("text", '<text:p>a <text:span text:style-name="S">b</text:span>c</text:p>', line), "a.odt", "a c"),
        (rb"{\rtf1 a {\strike b}c}", "a.rtf", "a c"),
        (pptx(shape_.format(0, "sngStrike") + shape("a")), "a.pptx", "a"),
        (pptx(shape_.format(1, "noStrike") + shape("a")), "a.pptx", "a"),
        (docx(ruby), "a.docx", "東"),
        (docx(rows), "a.docx", "| a | b |\n| --- | --- |\n| c | d |"),
        (docx(field("<w:checkBox><w:default/></w:checkBox>")), "a.docx", "☒ a"),
        (docx(field('<w:checkBox><w:checked w:val="0"/><w:default/></w:checkBox>')), "a.docx", "☐ a"),
        (docx(field(CHOICES)), "a.docx", "yes a"),
        (docx(field(CHOICES, word("maybe"))), "a.docx", "maybe a"),
        (xlsx({"S": raised}), "a.xlsx", "S\n\nm²"),
    ]:  # fmt: skip
        assert read(file, name).text == text


def test_flat_file_reads_as_the_packed_one() -> None:
    flat, packed = ((GOLDEN / f"running-text.{end}").read_bytes() for end in ("fodt", "odt"))
    assert read(flat, "a.fodt").blocks == read(packed, "a.odt").blocks


def test_presentation_without_slides_is_empty() -> None:
    assert not read(pptx(), "a.pptx").blocks
    assert not read(pptx(""), "a.pptx").blocks


DEEPER = '<w:ind w:left="720"/>'


def test_short_paragraph_above_deeper_paragraph_is_a_definition() -> None:
    for term, definition, kind in [
        (paragraph("--password"), paragraph("Asks for it.", properties=DEEPER), "definition"),
        (paragraph("--password"), paragraph("Asks for it.", "Deep"), "definition"),
        (paragraph("--password", "Deep"), paragraph("Asks for it.", "Deep"), "paragraph"),
        (paragraph("--password"), paragraph("Asks for it."), "paragraph"),
        (paragraph("It asks."), paragraph("A quotation.", properties=DEEPER), "paragraph"),
        (paragraph("Word " * 20), paragraph("A quotation.", properties=DEEPER), "paragraph"),
        (paragraph("These"), paragraph("An item.", properties=f"<w:numPr/>{DEEPER}"), "paragraph"),
    ]:
        styles = f'<w:style w:styleId="Deep"><w:name w:val="Deep"/><w:pPr>{DEEPER}</w:pPr></w:style>'
        assert kinds(read(docx(term + definition, styles=styles), "a.docx"))[0][0] == kind


STYLES = {
    CODE: "Source Code|Code|Code Block|code example 2|HTML Preformatted|Preformatted Text|Listing"
    "|Verbatim|Macro Text",
    QUOTE: "Quote|Intense Quote|Quotations|Block Text",
    CAPTION: "Caption|Figure|Abbildung",
    TITLE: "Title",
    "": "Resources|Table Source|Postcode|Postal Code|Dress Code|Code of Conduct|Error Codes|QR Code"
    "|Plain Text|Data Source|Price Quote|Unquoted|Subtitle|Book Title|Normal|",
}


@pytest.mark.parametrize("mark", STYLES)
def test_style_is_known_by_its_whole_name(mark: str) -> None:
    for name in STYLES[mark].split("|"):
        assert style_mark([name]) == style_mark(["Mine", name]) == mark, name  # the second is inherited


def test_noncharacters_of_a_document_are_dropped() -> None:
    """They are the marks by which facts travel through the library."""
    marks = "".join(map(chr, range(0xFDD0, 0xFDF0)))
    body = paragraph(f"a{marks}b") + paragraph("\ufddc9\ufddfx\ufddd0\ufddf") + paragraph("end")
    document = read(docx(body), "a.docx", sound=False)
    assert not set(document.text) & set(marks)
    assert document.text.endswith("end")


@pytest.mark.parametrize("digits", ["9" * 5000, "²", "-1", ""])
def test_absurd_numbers_raise_no_defect(digits: str) -> None:
    levels = (
        f'<w:numPr><w:ilvl w:val="{digits}"/><w:numId w:val="1"/></w:numPr><w:outlineLvl w:val="{digits}"/>'
    )
    pattern = f'<w:abstractNum w:abstractNumId="1"><w:lvl w:ilvl="{digits}"><w:numFmt w:val="aiueo"/></w:lvl></w:abstractNum>'
    assert read(docx(paragraph("text", "", levels), numbering=pattern), "a.docx").text.endswith("text")
    heading = odf("text", f'<text:h text:outline-level="{digits}">Title</text:h>')
    assert "Title" in read(heading, "a.odt").text
    styles = (
        f'<s:styleSheet xmlns:s="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
        f'<s:numFmts><s:numFmt numFmtId="200" formatCode="{"[" * 200_000}"/></s:numFmts>'
        f'<s:cellXfs><s:xf numFmtId="{digits}"/><s:xf numFmtId="200"/></s:cellXfs></s:styleSheet>'
    )
    found = formats(fromstring(styles), False)
    assert found["0"](1.5) == found["1"](1.5) == found[""](1.5) == "1.5"


def test_sheet_of_too_many_cells_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheets, "_CELLS", 3)
    cells = "".join(f'<c r="{letter}1"><v>1</v></c>' for letter in "ABCD")
    with pytest.raises(BadDocument, match="more than 3 cells"):
        parser("xlsx").parse(Blob(xlsx({"S": f'<row r="1">{cells}</row>'}), "a.xlsx"))


@given(st.binary(max_size=200))
def test_damaged_properties_are_as_if_not_there(stream: bytes) -> None:
    with OleFileIO(GOLDEN / "prices.xls") as file:
        book = bytes(file.openstream("Workbook").read())
    properties = bytes(44) + struct.pack("<I", 48) + stream
    document = read(ole({"Workbook": book, "\x05SummaryInformation": properties}), "a")
    assert document.blocks and shortfall(document) is None


def test_types_follow_from_the_streams() -> None:
    for name, kind in (
        ("harbours.doc", "msword"),
        ("harbours.ppt", "vnd.ms-powerpoint"),
        ("prices.xls", "vnd.ms-excel"),
    ):
        assert content_type(Blob((GOLDEN / name).read_bytes(), "x")) == f"application/{kind}"
    assert content_type(Blob((GOLDEN / "greetings.msg").read_bytes(), "x")) == "application/vnd.ms-outlook"


PROPERTIES = "__properties_version1.0"
ATTACHED = "__attach_version1.0_#0000000"


@pytest.mark.parametrize("change", [str.upper, str.lower, str.swapcase])
def test_names_of_streams_in_any_case_are_found(change: Callable[[str], str]) -> None:
    names = {PROPERTIES: bytes(32), "__substg1.0_1000001F": "Body".encode("utf-16-le")}
    names[f"{ATTACHED}0/__substg1.0_37010102"] = b"more"
    data = ole({change(name): content for name, content in names.items()})
    assert texts(read(data, "file")) == ["Body"]
    assert len(list(unpack(Blob(data, "a.msg"), archives=False))) == 1


def test_packed_rtf_is_unpacked() -> None:
    """The example of [MS-OXRTFCP] 3.1.1."""
    packed = bytes.fromhex(
        "2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c090020627705b06c647d0a800fa0"
    )
    assert unpack_rtf(packed) == b"{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n"


def test_attachment_of_a_message_is_a_document_of_its_own() -> None:
    name, note, more = "notes.md".encode("utf-16-le"), b"# Notes\n".ljust(4096), b"more".ljust(4096)
    data = ole({
        PROPERTIES: bytes(32), f"{ATTACHED}0/__substg1.0_3707001F": name,
        f"{ATTACHED}0/__substg1.0_37010102": note, f"{ATTACHED}1/__substg1.0_37010102": more,
    })  # fmt: skip
    found = list(unpack(Blob(data, "a.msg"), archives=False))
    assert [(one.member.name, one.data.strip()) for one in found if isinstance(one, FoundMember)] == [
        ("notes.md", b"# Notes"), ("attachment-2", b"more"),
    ]  # fmt: skip
