"""PDF files: what is missing from their text, and OCR that is not installed."""

import sys

import pytest

from ingestor.core.completeness import Shortfall, shortfall
from ingestor.model import Blob, Document
from ingestor.parsers.pdf import parser as module
from ingestor.parsers.pdf.characters import UNKNOWN, meanings
from ingestor.parsers.pdf.lines import Line, PageLines, words_in
from ingestor.parsers.pdf.page import possible
from ingestor.parsers.pdf.parser import PdfOptions, Read
from ingestor.ports import BadDocument
from tests.parsers.files import pdf
from tests.parsers.laws import parser, read

Drawn = tuple[int, int, int, str]


def parse(pages: list[list[Drawn]], lines: str = "") -> Document:
    return read(pdf(pages, lines=lines), "a.pdf")


def test_pages_without_text_are_counted_and_what_would_read_them_is_reported() -> None:
    document = parse([[], [(50, 700, 10, "text")]])
    assert ("pages_without_text", 1) in document.extra
    assert shortfall(document) == Shortfall(
        "incomplete",
        "only pictures and no text layer on 1 of 2 pages: OCR would read them:"
        f" {sys.executable} -m pip install rapidocr, and `parsing: {{pdf: {{ocr: true}}}}` for its source;"
        " or run a tool such as ocrmypdf on it",
    )


@pytest.mark.parametrize("others", [[], [(50, 700, 10, "text")]])
def test_missing_ocr_is_named_where_it_is_needed(
    others: list[Drawn], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    reader = parser("pdf", ocr=True)
    assert reader.parse(Blob(pdf([[(50, 700, 10, "Text, and no picture.")]]), "a.pdf")).text
    with pytest.raises(BadDocument, match=r"rapidocr, .* not installed: \S+ -m pip install rapidocr, then"):
        reader.parse(Blob(pdf([others, []]), "a.pdf"))


def test_words_of_lines_and_tables_are_counted() -> None:
    lines = (Line("three short words", 0, 9, 9, 9), Line("a", 0, 9, 9, 9, rows=(("a b", "c"), ("", "d"))))
    assert words_in([PageLines("1", 800, lines)]) == 7


@pytest.mark.parametrize(("unmapped", "named"), [(0, False), (1800, False), (1801, True)])
def test_mostly_characters_without_a_unicode_value_are_incomplete(
    unmapped: int, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "read_pages", lambda document, ocr: Read(characters=6000, unmapped=unmapped))
    lost = module.parse(Blob(pdf(TEXT), "a.pdf"), PdfOptions()).lost
    said = "the fonts give no Unicode value for 1,801 of 6,000 characters"
    assert lost == ((said,) if named else ())


TEXT = [
    [(50, 780, 8, "A running header"), (50, 700, 10, f"Words of page {n}"), (50, 300, 10, "and some things")]
    for n in range(5)
]
GRID = (
    "".join(f"40 {y} m 400 {y} l S " for y in (720, 690, 290, 270))
    + "40 270 m 40 720 l S 45 270 m 45 720 l S "
)


def test_words_are_omitted_only_with_a_reason() -> None:
    for pages, lines, state, reason in [
        (TEXT, "", None, ""),
        (TEXT, GRID, None, ""),
        ([[], []], "", "empty", "only pictures and no text layer on 2 of 2 pages"),
        ([*TEXT, []], "", "incomplete", "only pictures and no text layer on 1 of 6 pages"),
    ]:
        found = shortfall(parse(pages, lines))
        assert (found and found.state) == state
        assert found is None or found.reason.startswith(reason)


def test_codes_without_a_unicode_value_are_mapped() -> None:
    for codes, font, expected in [
        (b"12\x1524", "", "12–24"),  # T1
        (b"o\x1ece, stra\xffe", "", "o\ufb03ce, straße"),
        (b"a\x0ece 1{2", "", "a\ufb03ce 1–2"),  # OT1: its ligatures tell
        (b"\x00\x58\x12\x13\x7e", "cmex10", 5 * UNKNOWN),
        (b"a\x01b", "arial", f"a{UNKNOWN}b"),
    ]:
        assert "".join(meanings(codes, [font] * len(codes))) == expected


def test_impossible_characters_are_unknown() -> None:
    assert possible([0x41, 0xE0E0E0]) == [0x41, 0xFFFD]
