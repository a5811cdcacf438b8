"""Plain text, code, tables, data and notebooks: options and borders. Other sources are among the golden files."""

# ruff: noqa: E501 - sources read better in one line

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ingestor.model import Blob, Block, Document
from ingestor.text.outline import outline
from tests.parsers.laws import obeys_laws, parser, read, texts

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


def test_functions_and_classes_are_blocks() -> None:
    document = read(PYTHON, "a.py")
    assert document.text == PYTHON
    firsts = [text.strip().split("\n")[0] for text in texts(document)]
    assert list(zip((block.symbol for block in document.blocks), firsts, strict=True)) == [
        (None, '"""Doc."""'), ("hello", "# Says hello."), ("Small", "class Small:"), ("Large", "class Large:"),
        ("Large.one", "def one(self):"), ("Large.two", "def two(self): ..."),
    ]  # fmt: skip


def test_code_and_prose_are_distinguished() -> None:
    for name, content_type, block in [
        ("a.txt", "text/plain", Block("paragraph", 0, 5)),
        ("a.rst", "text/x-rst", Block("paragraph", 0, 5)),
        ("a.py", "text/x-python", Block("code", 0, 5, language="python")),
        ("a.json", "application/json", Block("code", 0, 5, language="json")),
    ]:
        document = parser("text").parse(Blob(b"x = 1\n", name))
        assert (document.content_type, document.blocks) == (content_type, (block,))


@pytest.mark.parametrize(("source", "paragraphs"), [("", []), (" \n\t\n", []), ("a\n\r\nb", ["a", "b"])])
def test_paragraphs_lie_between_blank_lines(source: str, paragraphs: list[str]) -> None:
    assert texts(read(source, "a.txt")) == paragraphs
    assert read(source.encode("utf-16"), "a.txt").text == source


def test_line_of_megabytes_is_one_paragraph() -> None:
    document = parser("text").parse(Blob(b"word " * 1_000_000, "a.txt"))
    assert document.blocks == (Block("paragraph", 0, 4_999_999),)


TABLE = "| a | b |\n| --- | --- |\n| 1 | 2 |"


def test_table_of_each_dialect_is_read() -> None:
    for name, source, text in [
        ("a.csv", "a,b\n1,2\n", TABLE), ("a.csv", "a;b\r\n1;2\r\n", TABLE), ("a.csv", "a|b\n1|2\n", TABLE),
        ("a.tsv", "a\tb\n1\t2\n", TABLE), ("a.csv", "a, b\n\n1, 2\n", TABLE),
        ("a.csv", 'a,b\n"1, ""x""\ny|z",2', '| a | b |\n| --- | --- |\n| 1, "x" y\\|z | 2 |'),
        ("a.csv", "1,2\n3,4", "| column 1 | column 2 |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |"),
        ("a.csv", "only\none", "| only |\n| --- |\n| one |"), ("a.csv", "a,b", "| a | b |\n| --- | --- |"),
        ("a.csv", "Sums, Ltd\n\na,b\n1,2\n", "| Sums | Ltd |\n| --- | --- |\n| a | b |\n| 1 | 2 |"),
        ("a.csv", "Sums,\n\nof 2024\na,b\n1,2\n3,4", f"Sums\n\nof 2024\n\n{TABLE}\n| 3 | 4 |"),
        ("a.csv", "a\nb\nc,d", "| a |  |\n| --- | --- |\n| b |  |\n| c | d |"),
        ("a.csv", "", ""),
    ]:  # fmt: skip
        assert read(source, name).text == text


def test_cues_have_no_counters_and_sloppy_times_are_read() -> None:
    times = "00:00:01,000 --> 00:00:02,000", "00:00:02,500 --> 00:00:03,000"
    for source, text in [
        (f"1\n{times[0]}\na\n2\n{times[1]}\nb\n", "a\nb"), (f"1\n{times[0]}\n\n2\n{times[1]}\nb\n", "b"),
        (f"{times[0]}\na\n3\n\n{times[1]}\n7", "a 3\n7"), ("1\n0:0:1.5 --> 0:0:2\na\n", "a"),
    ]:  # fmt: skip
        assert read(source, "a.srt").text == text


def test_every_table_has_the_header_no_row_is_lost_and_row_more_moves_few_borders() -> None:
    chance = random.Random(1)
    rows = ["id,name,value", *(f"{i},name {chance.random()},{chance.random()}" for i in range(500))]
    found = texts(read("\n".join(rows), "a.csv"))
    tables = [text.split("\n") for text in found]
    assert len(tables) > 20 and max(map(len, found)) < 1500
    assert all(table[0] == "| id | name | value |" for table in tables)
    assert [row.split("|")[1].strip() for table in tables for row in table[2:]] == [*map(str, range(500))]
    more = texts(read("\n".join([*rows[:101], "new,row,here", *rows[101:]]), "a.csv"))
    assert len({*more} - {*found}) <= 5


