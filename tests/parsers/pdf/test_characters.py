import pytest

from ingestor.model import Blob
from ingestor.parsers.pdf.characters import UNKNOWN, meanings
from ingestor.parsers.pdf.page import possible
from ingestor.parsers.pdf.parser import PLUGIN, PdfOptions
from tests.parsers.files import numbered
from tests.parsers.laws import obeys_laws


@pytest.mark.parametrize(
    ("codes", "font", "expected"),
    [
        (b"12\x1524", "", "12–24"),  # T1
        (b"o\x1ece, stra\xffe", "", "o\ufb03ce, straße"),
        (b"a\x0ece 1{2", "", "a\ufb03ce 1–2"),  # OT1: its ligatures tell
        (b"\x00\x58\x12\x13\x7e", "cmex10", "(∑()" + UNKNOWN),
        (b"a\x01b", "arial", f"a{UNKNOWN}b"),
    ],
)
def test_what_codes_without_a_unicode_value_mean(codes: bytes, font: str, expected: str) -> None:
    assert "".join(meanings(codes, [font] * len(codes))) == expected


def page(drawn: str) -> list[str]:
    """Objects 1 to 4 of a file of one page. Its font is object 5."""
    return [
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        f"<</Length {len(drawn)}>>stream\n{drawn}\nendstream",
    ]


def test_characters_of_bitmap_fonts_are_not_lost() -> None:
    """A font of Type 3, as TeX makes them where no outlines are installed."""
    glyph = "<</Length 25>>stream\n500 0 0 0 400 700 d1 0 0 9 9 re f\nendstream"
    codes = sorted(b"Pages 12\x1524 of the o\x1ece")
    names = "".join(f"/a{code}" for code in range(256))
    glyphs = "".join(f"/a{code} 6 0 R" for code in set(codes))
    widths = " ".join(["500"] * 256)
    font = (
        "<</Type/Font/Subtype/Type3/FontBBox[0 0 500 700]/FontMatrix[.001 0 0 .001 0 0]/FirstChar 0"
        f"/LastChar 255/Widths[{widths}]/Encoding<</Differences[0{names}]>>/CharProcs<<{glyphs}>>>>"
    )
    drawn = "BT /F1 10 Tf 50 700 Td (Pages 12\\02524 of the o\\036ce) Tj ET"
    data = numbered(
        [
            *page(drawn),
            font,
            glyph,
            "<<>>",
        ]
    )
    document = obeys_laws(PLUGIN.build(PdfOptions()), Blob(data, "a.pdf"))
    assert document is not None
    assert document.text == "Pages 12–24 of the office"


def test_impossible_characters_are_unknown() -> None:
    assert possible([0x41, 0xE0E0E0]) == [0x41, 0xFFFD]


def test_characters_of_other_planes_are_whole() -> None:
    mapping = (
        "/CMapName/X def 1 begincodespacerange<00><FF>endcodespacerange"
        " 2 beginbfchar<41><D842DF9F><42><308B>endbfchar"
    )
    drawn = "BT /F1 10 Tf 50 700 Td (ABA, BB) Tj ET"
    data = numbered(
        [
            *page(drawn),
            "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode 6 0 R>>",
            f"<</Length {len(mapping)}>>stream\n{mapping}\nendstream",
            "<<>>",
        ]
    )
    document = obeys_laws(PLUGIN.build(PdfOptions()), Blob(data, "a.pdf"))
    assert document is not None
    assert document.text == "𠮟る𠮟, るる"
    assert document.raw_words == 2
