import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.model import Blob, Block
from ingestor.parsers.text import PLUGIN
from ingestor.registry import Options
from tests.parsers.laws import obeys_laws, texts

PARSER = PLUGIN.build(Options())
lines = st.sampled_from(
    ["", " ", "\t", "word", "  indented", "x \x0c", "\x0c", "\u2028", "日本", "\u3000", "a\x0bb"]
)
sources = st.lists(st.tuples(lines, st.sampled_from(["\n", "\r\n", "\r"])), max_size=20)


@pytest.mark.parametrize(
    ("source", "paragraphs"),
    [
        ("", []),
        (" \n\t\n", []),
        ("one\ntwo\n\nthree\n", ["one\ntwo", "three"]),
        ("\n\n  indented\n more  \n \t \nnext", ["  indented\n more", "next"]),
        ("a\r\nb\r\n\r\nc", ["a\r\nb", "c"]),
        ("a\rb\r\rc", ["a\rb", "c"]),
        ("a\n\r\nb", ["a", "b"]),
        ("page one\n\x0c\npage two", ["page one", "page two"]),
        ("a\u2028\u2028b", ["a\u2028\u2028b"]),
    ],
)
def test_paragraphs_lie_between_blank_lines(source: str, paragraphs: list[str]) -> None:
    assert texts(PARSER.parse(Blob(source.encode(), "a.txt"))) == paragraphs


@pytest.mark.parametrize(
    ("name", "content_type", "block"),
    [
        ("a.txt", "text/plain", Block("paragraph", 0, 5)),
        ("a.rst", "text/x-rst", Block("paragraph", 0, 5)),
        ("a.py", "text/x-python", Block("code", 0, 5, language="python")),
        ("a.json", "application/json", Block("code", 0, 5, language="json")),
    ],
)
def test_code_and_prose_are_distinguished(name: str, content_type: str, block: Block) -> None:
    document = PARSER.parse(Blob(b"x = 1\n", name))
    assert document.content_type == content_type
    assert document.blocks == (block,)


def test_line_of_megabytes_is_one_paragraph() -> None:
    document = PARSER.parse(Blob(b"word " * 1_000_000, "a.txt"))
    assert document.blocks == (Block("paragraph", 0, 4_999_999),)


@given(sources, st.sampled_from(["utf-8", "utf-16"]))
def test_laws_hold_for_any_lines(source: list[tuple[str, str]], encoding: str) -> None:
    text = "".join(line + end for line, end in source)
    document = obeys_laws(PARSER, Blob(text.encode(encoding), "a.txt"))
    assert document is not None
    assert document.text == text


@given(st.binary(max_size=400))
def test_laws_hold_for_any_bytes(data: bytes) -> None:
    obeys_laws(PARSER, Blob(data, "a"))
