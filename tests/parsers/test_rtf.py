from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingestor.model import Blob, Document
from ingestor.parsers.rtf import tokens as tokens_module
from ingestor.parsers.rtf.parser import PLUGIN
from ingestor.parsers.rtf.tokens import tokens
from ingestor.registry import Options
from tests.parsers.laws import obeys_laws, texts

PARSER = PLUGIN.build(Options())
SOURCE = (
    rb"{\rtf1\ansi\ansicpg1252{\info{\title A study}{\author Ada}}{\fonttbl\f0 Arial;}"
    rb"Caf\'e9 \u26085?\par Second {\b bold} line\par"
    rb"\trowd a\cell b\cell\row\trowd 1\cell 2\cell\row\pard end}"
)
MANUAL = Path(__file__).parent / "manual.rtf"  # as Word writes it, shortened


def read(source: bytes) -> Document:
    document = obeys_laws(PARSER, Blob(source, "a.rtf"))
    assert document is not None
    return document


def said(source: bytes) -> list[str]:
    return texts(read(rb"{\rtf1\ansi " + source + b"}"))


def test_paragraphs_and_tables() -> None:
    document = read(SOURCE)
    assert texts(document) == ["Café 日", "Second bold line", "| a | b |\n| --- | --- |\n| 1 | 2 |", "end"]
    assert [block.kind for block in document.blocks] == ["paragraph", "paragraph", "table", "paragraph"]
    assert (document.title, document.extra) == ("A study", (("author", "Ada"),))


def test_a_manual_as_word_writes_it() -> None:
    document = read(MANUAL.read_bytes())
    shown = [
        (block.kind, block.level, text) for block, text in zip(document.blocks, texts(document), strict=True)
    ]
    assert shown == [
        ("heading", 1, "The Great Pump"),
        ("heading", 1, "1 Introduction"),
        (
            "paragraph",
            0,
            "Water weighs 10³\xa0kg, see [the pump site](https://example.com/pumps).[^1] Hidden text.",
        ),
        ("footnote", 0, "[^1]: A note on pumps."),
        ("heading", 2, "Details"),
        ("list", 0, "- First\n  - Nested\na) Lettered"),
        ("heading", 1, "Inherited chapter"),
        ("quote", 0, "To pump or not."),
        ("code", 0, "def f():\n\n    return 1"),
        ("paragraph", 0, "Привет 日本 smile 😀“q”"),
        ("table", 0, "| A | B more |\n| --- | --- |\n| 1 | 2 |"),
        ("paragraph", 0, "Last  words."),
        ("paragraph", 0, "In a box"),
    ]
    assert document.blocks[1].number == "1"
    assert document.title == "Pump manual"
    assert document.extra == (
        ("author", "Jörg"),
        ("created", "2024-01-31T12:05:00"),
        ("modified", "2024-02-01T00:00:00"),
    )


def test_headings_by_outline_level_alone_and_lists_by_their_marks() -> None:
    source = (
        rb"{\pard \outlinelevel1 \b Deeper\par}{\pard\li360\fi-360 \bullet \tx360\tab One\par}"
        rb"{\pard\li720 \endash \tab In it\par}{\pard\li360 2.\tab Two\par}{\pard\outlinelevel9 Text\par}"
    )
    document = read(rb"{\rtf1 " + source + b"}")
    assert [(block.kind, block.level) for block in document.blocks] == [
        ("heading", 2),
        ("list", 0),
        ("paragraph", 0),
    ]
    assert texts(document) == ["Deeper", "- One\n  - In it\n2. Two", "Text"]


def test_what_stands_for_a_character_that_is_not_understood_is_left_out() -> None:
    assert said(rb"\uc2 a\u960 pib{\uc0 \u960 c}\u960 \'70id\uc1\u8211-e") == ["aπbπcπd–e"]


def test_cells_of_one_row_in_groups_and_of_tables_apart() -> None:
    row = rb"{\trowd\intbl{{{\pard\intbl %b\par}\cell}{{\pard\intbl %b\par}\cell}}\intbl\row}"
    source = row % (b"a", b"b") + row % (b"1", b"2") + rb"\pard between\par" + row % (b"c", b"d")
    assert said(source) == ["| a | b |\n| --- | --- |\n| 1 | 2 |", "between", "| c | d |\n| --- | --- |"]


PARTS = (
    *(r"\par", r"\'e9", r"\u8211 ", "{", "}", r"\{", r"\}", r"\\", "\\"),
    *("-3", "12", "text ", " ", "\n", "\r\n"),
)


@given(st.lists(st.sampled_from(PARTS)))
def test_it_does_not_matter_where_tokens_are_divided(parts: list[str]) -> None:
    source = "".join(parts)
    whole = [*filter(any, tokens(source))]
    for piece in range(5):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tokens_module, "_PIECE", piece)
            assert [*filter(any, tokens(source))] == whole


WORDS = (
    rb"\par |{|}|\'e9|\u-10000?|\bin9 |a|\cell|\row|\*|\field|{\footnote |{\stylesheet{\s1 heading 1;}}|\s1 "
    rb"|\fldinst |{\listtext 1\tab}|\ansicpg932 |\'8a|{\info{\title |\v |\super 2|\shptxt |\intbl "
).split(b"|")


@settings(max_examples=200)
@given(st.lists(st.sampled_from(WORDS)).map(b"".join))
def test_laws_hold_for_any_rtf(source: bytes) -> None:
    obeys_laws(PARSER, Blob(b"{\\rtf1 " + source, "a.rtf"), sound=False)
