import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.model import Blob
from ingestor.parsers.pdf.lines import Word
from ingestor.parsers.pdf.parser import PLUGIN, PdfOptions
from ingestor.parsers.pdf.tables.columns import Stack, stacks, tables
from ingestor.parsers.pdf.tables.ruled import Edge, whole
from tests.parsers.files import pdf
from tests.parsers.laws import obeys_laws, texts

STACK = Stack(0, 300, (100, 85, 20))
Row = tuple[float, list[tuple[float, str]]]
GOOD: list[Row] = [
    (90, [(0, "Pump"), (100, "Flow"), (200, "Remark")]),
    (70, [(0, "Alpha"), (100, "1.5"), (200, "for ponds,")]),
    (58, [(200, "cheap")]),
    (46, [(0, "Beta"), (22, "two"), (103, "10.0"), (200, "loud")]),
]


def words(rows: list[Row]) -> list[Word]:
    return [Word(text, left, left + 5 * len(text), baseline) for baseline, row in rows for left, text in row]


def test_columns_are_where_no_row_has_a_word_and_a_wrapped_cell_is_one() -> None:
    ((box, rows),) = tables(STACK, words(GOOD))
    assert box == (0, 20, 300, 100)
    assert rows == (
        ("Pump", "Flow", "Remark"),
        ("Alpha", "1.5", "for ponds, cheap"),
        ("Beta two", "10.0", "loud"),
    )


@pytest.mark.parametrize(
    "rows",
    [
        GOOD[:2],  # one row
        GOOD[1:],  # no header
        [(90, [(0, "Pump"), (100, "✠"), (200, "Remark")]), *GOOD[1:]],  # a column without a name
        [(90, [(0, "Pump"), (100, "x" * 41)]), (70, [(0, "a"), (100, "b")]), (50, [(0, "a"), (100, "b")])],
        [(90, [(0, "A"), (160, "B")]), *((y, [(0, "w" * 31), (160, "w" * 31)]) for y in (70, 58, 46))],
        [
            (90, [(0, "A"), (160, "B")]),
            (70, [(0, "a"), (160, "b")]),
            *((y, [(0, "a")]) for y in (58, 46, 34)),
        ],
        [(90, [(0, "one"), (18, "line")]), (70, [(0, "two"), (18, "of")]), (58, [(0, "one"), (17, "it")])],
    ],
)
def test_what_is_no_table(rows: list[Row]) -> None:
    assert tables(STACK, words(rows)) == []


def test_further_rules_divide_rows_until_words_cross_the_columns() -> None:
    more: list[Row] = [(10, [(0, "Total"), (100, "11.5")]), (-30, [(0, "A sentence that goes on and on")])]
    ((box, found),) = tables(Stack(0, 300, (100, 85, 20, 0, -50)), words([*GOOD, *more]))
    assert box == (0, 0, 300, 100)
    assert found[-2:] == (("Beta two", "10.0", "loud"), ("Total", "11.5", ""))


def test_rules_far_below_the_first_make_no_header() -> None:
    assert tables(Stack(0, 300, (100, 50, 20)), words(GOOD)) == []
    assert len(tables(Stack(0, 300, (300, 100, 85, 20)), words(GOOD))) == 1


def test_what_is_wider_than_any_paper_is_no_table() -> None:
    assert stacks([Edge(y, 0, 10**9) for y in (10, 50, 80)]) == []
    wide = Word("wide", -(10.0**9), 10.0**9, 70)
    assert len(tables(STACK, [*words(GOOD), wide])) == 1


def test_rules_of_one_width_are_a_stack_also_where_they_are_drawn_in_pieces() -> None:
    pieces = [Edge(10, 0, 50), Edge(10, 51, 100)]
    rules = whole([*pieces, Edge(50, 1, 100), Edge(51, 1, 100), Edge(80, 0, 99), Edge(60, 0, 40)])
    assert stacks(rules) == [Stack(0, 100, (80, 50, 10))]
    assert stacks([Edge(10, 0, 100), Edge(20, 0, 100)]) == []


def test_a_table_of_a_page() -> None:
    drawn = [(50 + round(left), 500 + round(y), 8, text) for y, row in GOOD for left, text in row]
    rules = "".join(f"50 {500 + y} m 350 {500 + y} l S " for y in (100, 85, 20))
    data = pdf([[(50, 700, 8, "Text above."), *drawn, (50, 450, 8, "Text below.")]], lines=rules)
    document = obeys_laws(PLUGIN.build(PdfOptions()), Blob(data, "a.pdf"))
    assert document is not None
    assert texts(document) == [
        "Text above.",
        "| Pump | Flow | Remark |\n| --- | --- | --- |\n| Alpha | 1.5 | for ponds, cheap |\n"
        "| Beta two | 10.0 | loud |",
        "Text below.",
    ]


places = st.floats(0, 300)


@given(
    st.lists(st.builds(Word, st.sampled_from(["a", "long"]), places, places, st.floats(0, 120)), max_size=20)
)
def test_rows_have_as_many_cells_whatever_the_words(some: list[Word]) -> None:
    for _, rows in tables(STACK, some):
        assert len({len(row) for row in rows}) == 1
        assert len(rows[0]) >= 2
