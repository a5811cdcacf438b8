"""JSON, YAML, XML and TOML: blocks that follow the structure and know their path."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ingestor.model import Blob, Document
from ingestor.parsers.shared.detect import content_type, parser_kind
from ingestor.ports import Parser
from ingestor.registry import Options, find
from ingestor.text.outline import line_starts, outline
from tests.examples import examples
from tests.parsers.laws import ESCAPED, is_covered, obeys_laws, texts

LONG = "word " * 100


def parser_of(blob: Blob) -> Parser:
    parser: Parser = find("parsers", parser_kind(content_type(blob))).build(Options())
    return parser


def parse(name: str, source: str | bytes) -> Document:
    blob = Blob(source.encode() if isinstance(source, str) else source, name)
    document = obeys_laws(parser_of(blob), blob)
    assert document is not None
    if isinstance(source, str):
        assert len(outline(document).lines) == len(line_starts(source)), "lines are the file's"
    if isinstance(source, str) and not ESCAPED.search(source):
        assert document.text == source
    return document


def symbols(document: Document) -> list[str | None]:
    assert {block.kind for block in document.blocks} <= {"code"}
    return [block.symbol for block in document.blocks]


def test_small_json_is_one_block() -> None:
    document = parse("a.json", '{"a": {"b": [1, 2]}}\n')
    assert symbols(document) == [None]
    assert document.blocks[0].language == "json"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", []),
        ("[1, 2, 3]", [None]),
        ("// comment\n{a: 1}", [None]),
        ('{"a": "unclosed', [None]),
        (json.dumps([{"i": 1000 + i} for i in range(120)]), ["[0]", "[23]", "[46]", "[69]", "[92]", "[115]"]),
        ('{"a": {' + f'"x": "{LONG * 4}"' + "}", ["a"]),
    ],
)
def test_json_of_each_kind_gives_its_symbols(source: str, expected: list[str | None]) -> None:
    assert symbols(parse("a.json", source)) == expected


def test_decoded_line_breaks_move_no_line() -> None:
    document = parse("a.jsonl", '{"a": "one\\n\\ntwo\\r\\n"}\n{"b": "\\u00fc"}\n')
    assert texts(document) == ['{"a": "one\n\ntwo\n"}', '{"b": "ü"}']
    assert [outline(document).line(document.text.index(said)) for said in ("one", "two", "ü")] == [1, 1, 2]


XML = f"""\
<?xml version="1.0" encoding="iso-8859-1"?>
<!DOCTYPE catalog [<!ENTITY x "y">]>
<catalog xml:lang="de" a=">"><title>Bücher &amp; mehr</title>
<!-- <book> -->
<book id="1">{LONG * 2}</book>
<book id="2">{LONG * 2}</book>
<shelf><part>{LONG * 2}</part><part><![CDATA[</part>]]>{LONG * 2}</part><leer/></shelf>
</catalog>
"""


YAML = f"""\
# About a.
a: 1
"b c": {{x: y}}
---
list:
- name: one
  text: {LONG * 2}
# About two.
- name: two
  text: {LONG * 2}
deep:
  x: |
    key: no entry
    {LONG * 2}
  y: {LONG * 2}
url: http://x
"""


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.json", "[" * 50_000),
        ("a.json", '{"a":' * 25_000),
        ("a.json", "]" * 50_000),
        ("a.json", '"' + '\\"' * 50_000),
        ("a.json", '{"a":{},' * 12_500),
        ("a.json", "{},[]," * 12_500),
        ("a.json", '"a",' * 25_000),
        ("a.xml", "<a>" * 25_000),
        ("a.xml", "</a>" * 25_000),
        ("a.xml", "<a/>" * 25_000),
        ("a.xml", '<a "' * 12_500),
        ("a.xml", "<a '\"" * 12_500),
        ("a.xml", "<!--" * 25_000),
        ("a.xml", "<![CDATA[" * 12_500),
        ("a.xml", "<" * 75_000),
        ("a.xml", "<a " + "b='c' " * 12_500),
        ("a.yaml", "- " * 25_000),
        ("a.yaml", "\n".join(f"{' ' * min(i, 900)}a:" for i in range(3000))),
        ("a.yaml", "a" + " " * 50_000),
        ("a.yaml", "a: 1\n" * 12_500),
        ("a.yaml", "[" * 25_000),
        ("a.yaml", "# c\n" * 12_500),
        ("a.toml", "[a]\n" * 12_500),
        ("a.toml", "[" + " " * 50_000),
        ("a.toml", "'''" * 50_001),
        ("a.toml", "# c\n" * 12_500 + "[a]"),
        ("a.ini", "[" * 25_000),
        ("a.jsonl", "{}\n" * 12_500),
        ("a.xml", "<!DOCTYPE a [ " * 25_000),
        ("a.xml", "<a>" + "QUJD" * 1_000_000),
        ("a.xml", "<p>" + "a" * 64 + "<p> " * 12_500),
        ("a.fb2", "<FictionBook><p '\"" * 12_500),
        ("a.toml", 'a = "\\' * 25_000),
        ("a.toml", '"""\\' * 25_000),
        ("a.yaml", '"\\' * 50_001),
        ("a.yaml", '[ "\\n", ' * 50_001),
        ("a.yaml", "{ ? 'a''b', " * 50_001),
    ],
    ids=range(37),
)
def test_absurd_data_is_covered(name: str, source: str) -> None:
    is_covered(parser_of(Blob(source.encode(), name)), source, name)


def test_yaml_collections_nested_too_deeply_are_scanned_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens: list[Any] = []

    def noted(text: str, Loader: Any) -> Iterator[Any]:  # noqa: N803
        for token in scan(text, Loader):
            tokens.append(token)
            yield token

    scan = yaml.scan
    monkeypatch.setattr(yaml, "scan", noted)
    text = parse("a.yaml", "{ ? 'a''b', " * 2_000).text
    assert text.startswith("{ ? 'a'b', ") and text.endswith("{ ? 'a''b', ")
    assert len(tokens) < 5_000, "four tokens a level, and the law reads a document twice"


MARKS = [
    '"a"',
    ":",
    ",",
    "{",
    "}",
    "[",
    "]",
    "<a>",
    "</a>",
    "<b/>",
    "<!--",
    "-->",
    "a: ",
    "- ",
    "  ",
    "\n",
    "\r\n",
    "#",
]
MARKS += [
    "[t]",
    "'''",
    "\\",
    '"',
    "u00e4",
    "n",
    "&#10;",
    "&amp;",
    "<![CDATA[",
    "]]>",
    "'",
    "text " * 80,
    "---\n",
    "\x0c",
    "日本",
]


@examples(200)
@given(
    st.sampled_from(["a.json", "a.jsonl", "a.xml", "a.yaml", "a.toml", "a.ini"]),
    st.lists(st.sampled_from(MARKS)),
)
def test_laws_hold_for_any_marks(name: str, marks: list[str]) -> None:
    parse(name, "".join(marks))


@pytest.mark.parametrize(
    ("title", "found"),
    [
        ("<title>  </title>", None),
        ("<title> <![CDATA[ ]]> </title>", None),
        ("<title></title>", "Next"),
        ("<title> <![CDATA[ A  b ]]> </title>", "A b"),
    ],
)
def test_title_of_blanks_alone_is_a_title(title: str, found: str | None) -> None:
    assert parse("a.xml", f"<a>{title}<title>Next</title></a>".encode()).title == found
