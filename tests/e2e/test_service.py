"""The service port of a real daemon: what operators and readers see of it, also while something stalls."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from ingestor.chroma import processes
from tests.e2e.project import Daemon, Project, free_port
from tests.endpoint import Reply, embedding, serving
from tests.environments import readers
from tests.waiting import wait

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.timeout(900)
LOADERS = ROOT / "tests/connectors/loaders.py"


def project(folder: Path, source: dict[str, Any] | None = None, **http: Any) -> Project:
    found = Project(folder / "project", {"http": {"port": free_port(), **http}}, source or {})
    for name in ("harbour", "bridge", "library"):
        (found.docs / f"{name}.txt").write_text(f"All that is known about the {name}.\n")
    return found


@contextmanager
def running(of: Project) -> Iterator[Daemon]:
    daemon = of.start()
    try:
        yield daemon
    finally:
        daemon.kill()


def get(of: Project, path: str) -> httpx.Response | None:
    try:
        address = f"http://127.0.0.1:{of.settings['http']['port']}{path}"
        return httpx.get(address, timeout=30, trust_env=False)
    except httpx.TransportError:
        return None


def status(of: Project, path: str) -> int:
    found = get(of, path)
    return found.status_code if found else 0


def figure(of: Project, series: str) -> float | None:
    found = get(of, "/metrics")
    lines = found.text.splitlines() if found else []
    return next((float(line.split()[-1]) for line in lines if line.startswith(f"{series} ")), None)


def asked(of: Project, about: str) -> list[str]:
    """The document that a reader of the collection gets for a question in words."""
    found: list[str] = read(of, Path(sys.executable), f"All that is known about the {about}.")[1]
    return found


def read(of: Project, python: Path, question: str) -> Any:
    command = [str(python), "-c", READER, str(of.port), question]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=of.folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_daemon_is_seen_and_asked(tmp_path: Path) -> None:
    here = project(tmp_path)
    with running(here) as daemon:
        settled = 'ingestor_documents{collection="docs",source="docs",state="settled"}'
        wait(lambda: figure(here, settled) == 3)
        assert status(here, "/healthz") == 200
        wait(lambda: status(here, "/readyz") == 200)
        assert figure(here, 'ingestor_lag_seconds{source="docs"}') == 0
        wait(lambda: figure(here, 'ingestor_document_changes_total{kind="added",source="docs"}') == 3)
        for stage in ("read", "chunk", "write"):
            assert (figure(here, f'ingestor_stage_seconds_total{{stage="{stage}"}}') or 0) > 0
        assert asked(here, "bridge")[0].strip() == "All that is known about the bridge."
        (here.docs / "bridge.txt").unlink()
        wait(lambda: figure(here, settled) == 2)
        assert daemon.stop() == 0, daemon.said()
    assert "the service port listens at http://127.0.0.1:" in daemon.said()


@pytest.mark.slow
def test_collections_that_were_made_before_change_over_without_embedding(tmp_path: Path) -> None:
    here = project(tmp_path)
    port, here.settings["http"] = here.settings["http"], False
    here.configure()
    here.json("sync")
    records = here.records()
    here.settings["http"] = port
    here.configure()
    with running(here) as daemon:
        wait(lambda: status(here, "/readyz") == 200)
        assert [text.strip() for text in asked(here, "library")] == ["All that is known about the library."]
        assert figure(here, "ingestor_embedded_texts_total") == 0
        assert daemon.stop() == 0, daemon.said()
    assert here.records() == records


def test_a_port_in_use_is_told_and_documents_are_indexed_all_the_same(tmp_path: Path) -> None:
    here = project(tmp_path)
    place = f"127.0.0.1:{here.settings['http']['port']}"
    with socket.create_server(("127.0.0.1", here.settings["http"]["port"])), running(here) as daemon:
        wait(lambda: here.settled(3))
        wait(lambda: "In step" in daemon.said())
        assert here.poll("status")["no_service"] == f"{place} is taken by another program"
        assert "huggingface_server" not in str(stored_function(here))
        assert daemon.stop() == 0
    assert f"no service port: port {here.settings['http']['port']} is taken by" in daemon.said()
    assert "Traceback" not in daemon.said()
    assert place not in daemon.said(), "the page there is another program's"
    with running(here):
        wait(lambda: place in str(stored_function(here)))
        assert here.poll("status")["no_service"] == ""


def stored_function(of: Project) -> Any:
    """What embeds the questions of readers, as the collection has it; None while there is none."""
    url = "/api/v2/tenants/default_tenant/databases/default_database/collections"
    try:
        found = httpx.get(f"http://127.0.0.1:{of.port}{url}", timeout=30, trust_env=False)
    except httpx.TransportError:
        return None
    return [each["configuration_json"]["embedding_function"] for each in found.json()] if found else None


def test_a_chroma_that_is_stopped_is_seen(tmp_path: Path) -> None:
    here = project(tmp_path)
    with running(here):
        wait(lambda: status(here, "/readyz") == 200)
        pid = processes.listener(here.port)
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            wait(lambda: figure(here, "ingestor_chroma_up") == 0)
            assert status(here, "/readyz") == 503
        finally:
            os.kill(pid, signal.SIGCONT)
        wait(lambda: figure(here, "ingestor_chroma_up") == 1)


def test_a_chroma_that_was_killed_is_counted(tmp_path: Path) -> None:
    here = project(tmp_path)
    with running(here):
        wait(lambda: status(here, "/readyz") == 200)
        pid = processes.listener(here.port)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait(lambda: figure(here, "ingestor_chroma_restarts_total") == 1)
        wait(lambda: figure(here, "ingestor_chroma_up") == 1)


def test_a_listing_that_hangs_is_seen(tmp_path: Path) -> None:
    shutil.copy(LOADERS, tmp_path)
    arguments = {"pids": str(tmp_path / "pid")}
    hanging = {"kind": "python", "call": "loaders:hanging", "folder": str(tmp_path), "arguments": arguments}
    source = {"name": "slow", "collection": "docs", **hanging}
    here = project(tmp_path)
    here.settings["sources"] = [source]
    here.configure()
    with running(here):
        wait(lambda: figure(here, 'ingestor_source_listing_started_timestamp_seconds{source="slow"}'))
        assert figure(here, 'ingestor_source_last_listing_timestamp_seconds{source="slow"}') is None
        said = get(here, "/readyz")
        assert said is not None
        reasons = ["a source was never listed completely"]
        assert said.json() == {"ready": False, "readable": True, "writable": True, "reasons": reasons}
        assert status(here, "/healthz") == 200, "a restart would not help"


def test_an_embedding_server_that_hangs_is_seen(tmp_path: Path) -> None:
    def script(body: Any) -> Reply:
        return Reply(hang=True) if "bridge" in str(body) else embedding(body)

    here = project(tmp_path)
    lag = 'ingestor_lag_seconds{source="docs"}'
    with serving(script) as server:
        here.settings["embedding"] = {
            "kind": "openai",
            "base_url": server.base_url,
            "model": "m",
            "retries": 0,
        }
        here.configure()
        with running(here):
            first = wait(lambda: figure(here, "ingestor_embedding_batch_seconds"))
            wait(lambda: (figure(here, "ingestor_embedding_batch_seconds") or 0) > first)
            assert (figure(here, "ingestor_embedding_queue_texts") or 0) > 0
            first = wait(lambda: figure(here, lag))
            wait(lambda: (figure(here, lag) or 0) > first)


def test_a_source_that_waits_for_a_person_is_seen(tmp_path: Path) -> None:
    here = project(tmp_path)
    held = 'ingestor_source_held{source="docs"}'
    for n in range(6):
        (here.docs / f"more{n}.txt").write_text(f"Number {n}.\n")
    with running(here):
        wait(lambda: here.settled(9))
        assert figure(here, held) == 0
        for path in here.docs.glob("*.txt"):
            path.unlink()
        wait(lambda: figure(here, held) == 1)
        assert here.settled(9), "nothing left the index"


def test_a_token_opens_it_and_readers_send_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("t0ken-of-the-port")
    here = project(tmp_path, token=f"file:{tmp_path / 'token'}")
    monkeypatch.setenv("INGESTOR_TOKEN", "t0ken-of-the-port")
    with running(here) as daemon:
        wait(lambda: status(here, "/readyz") == 200)
        wait(lambda: here.settled(3))
        assert status(here, "/metrics") == 401
        assert [text.strip() for text in asked(here, "library")] == ["All that is known about the library."]
        assert daemon.stop() == 0
    whole = daemon.said() + "".join(path.read_text() for path in here.folder.rglob("*.json"))
    assert "t0ken-of-the-port" not in whole


READER = """
import importlib.util
import json
import sys

import chromadb

others = [name for name in ("torch", "sentence_transformers", "ingestor") if importlib.util.find_spec(name)]
client = chromadb.HttpClient(port=int(sys.argv[1]))
collection = client.get_collection("docs")
found = collection.query(query_texts=[sys.argv[2]], n_results=1)["documents"][0]
print(json.dumps([others, found]))
"""


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_reader_with_chroma_alone_asks_in_words(tmp_path: Path) -> None:
    """With the real model, which this process has and the reader's has not. Makes an environment: slow."""
    python = readers("chromadb==1.5.9")
    here = project(tmp_path)
    here.settings["embedding"] = {"model": "all-MiniLM-L6-v2"}
    here.configure()
    with running(here):
        wait(lambda: here.settled(3))
        others, found = read(here, python, "Where does the road cross the river?")
    assert (others, [text.strip() for text in found]) == ([], ["All that is known about the bridge."])
