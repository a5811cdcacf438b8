import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.model import Block, Document
from ingestor.text.outline import Section, heading_number, line_starts, outline, sections


def heading(level: int, title: str | None, number: str | None = None, start: int = 0) -> Block:
    return Block("heading", start, start + 1, level=level, title=title, number=number)


def test_heading_number_is_that_of_the_title() -> None:
    for title, number in [
        ("2.1 Methods", "2.1"), ("2.1. Methods", "2.1"), ("1 Introduction", "1"), ("12) Twelve", "12"),
        ("A.3 Tables", "A.3"), ("2024 in review", None), ("3D printing", None), ("Methods", None),
        ("2.1", None), ("1.2.3.4 Deep", "1.2.3.4"),
    ]:  # fmt: skip
        assert heading_number(title) == number


def test_sections_of_prose_are_cut_at_headings() -> None:
    for headings, expected in [
        ([], []),
        (
            [heading(1, "A"), heading(2, "B"), heading(3, "C"), heading(2, "D"), heading(1, "E")],
            [("1", "A"), ("1.1", "A > B"), ("1.1.1", "A > B > C"), ("1.2", "A > D"), ("2", "E")],
        ),
        # a skipped level is no gap, and a document may begin below its outermost level
        (
            [heading(3, "A"), heading(1, "B"), heading(3, "C"), heading(2, "D")],
            [("1", "A"), ("2", "B"), ("2.1", "B > C"), ("2.2", "B > D")],
        ),
        # the document's own numbers go before, and those below continue them
        (
            [heading(1, "4. A", "4"), heading(2, "B"), heading(2, "4.9 C", "4.9"), heading(3, "D")],
            [("4", "4. A"), ("4.1", "4. A > B"), ("4.9", "4. A > 4.9 C"), ("4.9.1", "4. A > 4.9 C > D")],
        ),
        ([heading(1, None), heading(2, "B")], [("1", None), ("1.1", "B")]),
    ]:
        assert [(section.number, section.path) for section in sections(headings)] == expected


@pytest.mark.parametrize(
    ("text", "starts"),
    [("", [0]), ("a", [0]), ("a\nb", [0, 2]), ("a\r\nb\rc\n", [0, 3, 5, 7]), ("a\u2028b\x0cc", [0])],
)
def test_line_starts_follow_every_line_end(text: str, starts: list[int]) -> None:
    assert line_starts(text) == starts


def test_position_belongs_to_the_last_heading_before_it() -> None:
    text = "intro\n  # A\ntext\n## B\nend"
    blocks = (
        Block("paragraph", 0, 5), Block("heading", 6, 11, level=1, title="A"), Block("paragraph", 12, 16),
        Block("heading", 17, 21, level=2, title="B"), Block("paragraph", 22, 25),
    )  # fmt: skip
    lines = outline(Document(text, blocks))
    assert lines.sections[0] == Section()
    assert [lines.sections[lines.section(p)].title for p in (0, 7, 8, 16, 17, 24)] == [
        *(None, None),  # before the heading's indentation ends
        *("A", "A", "B", "B"),
    ]


@given(st.text(st.sampled_from("a\n\r \u2028")), st.data())
def test_line_numbers_count_line_ends(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    before = text[:at].replace("\r\n", "\n")
    if text[at - 1 : at + 1] == "\r\n" and at:
        before = before.removesuffix("\r")  # inside a line end: still the same line
    assert outline(Document(text)).line(at) == 1 + before.count("\n") + before.count("\r")


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5))), st.integers(0, 60), st.integers(1, 20))
def test_between_finds_blocks_that_share_a_character(
    gaps: list[tuple[int, int]], start: int, length: int
) -> None:
    blocks, at = [], 0
    for gap, size in gaps:
        blocks.append(Block("paragraph", at + gap, at + gap + size))
        at += gap + size
    end = start + length
    found = list(outline(Document("x" * at, tuple(blocks))).between(start, end))
    assert found == [block for block in blocks if max(block.start, start) < min(block.end, end)]
