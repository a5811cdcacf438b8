import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.model import Blob, Document
from ingestor.parsers.notebook import PLUGIN, NotebookOptions
from ingestor.ports import BadDocument
from tests.parsers.laws import obeys_laws, texts

PARSER = PLUGIN.build(NotebookOptions())
NOTEBOOK = {
    "nbformat": 4,
    "metadata": {"kernelspec": {"language": "python"}, "authors": [{"name": "Ada"}, "Bo"]},
    "cells": [
        {"cell_type": "markdown", "source": ["# 1. Title\n", "\n", "Prose.\n"]},
        {
            "cell_type": "code",
            "source": "print(1)",
            "outputs": [
                {"output_type": "stream", "text": ["1\n", "2\n"]},
                {"output_type": "execute_result", "data": {"text/plain": "3", "text/html": "<b>3</b>"}},
                {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": ["\x1b[31m"]},
                {"output_type": "stream", "text": "x" * 5000},
            ],
        },
        {"cell_type": "raw", "source": "Under\n-----\nraw"},
        {"cell_type": "markdown", "source": "## Sub\n- a\n- b"},
    ],
}


def parse(notebook: Any, **options: Any) -> Document:
    parser = PLUGIN.build(NotebookOptions(**options))
    document: Document = parser.parse(Blob(json.dumps(notebook).encode(), "a.ipynb"))
    return document


def test_cells_become_blocks() -> None:
    document = parse(NOTEBOOK)
    assert [(b.kind, t) for b, t in zip(document.blocks, texts(document), strict=True)] == [
        ("heading", "# 1. Title"),
        ("paragraph", "Prose."),
        ("code", "print(1)"),
        ("output", "1\n2"),
        ("output", "3"),
        ("output", "ValueError: no"),
        ("output", "x" * 2000 + " …"),
        ("heading", "Under\n-----"),
        ("paragraph", "raw"),
        ("heading", "## Sub"),
        ("list", "- a\n- b"),
    ]
    assert [(b.level, b.title, b.number) for b in document.blocks if b.kind == "heading"] == [
        (1, "1. Title", "1"),
        (1, "Under", None),
        (2, "Sub", None),
    ]
    assert document.blocks[2].language == "python"
    assert (document.title, document.extra) == ("1. Title", (("author", "Ada, Bo"),))


def test_outputs_can_be_left_out() -> None:
    assert "output" not in [block.kind for block in parse(NOTEBOOK, outputs=False).blocks]


def test_notebooks_of_version_3() -> None:
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
