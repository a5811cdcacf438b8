"""The service port of a real daemon: metrics, readiness and assistants."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from ingestor.chroma import processes
from ingestor.cli.main import app
from ingestor.service import assistants
from tests.e2e.project import INGESTOR, Project, running
from tests.endpoint import Reply, embedding, serving
from tests.environments import readers
from tests.serving import free_port
from tests.waiting import wait

pytestmark = pytest.mark.timeout(900)
ROOT = Path(__file__).parent.parent.parent
LOADERS = ROOT / "tests/connectors/loaders.py"


def make_served(folder: Path, source: dict[str, Any] | None = None, **http: Any) -> Project:
    found = Project(folder / "project", {"http": {"port": free_port(), **http}}, source or {})
    for name in ("harbour", "bridge", "library"):
        (found.docs / f"{name}.txt").write_text(f"All that is known about the {name}.\n")
    return found


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


def test_running_daemon_is_detected_and_queried(tmp_path: Path) -> None:
    here = make_served(tmp_path)
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


def test_port_in_use_is_reported_and_documents_are_indexed(tmp_path: Path) -> None:
    here = make_served(tmp_path)
    place = f"127.0.0.1:{here.settings['http']['port']}"
    with socket.create_server(("127.0.0.1", here.settings["http"]["port"])), running(here) as daemon:
        wait(lambda: here.settled(3))
        wait(lambda: "In step" in daemon.said())
        assert here.poll("status")["no_service"] == f"{place} is taken by another program"
        assert "huggingface_server" not in str(stored_function(here))
        assert daemon.stop() == 0
    assert f"the service port is not open: port {here.settings['http']['port']} is taken by" in daemon.said()
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


def test_stopped_chroma_raises_an_alert(tmp_path: Path) -> None:
    here = make_served(tmp_path)
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


def test_listing_that_hangs_is_seen(tmp_path: Path) -> None:
    shutil.copy(LOADERS, tmp_path)
    arguments = {"pids": str(tmp_path / "pid")}
    hanging = {"kind": "python", "call": "loaders:hanging", "folder": str(tmp_path), "arguments": arguments}
    source = {"name": "slow", "collection": "docs", **hanging}
    here = make_served(tmp_path)
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


def test_embedding_server_that_hangs_is_seen(tmp_path: Path) -> None:
    def script(body: Any) -> Reply:
        return Reply(hang=True) if "bridge" in str(body) else embedding(body)

    here = make_served(tmp_path)
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


# service/test_figures.py has the figure, and test_bad_input.py a loss that waits for a person
@pytest.mark.slow
def test_held_source_raises_an_alert(tmp_path: Path) -> None:
    here = make_served(tmp_path)
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
def test_reader_with_chroma_alone_searches_by_words(tmp_path: Path) -> None:
    """With the real model, which this process has and the reader's has not. Makes an environment: slow."""
    python = readers("chromadb==1.5.9")
    here = make_served(tmp_path)
    here.settings["embedding"] = {"model": "all-MiniLM-L6-v2"}
    here.configure()
    with running(here):
        wait(lambda: here.settled(3))
        others, found = read(here, python, "Where does the road cross the river?")
    assert (others, [text.strip() for text in found]) == ([], ["All that is known about the bridge."])


# --- Assistants, by the official SDK's client, at ``/mcp``; tests/test_examples.py has ``ingestor mcp`` ---
PAGE = "# The {0}\n\nAll that is known about the {0}.\n\n## Keepers\n\nThe {0} has two keepers.\n"


def make_known(folder: Path) -> Project:
    found = Project(folder / "project", {"http": {"port": free_port(), "token": f"file:{folder / 'token'}"}})
    (folder / "token").write_text("t0ken-of-the-port")
    for name in ("harbour", "bridge", "library"):
        (found.docs / f"{name}.md").write_text(PAGE.format(name))
    return found


