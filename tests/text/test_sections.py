"""Where sections begin, in formats that are read as plain text."""

import pytest

from ingestor.model import Block, Document
from ingestor.text.sections import headings, sections, units

LATEX = "text/x-tex"
REST = "text/x-rst"


def found(text: str, content_type: str) -> list[tuple[str, int]]:
    document = Document(text, content_type=content_type)
    return [(text[heading.start : heading.end], heading.level) for heading in headings(document)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\\section{A}\ntext", [("\\section{A}", 3)]),
        (
            "\\part{P}\n  \\subsection*{B} \\label{b}\n",
            [("\\part{P}", 1), ("  \\subsection*{B} \\label{b}", 4)],
        ),
        ("\\section[short]{Long {nested} title} text", [("\\section[short]{Long {nested} title}", 3)]),
        ("% \\section{No}\nsee \\section{no}", []),
        ("\\sectional{no}\n\\section", []),
        ("\\chapter{Unclosed\n", [("\\chapter{Unclosed", 2)]),
    ],
)
def test_latex(text: str, expected: list[tuple[str, int]]) -> None:
    assert found(text, LATEX) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Title\n=====\ntext", [("Title\n=====", 1)]),
        (
            "====\nDoc\n====\n\nOne\n===\n\nSub\n---\n\nTwo\n===\n",
            [("====\nDoc\n====", 1), ("One\n===", 2), ("Sub\n---", 3), ("Two\n===", 2)],
        ),
        ("text\n\n----\n\ntext", []),
        ("Too long a title\n---\n", []),
        ("Title  \n======  \n", [("Title  \n======  ", 1)]),
        ("===\n===\n", []),
        ("---", []),
    ],
)
def test_rest(text: str, expected: list[tuple[str, int]]) -> None:
    assert found(text, REST) == expected


def test_other_texts_have_only_the_headings_that_their_parser_found() -> None:
    assert found("Title\n=====\n\\section{A}", "text/plain") == []
    block = Block("heading", 0, 5, level=2)
    (heading,) = headings(Document("Title\n\\section{A}", (block,), LATEX))
    assert (heading.start, heading.end, heading.level) == (0, 5, 2)


A = "\\section{A}\na"
B = "\\subsection{B}\nb"
C = "\\section{C}\n\\subsection{D}\nd"
D = "\\section{E}"


@pytest.mark.parametrize(
    ("depth", "expected"),
    [
        (9, ["intro", A, B, C, D]),
        (2, ["intro", A, B, C, D]),
        (1, ["intro", f"{A}\n{B}", C, D]),
    ],
)
def test_sections_down_to_a_depth_and_those_without_a_body(depth: int, expected: list[str]) -> None:
    text = "\n".join(["intro", A, B, C, D])
    document = Document(text, content_type=LATEX)
    assert [text[start:end] for start, end in sections(document, depth)] == expected


def test_document_without_headings_is_one_section() -> None:
    assert sections(Document("a\n\nb"), 3) == [(0, 4)]
    assert sections(Document(" "), 3) == []


def test_units_are_blocks_and_what_lies_between_them() -> None:
    text = "a (left out) b"
    assert units(Document(text, (Block("paragraph", 0, 1), Block("paragraph", 13, 14)))) == [
        (0, 12),
        (13, 14),
    ]
    assert units(Document("a\n\nb")) == [(0, 1), (3, 4)]
    assert units(Document("")) == []
