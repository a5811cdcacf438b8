import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.parsers.shared.compose import SpannedCell, grid

A, B, C, D = map(SpannedCell, "abcd")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([[A, B], [C, D]], ["ab", "cd"]),
        ([[SpannedCell("a", 2), B], [C]], ["a.b", "c"]),
        ([[SpannedCell("a", 1, 2), B], [C], [D]], ["ab", ".c", "d"]),
        ([[A, SpannedCell("b", 1, 2), C], [D, A]], ["abc", "d.a"]),
        ([[SpannedCell("a", 2, 2), B], [C], [D]], ["a.b", "..c", "d"]),
        ([[SpannedCell("a", 1, 0), B], [C], [D]], ["ab", ".c", ".d"]),  # down to the last row
        ([[SpannedCell("a", 1, 9), B]], ["ab"]),  # beyond the table
        (
            [[A, SpannedCell("b", 1, 3)], [SpannedCell("c", 9)], [D]],
            ["ab", "c", "d"],
        ),  # a span ends at a covered column
        ([[SpannedCell("a", 0)], []], ["a", ""]),
        ([], []),
    ],
)
def test_grid_places_cells_under_their_columns(rows: list[list[SpannedCell]], expected: list[str]) -> None:
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
