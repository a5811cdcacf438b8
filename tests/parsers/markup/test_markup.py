"""reStructuredText, AsciiDoc, Org and LaTeX: the document is the source, and blocks are ranges of it."""

import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.model import Blob, Document
from ingestor.ports import Parser
from ingestor.registry import Options, find
from tests.examples import examples
from tests.parsers.laws import is_covered, obeys_laws, texts

PARSERS: dict[str, Parser] = {
    kind: find("parsers", kind).build(Options()) for kind in ("rst", "asciidoc", "org", "latex")
}

GOLDEN = Path(__file__).parents[1] / "golden"
SOURCES = [(GOLDEN / f"study.{kind}").read_text("utf-8") for kind in ("rst", "adoc", "org", "tex")]
formats = pytest.mark.parametrize("kind", PARSERS)


def parse(kind: str, source: str) -> Document:
    document = obeys_laws(PARSERS[kind], Blob(source.encode(), f"a.{kind}"))
    assert document is not None
    assert document.text == source
    return document


def code(kind: str, source: str) -> list[tuple[str | None, str]]:
    document = parse(kind, textwrap.dedent(source))
    pairs = zip(document.blocks, texts(document), strict=True)
    return [(block.language, text) for block, text in pairs if block.kind == "code"]


@pytest.mark.parametrize(
    ("kind", "source", "expected"),
    [
        ("rst", ".. highlight:: c\n\nSo::\n\n  int x;\n\nEnd", [("c", "  int x;")]),
        ("rst", ".. class:: A\n\n   So::\n\n      x\n\n   End", [(None, "      x")]),
        ("rst", ".. note::\n\n   no code", []),
        ("rst", "Quote:\n\n   no code", []),
        ("asciidoc", "[source,c]\nint x;\n\nend", [("c", "[source,c]\nint x;")]),
        ("asciidoc", "----\nnever closed\n\n== x", [(None, "----\nnever closed\n\n== x")]),
        ("asciidoc", "```ruby\nx\n```", [("ruby", "```ruby\nx\n```")]),
        ("org", "#+begin_src c\nnever closed", []),
        ("latex", "\\begin{lstlisting}[caption=x, language=C]\nx\n\\end{lstlisting}",
         [("c", "\\begin{lstlisting}[caption=x, language=C]\nx\n\\end{lstlisting}")]),
        ("latex", "\\begin{verbatim}\nnever closed", []),
    ],
)  # fmt: skip
def test_code_block_ends_with_its_indentation(
    kind: str, source: str, expected: list[tuple[str | None, str]]
) -> None:
    assert code(kind, source) == expected


@pytest.mark.parametrize(
    ("source", "titles"),
    [
        ("A\n=\n\nB\n-\n\nC\n=\n", ["A", "B", "C"]),
        ("日本\n====\n", ["日本"]),
        ("Too long a title\n===\n", []),
        ("A long title\n=====\n", ["A long title"]),
        ("text\nTitle\n=====\n", []),
        (" indented\n=========\n", []),
        ("====\n Up\n====\n", ["Up"]),
        ("====\n----\n====\n", []),
    ],
)
def test_restructuredtext_titles_become_headings(source: str, titles: list[str]) -> None:
    assert [block.title for block in parse("rst", source).blocks if block.kind == "heading"] == titles


@formats
@pytest.mark.parametrize(
    "source",
    [
        "x " * 75_000,
        " " * 2000 + "x",
        ":" * 50_000,
        "=" * 50_000,
        "= a" + " " * 50_000 + "b",
        "\\begin{a}" * 12_500,
        "\\begin{itemize}\n" * 12_500,
        "\\section{" * 5_000,
        "\\begin{lstlisting}[" * 5_000,
        "#+begin_src\n" * 12_500,
        ":drawer:\n" * 12_500,
        "----\n....\n" * 5_000,
        "[source]\n" * 12_500,
        "".join(f"{' ' * min(i, 400)}.. note::\n\n" for i in range(3000)),
        "".join(f"{' ' * min(i, 400)}- a\n\n" for i in range(3000)),
        "=== ===\n" * 5_000,
        "a\n=\n" * 5_000,
        "x::\n\n" * 5_000,
        "\n" * 25_000 + " x",
        ".. a::\n" * 5_000,
        "`" * 25_000 + "\n" + "=" * 25_000,
        "(" * 2_500 + "{" * 2_500 + "[" * 2_500,
    ],
    ids=range(22),
)
def test_absurd_sources_are_covered(kind: str, source: str) -> None:
    is_covered(PARSERS[kind], source, f"a.{kind}")


LINES = sorted({line for source in SOURCES for line in source.split("\n")} | {"\t", "  x", "\x0c", "日本"})
sources = st.lists(st.tuples(st.sampled_from(LINES), st.sampled_from(["\n", "\r\n", "\r"])).map("".join)).map(
    "".join
)


@formats
@examples(100)
@given(source=sources)
def test_laws_hold_for_any_lines(kind: str, source: str) -> None:
    parse(kind, source)


@formats
@given(data=st.binary(max_size=200))
def test_laws_hold_for_any_bytes(kind: str, data: bytes) -> None:
    obeys_laws(PARSERS[kind], Blob(data, "a"))
