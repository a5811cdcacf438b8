"""Notebooks: outputs, version 3, damage. What else is found is in the golden files."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.model import Blob, Document
from ingestor.parsers.notebook import PLUGIN, NotebookOptions
from ingestor.ports import BadDocument
from tests.parsers.laws import obeys_laws

PARSER = PLUGIN.build(NotebookOptions())
NOTEBOOK = json.loads((Path(__file__).parent / "golden/study.ipynb").read_text("utf-8"))


def parse(notebook: Any, **options: Any) -> Document:
    parser = PLUGIN.build(NotebookOptions(**options))
    document: Document = parser.parse(Blob(json.dumps(notebook).encode(), "a.ipynb"))
    return document


def test_outputs_can_be_omitted() -> None:
    assert "output" not in [block.kind for block in parse(NOTEBOOK, outputs=False).blocks]


def test_notebook_of_version_3_is_read() -> None:
    old = {"worksheets": [{"cells": [
        {"cell_type": "heading", "level": 2, "source": "Old"},
        {"cell_type": "code", "input": ["x"], "language": "julia"},
    ]}]}  # fmt: skip
    document = parse(old)
    assert [(b.kind, b.level, b.language) for b in document.blocks] == [
        ("heading", 2, None),
        ("code", 0, "julia"),
    ]


@pytest.mark.parametrize("data", [b"", b"{}", b'{"cells": 1}', b'{"cells": [1, {}, {"cell_type": []}]}'])
def test_notebook_without_cells_is_empty(data: bytes) -> None:
    document = obeys_laws(PARSER, Blob(data, "a.ipynb"))
    assert document is not None
    assert document.text == ""


@pytest.mark.parametrize(
    "data", [b"[]", b"words", b"[" * 200_000, b'{"a": ' * 100_000, b'{"cells": [', b"\0\1\2" * 9]
)
def test_invalid_notebook_is_refused(data: bytes) -> None:
    with pytest.raises(BadDocument):
        PARSER.parse(Blob(data, "a.ipynb"))


sources = st.text(max_size=20) | st.lists(st.text(max_size=10), max_size=3) | st.none() | st.integers()
cells = st.fixed_dictionaries(
    {"cell_type": st.sampled_from(["markdown", "code", "raw", "heading"]), "source": sources}
)


@given(st.lists(cells, max_size=5))
def test_laws_hold_for_any_cells(found: list[Any]) -> None:
    obeys_laws(PARSER, Blob(json.dumps({"cells": found}).encode(), "a.ipynb"), sound=False)


def test_lone_surrogates_are_dropped() -> None:
    document = parse(
        {"cells": [{"cell_type": "raw", "source": "a\ud800b"}, {"cell_type": "markdown", "source": "\udfff"}]}
    )
    assert document.text == "ab"
