"""Data in nested blocks, cut by indentation."""

import json
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.chunkers.structure import PLUGIN
from ingestor.model import Document
from ingestor.text.nested_units import INDENTED, groups_by_indentation
from tests.chunkers.laws import cut

LINES = st.lists(
    st.tuples(
        st.sampled_from(["", " ", "  ", "    ", "\t"]),
        st.sampled_from(["a:", "{", "}", "],", "</x>", "<x>", ""]),
    ),
    max_size=30,
).map(lambda lines: "\n".join(indent + word for indent, word in lines))


WORDS = ["{", "}", "[", "]", ",", ":", '"a"', '"b, ["', "\\", '"', "<x>", "</x>", "<x/>", "<!--", "é", "\n"]
TOKENS = st.lists(st.sampled_from(WORDS), max_size=30)


@given(LINES | TOKENS.map("".join), st.sampled_from(sorted(INDENTED)), st.integers(1, 40))
def test_units_cover_the_text_in_order(text: str, language: str, most: int) -> None:
    found = groups_by_indentation(text, language, lambda span: span[1] - span[0] <= most)
    units = [unit for group in found for unit in group]
    assert all(one.end == two.start for one, two in pairwise(units))
    assert "".join(text[unit.start : unit.end] for unit in units) == text


def test_node_that_fits_is_one_unit_and_a_larger_one_is_opened() -> None:
    text = "a:\n  b: 1\n  c:\n    d: 2\n    e: 3\nf: 4\n"

    def shown(most: int) -> list[list[str]]:
        found = groups_by_indentation(text, "yaml", lambda span: span[1] - span[0] <= most)
        return [[text[unit.start : unit.end] for unit in group] for group in found]

    assert shown(100) == [["a:\n  b: 1\n  c:\n    d: 2\n    e: 3\n", "f: 4\n"]]
    assert shown(25) == [["a:\n  b: 1\n", "  c:\n    d: 2\n    e: 3\n"], ["f: 4\n"]]
    assert shown(14) == [["a:\n  b: 1\n"], ["  c:\n    d: 2\n", "    e: 3\n"], ["f: 4\n"]]


RECORDS = [{"name": f"pump {n}", "parts": ["seal", "shaft", {"bolt": n}]} for n in range(40)]
DATA = {
    "application/json": (json.dumps({"pumps": RECORDS}, indent=2), "{", "}"),
    "application/yaml": (
        "pumps:\n"
        + "".join(f"  - name: pump {n}\n    parts:\n      - seal\n      - bolt: {n}\n" for n in range(40)),
        "- name",
        "",
    ),
    "application/xml": (
        "<pumps>\n"
        + "".join(f"  <pump>\n    <name>{n}</name>\n    <seal/>\n  </pump>\n" for n in range(40))
        + "</pumps>",
        "<pump>",
        "</pump>",
    ),
}


@pytest.mark.parametrize("kind", DATA)
def test_no_chunk_begins_or_ends_within_a_record_that_fits(kind: str) -> None:
    text, opens, closes = DATA[kind]
    chunks = cut(PLUGIN, Document(text, content_type=kind), max_tokens=100)
    assert len(chunks) > 5
    assert all(chunk.text.startswith(opens) for chunk in chunks[1:])
    assert all(chunk.text.rstrip(",").endswith(closes) for chunk in chunks[:-1])
    assert not any(dict(chunk.extra).get("fallback") for chunk in chunks)


ONE_LINE = {
    "application/json": (json.dumps({"of": "us, {all}", "pumps": RECORDS}), '{"name"', "}]}"),
    "application/jsonl": (json.dumps(RECORDS) + "\n" + json.dumps(RECORDS), '{"name"', "}]}"),
    "application/xml": (re.sub(r"\n\s*", "", DATA["application/xml"][0]), "<pump>", "</pump>"),
}


@pytest.mark.parametrize("kind", ONE_LINE)
def test_document_of_one_line_is_cut_at_its_elements(kind: str) -> None:
    text, opens, closes = ONE_LINE[kind]
    chunks = [chunk.text for chunk in cut(PLUGIN, Document(text, content_type=kind), max_tokens=100)]
    assert len(chunks) > 5
    assert all(chunk.removeprefix("[").startswith(opens) for chunk in chunks[2:])
    assert all(chunk.rstrip(",").endswith((closes, f"{closes}]")) for chunk in chunks[1:-1])


def test_prose_in_xml_is_not_cut_at_the_elements_in_it() -> None:
    text = "<p>" + "One <b>bold</b> sentence of some words stands here. " * 20 + "</p>"
    chunks = cut(PLUGIN, Document(text, content_type="application/xml"), max_tokens=60)
    assert len(chunks) > 3
    assert not any(chunk.text.startswith("<b>") for chunk in chunks)


def test_blocks_without_end_are_cut() -> None:
    text = "\n".join(" " * depth + "a:" for depth in range(1500))
    assert sum(map(len, groups_by_indentation(text, "yaml", lambda span: span[1] - span[0] <= 100))) > 0
    assert cut(PLUGIN, Document("<a>" * 5_000, content_type="application/xml"), max_tokens=100)
    assert cut(PLUGIN, Document("[" * 5_000, content_type="application/json"), max_tokens=100)
