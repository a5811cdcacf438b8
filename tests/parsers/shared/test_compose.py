from hypothesis import given
from hypothesis import strategies as st

from ingestor.model import Document
from ingestor.parsers.shared.compose import Composer, SpannedCell, bare_row, clean, grid, markdown_table
from tests.parsers.laws import blocks_cover_text

TEXTS = st.text(st.characters() | st.sampled_from("\r\n\x0b\u2028\ud800\x00 "))


@given(st.lists(st.tuples(st.sampled_from(["paragraph", "code", "list"]), TEXTS)))
def test_blocks_are_where_they_were_put(added: list[tuple[str, str]]) -> None:
    composer = Composer()
    for kind, text in added:
        composer.add(kind, text)
    blocks_cover_text(Document(composer.text, tuple(composer.blocks)))
    composer.text.encode()
    kept = [(kind, clean(text)) for kind, text in added if clean(text)]
    assert [(block.kind, composer.text[block.start : block.end]) for block in composer.blocks] == kept


@given(st.lists(st.lists(TEXTS, max_size=4), max_size=5))
def test_row_is_a_line_and_all_have_as_many_cells(rows: list[list[str]]) -> None:
    table = clean(markdown_table(rows))
    bars = {line.replace("\\|", "").count("|") for line in table.split("\n")} if table else set()
    assert len(bars) <= 1
    visible = sum(any(clean(" ".join(cell.split())) for cell in row) for row in rows)
    assert len(table.splitlines()) == (visible + 1 if visible else 0)


def test_heading_keeps_its_page_label_and_number() -> None:
    composer = Composer()
    composer.page, composer.page_label = 2, "iii"
    composer.heading(" A \n title ", 1, "1")
    (block,) = composer.blocks
    facts = block.title, block.number, block.level, block.page, block.page_label
    assert facts == ("A title", "1", 1, 2, "iii")
    assert composer.title == "A title"


def test_signs_stand_at_their_numbers() -> None:
    for cells, line in [
        (["Net sales", "$", "79,268", "", "$", "94,665"], "Net sales $79,268 $94,665"),
        (["Loss", "(484", ")", "5.0", "%"], "Loss (484) 5.0%"),
        (["", "", ""], ""),
        (["Price in $", "of (small) ships"], "Price in $ of (small) ships"),
        (["Total", "—", "$", "—"], "Total — $—"),
    ]:
        assert bare_row(cells) == line


A, B, C, D = map(SpannedCell, "abcd")


def test_grid_places_cells_under_their_columns() -> None:
    for rows, expected in [
        ([[A, B], [C, D]], ["ab", "cd"]),
        ([[SpannedCell("a", 2), B], [C]], ["a.b", "c"]),
        ([[SpannedCell("a", 1, 2), B], [C], [D]], ["ab", ".c", "d"]),
        ([[A, SpannedCell("b", 1, 2), C], [D, A]], ["abc", "d.a"]),
        ([[SpannedCell("a", 2, 2), B], [C], [D]], ["a.b", "..c", "d"]),
        ([[SpannedCell("a", 1, 0), B], [C], [D]], ["ab", ".c", ".d"]),  # down to the last row
        ([[SpannedCell("a", 1, 9), B]], ["ab"]),  # beyond the table
        # a span ends at a covered column
        ([[A, SpannedCell("b", 1, 3)], [SpannedCell("c", 9)], [D]], ["ab", "c", "d"]),
        ([[SpannedCell("a", 0)], []], ["a", ""]),
        ([], []),
    ]:
        assert grid(rows) == [["" if cell == "." else cell for cell in row] for row in expected]


cells = st.builds(
    SpannedCell, st.just("x"), st.integers(-1, 300) | st.just(10**9), st.integers(0, 5) | st.just(10**9)
)


@given(st.lists(st.lists(cells, max_size=5), max_size=6))
def test_grid_stays_within_its_rows_and_hundred_columns(rows: list[list[SpannedCell]]) -> None:
    laid_out = grid(rows)
    assert len(laid_out) == len(rows)
    assert all(len(line) <= 100 for line in laid_out)
    for row, line in zip(rows, laid_out, strict=True):
        assert line.count("x") <= len(row)
        assert not row or len(line) == 100 or line.count("x") == len(row)
