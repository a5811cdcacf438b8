"""Data in nested blocks, cut by indentation."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.chunkers.structure import PLUGIN
from ingestor.indentation import groups_by_indentation
from ingestor.model import Document
from tests.chunkers.laws import cut

LINES = st.lists(
    st.tuples(
        st.sampled_from(["", " ", "  ", "    ", "\t"]),
        st.sampled_from(["a:", "{", "}", "],", "</x>", "<x>", ""]),
    ),
    max_size=30,
).map(lambda lines: "\n".join(indent + word for indent, word in lines))


@given(LINES, st.integers(1, 40))
def test_units_cover_the_text_in_order(text: str, most: int) -> None:
    units = [
        unit
        for group in groups_by_indentation(text, lambda span: span[1] - span[0] <= most)
        for unit in group
    ]
    assert all(one.end == two.start for one, two in pairwise(units))
    assert "".join(text[unit.start : unit.end] for unit in units) == text


def test_what_fits_is_one_unit_and_what_does_not_is_opened() -> None:
    text = "a:\n  b: 1\n  c:\n    d: 2\n    e: 3\nf: 4\n"

    def shown(most: int) -> list[list[str]]:
        found = groups_by_indentation(text, lambda span: span[1] - span[0] <= most)
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


def test_blocks_without_end_are_no_trouble() -> None:
    text = "\n".join(" " * depth + "a:" for depth in range(3000))
    assert sum(map(len, groups_by_indentation(text, lambda span: span[1] - span[0] <= 100))) > 0
    assert cut(PLUGIN, Document("[" * 20_000, content_type="application/json"), max_tokens=100)
