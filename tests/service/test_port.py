"""The service port's addresses, over HTTP, with a journal and an embedding stream of their own."""

import json
import shutil
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import httpx
import numpy as np
import pytest

from ingestor.core.entries import Edition, EditionName
from ingestor.engine import embedding
from ingestor.model import CollectionName, SourceName
from ingestor.service import situation
from ingestor.state import run_status
from ingestor.state.editions import Editions
from ingestor.state.run_status import CheckResult, Live
from ingestor.state.sources import SourceRows
from tests.service.world import RECIPE, Daemon, served
from tests.waiting import wait


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    monkeypatch.setattr(situation, "FRESH", 0.0)
    found = Daemon(tmp_path)
    edition = Edition(EditionName("docs"), CollectionName("docs"), uuids=("uuid",), embedder=RECIPE)
    Editions(found.journal).note(edition)
    found.collections[("uuid",)] = SimpleNamespace(count=lambda: 7)
    yield found
    found.model.gate.set()
    found.close()


@pytest.fixture
def client(daemon: Daemon) -> Iterator[httpx.Client]:
    with served(daemon) as client:
        yield client


def test_questions_in_the_form_of_text_embeddings_inference_are_embedded(client: httpx.Client) -> None:
    for address in ("/embed", "/embed/docs", f"/embed/{RECIPE}"):
        assert client.post(address, json={"inputs": ["a", "b"]}).json() == [[0, 1], [0, 1]]
        assert client.post(address, json={"inputs": "a", "truncate": True}).json() == [[0, 1]]
        assert client.post(address, json={"inputs": "a", "prompt_name": "document"}).json() == [[1, 0]]


def test_questions_in_openais_form_are_embedded(client: httpx.Client) -> None:
    said = client.post("/v1/embeddings", json={"input": ["a b", "c"], "model": "docs"}).json()
    assert [(each["index"], each["embedding"]) for each in said["data"]] == [(0, [0, 1]), (1, [0, 1])]
    assert (said["model"], said["usage"]) == ("docs", {"prompt_tokens": 3, "total_tokens": 3})
    said = client.post("/v1/embeddings", json={"input": "a", "encoding_format": "base64"}).json()
    assert np.frombuffer(b64decode(said["data"][0]["embedding"]), "<f4").tolist() == [0, 1]


INVALID = [
    ("/embed", {}, 422), ("/embed", {"inputs": []}, 422), ("/embed", {"inputs": [1]}, 422),
    ("/embed", {"inputs": "\ud800"}, 400), ("/embed/docs", {"inputs": ["a", "\udfffb"]}, 400),
    ("/v1/embeddings", {"input": "\ud800"}, 400),
    ("/v1/embeddings", {"input": "a", "model": "\ud800"}, 400), ("/embed", {"inputs": ["a"] * 257}, 413),
    ("/embed", {"inputs": "a" * 2_100_000}, 413), ("/embed/other", {"inputs": "a"}, 404),
    ("/embed/' OR 1=1 --", {"inputs": "a"}, 404), ("/v1/embeddings", {"input": [[1, 2]]}, 422),
    ("/v1/embeddings", {"input": "a", "encoding_format": "int8"}, 400),
    ("/v1/embeddings", {"input": "a", "dimensions": 7}, 400),
]  # fmt: skip


