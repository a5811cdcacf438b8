import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.core.content_types import code_language
from ingestor.model import Blob, Document
from ingestor.parsers.code import PLUGIN
from ingestor.parsers.shared.detect import content_type, parser_kind
from ingestor.registry import Options
from tests.parsers.laws import obeys_laws, texts

PARSER = PLUGIN.build(Options())
LONG = "    # words\n" * 80
PYTHON = f'''\
"""Doc."""
import os
import re

# Says hello.
@decorated
def hello(größe):
    return 1

class Small:
    x = 1
    def f(self): ...

class Large:
    """Doc."""
    x = 1

    def one(self):
{LONG}        return 1

    def two(self): ...
'''


def parse(name: str, source: str) -> Document:
    document = obeys_laws(PARSER, Blob(source.encode(), name))
    assert document is not None
    assert document.text == source
    return document


def test_functions_and_classes_are_blocks() -> None:
    document = parse("a.py", PYTHON)
    found = [
        (b.symbol, t.strip().split("\n")[0]) for b, t in zip(document.blocks, texts(document), strict=True)
    ]
    assert found == [
        (None, '"""Doc."""'),
        ("hello", "# Says hello."),
        ("Small", "class Small:"),
        ("Large", "class Large:"),
        ("Large.one", "def one(self):"),
        ("Large.two", "def two(self): ..."),
    ]
    assert {(block.kind, block.language) for block in document.blocks} == {("code", "python")}


@pytest.mark.parametrize(
    ("name", "source", "symbol"),
    [
        ("a.js", "export function f() {}", "f"),
        ("a.ts", "interface A { x: number }", "A"),
        ("a.tsx", "const a = () => <p/>;", "a"),
        ("a.c", "int *f(void) { return 0; }", "f"),
        ("a.cpp", "namespace n { class A {}; }", "n"),
        ("a.cs", "class A { void F() {} }", "A"),
        ("a.go", "package p\nfunc (t T) F() {}", "F"),
        ("a.java", "class A { void f() {} }", "A"),
        ("a.php", "<?php function f() {}", "f"),
        ("a.rb", "class A\n  def f; end\nend", "A"),
        ("a.rs", "/// Doc\npub fn f() {}", "f"),
        ("a.sh", "f() { echo; }", "f"),
    ],
)
def test_code_in_every_language_gives_its_symbol(name: str, source: str, symbol: str) -> None:
    blob = Blob(source.encode(), name)
    assert parser_kind(content_type(blob)) == "code"
    document = parse(name, source)
    assert symbol in [block.symbol for block in document.blocks]
    assert document.blocks[0].language == code_language(document.content_type)


@pytest.mark.parametrize(
    "source",
    [
        "",
        "\n \n",
        "x",
        "(" * 5_000,
        "{[" * 1_250,
        "if x:\n" * 1_250,
        "a = " + "1 + " * 5_000,
        "x = '" + "a" * 10**5,
    ],
    ids=range(8),
)
def test_absurd_sources_are_covered(source: str) -> None:
    for name in ("a.py", "a.js", "a.c"):
        parse(name, source)


@given(st.lists(st.sampled_from([*PYTHON.split("\n"), "\x0c", "\r", "é"])).map("\n".join))
def test_laws_hold_for_any_lines(source: str) -> None:
    parse("a.py", source)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=100))
def test_laws_hold_for_any_text(source: str) -> None:
    obeys_laws(PARSER, Blob(source.encode(), "a.py", "text/x-python"))
