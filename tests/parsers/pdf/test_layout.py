import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.model import Document
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


@pytest.mark.parametrize(
    ("said", "expected"),
    [
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
    ],
)  # fmt: skip
def test_lines_become_paragraphs(said: list[str | Line], expected: list[tuple[str, str]]) -> None:
    assert composed(*said) == expected


@pytest.mark.parametrize(
    ("before", "after", "elsewhere", "read"),
    [
        ("the second", "quarter of it", "A quarter begins, and a second one", "the second-quarter of it"),
        ("the second", "quarter of it", "second-quarter", "the second-quarter of it"),
        ("this infor", "mation", "no such words", "this information"),
        ("the in", "formation", "in a formation, more information", "the information"),
        ("a pre", "view", "The preview; the pre-view; a preview", "a preview"),
        ("Jean", "Paul", "", "Jean-Paul"),
        ("sold over-the", "counter", "", "sold over-the-counter"),
        ("all available", "for-sale", "", "all available-for-sale"),
        ("found some", "where", "some say where", "found somewhere"),
    ],
)
def test_word_that_a_line_end_divides_is_joined_as_the_document_writes_it(
    before: str, after: str, elsewhere: str, read: str
) -> None:
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


@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("Methods", ["Methods"]), ("Methods", ["2.1 METHODS"]), ("Methods", ["Chapter 3", "Methods"]),
        ("A long title", ["A long", "title"]), ("2.1 Methods", ["2.1", "Methods"]),
    ],
)  # fmt: skip
def test_titles_of_the_outline_are_found_on_their_page(title: str, said: list[str]) -> None:
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
def test_any_lines_become_ordered_blocks_of_their_pages(
    pages: list[PageLines], outline: list[Bookmark]
) -> None:
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
