"""The lines in front of a chunk: whose and when, which section or table, and the table's header."""

from dataclasses import replace

from ingestor.model import Block, Chunk, Document
from ingestor.text.context import contexts, in_front

ROWS = "Year 2022 2021\nCash 1 2\nDebt 3 4\n"
TEXT = f"Part II\n\nNotes\n\nSome words.\n\n{ROWS}"
TABLE = TEXT.index("Year")
REPORT = Document(
    TEXT,
    (
        Block("heading", 0, 7, level=1, title="Part II"),
        Block("heading", 9, 14, level=2, title="Notes"),
        Block("paragraph", 16, 27),
        Block("table", TABLE, len(TEXT), header_rows=1, caption="Balance\nSheets"),
    ),
    title="ACME  10-K,\n2022",
)


def chunk(begin: str, end: str) -> Chunk:
    start, stop = TEXT.index(begin), TEXT.index(end) + len(end)
    return Chunk(start, stop, TEXT[start:stop])


PROSE, TOP, ROW = chunk("Some", "words."), chunk("Year", "1 2"), chunk("Debt", "3 4")


def test_contexts_are_title_then_caption_or_headings_then_the_tables_header() -> None:
    assert contexts(REPORT, [PROSE, TOP, ROW], "headings") == [
        ("ACME 10-K, 2022", "Part II > Notes"),
        ("ACME 10-K, 2022", "Balance Sheets"),
        ("ACME 10-K, 2022", "Balance Sheets", "Year 2022 2021"),
    ]


def test_contexts_of_a_table_without_caption_are_its_headings() -> None:
    bare = replace(REPORT, blocks=(*REPORT.blocks[:-1], replace(REPORT.blocks[-1], caption=None)))
    assert contexts(bare, [TOP], "headings") == [("ACME 10-K, 2022", "Part II > Notes")]


def test_contexts_without_titles_keep_the_tables_header() -> None:
    assert contexts(REPORT, [PROSE, ROW], "none") == [(), ("Year 2022 2021",)]
    assert contexts(REPORT, [PROSE, ROW], "title")[0] == ("ACME 10-K, 2022",)


def test_contexts_of_deep_sections_keep_the_innermost_headings() -> None:
    text = "word"
    headings = tuple(
        Block("heading", 0, 0, level=n, title=f"{n} " + "long " * 15 + "end") for n in range(1, 6)
    )
    [(line,)] = contexts(
        Document(text, (*headings, Block("paragraph", 0, 4))), [Chunk(0, 4, text)], "headings"
    )
    assert line.startswith("4 long") and line.endswith("end") and line.count(" > ") == 1


def test_contexts_do_not_repeat_a_title_that_is_the_first_heading() -> None:
    for title in ("Part II", "Part II > Notes"):
        [(first, *others)] = contexts(replace(REPORT, title=title), [PROSE], "headings")
        assert (first, others) == (title, ["Notes"] if title == "Part II" else [])


def test_lines_stand_in_front_of_the_text() -> None:
    assert in_front(("A", "B"), "text") == "A\nB\ntext"
    assert in_front((), "text") == "text"
