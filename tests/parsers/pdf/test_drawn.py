from hypothesis import given
from hypothesis import strategies as st

from ingestor.parsers.pdf.drawn import Edge, edges, grids


def test_net_is_a_grid_of_cells() -> None:
    across = [Edge(y, 0, 100) for y in (0, 10, 20)]
    upright = [Edge(0, 0, 20), Edge(50, 0, 10), Edge(100, 0, 20)]
    (grid,) = grids(across, upright)
    assert grid.box == (0, 0, 100, 20)
    assert grid.rows == (((0, 10, 100, 20), None), ((0, 0, 50, 10), (50, 0, 100, 10)))


def test_two_nets_are_two_tables_from_the_top() -> None:
    net = [Edge(y, 0, 100) for y in (0, 10, 20)], [Edge(x, 0, 20) for x in (0, 50, 100)]
    other = [Edge(y + 200, 0, 100) for y in (0, 10, 20)], [Edge(x, 200, 220) for x in (0, 50, 100)]
    assert [grid.box[1] for grid in grids(net[0] + other[0], net[1] + other[1])] == [200, 0]


def test_lines_that_do_not_cross_and_single_boxes_are_no_tables() -> None:
    assert grids([Edge(y, 0, 100) for y in range(0, 90, 10)], [Edge(200, 0, 100)]) == []
    assert grids([Edge(0, 0, 50), Edge(50, 0, 50)], [Edge(0, 0, 50), Edge(50, 0, 50)]) == []
    assert grids([], []) == []


def test_slanted_and_short_segments_are_omitted() -> None:
    across, upright = edges([(0, 0, 50, 0.4), (0, 0, 50, 20), (0, 0, 3, 0), (9, 40, 9, 0)])
    assert (across, upright) == ([Edge(0, 0, 50)], [Edge(9, 0, 40)])


some = st.lists(st.builds(Edge, *[st.integers(0, 60).map(float)] * 3), max_size=12)


@given(some, some)
def test_rows_have_as_many_cells_and_cells_lie_inside(across: list[Edge], upright: list[Edge]) -> None:
    for grid in grids(across, upright):
        left, bottom, right, top = grid.box
        assert len({len(row) for row in grid.rows}) == 1
        assert len(grid.rows) >= 2
        for cell in filter(None, (cell for row in grid.rows for cell in row)):
            assert left <= cell[0] < cell[2] <= right
            assert bottom <= cell[1] < cell[3] <= top
