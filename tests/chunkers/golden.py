"""Golden files: what a strategy made of a text once, looked at and found good.

    INGESTOR_GOLDEN=write .venv/bin/python -m pytest tests/chunkers

writes them anew. Look at the difference before committing it, and raise the plugin's version. The files
under ``langchain`` hold another program's spans; ``make.py`` beside them writes those.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks._needs import Missing, evaluation
from ingestor.model import Chunk, Document
from tests.chunkers.laws import parsed

FOLDER = Path(__file__).parent / "golden"


def sample(name: str) -> Document:
    """One of the texts under ``golden/texts``, read by the parser that reads such files."""
    return parsed((FOLDER / "texts" / name).read_bytes(), name)


def corpus(name: str) -> str:
    """One of the evaluation corpora. Skips where they are absent."""
    try:
        return (evaluation() / f"{name}.md").read_text("utf-8")
    except Missing as missing:
        pytest.skip(str(missing))


def check(name: str, chunks: Sequence[Chunk]) -> None:
    """Holds the chunks against ``golden/<name>.json``, or writes it where the environment says so."""
    path = FOLDER / f"{name}.json"
    found = [_shown(chunk) for chunk in chunks]
    if os.environ.get("INGESTOR_GOLDEN") == "write":
        path.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", "utf-8")
    assert found == json.loads(path.read_text("utf-8"))


def langchain_spans(name: str) -> list[tuple[int, int]]:
    """The spans LangChain made of a corpus; ``name`` is ``<corpus>-<size>-<overlap>``."""
    return [(start, end) for start, end in json.loads((FOLDER / "langchain" / f"{name}.json").read_text())]


def _shown(chunk: Chunk) -> dict[str, Any]:
    shown: dict[str, Any] = {"start": chunk.start, "end": chunk.end, "text": chunk.text}
    if chunk.spans:
        shown["spans"] = [list(span) for span in chunk.spans]
    return shown | dict(chunk.extra)