@asynccontextmanager
async def by_stdio(of: Project) -> AsyncIterator[Any]:
    from mcp import (
        Client,
        StdioServerParameters,
    )  # half a second, which few processes need

    command = StdioServerParameters(command=str(INGESTOR), args=["mcp", "--config", str(of.config)])
    async with Client(command, read_timeout_seconds=240) as client:
        yield client


@asynccontextmanager
async def by_http(of: Project) -> AsyncIterator[Any]:
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    token = {"Authorization": "Bearer t0ken-of-the-port"}
    address = f"http://127.0.0.1:{of.settings['http']['port']}/mcp"
    async with create_mcp_http_client(headers=token) as http:
        transport = streamable_http_client(address, http_client=http)
        async with Client(transport, read_timeout_seconds=240) as client:
            yield client


def assisted(of: Project, work: Callable[[Any], Coroutine[Any, Any, None]], by: Any = by_stdio) -> None:
    async def session() -> None:
        async with by(of) as client:
            await work(client)

    asyncio.run(session())


async def call(client: Any, tool: str, **given: Any) -> Any:
    said = await client.call_tool(tool, given)
    assert not said.is_error, said.content
    assert json.loads(said.content[0].text) == said.structured_content
    return said.structured_content


@pytest.mark.skipif(find_spec("mcp") is None, reason="the package mcp is not installed")
def test_assistant_searches_lists_and_reads(tmp_path: Path) -> None:
    here = make_known(tmp_path)

    async def work(client: Any) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"search", "read", "list_documents", "status"}
        assert all(tool.annotations.read_only_hint and tool.description for tool in tools.values())
        found = await call(client, "search", query="keepers of the bridge", n=1, expand="document")
        passage = found["passages"][0]
        assert passage["source"].endswith("bridge.md")
        document = await call(client, "read", document_id=passage["document_id"])
        assert (document["next"], document["key"]) == (None, "bridge.md")
        assert document["passages"][0]["text"] == PAGE.format("bridge").strip()
        listed = await call(client, "list_documents", match="harb")
        assert [one["key"] for one in listed["documents"]] == ["harbour.md"]
        status = await call(client, "status")
        assert status["collections"]["docs"] == {"settled": 3}
        resource = await client.read_resource(f"ingestor://docs/{passage['document_id']}")
        assert resource.contents[0].text == PAGE.format("bridge").strip()
        wrong = await client.call_tool("search", {"query": "bridge", "collection": "other"})
        assert wrong.is_error
        assert "known: docs" in wrong.content[0].text
        wrong = await client.call_tool("read", {"document_id": "../../etc/passwd"})
        assert wrong.is_error

    with running(here) as daemon:
        wait(lambda: here.settled(3) and here.poll("query", "bridge")["mode"] == "hybrid")
        assisted(here, work, by_http)
        assert daemon.stop() == 0, daemon.said()
    assert "Traceback" not in daemon.said()


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mcp") is None, reason="the package mcp is not installed")
def test_assistant_without_a_daemon_gets_the_remedy(tmp_path: Path) -> None:
    here = make_known(tmp_path)

    async def work(client: Any) -> None:
        for _ in range(2):
            said = await client.call_tool("search", {"query": "bridge"})
            assert said.is_error
            assert "run" in said.content[0].text, said.content
            assert "Traceback" not in said.content[0].text
            here.json("sync")

    assisted(here, work)


@pytest.mark.skipif(find_spec("mcp") is None, reason="the package mcp is not installed")
def test_assistant_server_needs_the_service_port(tmp_path: Path) -> None:
    here = make_known(tmp_path)
    here.settings["http"] = False
    here.configure()
    done = here.call("mcp")
    assert (done.returncode, "http: false" in done.stderr) == (2, True), done.stderr


@pytest.mark.skipif(find_spec("mcp") is None, reason="the package mcp is not installed")
def test_command_without_the_package_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assistants, "find_spec", lambda name: None)
    done = CliRunner().invoke(app, ["mcp", "--config", str(make_known(tmp_path).config)])
    assert (done.exit_code, "pip install 'chroma-ingestor[mcp]'" in done.stderr) == (4, True), done.output
