"""reStructuredText, AsciiDoc, Org and LaTeX: the document is the source, and blocks are ranges of it."""

from itertools import pairwise
from pathlib import Path

import pytest

from ingestor.model import Document
from ingestor.parsers.markup.latex import plain
from ingestor.text.outline import outline
from ingestor.text.sections import headings
from tests.parsers.laws import kinds, read, texts

GOLDEN = Path(__file__).parents[1] / "golden"


def parse(kind: str, source: str) -> Document:
    document = read(source, f"a.{kind}")
    assert document.text == source
    return document


def test_code_block_ends_with_its_indentation() -> None:
    for kind, source, expected in [
        ("rst", ".. highlight:: c\n\nSo::\n\n  int x;\n\nEnd", [("c", "  int x;")]),
        ("rst", ".. class:: A\n\n   So::\n\n      x\n\n   End", [(None, "      x")]),
        ("rst", ".. note::\n\n   no code", []),
        ("rst", "Quote:\n\n   no code", []),
        ("adoc", "[source,c]\nint x;\n\nend", [("c", "[source,c]\nint x;")]),
        ("adoc", "----\nnever closed\n\n== x", [(None, "----\nnever closed\n\n== x")]),
        ("adoc", "```ruby\nx\n```", [("ruby", "```ruby\nx\n```")]),
        ("org", "#+begin_src c\nnever closed", []),
        ("tex", "\\begin{lstlisting}[caption=x, language=C]\nx\n\\end{lstlisting}",
         [("c", "\\begin{lstlisting}[caption=x, language=C]\nx\n\\end{lstlisting}")]),
        ("tex", "\\begin{verbatim}\nnever closed", []),
    ]:  # fmt: skip
        document = parse(kind, source)
        pairs = zip(document.blocks, texts(document), strict=True)
        assert [(block.language, text) for block, text in pairs if block.kind == "code"] == expected


def test_restructuredtext_titles_become_headings() -> None:
    for source, titles in [
        ("A\n=\n\nB\n-\n\nC\n=\n", ["A", "B", "C"]), ("日本\n====\n", ["日本"]),
        ("Too long a title\n===\n", []),
        ("A long title\n=====\n", ["A long title"]), ("text\nTitle\n=====\n", []),
        (" indented\n=========\n", []), ("====\n Up\n====\n", ["Up"]), ("====\n----\n====\n", []),
    ]:  # fmt: skip
        assert [block.title for block in parse("rst", source).blocks if block.kind == "heading"] == titles


def test_accents_become_their_letters() -> None:
    for markup, text in [
        (r"G\"odel and G\"{o}del", "Gödel and Gödel"), (r"Erd\H{o}s, Erd\H os", "Erdős, Erdős"),
        (r"\v{C}ech, \v Cech", "Čech, Čech"), (r"na\"{\i}ve, na\"\i ve", "naïve, naïve"),
        (r"\'Etude \`a la fran\c{c}aise", "Étude à la française"),
        (r"Stra\ss e, \O{}re, \AA ngstr\"om, {\L}\'od\'z", "Straße, Øre, Ångström, Łódź"),
        (r"El Ni\~no~2", "El Niño 2"), (r"\u{g} \k{a} \r{u} \.{z} \={a}", "ğ ą ů ż ā"),
        (r"\textbf{M\"uller} \& co", "Müller & co"), (r"\url{x} \vec x \cdot \bf y", "x x y"),
    ]:  # fmt: skip
        assert plain(markup) == text


def test_comment_of_asciidoc_ends_before_a_delimiter() -> None:
    document = read("// a\n////\n= No\n////\n= Title\nAda\n\ntext", "a.adoc")
    assert kinds(document) == [
        ("comment", "// a"), ("comment", "////\n= No\n////"), ("heading", "= Title"), ("paragraph", "Ada"),
        ("paragraph", "text"),
    ]  # fmt: skip
    assert (document.title, dict(document.extra)) == ("Title", {"author": "Ada"})


@pytest.mark.parametrize("end", ["rst", "md", "adoc", "org", "tex"])
def test_section_begins_with_the_labels_and_comments_above_its_heading(end: str) -> None:
    document = read((GOLDEN / f"labels.{end}").read_bytes(), f"a.{end}")
    leads = ("label", "comment", "heading")
    firsts = [two for one, two in pairwise(document.blocks) if two.kind in leads and one.kind not in leads]
    assert [heading.start for heading in headings(document)] == [block.start for block in firsts]
    lines = outline(document)
    assert [lines.section(block.start) for block in firsts] == [*range(1, len(firsts) + 1)]
