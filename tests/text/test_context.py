"""Lines in front of a chunk: title, section or caption, and the header of a table."""

import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ingestor.chunkers.recursive import PLUGIN as RECURSIVE
from ingestor.chunkers.structure import PLUGIN as STRUCTURE
from ingestor.model import Blob, Block, Chunk, Document
from ingestor.parsers.data.csv import PLUGIN as CSV
from ingestor.parsers.markup.markdown import PLUGIN as MARKDOWN
from ingestor.parsers.office.docx import PLUGIN as DOCX
from ingestor.parsers.office.xlsx import PLUGIN as XLSX
from ingestor.parsers.shared.compose import markdown_table
from ingestor.pipeline.prepare import texts_to_embed
from ingestor.registry import Plugin
from ingestor.text.context import contexts, in_front
from ingestor.text.table_headers import headers
from ingestor.text.tokens import Tokens
from tests.parsers.files import docx, paragraph, xlsx

LINES = "Year 2022 2021\nCash 1 2\nDebt 3 4\n"
TEXT = f"Part II\n\nNotes\n\nSome words.\n\n{LINES}"
AT = TEXT.index("Year")
REPORT = Document(
    TEXT,
    (
        Block("heading", 0, 7, level=1, title="Part II"),
        Block("heading", 9, 14, level=2, title="Notes"),
        Block("paragraph", 16, 27),
        Block("table", AT, len(TEXT), header_rows=1, caption="Balance\nSheets"),
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


ROWS = [["name", "weight in kg"], *([f"item {n}. It is no. {n}", f"{n * n}.5"] for n in range(60))]


def in_docx(rows: Sequence[Sequence[str]]) -> bytes:
    cells = ["".join(f"<w:tc>{paragraph(cell)}</w:tc>" for cell in row) for row in rows]
    return docx(f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in cells)}</w:tbl>")


def in_xlsx(rows: Sequence[Sequence[str]]) -> bytes:
    texts = [[f'<c t="inlineStr"><is><t>{cell}</t></is></c>' for cell in row] for row in rows]
    return xlsx({"S": "".join(f"<row>{''.join(row)}</row>" for row in texts)})


FORMATS = {
    "a.md": (MARKDOWN, f"Before.\n\n{markdown_table(ROWS)}\n\nAfter.\n".encode()),
    "a.csv": (CSV, "\n".join(map(",".join, ROWS)).encode()),
    "a.docx": (DOCX, in_docx(ROWS)),
    "a.xlsx": (XLSX, in_xlsx(ROWS)),
}


@pytest.mark.parametrize("strategy", [RECURSIVE, STRUCTURE])
@pytest.mark.parametrize("name", FORMATS)
def test_rows_are_whole_and_all_stand_under_their_header(name: str, strategy: Plugin) -> None:
    parser, data = FORMATS[name]
    document = parser.build(parser.options()).parse(Blob(data, name))
    size = "size" if strategy is RECURSIVE else "max_tokens"
    chunker = strategy.build(strategy.options(**{size: 60}), Tokens())
    chunks = chunker.chunk(document, None, None).chunks
    assert len(chunks) > 8
    for chunk, header in zip(chunks, headers(document, chunks), strict=True):
        lines = chunk.text.strip().split("\n")
        assert all(line.count("|") in (0, 3) for line in lines), chunk.text
        if "|" in lines[0]:
            first = (header or chunk.text).split("\n")[0]
            assert first == "| name | weight in kg |"


TABLE = "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |"
GRID = "+---+---+\n| a | b |\n+===+===+\n| 1 | 2 |\n+---+---+\n| 3 | 4 |\n+---+---+"
SIMPLE = "=== ===\na   b\n=== ===\n1   2\n3   4\n=== ==="


@pytest.mark.parametrize(
    ("table", "begins", "header"),
    [
        (TABLE, "| 1", "| a | b |\n|---|---|"), (TABLE, "| 3", "| a | b |\n|---|---|"), (TABLE, "| a", ""),
        (TABLE, "|---", ""), (TABLE.replace("\n", "\r\n"), "| 3", "| a | b |\r\n|---|---|"),
        (GRID, "| 3", "+---+---+\n| a | b |\n+===+===+"), (SIMPLE, "3", "=== ===\na   b\n=== ==="),
        ("a,b\n1,2\n3,4", "3", "a,b"), ("a,b", "a", ""), (f"| {'a' * 500} |\n|---|\n| 1 |", "| 1", ""),
    ],
)  # fmt: skip
def test_header_precedes_chunks_below_it(table: str, begins: str, header: str) -> None:
    text = f"Before.\n\n{table}\n\nAfter."
    document = Document(text, (Block("paragraph", 0, 7), Block("table", 9, 9 + len(table))))
    start = text.index(begins, 9)
    assert headers(document, [Chunk(start, len(text), text[start:])]) == [header]
    after = len(text) - 6
    outside = [Chunk(0, 7, "Before."), Chunk(after, len(text), "After.")]
    assert headers(document, [*outside, Chunk(start, after, "said otherwise", rewritten=True)]) == [
        "",
        "",
        "",
    ]


def test_header_is_embedded_and_not_stored() -> None:
    text = f"# Title\n\n{TABLE}"
    document = Document(text, (Block("heading", 0, 7, level=1, title="Title"), Block("table", 9, len(text))))
    chunk = Chunk(text.index("| 3"), len(text), "| 3 | 4 |")
    with_title = texts_to_embed([chunk], contexts(document, [chunk], "headings"))
    assert with_title == ["Title\n| a | b |\n|---|---|\n| 3 | 4 |"]
    assert texts_to_embed([chunk], contexts(document, [chunk], "none")) == ["| a | b |\n|---|---|\n| 3 | 4 |"]


def test_table_of_one_endless_line_is_read_once() -> None:
    text = "a," * 2_000_000
    chunks = [Chunk(at, at + 500, text[at : at + 500]) for at in range(0, len(text), 500)]
    begun = time.process_time()
    assert set(headers(Document(text, (Block("table", 0, len(text)),)), chunks)) == {""}
    assert time.process_time() - begun < 5