def test_invalid_request_is_refused(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for address, body, status in INVALID:
        said = client.post(address, content=json.dumps(body).encode())
        assert (said.status_code, bool(said.json()["error"])) == (status, True), (address, said.text)
    monkeypatch.setattr(embedding, "MOST_QUESTIONS", 0)
    said = client.post("/embed", json={"inputs": "q"})
    assert (said.status_code, said.headers["Retry-After"]) == (429, "1")


def test_questions_go_before_documents(daemon: Daemon, client: httpx.Client) -> None:
    daemon.model.gate.clear()
    with ThreadPoolExecutor(2) as pool:
        pool.submit(daemon.stream, [f"document {n}" for n in range(100)])
        wait(lambda: daemon.embeddings.counts().waiting == 100, every=0.01)
        assert daemon.model.begun.wait(60), "a thread that has not begun would answer the question at once"
        said = pool.submit(client.post, "/embed", json={"inputs": "q"})
        wait(lambda: daemon.stream.questions == 1, every=0.01)
        daemon.model.gate.set()
        assert said.result().json() == [[0, 1]]
    assert daemon.model.seen.index(["q"]) <= 2, "a word that loads the model, and one step, go before"


def test_health_and_readiness(daemon: Daemon, client: httpx.Client) -> None:
    loading = "Chroma is loading a collection"
    daemon.journal.set("x", "y")
    assert client.get("/healthz").json() == {"healthy": True}
    daemon.unloaded = {"of nobody's interest"}
    assert client.get("/readyz").json()["reasons"] == ["a source was never listed completely"]
    daemon.unloaded = {"uuid"}
    assert loading in client.get("/readyz").json()["reasons"]
    daemon.up, daemon.idle = False, 400.0
    assert client.get("/healthz").status_code == 503
    said = client.get("/readyz")
    assert said.status_code == 503
    assert "Chroma does not answer" in said.json()["reasons"]


def test_readiness_distinguishes_reading_from_writing(daemon: Daemon, client: httpx.Client) -> None:
    said = client.get("/readyz").json()
    assert (said["readable"], said["writable"]) == (True, True)
    daemon.live = Live(
        unwritable={"docs": "403 by the proxy"}, state_error="disk full", config_error="line 3"
    )
    daemon.collections.clear()
    said = client.get("/readyz").json()
    assert (said["readable"], said["writable"]) == (False, False)
    assert {"a collection cannot be read", "a collection cannot be written"} <= set(said["reasons"])
    assert "docs" not in str(said), "it needs no token"
    for check in ("docs", "gone"):
        run_status.write_check(daemon.folder, CheckResult(check, "faq.csv", 0.5, 0.1, False, 1000.0))
    assert figure(client, 'ingestor_collection_readable{collection="docs"}') == "0.0"
    assert figure(client, 'ingestor_collection_writable{collection="docs"}') == "0.0"
    assert figure(client, "ingestor_state_writable") == "0.0"
    assert figure(client, "ingestor_config_error") == "1.0"
    assert float(figure(client, 'ingestor_folder_bytes{folder="state"}')) > 0
    assert figure(client, 'ingestor_dead_bytes{file="journal"}')
    assert figure(client, 'ingestor_check_passed{collection="docs",questions="faq.csv"}') == "0.0"
    assert 'collection="gone"' not in client.get("/metrics").text


def test_metrics_show_what_stalls(daemon: Daemon, client: httpx.Client) -> None:
    batch = "ingestor_embedding_batch_seconds"
    daemon.model.gate.clear()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(daemon.stream, ["one", "two"])
        try:
            wait(lambda: figure(client, "ingestor_embedding_queue_texts") == "2.0")
            first = float(figure(client, batch))
            wait(lambda: float(figure(client, batch)) > first)
        finally:
            daemon.model.gate.set()
    daemon.up = False
    assert figure(client, "ingestor_chroma_up") == "0.0"
    assert 'path="/metrics",status="200"' in client.get("/metrics").text


HELD = ("emptied", 1.0), ("unreadable", 1.0), ("well", 0.0)


def test_metrics_show_each_source_that_waits_for_a_person(daemon: Daemon, client: httpx.Client) -> None:
    rows = SourceRows(daemon.journal)
    for name in ("emptied", "unreadable", "well"):
        rows.note_listing(SourceName(name), at=1.0, documents=3)
    rows.hold(SourceName("emptied"), "3 of 3 documents vanished", loss=True)
    daemon.journal.write("INSERT INTO withdrawals (source, kept) VALUES ('unreadable', 'unreadable now')")
    metrics = client.get("/metrics").text
    assert [f'source_held{{source="{name}"}} {held}' in metrics for name, held in HELD] == [True] * 3


@pytest.mark.skipif(shutil.which("promtool") is None, reason="Debian's package prometheus is not installed")
def test_promtool_finds_nothing_wrong_with_names_and_units(client: httpx.Client) -> None:
    client.get("/healthz")
    text = client.get("/metrics").text
    assert "ingestor_http_requests_total{" in text
    asked = ["promtool", "check", "metrics"]
    done = subprocess.run(asked, input=text, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def figure(client: httpx.Client, name: str) -> str:
    lines = client.get("/metrics").text.splitlines()
    return next(line.split()[1] for line in lines if line.startswith(f"{name} "))


def test_health_alone_is_open_without_the_token(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(daemon, token="t0ken") as client:
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").status_code == 503
        for path in ("/metrics", "/embed", "/nowhere"):
            assert client.get(path).status_code == 401
        assert client.get("/metrics", headers={"Authorization": "Bearer t0ken"}).status_code == 200
