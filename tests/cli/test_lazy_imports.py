"""Commands that only look import little: packages that take long to import stay out of them."""

import subprocess
import sys

import pytest

LOOP = {"ingestor.app.wiring", "ingestor.engine.loop", "ingestor.nodes.fleet"}
_SHOW = "import {}, sys; print(*sys.modules)"


def imported_by(module: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", _SHOW.format(module)], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("module", "costly"),
    [
        ("ingestor.cli.main", {"numpy", "pydantic", "yaml", "rich", "httpx", "ingestor.ports"}),
        (
            "ingestor.queries.reading",
            {"httpx", "rich", "charset_normalizer", "numpy", "ingestor.lexical.terms", *LOOP},
        ),
        ("ingestor.queries.plan", {"httpx", "rich", "openvino", "chromadb", *LOOP}),
        ("ingestor.app.parts", {"httpx", "openvino", "tokenizers", *LOOP}),
        (
            "ingestor.queries.status",
            {"httpx", "rich", "charset_normalizer", "numpy", "ingestor.lexical.terms", *LOOP},
        ),
        ("ingestor.chroma.backend", {"chromadb", "httpx", "numpy"}),
        ("ingestor.model, ingestor.ports", {"numpy"}),
        ("ingestor.app.daemon", {"chromadb", "openvino", "tiktoken", "tokenizers", "torch"}),
    ],
)
def test_costly_packages_are_imported_where_they_are_used(module: str, costly: set[str]) -> None:
    assert not costly & imported_by(module)
