from hypothesis import given
from hypothesis import strategies as st

from ingestor.parsers.pdf.layout import compose
from ingestor.parsers.pdf.lines import PageLines
from ingestor.parsers.pdf.ocr import OcrLine, lines

WIDTH, HEIGHT = 600, 800


def seen(text: str, left: float, top: float, right: float = 0.0, tall: float = 14) -> OcrLine:
    return OcrLine(text, left, top, right or left + 6 * len(text), top + tall)


def read(*found: OcrLine) -> list[str]:
    return [line.text for line in lines(found, WIDTH, HEIGHT)]


def column(name: str, left: float, top: float = 100) -> list[OcrLine]:
    """Lines of a width of 220, whose boxes are never quite in line."""
    return [seen(f"{name}{n}", left + n % 3, top + 16 * n + n % 2, left + 220 - n % 4) for n in range(5)]


LEFT, RIGHT = [f"a{n}" for n in range(5)], [f"b{n}" for n in range(5)]


def test_columns_of_text_are_read_one_after_the_other() -> None:
    assert read(*column("b", 320), *column("a", 50)) == LEFT + RIGHT


def test_text_across_columns_separates_them() -> None:
    title, between = seen("Title", 50, 40, 540), seen("Between", 50, 190, 540)
    below = [*column("c", 50, 220), *column("d", 320, 220)]
    found = read(*below, between, *column("b", 320), *column("a", 50), title)
    lower = [f"{name}{n}" for name in "cd" for n in range(5)]
    assert found == ["Title", *LEFT, *RIGHT, "Between", *lower]


def test_rows_of_short_entries_are_read_row_by_row() -> None:
    bill = ((100, ["Salt", "12", "3.50"]), (121, ["Wool", "3", "17.00"]), (142, ["Sum", "20.50"]))
    places = (50, 250, 500)
    rows = [seen(text, left, top) for top, row in bill for left, text in zip(places, row, strict=False)]
    askew = [OcrLine(s.text, s.left, s.top - s.left / 100, s.right, s.bottom - s.left / 100) for s in rows]
    assert read(*reversed(askew)) == ["Salt", "12", "3.50", "Wool", "3", "17.00", "Sum", "20.50"]


def test_sizes_are_the_usual_one_unless_they_are_much_larger() -> None:
    heights = [14, 15, 13, 16, 12, 17, 14, 28, 21]
    found = lines([seen("x", 50, 40 * n, tall=tall) for n, tall in enumerate(heights)], WIDTH, HEIGHT)
    assert [line.size for line in found] == [12, 12, 12, 12, 12, 12, 12, 24, 18]


def test_paragraphs_and_headings_are_read() -> None:
    page = [
        seen("The Frozen River", 50, 50, tall=28),
        seen("The master keeps a book in which every ship is written down, not the mer-", 50, 100),
        seen("chants who own it.", 51, 117.5),
        seen("Another paragraph.", 50, 160),
    ]
    composed = compose([PageLines("1", HEIGHT, lines(page, WIDTH, HEIGHT))], [])
    assert [(block.kind, composed.text[block.start : block.end]) for block in composed.blocks] == [
        ("heading", "The Frozen River"),
        (
            "paragraph",
            "The master keeps a book in which every ship is written down, not the merchants who own it.",
        ),
        ("paragraph", "Another paragraph."),
    ]


def test_empty_page_has_no_lines() -> None:
    assert lines([], WIDTH, HEIGHT) == ()


@given(
    st.lists(
        st.tuples(*(st.integers(1, 500) for _ in range(4))).map(
            lambda n: OcrLine(f"{n}", n[0], n[1], n[0] + n[2], n[1] + n[3])
        ),
        max_size=12,
    )
)
def test_every_line_comes_once_whatever_its_box(found: list[OcrLine]) -> None:
    assert sorted(read(*found)) == sorted(line.text for line in found)


@given(st.permutations([*column("a", 50), *column("b", 320)]))
def test_order_in_which_they_were_seen_does_not_matter(found: list[OcrLine]) -> None:
    assert read(*found) == LEFT + RIGHT
