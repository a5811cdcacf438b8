"""What an assistant does, by the official SDK's own client: ``ingestor mcp`` over stdio, and ``/mcp``."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ingestor.cli.main import app
from ingestor.service import assistants
from tests.e2e.project import INGESTOR, Project, free_port
from tests.e2e.test_service import running
from tests.waiting import wait

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(find_spec("mcp") is None, reason="the package mcp is not installed"),
]

PAGE = "# The {0}\n\nAll that is known about the {0}.\n\n## Keepers\n\nThe {0} has two keepers.\n"


def project(folder: Path) -> Project:
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


def test_an_assistant_searches_lists_and_reads(tmp_path: Path) -> None:
    here = project(tmp_path)

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
        assisted(here, work, by_stdio)
        assisted(here, work, by_http)
        assert daemon.stop() == 0, daemon.said()
    assert "Traceback" not in daemon.said()


def test_without_a_daemon_an_assistant_is_told_what_to_do(tmp_path: Path) -> None:
    here = project(tmp_path)

    async def work(client: Any) -> None:
        said = await client.call_tool("search", {"query": "bridge"})
        assert said.is_error
        assert "run" in said.content[0].text, said.content
        assert "Traceback" not in said.content[0].text

    assisted(here, work)
    here.json("sync")
    assisted(here, work)


def test_without_a_service_port_there_is_no_server(tmp_path: Path) -> None:
    here = project(tmp_path)
    here.settings["http"] = False
    here.configure()
    done = here.call("mcp")
    assert (done.returncode, "http: false" in done.stderr) == (2, True), done.stderr


def test_without_the_package_the_command_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assistants, "find_spec", lambda name: None)
    done = CliRunner().invoke(app, ["mcp", "--config", str(project(tmp_path).config)])
    assert (done.exit_code, "pip install 'ingestor[mcp]'" in done.stderr) == (4, True), done.output
