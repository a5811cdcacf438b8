"""The format's own units."""

import ast
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from ingestor.chunkers.by_type import build_chunker
from ingestor.chunkers.structure import PLUGIN
from ingestor.model import Block, Document
from ingestor.ports import BadDocument
from ingestor.registry import find
from ingestor.text.code_units import GRAMMARS
from ingestor.text.context import contexts
from tests.chunkers.golden import FOLDER
from tests.chunkers.laws import FAMILY, TOKENS, cut, fake_embed, laws, parsed
from tests.examples import every

TestStructureOfText = laws(PLUGIN, {"max_tokens": 40})


class TestStructureOfMarkdown(TestStructureOfText):
    def document(self, text: str) -> Document:
        try:
            return parsed(text)
        except BadDocument:  # too many control characters
            return Document(text)


class TestStructureOfCode(TestStructureOfText):
    """Text that is no code at all must survive too."""

    local = False  # an unclosed bracket may change how a grammar reads all before it

    def document(self, text: str) -> Document:
        return Document(text, content_type="text/x-python")


class TestStructureOfUnknownCode(TestStructureOfText):
    def document(self, text: str) -> Document:
        return Document(text, content_type="text/x-fortran")


def texts(document: Document, **options: Any) -> list[str]:
    return [chunk.text for chunk in cut(PLUGIN, document, **options)]


def symbols(document: Document, **options: Any) -> list[object]:
    return [dict(chunk.extra).get("symbol") for chunk in cut(PLUGIN, document, **options)]


MARKDOWN = """Before any heading.

# One

Text of one.

## One A

Text of one A.

# Two

## Two A

Text of two A.
"""
BEFORE, AT_TWO = "Before any heading.", MARKDOWN.index("# Two")


def test_sections_of_prose_are_cut_at_headings() -> None:
    for options, expected in [
        ({}, [BEFORE, "# One\n\nText of one.", "## One A\n\nText of one A.", MARKDOWN[AT_TWO:].strip()]),
        ({"depth": 1}, [BEFORE, MARKDOWN[21:AT_TWO].strip(), MARKDOWN[AT_TWO:].strip()]),
        ({"min_tokens": 16, "max_tokens": 30}, [MARKDOWN[:AT_TWO].strip(), MARKDOWN[AT_TWO:].strip()]),
        ({"min_tokens": 100}, [MARKDOWN.strip()]),
    ]:
        assert texts(parsed(MARKDOWN), **options) == expected


def test_html_headings_are_headings_whatever_the_parser() -> None:
    text = "Title\nbody of it\nSecond\nand its body"
    blocks = (
        Block("heading", 0, 5, 1), Block("paragraph", 6, 16), Block("heading", 17, 23, 1),
        Block("paragraph", 24, 36),
    )  # fmt: skip
    document = Document(text, blocks, "text/html")
    assert texts(document) == ["Title\nbody of it", "Second\nand its body"]


# Two units a language, named first and Second, that do not fit into one chunk.
UNITS = (FOLDER / "texts/units.txt").read_text("utf-8").split("=== ")[1:]
CODE = {language: code.strip() for language, code in (part.split("\n", 1) for part in UNITS)}


@pytest.mark.parametrize("language", sorted(GRAMMARS))
def test_every_grammar_distinguishes_and_names_units(language: str) -> None:
    first, second = CODE[language].split("\n\n")
    opening = "<?php\n" if language == "php" else ""
    document = Document(f"{opening}{first}\n\n{second}\n", content_type=f"text/x-{language}")
    most = max(TOKENS.count(opening + first), TOKENS.count(second)) + 3
    found = cut(PLUGIN, document, max_tokens=most)
    assert [chunk.text for chunk in found] == [opening + first, second]
    assert [dict(chunk.extra) for chunk in found] == [{"symbol": "first"}, {"symbol": "Second"}]


OWN = every(3, sorted((Path(__file__).parents[2] / "ingestor").rglob("*.py"))[::12])


