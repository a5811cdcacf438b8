import pytest

from ingestor.core.completeness import shortfall
from ingestor.model import Blob
from ingestor.parsers.pdf import parser
from ingestor.parsers.pdf.lines import Line, PageLines, words_in
from ingestor.parsers.pdf.parser import PdfOptions, Read, parse
from tests.parsers.files import pdf


def test_words_of_lines_and_tables_are_counted() -> None:
    lines = (Line("three short words", 0, 9, 9, 9), Line("a", 0, 9, 9, 9, rows=(("a b", "c"), ("", "d"))))
    assert words_in([PageLines("1", 800, lines)]) == 7


@pytest.mark.parametrize(("unmapped", "named"), [(0, False), (1800, False), (1801, True)])
def test_mostly_characters_without_a_unicode_value_are_incomplete(
    unmapped: int, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parser, "read_pages", lambda document, ocr: Read(characters=6000, unmapped=unmapped))
    lost = parse(Blob(pdf(TEXT), "a.pdf"), PdfOptions()).lost
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


@pytest.mark.parametrize(
    ("pages", "lines", "state", "reason"),
    [
        (TEXT, "", None, ""),
        (TEXT, GRID, None, ""),
        ([[], []], "", "empty", "only pictures and no text layer on 2 of 2 pages"),
        ([*TEXT, []], "", "incomplete", "only pictures and no text layer on 1 of 6 pages"),
    ],
)
def test_words_are_omitted_only_with_a_reason(
    pages: list[list[tuple[int, int, int, str]]], lines: str, state: str | None, reason: str
) -> None:
    document = parse(Blob(pdf(pages, lines=lines), "a.pdf"), PdfOptions())
    found = shortfall(document)
    assert (found and found.state) == state
    assert found is None or found.reason.startswith(reason)
