"""What names the text after it is a ``label`` or a ``comment``, in every format; all else is none."""

import pytest

from ingestor.model import Blob, Document
from ingestor.text.outline import outline
from ingestor.text.sections import headings
from tests.parsers.laws import parser

LABELS = {
    "rst": [
        ".. _a-label:", ".. _`a: label`:", ".. setting:: DEBUG", ".. index::\n   single: pump\n   pair: a; b",
        ".. index:: single: pump", ".. module:: a.b\n   :synopsis: Of pumps.", ".. py:currentmodule:: a.b",
        ".. highlight:: c", ".. cssclass:: wide\n\n.. _inner:",
    ],
    "markdown": [
        '<a name="x"></a>', "<a id='x'></a> <a id='y'></a>", '<a name="x"/>', "<!-- a --> <a id=x></a>",
        "(a-label)=",
    ],
    "asciidoc": ["[[a-label]]", "[#a-label]\n[role=wide]"],
    "org": ["#+NAME: pumps\n#+CAPTION: All of them", "<<a-label>>", "#+ATTR_HTML: :width 3"],
    "latex": [r"\phantomsection\label{a}", "\\clearpage\n\\index{pump}", r"\hypertarget{a}{%", r"\label{a}%"],
}  # fmt: skip
COMMENTS = {
    "rst": [".. of pumps", "..\n   of pumps\n\n   and more"],
    "markdown": ["<!-- of pumps -->", "<!-- a -->\n<!-- b -->"],
    "asciidoc": ["// of pumps", "////\nof pumps\n////"],
    "org": ["# of pumps"],
    "latex": ["% of pumps\n% and more"],
}
NONE = {
    "rst": [
        ".. _a link: https://example.org", ".. _other: label_", "__ https://example.org",
        ".. function:: f(x)", ".. py:method:: f(x)", ".. setting:: DEBUG\n\n   It has a body.",
        ".. versionadded:: 3.2", ".. note:: mind", ".. image:: a.png", ".. automodule:: a\n   :members:",
        ".. toctree::\n\n   a", ".. [1] A footnote.",
    ],
    "markdown": ['<a name="x">text</a>', "<b></b>", "(a label)=", "<a id=x></a> text", "<!-- a --> text"],
    "asciidoc": [".A title\ntext", "[[a]]text"],
    "org": ["#+TITLE: Pumps", "<<a>> text"],
    "latex": [r"\label{a} text", "text\n\\index{pump}", r"\include{a}"],
}  # fmt: skip
HEADING = {
    "rst": "Title\n=====",
    "markdown": "# Title",
    "asciidoc": "== Title",
    "org": "* Title",
    "latex": r"\section{Title}",
}


def parsed(kind: str, source: str) -> Document:
    return parser(kind).parse(Blob(source.encode(), f"a.{kind}"))


def cases(table: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(kind, source) for kind, sources in table.items() for source in sources]


def kinds_above_a_heading(kind: str, source: str) -> set[str]:
    """Of the blocks between a paragraph and a heading, which must begin the section unless they are none."""
    text = f"Before.\n\n{source}\n\n{HEADING[kind]}\n\nAfter.\n"
    document = parsed(kind, text)
    found = {block.kind for block in document.blocks[1:-2]}
    (heading,) = headings(document)
    begins = text.index(source if found <= {"label", "comment"} else HEADING[kind])
    assert heading.start == begins
    lines = outline(document)
    assert (lines.section(begins - 1), lines.section(begins)) == (0, 1)
    return found


@pytest.mark.parametrize(("kind", "source"), cases(LABELS))
def test_label_above_a_heading_belongs_to_it(kind: str, source: str) -> None:
    assert kinds_above_a_heading(kind, source) == {"label"}


@pytest.mark.parametrize(("kind", "source"), cases(COMMENTS))
def test_comment_above_a_heading_stays_a_comment(kind: str, source: str) -> None:
    assert kinds_above_a_heading(kind, source) == {"comment"}


@pytest.mark.parametrize(("kind", "source"), cases(NONE))
def test_label_on_its_own_belongs_to_the_section_before(kind: str, source: str) -> None:
    assert not kinds_above_a_heading(kind, source) & {"label", "comment"}


def test_label_behind_a_heading_is_in_its_section() -> None:
    document = parsed("latex", "\\section{One}\n\\label{one}\nText.\n")
    assert [block.kind for block in document.blocks] == ["heading", "label", "paragraph"]
    assert [heading.end for heading in headings(document)] == [document.text.index("\n")]
