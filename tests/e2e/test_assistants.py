"""``ingestor mcp`` as an assistant uses it: by the official SDK's own client, over stdio."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.project import INGESTOR, Project, free_port, wait
from tests.e2e.test_service import running

mcp = pytest.importorskip("mcp")

pytestmark = pytest.mark.timeout(900)

PAGE = "# The {0}\n\nAll that is known about the {0}.\n\n## Keepers\n\nThe {0} has two keepers.\n"


def project(folder: Path) -> Project:
    found = Project(folder / "project", {"http": {"port": free_port(), "token": f"file:{folder / 'token'}"}})
    (folder / "token").write_text("t0ken-of-the-port")
    for name in ("harbour", "bridge", "library"):
        (found.docs / f"{name}.md").write_text(PAGE.format(name))
    return found


def assisted(of: Project, work: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    async def session() -> None:
        command = mcp.StdioServerParameters(command=str(INGESTOR), args=["mcp", "--config", str(of.config)])
        async with mcp.Client(command, read_timeout_seconds=240) as client:
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
        assisted(here, work)
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
