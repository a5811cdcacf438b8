"""LangChain's and LlamaIndex's Chroma stores read our records as if they had written them.

With the real packages, in a virtual environment of their own that is made once and kept in .cache.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ingestor.chroma.client import Client
from ingestor.chroma.server import ChromaServer
from ingestor.core.metadata_keys import KEYS
from ingestor.model import Metadata
from ingestor.pipeline.metadata import _IN_NODES
from tests.environments import readers
from tests.pipeline.test_metadata import CHUNKS, DOCUMENT, described
from tests.serving import HOST, free_port

ROOT = Path(__file__).parent.parent
TOKEN = "s3cret-of-the-tests"
PACKAGES = ("chromadb==1.5.9", "langchain-chroma==1.1.0", "llama-index-vector-stores-chroma==0.6.0")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

Found = dict[str, Any]


@pytest.fixture(scope="module")
def readers_python() -> Path:
    """The interpreter of an environment that has the readers' packages, and not ours."""
    return readers(*PACKAGES)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Of a Chroma server as the daemon runs it, with a token, that holds the records of one document."""
    folder = tmp_path_factory.mktemp("chroma")
    with ChromaServer(folder / "db", HOST, free_port(), folder / "log", tokens=[(TOKEN, "read")]) as running:
        with Client(HOST, running.port, token=running.secret) as client:
            fill(client)
        yield running.port


def records() -> list[tuple[str, str, Metadata]]:
    """(id, text, metadata), in the order of the document."""
    rows = described(DOCUMENT, CHUNKS)
    return [(f"d1#{7 + i}", chunk.text, row) for i, (chunk, row) in enumerate(zip(CHUNKS, rows, strict=True))]


def fill(client: Client) -> None:
    ids, texts, metadatas = map(list, zip(*records(), strict=True))
    made = client.create_collection("docs", configuration={"hnsw": {"space": "cosine"}})
    vectors = [[1.0, i / 10] for i in range(len(ids))]
    client.post(made.id, "upsert", ids=ids, embeddings=vectors, metadatas=metadatas, documents=texts)


@pytest.fixture(scope="module")
def found(readers_python: Path, port: int) -> Found:
    script = ROOT / "tests" / "readers" / "read_back.py"
    done = subprocess.run(
        [readers_python, "-W", "ignore", script, str(port), "docs", TOKEN, ROOT / "docs/reading.md"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: Found = json.loads(done.stdout)
    return result


def present(metadata: Metadata) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if value is not None}


@pytest.mark.parametrize("way", ["langchain", "langchain_by_id"])
def test_langchain_reads_documents(found: Found, way: str) -> None:
    expected = [{"id": i, "text": text, "metadata": present(row)} for i, text, row in records()]
    assert sorted(found[way], key=position) == expected


def position(document: dict[str, Any]) -> Any:
    return document["metadata"]["chunk_index"]


@pytest.mark.parametrize("way", ["llama", "llama_by_id"])
def test_llama_index_reads_nodes_with_neighbours_and_source(found: Found, way: str) -> None:
    every = records()
    ids: list[str | None] = [None, *(i for i, _, _ in every), None]
    for n, node in enumerate(sorted(found[way], key=position)):
        identity, text, row = every[n]
        assert (node["id"], node["text"], node["source"]) == (identity, text, "d1")
        assert (node["previous"], node["next"]) == (ids[n], ids[n + 2])
        assert (node["start"], node["end"]) == (row["start_index"], row["end_index"])
        left_out = KEYS - _IN_NODES
        assert node["metadata"] == {k: v for k, v in present(row).items() if k not in left_out}
    assert len(found[way]) == len(every)


def test_readers_filter_by_section(found: Found) -> None:
    expected = {identity for identity, _, row in records() if row["section_number"] == "2.1"}
    assert len(expected) == 2
    assert {document["id"] for document in found["langchain_filtered"]} == expected
    assert {node["id"] for node in found["llama_filtered"]} == expected


def test_filter_by_the_path_in_the_source_finds_the_document(found: Found) -> None:
    assert set(found["by_path"]) == {identity for identity, _, _ in records()}


def test_score_thresholds_are_cosine_similarities_in_langchain(found: Found) -> None:
    scores = dict(found["scores"])
    assert scores == pytest.approx({id_: 1 - distance for id_, distance in found["distances"].items()})
    assert set(found["above_threshold"]) == scores.keys() - {min(scores, key=scores.__getitem__)}


def test_postprocessor_of_the_docs_applies_the_score_threshold(found: Found) -> None:
    worst = max(found["distances"], key=found["distances"].__getitem__)
    texts = {identity: (text, row) for identity, text, row in records() if identity != worst}
    shown = dict(found["shown"])
    assert shown.keys() == texts.keys()
    for identity, (text, row) in texts.items():
        cited = [f"{key}: {row[key]}" for key in ("title", "heading_path", "path") if row[key] is not None]
        before, _, after = shown[identity].partition(text.strip())
        assert sorted(filter(None, before.split("\n"))) == sorted(cited) and not after
