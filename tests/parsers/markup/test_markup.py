"""reStructuredText, AsciiDoc, Org and LaTeX: the document is the source, and blocks are ranges of it."""

import textwrap

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

RST = """\
.. _start:

=======
A study
=======

:Author: Ada
:Date: 2024-01-02

Intro with ``code``::

    literal

    more

1. Using :class:`~a.B` and `text <http://x>`_
=============================================

- one
    nested

- two

.. code-block:: python
   :linenos:

   x = 1

.. function:: f(x) -> int
   :module: m

   It does f.

   >>> f(1)
   1

.. note:: mind
   this.

=====  =====
A      B
=====  =====
1      2
=====  =====

+---+---+
| a | b |
+---+---+

.. [1] A footnote.
.. A comment

   goes on

..

   A quotation.

----

Sub
---
End
"""

ADOC = """\
= A study
Ada Bo <ada@example.org>; Cy
v1.0, 2024-01-02
:lang: en

Intro.

== First *part*

.Listing
[source,python]
----
== no heading
----

* one
+
----
joined
----
* two

|===
|a |b

|1 |2
|===

[quote]
____
said
____

====
An example with prose.
====

// hidden

Older title
~~~~~~~~~~~

 literal

NOTE: mind.
"""

ORG = """\
#+TITLE: A study
#+AUTHOR: Ada
#+DATE: 2024-01-02
#+LANGUAGE: de

* TODO [#A] First [[http://x][link]] :tag:
:PROPERTIES:
:ID: 1
:END:
Text
** Sub
#+BEGIN_SRC python :results
* no heading
#+END_SRC
| a | b |
|---+---|
- one
  - nested

- two
# hidden
: fixed
#+begin_quote
said
#+end_quote
-----
End
[fn:1] A note
that goes on
[fn:two] Another
"""

LATEX = r"""
\documentclass{article}
\title{A \emph{study}\thanks{To B.}}
\author{Ada \and Bo}
\date{2024}
\begin{document}
\maketitle
% hidden
\section*{First~part \label{sec:a}}
Text
\begin{itemize}
\item one
\begin{enumerate} \item two \end{enumerate}
\end{itemize}
\subsection[short]{A title
of two lines}
\begin{minted}{python}
\section{no}
\end{itemize}
\end{minted}
\begin{equation*}
x = 1
\end{equation*}
\begin{abstract}
Prose.

\begin{tabular}{ll}
a & b \\
\end{tabular}
\end{abstract}
\end{document}
"""

EXPECTED = {
    "rst": [
        "label", "heading", "list", "paragraph", "code", "heading", "list", "code", "definition",
        "paragraph", "code", "paragraph", "table", "table", "footnote", "comment", "comment",
        "paragraph", "rule", "heading", "paragraph",
    ],
    "asciidoc": [
        "heading", "paragraph", "front_matter", "paragraph", "heading", "code", "list", "table", "quote",
        "delimiter", "paragraph", "delimiter", "comment", "heading", "code", "paragraph",
    ],
    "org": [
        "front_matter", "heading", "properties", "paragraph", "heading", "code", "table", "list", "comment",
        "code", "quote", "rule", "paragraph", "footnote", "footnote",
    ],
    "latex": [
        "front_matter", "paragraph", "comment", "heading", "paragraph", "list", "heading", "code", "math",
        "paragraph", "table", "paragraph",
    ],
}  # fmt: skip
HEADINGS = {
    "rst": [(1, "A study", None), (2, "1. Using B and text", "1"), (3, "Sub", None)],
    "asciidoc": [(1, "A study", None), (2, "First *part*", None), (3, "Older title", None)],
    "org": [(1, "First link", None), (2, "Sub", None)],
    "latex": [(3, "First part", None), (4, "A title of two lines", None)],
}
SOURCES = {"rst": RST, "asciidoc": ADOC, "org": ORG, "latex": LATEX}
ABOUT = {
    "rst": ("A study", None, {"author": "Ada", "date": "2024-01-02"}),
    "asciidoc": ("A study", "en", {"author": "Ada Bo, Cy", "date": "2024-01-02"}),
    "org": ("A study", "de", {"author": "Ada", "date": "2024-01-02"}),
    "latex": ("A study", None, {"author": "Ada, Bo", "date": "2024"}),
}
formats = pytest.mark.parametrize("kind", PARSERS)


def parse(kind: str, source: str) -> Document:
    document = obeys_laws(PARSERS[kind], Blob(source.encode(), f"a.{kind}"))
    assert document is not None
    assert document.text == source
    return document


@formats
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_every_kind_of_block(kind: str, newline: str) -> None:
    document = parse(kind, SOURCES[kind].replace("\n", newline))
    assert [block.kind for block in document.blocks] == EXPECTED[kind]


@formats
def test_headings_know_level_title_and_number(kind: str) -> None:
    headings = [b for b in parse(kind, SOURCES[kind]).blocks if b.kind == "heading"]
    assert [(b.level, b.title, b.number) for b in headings] == HEADINGS[kind]


@formats
def test_facts_of_the_document_are_read(kind: str) -> None:
    document = parse(kind, SOURCES[kind])
    assert (document.title, document.language, dict(document.extra)) == ABOUT[kind]


@formats
def test_code_knows_its_language(kind: str) -> None:
    languages = [block.language for block in parse(kind, SOURCES[kind]).blocks if block.kind == "code"]
    assert "python" in languages


def code(kind: str, source: str) -> list[tuple[str | None, str]]:
    document = parse(kind, textwrap.dedent(source))
    pairs = zip(document.blocks, texts(document), strict=True)
    return [(block.language, text) for block, text in pairs if block.kind == "code"]


def test_underlined_asciidoc_titles_may_begin_with_a_mark_and_follow_an_anchor() -> None:
    source = (
        "Book\n====\n\n`commit`\n~~~~~~~~\nText.\n\n[[x4]]\nOUTPUT\n------\nMore.\n\n.Call\n----\nx\n----\n"
    )
    blocks = PARSERS["asciidoc"].parse(Blob(source.encode(), "a.adoc")).blocks
    assert [(block.kind, block.title) for block in blocks] == [
        ("heading", "Book"), ("heading", "`commit`"), ("paragraph", None), ("label", None),
        ("heading", "OUTPUT"), ("paragraph", None), ("code", None),
    ]  # fmt: skip


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
def test_titles_of_restructuredtext(source: str, titles: list[str]) -> None:
    assert [block.title for block in parse("rst", source).blocks if block.kind == "heading"] == titles


def test_text_on_the_line_of_a_heading_is_a_paragraph() -> None:
    document = parse("latex", "\\section{A}\\label{sec:a}\n\\paragraph{B} starts here\nand goes on.\n\nEnd")
    assert texts(document) == [
        "\\section{A}\\label{sec:a}",
        "\\paragraph{B}",
        " starts here\nand goes on.",
        "End",
    ]
    assert [block.kind for block in document.blocks] == ["heading", "heading", "paragraph", "paragraph"]


def test_symbols_of_restructuredtext() -> None:
    document = parse("rst", ".. py:method:: A.f(x)\n\n   Text\n")
    assert [block.symbol for block in document.blocks] == ["A.f", None]


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


LINES = sorted(
    {line for source in SOURCES.values() for line in source.split("\n")} | {"\t", "  x", "\x0c", "日本"}
)
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