def test_json_of_each_kind_gives_its_symbols() -> None:
    for source, expected in [
        ("", []),
        ('{"a": {"b": [1, 2]}}\n', [None]),
        ("[1, 2, 3]", [None]),
        ("// comment\n{a: 1}", [None]),
        ('{"a": "unclosed', [None]),
        (json.dumps([{"i": 1000 + i} for i in range(120)]), ["[0]", "[23]", "[46]", "[69]", "[92]", "[115]"]),
        ('{"a": {' + f'"x": "{"word " * 400}"' + "}", ["a"]),
    ]:
        document = read(source, "a.json")
        assert [(block.kind, block.language, block.symbol) for block in document.blocks] == [
            ("code", "json", symbol) for symbol in expected
        ]


def test_decoded_line_breaks_move_no_line() -> None:
    document = read('{"a": "one\\n\\ntwo\\r\\n"}\n{"b": "\\u00fc"}\n', "a.jsonl")
    assert texts(document) == ['{"a": "one\n\ntwo\n"}', '{"b": "ü"}']
    assert [outline(document).line(document.text.index(said)) for said in ("one", "two", "ü")] == [1, 1, 2]


def test_yaml_collections_nested_too_deeply_are_scanned_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens: list[Any] = []

    def noted(text: str, Loader: Any) -> Iterator[Any]:  # noqa: N803
        for token in scan(text, Loader):
            tokens.append(token)
            yield token

    scan = yaml.scan
    monkeypatch.setattr(yaml, "scan", noted)
    text = read("{ ? 'a''b', " * 2_000, "a.yaml").text
    assert text.startswith("{ ? 'a'b', ") and text.endswith("{ ? 'a''b', ")
    assert len(tokens) < 5_000, "four tokens a level, and the law reads a document twice"


def test_title_of_blanks_alone_is_a_title() -> None:
    for title, found in [
        ("<title>  </title>", None), ("<title> <![CDATA[ ]]> </title>", None), ("<title></title>", "Next"),
        ("<title> <![CDATA[ A  b ]]> </title>", "A b"),
    ]:  # fmt: skip
        assert read(f"<a>{title}<title>Next</title></a>", "a.xml").title == found


def notebook(cells: Any, **options: Any) -> Document:
    return read(json.dumps({"cells": cells}), "a.ipynb", sound=False, **options)


def test_outputs_of_a_notebook_can_be_omitted() -> None:
    study = (Path(__file__).parent / "golden/study.ipynb").read_bytes()
    assert "output" not in [block.kind for block in read(study, "a.ipynb", outputs=False).blocks]


def test_notebook_of_version_3_is_read() -> None:
    title = {"cell_type": "heading", "level": 2, "source": "Old"}
    code = {"cell_type": "code", "input": ["x"], "language": "julia"}
    document = read(json.dumps({"worksheets": [{"cells": [title, code]}]}), "a.ipynb")
    assert [(block.kind, block.level, block.language) for block in document.blocks] == [
        ("heading", 2, None), ("code", 0, "julia"),
    ]  # fmt: skip


def test_outputs_are_as_jupyter_shows_them() -> None:
    bar, figure = "  0%|   |\r 50%|#  |\r100%|###|\r\ndone", "<Figure size 640x480 with 1 Axes>"
    shown = "<IPython.core.display.Markdown object>"
    for output, text in [
        ({"text": bar}, "100%|###|\ndone"), ({"data": {"text/plain": figure}}, ""),
        ({"data": {"text/plain": ["[<matplotlib.lines.Line2D at 0x7f3a>]"]}}, ""),
        ({"data": {"text/plain": shown, "text/markdown": "**a**"}}, "**a**"),
        ({"data": {"text/plain": "<b> at 0x1 is a tag"}}, "<b> at 0x1 is a tag"),
    ]:  # fmt: skip
        document = notebook([{"cell_type": "code", "source": "x", "outputs": [output]}])
        assert texts(document)[1:] == [text] * bool(text)


@pytest.mark.parametrize("data", ["", "{}", '{"cells": 1}', '{"cells": [1, {}, {"cell_type": []}]}'])
def test_notebook_without_cells_is_empty(data: str) -> None:
    assert read(data, "a.ipynb").text == ""


def test_lone_surrogates_of_a_notebook_are_dropped() -> None:
    raw, markdown = {"cell_type": "raw", "source": "a\ud800b"}, {"cell_type": "markdown", "source": "\udfff"}
    assert notebook([raw, markdown]).text == "ab"


sources = st.text(max_size=20) | st.lists(st.text(max_size=10), max_size=3) | st.none() | st.integers()
types = st.sampled_from(["markdown", "code", "raw", "heading"])


@given(st.lists(st.fixed_dictionaries({"cell_type": types, "source": sources}), max_size=5))
def test_laws_hold_for_any_cells(found: list[Any]) -> None:
    blob = Blob(json.dumps({"cells": found}).encode(), "a.ipynb")
    obeys_laws(parser("notebook"), blob, sound=False)
