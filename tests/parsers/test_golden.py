"""Golden files: documents in ``golden``, each beside the blocks that its parser is to find.

    INGESTOR_GOLDEN=write .venv/bin/python -m pytest tests/parsers/test_golden.py

writes the blocks anew. Look at the difference before committing it, and raise the parser's version.
"""

import os
import re
from itertools import pairwise
from pathlib import Path

import pytest

from ingestor.core.completeness import shortfall
from ingestor.core.content_types import keeps_lines
from ingestor.model import Blob, Block, Document
from ingestor.parsers.shared import detect
from ingestor.registry import find
from ingestor.text.outline import outline
from tests.parsers.laws import obeys_laws

FOLDER = Path(__file__).parent / "golden"
FILES = sorted(path.name for path in FOLDER.iterdir() if path.suffix != ".blocks")


@pytest.mark.parametrize("name", FILES)
def test_parser_finds_the_golden_blocks(name: str) -> None:
    blob = Blob((FOLDER / name).read_bytes(), name)
    plugin = find("parsers", detect.parser_kind(detect.content_type(blob)))
    document = obeys_laws(plugin.build(plugin.options()), blob)
    assert document is not None
    expected = FOLDER / f"{name}.blocks"
    if os.environ.get("INGESTOR_GOLDEN") == "write":
        expected.write_text(shown(document), "utf-8")
    assert shown(document) == expected.read_text("utf-8")


def shown(document: Document) -> str:
    """What the parser says of the document, then its blocks with their texts indented."""
    missing = shortfall(document)
    about = {
        "title": document.title, "language": document.language, **dict(document.extra),
        "left out": ", ".join(f"{rule} ({count})" for rule, count in document.left_out),
        "shortfall": missing and f"{missing.state}: {missing.reason}",
    }  # fmt: skip
    head = [f"{key}: {value}\n" for key, value in about.items() if value]
    return "".join([*head, *(_block(document.text, block) for block in document.blocks)])


def _block(text: str, block: Block) -> str:
    facts = {name: getattr(block, name) for name in Block.__slots__ if name not in ("kind", "start", "end")}
    said = "".join(f" {name}={value!r}" for name, value in facts.items() if value not in (None, 0))
    lines = "".join(
        f"    {line}".rstrip() + "\n" for line in re.split(r"\r\n?|\n", text[block.start : block.end])
    )
    return f"\n{block.kind}{said}\n{lines}"


TEXTS = [
    name for name in FILES if not detect.is_binary(detect.parser_of(Blob((FOLDER / name).read_bytes(), name)))
]


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("end", [b"\r\n", b"\r"])
def test_blocks_are_the_same_with_any_line_ends(name: str, end: bytes) -> None:
    data = (FOLDER / name).read_bytes().replace(b"\r\n", b"\n")
    plugin = find("parsers", detect.parser_of(Blob(data, name)))
    first, other = (
        plugin.build(plugin.options()).parse(Blob(each, name)) for each in (data, data.replace(b"\n", end))
    )
    assert shown(other) == shown(first)


@pytest.mark.parametrize("name", TEXTS)
def test_lines_are_kept_exactly_where_text_and_file_have_the_same(name: str) -> None:
    blob = Blob((FOLDER / name).read_bytes(), name)
    plugin = find("parsers", detect.parser_of(blob))
    document = plugin.build(plugin.options()).parse(blob)
    starts = outline(document).lines
    found = [document.text[start:end] for start, end in pairwise([*starts, len(document.text)])]
    written = re.split(r"\r\n?|\n", blob.data.decode("utf-8", "replace").removeprefix("\ufeff"))
    agreeing = sum(
        re.findall(r"\w+", a) == re.findall(r"\w+", b) for a, b in zip(found, written, strict=False)
    )
    if keeps_lines(document.content_type):
        assert len(found) == len(written)
    else:
        assert agreeing < len(found)
