"""Where sections begin, and their parts."""

import re

import pytest

from ingestor.model import Block, Document
from ingestor.text.sections import headings, sections, units


def test_labels_before_a_heading_begin_its_section() -> None:
    blocks = (Block("paragraph", 0, 2), Block("label", 3, 8), Block("heading", 9, 14, level=2))
    (heading,) = headings(Document("So\n_one:\nTitle", blocks))
    assert (heading.start, heading.end, heading.level) == (3, 14, 2)


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
    blocks = tuple(
        Block("heading", match.start(), match.end(), level=2 if match[1] else 1)
        for match in re.finditer(r"\\(sub)?section\{.\}", text)
    )
    document = Document(text, blocks)
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