def statement_spans(text: str) -> list[tuple[int, int]]:
    """The spans of all statements with their decorators; ``elif`` is a clause, no statement."""
    lines = [0, *accumulate(len(line) for line in text.splitlines(keepends=True))]
    tree = ast.parse(text)
    clauses = {
        node.orelse[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and node.orelse and isinstance(node.orelse[0], ast.If)
        and text.startswith("elif", lines[node.orelse[0].lineno - 1] + node.orelse[0].col_offset)
    }  # fmt: skip
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and node not in clauses:
            first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
            found.append((lines[first - 1] + node.col_offset, lines[node.end_lineno or 0]))
    return found


@pytest.mark.parametrize("most", [40, 120, None])
def test_chunk_of_code_begins_in_no_statement_that_fits(most: int | None) -> None:
    """The law of the default, which cuts code by structure, on the program's own source."""
    default = find("chunkers", "changepoint")
    options = default.options(max_tokens=most) if most else default.options()
    most = options.options_of("code").max_tokens
    chunker = build_chunker(default, options, TOKENS)
    for path in OWN:
        text = path.read_text("utf-8")
        if not text.isascii():
            continue
        spans = statement_spans(text)
        chunks = chunker.chunk(parsed(text, path.name), fake_embed, None).chunks
        for chunk in chunks:
            around = [text[a:b] for a, b in spans if a < chunk.start < b]
            torn = [each for each in around if TOKENS.count(each.strip()) <= most]
            assert not torn, (path, chunk.text[:80])
            assert TOKENS.count(chunk.text) <= most
            assert dict(chunk.extra)["picked"] == "structure"


LONG = {  # a function of many statements, each on two lines
    "c": ("int total(int a) {", "  a = call(a,\n           {n});", "}"),
    "go": ("func total(a int) int {", "  a = call(a,\n    {n})", "}"),
    "java": ("class A {\n int total(int a) {", "  a = call(a,\n    {n});", " }\n}"),
    "javascript": ("export const total = async (a) => {", "  a = call(a,\n    {n});", "};"),
    "php": ("<?php\nfunction total($a) {", "  $a = call($a,\n    {n});", "}"),
    "python": ("@cache\ndef total(a):\n  for b in a:", "    a = call(a,\n      {n})", ""),
    "ruby": ("def total(a)", "  a = call(a,\n    {n})", "end"),
    "rust": ("impl A {\n fn total(a: i64) -> i64 {", "  a = call(a,\n    {n});", " }\n}"),
    "typescript": ("class A {\n  total(a: number): number {", "  a = call(a,\n    {n});", "  }\n}"),
}


@pytest.mark.parametrize("language", sorted(LONG))
def test_function_over_the_limit_is_cut_between_statements(language: str) -> None:
    head, statement, end = LONG[language]
    body = "\n".join(statement.replace("{n}", str(number)) for number in range(30))
    document = Document(f"{head}\n{body}\n{end}\n", content_type=f"text/x-{language}")
    first, *others = cut(PLUGIN, document, max_tokens=60)
    assert len(others) > 3
    assert first.text.startswith(head)
    assert [chunk.text for chunk in others if "call(" not in chunk.text.split("\n")[0]] == []
    extra = [dict(chunk.extra) for chunk in others]
    assert all("total" in str(each["symbol"]) for each in extra)
    assert all("total" in str(each["signature"]).split(" > ")[-1] for each in extra)
    assert "signature" not in dict(first.extra)


def test_signature_precedes_chunks_of_a_long_function() -> None:
    body = "\n".join(f"        a = self.call(a, {number})" for number in range(30))
    text = f"class Pump(Base):\n    x = 1\n\n    def give(\n        self, a: int\n    ) -> int:\n{body}\n"
    document = Document(text, content_type="text/x-python")
    chunks = cut(PLUGIN, document, max_tokens=80)
    assert contexts(document, chunks, "headings")[-1] == (
        "class Pump(Base) > def give( self, a: int ) -> int",
    )
    assert contexts(document, chunks, "title")[-1] == ()


def test_comments_too_long_for_their_function_are_cut_from_it() -> None:
    remarks = "\n".join(f"# remark {number} about the function" for number in range(12))
    text = f"a = 1\n{remarks}\ndef f(x):\n    y = call(x,\n        1)\n    return y\n"
    found = texts(Document(text, content_type="text/x-python"), max_tokens=40)
    assert found[-1].endswith("def f(x):\n    y = call(x,\n        1)\n    return y")


def test_text_in_quotes_that_does_not_fit_is_cut_as_text() -> None:
    text = 'a = """' + "Some words of a long text.\n" * 30 + '"""\n'
    found = texts(Document(text, content_type="text/x-python"), max_tokens=40)
    assert len(found) > 3
    assert found[-1].endswith('text.\n"""')


def test_class_over_the_limit_is_opened_and_its_methods_know_it() -> None:
    methods = "\n".join(f"  int m{at}(int a, int b) {{ return a * {at} + b; }}" for at in range(6))
    document = Document(f"namespace;\nclass A {{\n{methods}\n}}\n", content_type="text/x-java")
    assert symbols(document, max_tokens=50)[1:] == ["A, A.m0, A.m1", "A.m2, A.m3", "A.m4, A.m5"]


def test_code_that_is_not_ascii_has_exact_spans() -> None:
    first = "naïve = '水耕栽培'\n\n\ndef façade():\n    return '水耕栽培'"
    second = f"def after():\n    return '{FAMILY}'"
    document = Document(f"{first}\n\n\n{second}\n", content_type="text/x-python")
    assert texts(document, max_tokens=30) == [first, second]


def test_language_without_grammar_is_cut_at_blank_lines() -> None:
    one = "program one\n  print *, 'one two three'\n\n  print *, 'four'\nend program"
    text = f"{one}\n\nprogram two\nend program\n"
    chunks = cut(PLUGIN, Document(text, content_type="text/x-fortran"), max_tokens=20)
    assert [chunk.text.split("\n")[0] for chunk in chunks] == ["program one", "program two"]
    assert all(
        dict(chunk.extra)["fallback"] == "no grammar for fortran; cut at blank lines" for chunk in chunks
    )


def test_grammars_version_is_part_of_the_recipe() -> None:
    assert f"tree_sitter_python {version('tree-sitter-python')}" in str(PLUGIN.version)


ROWS = "".join(f"- row {n} of the list, which has some words\n" for n in range(12))


@pytest.mark.parametrize("before", [0, 1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("announced", ["- one\n- two\n", "::\n\n    code\n    more\n", ROWS, "Prose.\n"])
def test_announcement_stays_with_its_list(before: int, announced: str) -> None:
    text = "Words. " + "Some more words are here. " * 3 * before + f"It is as follows:\n\n{announced}\nEnd.\n"
    cut_ = texts(parsed(text, "a.rst"), max_tokens=60)
    assert len(cut_) > before // 3
    assert not [text for text in cut_[:-1] if text.endswith(":")]
    assert sum(text.count("It is as follows:") for text in cut_) == 1


def test_announcement_without_room_for_anything_is_cut_off() -> None:
    text = "Some words, " * 18 + f"as follows:\n\n{ROWS}"
    assert texts(parsed(text, "a.rst"), max_tokens=60)[0].endswith("as follows:")


def test_no_chunk_ends_with_a_label() -> None:
    text = "".join(
        f"Section {n}\n=========\n\n{'It says something. ' * n}\n\n.. index:: a{n}\n\n.. _b{n}:\n\n"
        for n in range(9)
    )
    cut_ = texts(parsed(f"{text}\nEnd\n===\n\nIt is.\n", "a.rst"), max_tokens=40)
    assert not [text for text in cut_ if text.endswith(":") or ".. index" in text.splitlines()[-1]]
