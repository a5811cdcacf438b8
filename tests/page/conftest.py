"""A daemon with documents that attack whoever shows them, in a real Chroma, and its pages."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from ingestor.chroma.client import Client
from ingestor.config.file import load
from ingestor.config.models import Config
from ingestor.embedders.hashing import PLUGIN
from ingestor.evaluate import stored_report
from ingestor.model import Record, RecordId
from tests.service.world import Daemon, holding, served
from tests.serving import client_of, server

MODEL = PLUGIN.build(PLUGIN.options(dimensions=64))
ATTACK = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)> {{ 7 * 7 }} &amp; \u202egpj.exe\x00"
CHUNKS = 450  # of the long document
CONFIG = """\
state: ./
chroma: {path: ./chroma, port: 1}
embedding: {kind: hashing, dimensions: 64}
sources: [{name: docs, kind: folder, path: ./docs, collection: docs}]
"""


def _records() -> Iterator[Record]:
    yield from _of("long", [f"Chunk number {n} of the long one; ERR_{n}." for n in range(CHUNKS)], "The long")
    yield from _of("evil", [f"First {ATTACK}", f"The blocked card is ERR_4711 {ATTACK}"], ATTACK)


def _of(document: str, texts: list[str], title: str) -> Iterator[Record]:
    at = 0
    for number, text in enumerate(texts):
        metadata = {
            "document_id": document, "source": f"/{document}.md", "title": title.replace("\x00", ""),
            "heading_path": f"Part {title}".replace("\x00", ""), "chunk_index": number,
            "chunk_count": len(texts), "start_index": at, "end_index": at + len(text), "language": "en",
            "start_line": number + 1, "end_line": number + 1, "token_count": 9,
        }  # fmt: skip
        at += len(text) + 1
        yield Record(RecordId(f"{document}#{number}"), text, metadata, MODEL.embed([text])[0])


@pytest.fixture(scope="session")
def chroma(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with server(tmp_path_factory.mktemp("chroma")) as running, client_of(running) as client:
        yield client


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory, chroma: Client) -> Iterator[Daemon]:
    with holding(_records(), tmp_path_factory.mktemp("daemon"), MODEL, chroma) as found:
        _note_rows(found)
        stored_report.write(found.folder, evaluation(ATTACK), 1.7e9)
        yield found


def evaluation(said: str) -> dict[str, Any]:
    """A report as ``evaluate --json`` has it, as far as the page shows it. ``said``: in all of its texts."""
    interval = {"mean": 71.25, "low": 64.0, "high": 78.1}
    collection = {"records": 1740, "embedded_tokens": 21459, "seconds": 12.3, "cost": 0.25, "disk": 1.8e7}
    unpriced = {**collection, "cost": None}
    one = {
        "label": f"changepoint {said}", "search": "dense", "configured": True, "mean_tokens": 124.1,
        "recall": {"500": interval}, "passes": 1.0, "collection": collection,
        "rerank_seconds": 0.412,
    }  # fmt: skip
    return {
        "collection": "docs",
        "documents": {"count": 15, "listed": 150},
        "questions": {"count": 240, "origin": "made", "refused": [{"question": said}]},
        "strategies": [one, {**one, "label": "other", "collection": unpriced, "rerank_seconds": None}],
        "recommendation": {"text": f"It stays. {said}", "yaml": f"chunking: {{}} # {said}"},
    }


def _note_rows(daemon: Daemon) -> None:
    """Of the two documents, and of two that have no records."""
    with daemon.journal.transaction() as db:
        columns = (
            "id, document_id, source, collection, key, uri, size, modified, extra, wanted_version, "
            "done_version, quarantined, attempts, retry_at, reason"
        )
        query = (
            f"INSERT INTO documents ({columns}) VALUES (?,?,'docs','docs',?,?,10,1.7e9,'[]','1',?,?,?,?,?)"
        )
        rows = (
            (1, "long", "long.md", "/long.md", "1", 0, 0, 0, None),
            (2, "evil", f"{ATTACK}.md", f"https://example.org/{ATTACK}", "1", 0, 0, 0, None),
            (3, "bad", "bad.pdf", "/bad.pdf", "1", 1, 0, 0, f"is damaged {ATTACK}"),
            (4, "late", "late.md", "javascript:alert(3)", None, 0, 2, 2e9, "the server is away"),
        )
        db.executemany(query, rows)
        db.execute("INSERT INTO sources (name, last_scan) VALUES ('docs', 1.7e9)")
        for row, count in ((1, CHUNKS), (2, 2)):
            db.executemany(
                "INSERT INTO records VALUES (?, ?, '', '', '', 0, x'')",
                [(row, slot) for slot in range(count)],
            )


@pytest.fixture(scope="session")
def config(daemon: Daemon) -> Config:
    (daemon.folder / "docs").mkdir()
    path = daemon.folder / "config.yaml"
    path.write_text(CONFIG)
    return load(path, {})


@pytest.fixture(scope="session")
def client(daemon: Daemon, config: Config) -> Iterator[httpx.Client]:
    with served(daemon, config) as client:
        yield client


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[httpx.Client]:
    daemon = Daemon(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "config.yaml").write_text(CONFIG)
    with served(daemon, load(tmp_path / "config.yaml", {})) as client:
        yield client
    daemon.close()
