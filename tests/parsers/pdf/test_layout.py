"""Lines of a page, values of forms and drawn nets become paragraphs, lists and tables."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.model import Document
from ingestor.parsers.pdf.drawn import Edge, edges, grids
from ingestor.parsers.pdf.forms import Field, place
from ingestor.parsers.pdf.layout import compose, without_running_headers
from ingestor.parsers.pdf.lines import Bookmark, Line, PageLines, Word
from ingestor.parsers.pdf.title import title_of
from tests.parsers.laws import blocks_cover_text


def lines(*said: str | Line, top: float = 700, width: float = 400) -> tuple[Line, ...]:
    """One under the other, as wide as the column."""
    return tuple(
        line if isinstance(line, Line) else Line(line, 50, 50 + width, top - 12 * at, 10)
        for at, line in enumerate(said)
    )


def composed(*said: str | Line, outline: tuple[Bookmark, ...] = ()) -> list[tuple[str, str]]:
    composer = compose([PageLines("1", 800, lines(*said))], outline)
    return [(block.kind, composer.text[block.start : block.end]) for block in composer.blocks]


def at(text: str, place: int, **facts: object) -> Line:
    """The ``place``-th line of a page."""
    known = {"left": 50.0, "right": 450.0, "baseline": 700.0 - 12 * place, "size": 10.0, **facts}
    return Line(text, **known)  # type: ignore[arg-type]


def test_lines_become_paragraphs() -> None:
    for said, expected in [
        (["one", "two"], [("paragraph", "one two")]),
        ([at("para", 0, hyphen=True), "graph"], [("paragraph", "paragraph")]),
        ([at("Jean", 0, hyphen=True), "Paul"], [("paragraph", "Jean-Paul")]),
        ([at("name", 0, right=100.0), "a line that is wide"], [("paragraph", "name\na line that is wide")]),
        (["Scope . . . . . . . 3", "More . . . . . . . 4"], [("paragraph", "Scope … 3\nMore … 4")]),
        (["日本", "語"], [("paragraph", "日本語")]),
        (["It ends.", at("Indented", 1, left=70.0)], [("paragraph", "It ends."), ("paragraph", "Indented")]),
        (["one", at("two", 3)], [("paragraph", "one"), ("paragraph", "two")]),
        (["goes", at("on", -20)], [("paragraph", "goes on")]),
        (["It ends.", at("next column", -20)], [("paragraph", "It ends."), ("paragraph", "next column")]),
        (["• a", "still a", "• b"], [("list", "• a still a\n• b")]),
        (["1. a", "2. b", at("text", 4)], [("list", "1. a\n2. b"), ("paragraph", "text")]),
        (["So:", at("if x:", 1, mono=True), at("y", 2, mono=True, left=74.0)],
         [("paragraph", "So:"), ("code", "if x:\n    y")]),
        ([at("the file", 0), at("name", 1, mono=True)], [("paragraph", "the file name")]),
        ([at("a", 0), at("b", 0, left=200.0)], [("paragraph", "a b")]),
        ([at("--log", 0, right=90.0), at("Logs.", 1, left=90.0), at("-q", 2, right=90.0),
          at("Is quiet.", 3, left=90.0)],
         [("definition", "--log"), ("paragraph", "Logs."), ("definition", "-q"), ("paragraph", "Is quiet.")]),
        ([at("An entry of a list of books", 0), at("goes on", 1, left=90.0)],
         [("paragraph", "An entry of a list of books goes on")]),
        ([at("above", 0), at("short", 1, right=90.0), at("Deeper.", 2, left=90.0)],
         [("paragraph", "above short\nDeeper.")]),
        (["as wide as all", at("lines are", 1), at("Ada wrote", -20)],
         [("paragraph", "as wide as all lines are Ada wrote")]),
        (["it has a tall", at("fraction in it", 2)], [("paragraph", "it has a tall fraction in it")]),
    ]:  # fmt: skip
        assert composed(*said) == expected


def test_word_that_a_line_end_divides_is_joined_as_the_document_writes_it() -> None:
    for before, after, elsewhere, read in [
        ("the second", "quarter of it", "A quarter begins, and a second one", "the second-quarter of it"),
        ("the second", "quarter of it", "second-quarter", "the second-quarter of it"),
        ("this infor", "mation", "no such words", "this information"),
        ("the in", "formation", "in a formation, more information", "the information"),
        ("a pre", "view", "The preview; the pre-view; a preview", "a preview"),
        ("Jean", "Paul", "", "Jean-Paul"),
        ("sold over-the", "counter", "", "sold over-the-counter"),
        ("all available", "for-sale", "", "all available-for-sale"),
        ("found some", "where", "some say where", "found somewhere"),
    ]:
        assert composed(at(before, 0, hyphen=True), after, at(elsewhere or "-", 8))[0] == ("paragraph", read)


@pytest.mark.parametrize(
    ("elsewhere", "read"), [("a long-term loan", "a co-brand"), ("longterm", "a cobrand")]
)
def test_divided_word_of_unknown_parts_is_joined_as_most_divided_words_are(elsewhere: str, read: str) -> None:
    lines = at("any long", 0, hyphen=True), at("term of a co", 1, hyphen=True), "brand", at(elsewhere, 8)
    assert composed(*lines)[0][1].endswith(read)


@pytest.mark.parametrize("place", [1, 2])
def test_line_with_wide_gaps_stays_a_line(place: int) -> None:
    cells = tuple(
        Word(text, 50 + 150 * n, 90 + 150 * n, 0) for n, text in enumerate(("Gate", "Berth", "Mate"))
    )
    row = at("Gate Berth Mate", place, words=cells)
    said = [at("one", 0), at("two", 1), at("three", 2)]
    said[place] = row
    text = composed(*said)[0][1]
    assert "Gate Berth Mate" in text.splitlines()


def test_titles_of_the_outline_are_found_on_their_page() -> None:
    for title, said in [
        ("Methods", ["Methods"]), ("Methods", ["2.1 METHODS"]), ("Methods", ["Chapter 3", "Methods"]),
        ("A long title", ["A long", "title"]), ("2.1 Methods", ["2.1", "Methods"]),
    ]:  # fmt: skip
        found = composed(*said, "text of the section, and Methods in it", outline=(Bookmark(title, 2, 0),))
        assert found[0] == ("heading", " ".join(said))
        assert found[1][0] == "paragraph"


def test_page_number_above_a_title_of_the_outline_is_no_part_of_the_title() -> None:
    found = composed("(3)", "Methods", "text of the section", outline=(Bookmark("Methods", 2, 0),))
    assert found[1] == ("heading", "Methods")


def test_repeated_lines_are_omitted_at_the_edge_and_kept_inside() -> None:
    pages = [
        PageLines(str(n), 800, lines(f"Chapter {n % 2}", top=780) + lines("same words", "on all", top=400)
             + lines(f"{n}", top=20))
        for n in range(1, 8)
    ]  # fmt: skip
    text = compose(without_running_headers(pages), []).text
    assert text.count("same words on all") == 7
    assert "Chapter" not in text
    assert not any(character.isdigit() for character in text)


def test_text_that_is_mostly_large_has_no_headings_by_size() -> None:
    large = [at("LARGE", n, size=20.0) for n in range(4)]
    assert all(kind == "paragraph" for kind, _ in composed(*large, "small text that is much longer than it"))


def test_bold_numbered_lines_are_headings() -> None:
    said = composed(at("2.1 Methods", 0, bold=True), "text of the section", at("bold", 2, bold=True), "text")
    assert said[0] == ("heading", "2.1 Methods")


def test_largest_words_of_the_first_page_are_its_title() -> None:
    page = PageLines(
        "1", 800, (at("GNU", 0, size=30.0), at("Octave", 1, size=30.0), at("many other words", 3))
    )
    assert title_of([page], "") == "GNU Octave"
    assert title_of([PageLines("1", 800, lines("a", "b"))], "") is None
    assert title_of([], "") is None


places = st.floats(0, 800)
some_lines = st.builds(
    Line,
    st.text("ab •1.-日 ", min_size=1).filter(str.strip).map(str.strip),
    *(places, places, places, st.sampled_from([8.0, 10.0, 12.0, 20.0])),
    *(st.booleans(), st.booleans(), st.booleans()),
)  # fmt: skip
some_pages = st.lists(
    st.builds(PageLines, st.text("1ix", min_size=1), st.just(800.0), st.lists(some_lines).map(tuple))
)
bookmarks = st.lists(st.builds(Bookmark, st.text("ab1", min_size=1), st.integers(1, 4), st.integers(0, 4)))


@given(some_pages, bookmarks)
def test_any_lines_become_ordered_blocks_of_pages(pages: list[PageLines], outline: list[Bookmark]) -> None:
    composer = compose(without_running_headers(pages), outline)
    blocks_cover_text(Document(composer.text, tuple(composer.blocks)))
    found = [block.page for block in composer.blocks]
    assert found == sorted(found, key=lambda page: page or 0)


@pytest.mark.parametrize("mark", "▶►➢❖✓\uf0b7")
def test_marks_of_lists_are_kept(mark: str) -> None:
    assert composed(f"{mark} one", f"{mark} two") == [("list", f"{mark} one\n{mark} two")]


def test_comments_stand_after_their_page() -> None:
    composer = compose([PageLines("1", 800, lines("text"), comments=("Ada: why?",))], [])
    assert [(block.kind, block.page) for block in composer.blocks] == [("paragraph", 0), ("comment", 0)]


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


def test_form_value_is_placed_at_its_field() -> None:
    for field, expected in [
        (Field("n", "Ada", (60, 98, 200, 112)), {0: ("", " Ada")}),  # beside "Name:"
        (Field("n", "Ada", (0, 80, 100, 96)), {0: ("", " Ada")}),  # below it
        (Field("b", "", (40, 60, 50, 70), ticked=True), {9: ("[x] ", "")}),  # left of "Member"
        (Field("b", "", (300, 60, 310, 70), ticked=False), {9: ("", " [ ]")}),  # right of it
    ]:
        words = [Word("Name:", 20, 55, 100, 0), Word("____", 60, 190, 99, 5), Word("Member", 55, 100, 62, 9)]
        assert place([field], words).values == expected


def test_field_without_a_label_is_a_line_after_its_name() -> None:
    (line,) = place([Field("year", "1843", (300, 500, 340, 510))], []).lines
    assert (line.text, line.left, line.baseline) == ("year: 1843", 300, 500)


def test_empty_box_beside_no_words_is_ignored() -> None:
    assert place([Field("c1_09[0]", "", (300, 500, 310, 510), ticked=False)], []).lines == ()


NAMES = ["".join(letters) for letters in product("abcdefg", "klmnop")]


def line(text: str, baseline: float, **facts: object) -> Line:
    return Line(text, 50, 300, baseline, **{"size": 10.0, **facts})  # type: ignore[arg-type]


def pages(*said: Line, count: int = 6) -> list[PageLines]:
    body = [line(f"words of this page alone {n}" * 3, 400) for n in range(count)]
    return [PageLines(str(n + 1), 800, (*said, body[n])) for n in range(count)]


def test_furniture_of_pages_is_recognised() -> None:
    for repeated, kept in [
        (line("A running head", 780), False),
        (line("A running head", 780, rows=(("Pump P-7", "Manual"), ("Rev. 3", "Page 4 of 9"))), False),
        (line("A running head", 780, size=14.0), False),
        (line("A head that holds most of what is on its page, and so is its text" * 4, 780), True),
        (line("words inside of the page", 600), True),
        (line("DRAFT", 600, slanted=True), False),
    ]:
        assert all((repeated in page.lines) == kept for page in without_running_headers(pages(repeated)))


@pytest.mark.parametrize("drift", [0.0, 0.9, 1.8])
def test_header_below_a_changing_line_goes_from_every_page(drift: float) -> None:
    head = [line("Pump P-7, manual for operators", 768 + drift * (n % 2)) for n in range(42)]
    own = [line(f"On the {name} of pumps", 780) for name in NAMES]
    body = [line(f"words of this page alone {n} " * 3, 400) for n in range(42)]
    document = [PageLines(str(n), 800, (own[n], head[n], body[n])) for n in range(42)]
    assert [page.lines for page in without_running_headers(document)] == list(zip(own, body, strict=True))


def test_figures_of_a_table_at_the_edge_of_every_page_are_kept() -> None:
    totals = [line("Total", 30, rows=(("Total", f"{n}.50"), ("Tax", "19 %"))) for n in range(6)]
    document = [PageLines(str(n), 800, (*page.lines, totals[n])) for n, page in enumerate(pages())]
    assert without_running_headers(document) == document


def test_page_with_nothing_but_a_running_head_still_loses_it() -> None:
    head = line("A running head", 780)
    blank = PageLines("7", 800, (head,))
    assert without_running_headers([*pages(head), blank])[-1].lines == ()


def test_identical_pages_are_not_emptied() -> None:
    tickets = [PageLines(str(n), 800, (line(f"Ticket {n}", 780), line("Admit one", 20))) for n in range(1, 9)]
    assert without_running_headers(tickets) == tickets


def test_second_line_of_a_header_is_omitted_where_half_of_the_pages_have_it() -> None:
    head, second, code = line("A running head", 780), line("Its second line", 768), line("}", 756)
    found = without_running_headers(
        [*pages(head, second, count=4), *pages(head, code, count=3), *pages(head)]
    )
    assert [len(page.lines) for page in found] == [2] * 4 + [2] * 3 + [1] * 6
    found = without_running_headers([*pages(head, second, count=4), *pages(head, count=3)])
    assert [len(page.lines) for page in found] == [1] * 7
