"""Texts that parsers, chunkers and rules for sentences may choke on."""

import json
import random

from tests.corpus.case import Case, Make, files
from tests.hostile import LAUGHS, SPY

_WORDS = "a few words of text "


def _notebook(**more: object) -> bytes:
    cell = {"cell_type": "code", "source": ["x"], "outputs": [], "metadata": {}} | more
    return json.dumps({"nbformat": 4, "metadata": {}, "cells": [cell]}).encode()


def _deep(opening: str, closing: str = "", depth: int = 100_000, middle: str = "text") -> Make:
    return lambda: (opening * depth + middle + closing * depth).encode()


def _repeated(text: str, times: int = 100_000, before: str = "", after: str = "") -> Make:
    return lambda: (before + text * times + after).encode("utf-8", "surrogatepass")


def _laughing(levels: int) -> str:
    names = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, levels))
    return f"a0: &a0 [ha, ha]\n{names}"


_TREES: dict[str, Make] = {
    "deep.html": _deep("<div>", "</div>", 40_000),
    "deeper.html": _deep("<div>", depth=300_000),
    "unclosed.html": _deep("<b><i><a href=x><p>"),
    "tables.html": _deep("<table><tr><td>", depth=20_000),
    "attribute.html": _repeated("a" * 100, before='<p title="', after='">text</p>'),
    "attributes.html": lambda: ("<p " + " ".join(f"a{n}=b" for n in range(300_000)) + ">text").encode(),
    "angles.html": _repeated("<", 5_000_000),
    "comments.html": _repeated("<!-- ", 1_000_000),
    "entities.html": _repeated("&#x10ffff;&#0;&nosuch;&#99999999999;"),
    "spans.html": lambda: b'<table><tr><td colspan="999999999" rowspan="999999999">a</td></tr></table>' * 500,
    "lists.html": _deep("<ul><li>a", depth=20_000),
    "headings.html": _repeated("<h1>a</h1>", 200_000),
    "deep.xml": _deep("<a>", "</a>"),
    "laughs.xml": lambda: f"{LAUGHS}<x>&b;</x>".encode(),
    "spy.xml": lambda: f"{SPY}<x>&b;</x>".encode(),
    "attribute.xml": _repeated("a" * 100, before='<x y="', after='"/>'),
    "siblings.xml": _repeated("<a/>", 2_000_000, "<x>", "</x>"),
    "deep.json": _deep("[", "]", 2_000_000, ""),
    "deep-objects.json": _deep('{"a":', "}", 200_000, "1"),
    "number.json": _repeated("9", 5_000_000),
    "numbers.json": lambda: b'[1e999999999, -0, 1E-9999999, NaN, Infinity, "\\ud800"]' * 1,
    "same-keys.json": _repeated('"a":1,', 500_000, "{", '"a":2}'),
    "lines.jsonl": lambda: (b"[" * 20_000 + b"\n") * 200,
    "aliases.yaml": lambda: _laughing(10).encode(),
    "loop.yaml": lambda: b"a: &a\n  b: *a\n  <<: *a\n",
    "object.yaml": lambda: b'!!python/object/apply:os.system ["touch /tmp/owned"]\n',
    "deep.yaml": _deep("[", "]", 50_000),
    "deep-blocks.yaml": lambda: "".join(" " * n + "a:\n" for n in range(3000)).encode(),
    "deep.toml": _deep("[", "]", 50_000, "a = 1"),
    "dotted.toml": lambda: ("a." * 100_000 + "b = 1").encode(),
    "deep-array.toml": lambda: b"a = " + b"[" * 100_000 + b"]" * 100_000,
    "!deep.ipynb": lambda: b'{"nbformat": 4, "cells": ' + b"[" * 500_000 + b"]" * 500_000 + b"}",
    "odd-types.ipynb": lambda: _notebook(source={"a": 1}, outputs="no list", metadata=[1]),
    "crowd.ipynb": lambda: _notebook(outputs=[{"output_type": "stream", "text": [_WORDS] * 300_000}]),
}
_MARKUP: dict[str, Make] = {
    "brackets.md": _repeated("["),
    "pairs.md": _repeated("[a](", 50_000),
    "images.md": _repeated("![[]()", 50_000),
    "emphasis.md": _repeated("*a **a ", 50_000),
    "ticks.md": lambda: "".join("`" * n + "a" for n in range(2000)).encode(),
    "quotes.md": _deep(">", depth=50_000),
    "lists.md": lambda: "".join(" " * (2 * n) + "- a\n" for n in range(2000)).encode(),
    "references.md": lambda: "".join(f"[a{n}]: b\n" for n in range(50_000)).encode() + b"[a1]" * 50_000,
    "columns.md": lambda: b"|a" * 20_000 + b"\n" + b"|-" * 20_000 + b"\n" + (b"|b" * 20_000 + b"\n") * 20,
    "tags.md": _repeated("<a ", 200_000),
    "autolinks.md": _repeated("<http://a", 100_000),
    "headings.md": _repeated("###### a\n", 100_000),
    "front.md": lambda: b"---\n" + _laughing(9).encode() + b"---\ntext\n",
    "lines.rst": _repeated("=" * 9 + "\n", 200_000),
    "roles.rst": _repeated(":a:`b <", 100_000),
    "marks.rst": _repeated("*`|_", 200_000),
    "stars.org": _deep("*", depth=500_000, middle=" heading"),
    "drawers.org": _repeated(":PROPERTIES:\n", 100_000),
    "blocks.org": _repeated("#+BEGIN_SRC a\n"),
    "braces.tex": _deep("{", depth=500_000),
    "begins.tex": _deep("\\begin{a}\n", "\\end{a}\n", 50_000),
    "sections.tex": _repeated("\\section{", 100_000),
    "dollars.tex": _repeated("$", 500_001),
    "blocks.adoc": _repeated("----\n====\n|===\n", 50_000),
    "marks.adoc": _repeated("[[a,<<", 100_000),
    "line.csv": _repeated("a,", 5_000_000),
    "quote.csv": _repeated("a,b\n", 500_000, before='"'),
    "quotes.csv": _repeated('"', 2_000_001),
    "nul.csv": lambda: b"a,b\n1,\x00\n" * 5000,
    "ragged.csv": lambda: b"".join(b"a," * (n % 500) + b"\n" for n in range(5000)),
    "cues.srt": lambda: b"1\n99:99:99,999 --> 00:00:00,000\ntext\n\n" * 50_000,
    "arrows.vtt": _repeated("-->", 500_000, before="WEBVTT\n\n"),
    "line.py": _repeated("x = 1; ", 150_000),
    "parentheses.py": _deep("(", ")", 200_000, "1"),
    "functions.py": lambda: "".join(" " * n + f"def f{n}():\n" for n in range(1500)).encode(),
    "string.py": _repeated("a = '''", 100_001),
    "arrows.js": _deep("a=>(", ")", 100_000, "1"),
    "minified.js": _repeated("function a(){return b?c:d};", 40_000),
    "templates.cpp": _deep("a<", ">", 100_000, "b"),
    "ifs.c": _deep("#if 1\n", "#endif\n", 30_000, "int a;\n"),
    "here.sh": _repeated("cat <<A\n", 50_000),
    "deep.rs": _deep("{", "}", 100_000, "1"),
}
_PLAIN: dict[str, Make] = {
    "combining.txt": _repeated("\u0301\u0489", 300_000),
    "zalgo.txt": lambda: ("a" + "\u0301" * 500).encode() * 1000,
    "right.txt": _repeated("\u202eabc\u2066 \u05d0\u0628 ", 50_000),
    "emoji.txt": _repeated("👨\u200d👩\u200d👧\u200d", 50_000),
    "nul.txt": lambda: bytes(1_000_000),
    "some-nul.txt": lambda: b"text " * 3000 + b"\0" + b"text " * 3000,
    "marks.txt": lambda: b"\xef\xbb\xbf" * 300_000,
    "mark-16.txt": lambda: b"\xff\xfe" * 300_000,
    "lone-16.txt": lambda: b"\xff\xfe" + b"\x00\xd8a\x00" * 100_000,
    "lone-16-big.txt": lambda: b"\xfe\xff" + b"\xdc\x00\xd8\x00" * 100_000,
    "odd-16.txt": lambda: b"\xff\xfe" + "text ".encode("utf-16-le") * 9999 + b"a",
    "large-32.txt": lambda: b"\xff\xfe\x00\x00" + b"\xff\xff\xff\x7f" * 100_000,
    "overlong.txt": lambda: b"\xc0\xaf\xe0\x80\xaf\xf8\x88\x80\x80\x80" * 50_000,
    "utf-7.txt": lambda: b"+ADw-script+AD4-" * 50_000,
    "random.txt": lambda: bytes(random.Random(3).choices(range(1, 256), k=500_000)),
    "one-word.txt": _repeated("a", 5_000_000),
    "no-space.txt": _repeated("漢字", 300_000),
    "lines.txt": _repeated("\n", 5_000_000),
    "blank.txt": _repeated(" \t\u00a0\u3000", 500_000),
    "returns.txt": _repeated("a\r", 300_000),
    "separators.txt": _repeated("a\u2028b\u2029c\x85\x0b\x0c", 100_000),
    "dots.txt": _repeated(".", 2_000_000),
    "initials.txt": _repeated("A.", 300_000),
    "questions.txt": _repeated('?!."\u201d)', 200_000),
    "escapes.txt": _repeated("\x1b]0;title\x07\x1b[2J", 50_000),
    "base64.txt": _repeated("QUJD" * 19 + "\n", 10_000),
}


def cases() -> list[Case]:
    return [*files(_TREES), *files(_MARKUP), *files(_PLAIN)]
