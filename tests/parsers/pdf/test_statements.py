"""Statements of figures without drawn lines: rows, header rows, captions; titles of filed reports."""

import pytest

from ingestor.model import Blob, Document
from ingestor.parsers.pdf.parser import PLUGIN, PdfOptions
from ingestor.parsers.shared.compose import bare_row
from tests.parsers.files import pdf
from tests.parsers.laws import obeys_laws, texts

Drawn = tuple[int, int, int, str]
PROSE = "The harbour was built of granite, and its walls stand to this day as they were built."


def parse(*pages: list[Drawn]) -> Document:
    document = obeys_laws(PLUGIN.build(PdfOptions()), Blob(pdf(pages), "a.pdf"))
    assert document is not None
    return document


def row(y: int, label: str, *figures: str, indent: int = 0) -> list[Drawn]:
    """Figures end at the same place, as Helvetica's digits are equally wide."""
    ends = [400 + 90 * at for at in range(len(figures))]
    return [
        (50 + indent, y, 10, label),
        *((end - round(5.2 * len(figure)), y, 10, figure) for end, figure in zip(ends, figures, strict=True)),
    ]


STATEMENT = [
    (220, 765, 10, "TALL SHIPS, INC."), (180, 740, 16, "CONSOLIDATED BALANCE SHEETS"),
    (220, 722, 10, "\\(in millions\\)"),
    (400, 706, 10, "December 31,"),
    *((380 + 90 * at, 694, 10, year) for at, year in enumerate(("2022", "2021"))),
    (50, 680, 10, "Current assets:"), *row(668, "Cash and cash equivalents", "19,334", "20,522", indent=12),
    *row(656, "Inventories \\(Note 5\\)", "11,461", "16,047", indent=12),
    (50, 644, 10, "Commitments"), *row(632, "Total assets", "83,402", "131,310"),
    (50, 610, 10, "See accompanying notes."), (50, 570, 10, PROSE), (50, 558, 10, PROSE),
]  # fmt: skip


def test_statement_is_one_table_with_its_header_rows_and_caption() -> None:
    document = parse(STATEMENT)
    (table,) = (block for block in document.blocks if block.kind == "table")
    assert document.text[table.start : table.end].splitlines() == [
        "(in millions)", "December 31,", "2022 2021", "Current assets:",
        "Cash and cash equivalents 19,334 20,522",
        "Inventories (Note 5) 11,461 16,047", "Commitments", "Total assets 83,402 131,310",
    ]  # fmt: skip
    assert (table.header_rows, table.caption) == (3, "CONSOLIDATED BALANCE SHEETS")
    assert document.text[: table.start] == "TALL SHIPS, INC.\nCONSOLIDATED BALANCE SHEETS\n"
    assert document.text[table.end :].startswith("\nSee accompanying notes.\nThe harbour"), "one statement"
    kinds = [block.kind for block in document.blocks]
    assert kinds == ["paragraph", "heading", "table", "paragraph", "paragraph"]


def test_texts_in_columns_are_a_table_and_a_wrapped_cell_is_one() -> None:
    rows = [
        ("Pump", "Flow", "Remark"),
        ("Alpha", "slow", "for ponds,"),
        ("Beta", "fast", "loud"),
        ("Gamma", "fast", "dear"),
    ]
    drawn = [
        (x, y, 8, cell)
        for y, cells in zip((700, 688, 664, 652), rows, strict=True)
        for x, cell in zip((50, 150, 250), cells, strict=True)
    ]
    drawn.insert(6, (250, 676, 8, "cheap"))
    document = parse([*drawn, (50, 600, 8, PROSE)])
    assert texts(document)[0].splitlines() == [
        "Pump Flow Remark", "Alpha slow for ponds, cheap", "Beta fast loud", "Gamma fast dear",
    ]  # fmt: skip
    assert document.blocks[0].header_rows == 1


@pytest.mark.parametrize(
    ("cells", "line"),
    [
        (["Net sales", "$", "79,268", "", "$", "94,665"], "Net sales $79,268 $94,665"),
        (["Loss", "(484", ")", "5.0", "%"], "Loss (484) 5.0%"),
        (["", "", ""], ""),
        (["Price in $", "of (small) ships"], "Price in $ of (small) ships"),
        (["Total", "—", "$", "—"], "Total — $—"),
    ],
)
def test_signs_stand_at_their_numbers(cells: list[str], line: str) -> None:
    assert bare_row(cells) == line


def test_page_numbers_go_wherever_they_stand() -> None:
    pages: list[list[Drawn]] = [
        [(50, 700, 10, PROSE), (50, 688, 10, PROSE), (300, 600 - 30 * n, 10, str(n + 4))] for n in range(4)
    ]
    assert not any(character.isdigit() for character in parse(*pages).text)


COVER = [
    "FORM 10-K", "ANNUAL REPORT PURSUANT TO SECTION 13 OR 15\\(d\\) OF THE SECURITIES EXCHANGE ACT OF 1934",
    "For the fiscal year ended December 31, 2021", "Commission file number 1-2345", "TALL SHIPS, INC.",
    "\\(Exact name of registrant as specified in its charter\\)", "1 Water Street, Camden, NJ 08102-1658",
]  # fmt: skip


def test_title_of_a_filed_report_is_company_form_and_period() -> None:
    cover: list[Drawn] = [(50, 700 - 30 * at, 14, line) for at, line in enumerate(COVER)]
    document = parse(cover, [(50, 700, 10, PROSE), (50, 688, 10, PROSE)])
    assert document.title == "TALL SHIPS, INC. Form 10-K, fiscal year ended December 31, 2021"
    assert all(block.kind != "heading" for block in document.blocks), "lines of the form head nothing"


@pytest.mark.parametrize(
    ("lines", "title"),
    [
        (
            [*COVER[:4], "Tall Ships, Inc.", COVER[5], "Class, Trading symbol, Name of each exchange",
             "Common stock TALL The New York Stock Exchange"],
            "Tall Ships, Inc. \\(TALL\\) Form 10-K, fiscal year ended December 31, 2021",
        ),
        ([*COVER[:4], COVER[5]], "TALL SHIPS, INC. Form 10-K, fiscal year ended December 31, 2021"),
        (["July 20, 2023 - Tall Ships, Inc. \\(NYSE: TALL\\) today announced results for the quarter."],
         "Tall Ships, Inc. \\(TALL\\), results for the quarter"),
    ],
)  # fmt: skip
def test_title_names_the_company_and_its_trading_symbol(lines: list[str], title: str) -> None:
    cover: list[Drawn] = [(50, 700 - 30 * at, 10, line) for at, line in enumerate(lines)]
    group = (50, 700, 10, "TALL SHIPS, INC. AND SUBSIDIARIES")
    document = parse(cover, [group, (50, 660, 10, PROSE), (50, 648, 10, PROSE)])
    assert document.title == title.replace("\\", "")
