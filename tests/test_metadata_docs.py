"""docs/metadata.md has a row for every key that records can have, and none for a key that nobody writes."""

import ast
import json
import re
from collections.abc import Iterator

import pytest

from ingestor.core.metadata_keys import EXTRAS, KEYS, LISTS, NUMBERS, carries
from ingestor.model import Value
from tests.pipeline.test_metadata import CHUNKS, DOCUMENT, described
from tests.program import ROOT, modules, nodes

ROW = re.compile(r"^\| `(\w+)` \| ([a-z ]+?)(?: from (\d))?(?:, (always|lean))?: ([^|]+) \|[^|]+\|$")
COUNTED = re.compile(r"index|line|^page$|_number|parent_(start|end)|^parents$")
WRITERS = ("ingestor/connectors", "ingestor/parsers", "ingestor/chunkers", "ingestor/pipeline")
TYPES: dict[str, type] = {"text": str, "whole number": int, "list of text": list, "true": bool}


def rows(text: str) -> Iterator[tuple[str, str, str, str, str]]:
    """Key, type, base, profile and example of each row."""
    for line in text.splitlines():
        if line.startswith("| `") and not line.startswith(("| `full`", "| `lean`")):
            row = ROW.match(line)
            assert row, f"a row has a key, a type with its base, profile and example, and a meaning: {line}"
            yield row[1], row[2], row[3] or "", row[4] or "", row[5]


def page() -> str:
    return (ROOT / "docs/metadata.md").read_text("utf-8")


def undocumented(text: str) -> set[str]:
    """Keys that are written and not in the table, or in the table and not written."""
    return {key for key, *_ in rows(text)} ^ (KEYS | EXTRAS)


def test_every_key_has_one_row() -> None:
    keys = [key for key, *_ in rows(page())]
    assert undocumented(page()) == set()
    assert len(keys) == len(set(keys))


def test_missing_row_and_a_row_too_many_are_noticed() -> None:
    text = page()
    assert undocumented(text.replace("| `path` |", "| `way` |")) == {"path", "way"}


def test_record_has_all_standard_keys_and_no_other() -> None:
    (row, *_) = described(DOCUMENT, CHUNKS)
    assert row.keys() - {"author", "owner"} == KEYS


@pytest.mark.parametrize(("key", "kind", "base", "profile", "example"), list(rows(page())))
def test_type_base_profile_and_example_agree(
    key: str, kind: str, base: str, profile: str, example: str
) -> None:
    assert profile == ("always" if carries((), key) else "lean" if carries("lean", key) else "")
    shown = example.split("`")[1]
    value: Value = shown if kind == "text" else json.loads(shown)
    assert type(value) is TYPES[kind]
    if key in KEYS:
        assert (key in LISTS, key in NUMBERS) == (kind == "list of text", kind == "whole number")
    assert (base in ("0", "1")) == bool(COUNTED.search(key))
    written = {type(row[key]) for row in described(DOCUMENT, CHUNKS) if row.get(key) is not None}
    assert written <= {TYPES[kind]}


def test_every_extra_key_is_named_where_metadata_are_made() -> None:
    trees = (tree for file, tree in modules().items() if file.as_posix().startswith(WRITERS))
    named = {
        node.value
        for tree in trees
        for node in nodes(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert {key for key in EXTRAS if key not in named} == set()
