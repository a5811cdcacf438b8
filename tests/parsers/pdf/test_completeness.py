from dataclasses import replace

import pytest

from ingestor.parsers.pdf.completeness import PICTURES, Count, raw_words, shortfall, words_in
from ingestor.parsers.pdf.furniture import without_furniture
from ingestor.parsers.pdf.lines import Line, Page
from ingestor.parsers.pdf.parser import count, opened, read_pages
from tests.parsers.files import pdf

WHOLE = Count(pages=9, unread=0, raw=1000, said=950, furniture=40, characters=6000, unmapped=0)


def test_raw_words_of_a_page() -> None:
    assert raw_words("two words\r\nand a divi\x02\r\nded one") == 6
    assert raw_words("") == 0


def test_words_of_lines_and_of_tables() -> None:
    lines = (Line("three short words", 0, 9, 9, 9), Line("a", 0, 9, 9, 9, rows=(("a b", "c"), ("", "d"))))
    assert words_in([Page("1", 800, lines)]) == 7


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({}, None),
        ({"said": 860, "furniture": 50}, None),
        ({"said": 0, "raw": 0, "unread": 9}, PICTURES),
        ({"unread": 2}, "2 of 9 pages are pictures: OCR would read them"),
        ({"said": 500}, "460 of 1,000 words are in no block"),
        ({"unmapped": 3000}, "the fonts give no Unicode value for 3,000 of 6,000 characters"),
    ],
)
def test_why_text_is_missing(facts: dict[str, int], reason: str | None) -> None:
    assert shortfall(replace(WHOLE, **facts)) == reason


TEXT = [
    [(50, 780, 8, "A running header"), (50, 700, 10, f"Words of page {n}"), (50, 300, 10, "and some things")]
    for n in range(5)
]
GRID = (
    "".join(f"40 {y} m 400 {y} l S " for y in (720, 690, 290, 270))
    + "40 270 m 40 720 l S 45 270 m 45 720 l S "
)


@pytest.mark.parametrize(
    ("pages", "lines", "reason"),
    [
        (TEXT, "", None),
        (TEXT, GRID, None),
        ([[], []], "", PICTURES),
        ([*TEXT, []], "", "1 of 6 pages are pictures: OCR would read them"),
    ],
)
def test_nothing_is_lost_without_a_reason(
    pages: list[list[tuple[int, int, int, str]]], lines: str, reason: str | None
) -> None:
    document = opened(pdf(pages, lines=lines))
    read = read_pages(document, ocr=False)
    assert shortfall(count(read, without_furniture(read.pages))) == reason
    document.close()
