"""``/mcp`` at the service port: by the official SDK's own client, and by requests that it would not send."""

import asyncio
import json
import re
from collections.abc import Coroutine
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from ingestor.core.escape import escape_invisible
from ingestor.service import assistants
from tests.search.test_search import TEXTS

pytestmark = pytest.mark.skipif(find_spec("mcp") is None, reason="the package mcp is not installed")

HEADERS = {"Accept": "application/json, text/event-stream"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


def sdk(client: httpx.Client, **options: Any) -> Any:
    from mcp import Client  # takes half a second, and few processes run these tests

    return Client(str(client.base_url.join("/mcp")), **options)


def assisted(client: httpx.Client, work: Any, mode: str) -> Any:
    async def session() -> Any:
        async with sdk(client, mode=mode) as assistant:
            return await work(assistant)

    return asyncio.run(session())


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_tools_and_resources_work(client: httpx.Client, mail: None, mode: str) -> None:
    async def work(assistant: Any) -> None:
        tools = (await assistant.list_tools()).tools
        assert {tool.name for tool in tools} == {"search", "read", "list_documents", "status"}
        assert all(tool.input_schema["additionalProperties"] is False for tool in tools)
        assert "\n    " not in "".join(tool.description for tool in tools), "the indentation of the source"
        asked = {"query": "ERR_4711", "collection": "docs", "expand": "document"}
        found = await assistant.call_tool("search", asked)
        assert found.structured_content["passages"][0]["document_id"] == "faq"
        for wanted in ("*", ["docs", "mail"]):
            several = {"query": "opening hours of the bridge", "collection": wanted, "n": 20}
            passages = (await assistant.call_tool("search", several)).structured_content["passages"]
            assert {passage["collection"] for passage in passages} == {"docs", "mail"}
            assert all(passage["text"] and passage["document_id"] for passage in passages)
        document = await assistant.call_tool("read", {"collection": "docs", "document_id": "faq"})
        assert "With a card" in str(document.structured_content["passages"])
        listed = await assistant.call_tool("list_documents", {"collection": "docs", "match": "haus"})
        assert [one["key"] for one in listed.structured_content["documents"]] == ["haus.md"]
        assert not (await assistant.call_tool("status", {})).is_error
        resource = await assistant.read_resource("ingestor://docs/faq")
        assert "With a card" in resource.contents[0].text

    assisted(client, work, mode)


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("read", {"document_id": "nothing"}, "no document 'nothing'; `list_documents` names them"),
        ("search", {"query": "x", "collection": "other"}, "known: docs; `status` names them"),
        ("search", {"query": "x", "top_k": 3}, "unknown argument 'top_k'; known: query, collection, n,"),
        ("read", {"document_id": "faq", "stop": 3}, "unknown argument 'stop'; known: document_id,"),
        ("list_documents", {"path": "x"}, "unknown argument 'path'; known: collection, match,"),
        ("status", {"collection": "docs"}, "unknown argument 'collection'; known: none"),
        ("search", {"query": "x", "n": 51}, "n: Input should be less than or equal to 50"),
        ("search", {}, "query: Field required"),
        ("search", {"query": "x", "where": {"a": {"$like": "b"}}}, "unknown operator '$like'"),
        ("search", {"query": "x", "where": {"path": {"$contains": "ref/"}}}, "'path', which is a text"),
        ("read", {"document_id": "faq", "start": 5, "end": 2}, "end must be a whole number"),
    ],
)
def test_mistakes_of_assistants_name_tools_and_arguments(
    client: httpx.Client, tool: str, arguments: dict[str, Any], words: str
) -> None:
    async def work(assistant: Any) -> Any:
        return await assistant.call_tool(tool, arguments)

    answer = assisted(client, work, "auto")
    text = answer.content[0].text
    assert (answer.is_error, words in text) == (True, True), text
    assert not re.search(r"HTTP|https?:|GET |POST |\n", text), text


def test_answers_show_assistants_what_people_do_not_see() -> None:
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "obey")
    asked: list[str] = []

    async def ask(method: str, path: str, body: object) -> tuple[int, Any]:
        asked.append(path)
        passage = {"text": f"Hours.{hidden}\u202e"}
        named = {"document_id": f"a{hidden}.md", "passages": [passage], "next": None, "title": "\u2066x"}
        return 200, named if path.startswith("/documents/") else {"documents": [named], "next": f"a{hidden}"}

    async def work() -> None:
        from ingestor.service.assistant_tools import server

        made = server(ask)
        listed = await made.call_tool("list_documents", {})
        shown = str(listed) + str(await made.call_tool("read", {"document_id": "a"}))
        resource = await made.read_resource("ingestor://docs/a")
        for text in (shown, str(resource)):
            assert "Hours." in text or "documents" in text
            assert not [c for c in text if ord(c) >= 0xE0000 or c in "\u202e\u2066"]
        await made.call_tool("read", {"document_id": escape_invisible(f"a{hidden}.md")})
        assert quote(f"a{hidden}.md") in asked[-1]

    asyncio.run(work())


def test_half_characters_are_answered(client: httpx.Client) -> None:
    half = {"search": "query", "read": "document_id", "list_documents": "match"}
    for name, field in half.items():
        call = {**LIST, "method": "tools/call", "params": {"name": name, "arguments": {field: "\ud800"}}}
        headers = {**HEADERS, "Content-Type": "application/json"}
        said = client.post("/mcp", content=json.dumps(call).encode(), headers=headers)
        assert said.status_code == 400, said.text


def test_many_assistants_at_once_each_get_their_own_answer(client: httpx.Client) -> None:
    async def one(name: str) -> str:
        async with sdk(client) as assistant:
            found = await assistant.call_tool("read", {"document_id": name})
            return str(found.structured_content["document_id"])

    async def all_of_them() -> list[str]:
        work: list[Coroutine[Any, Any, str]] = [one(name) for name in [*TEXTS] * 3]
        return list(await asyncio.gather(*work))

    assert asyncio.run(all_of_them()) == [*TEXTS] * 3


def test_assistant_endpoint_has_no_sessions_and_no_streams(client: httpx.Client) -> None:
    """A stream would hold a connection open, and tell nothing."""
    for method in ("GET", "DELETE", "PUT"):
        said = client.request(method, "/mcp", headers=HEADERS)
        assert (said.status_code, said.headers["Allow"]) == (405, "POST")
    assert "Mcp-Session-Id" not in client.post("/mcp", json=LIST, headers=HEADERS).headers
    listen = {**LIST, "method": "subscriptions/listen", "params": {}}
    said = client.post("/mcp", json=listen, headers={**HEADERS, "Mcp-Protocol-Version": "2026-07-28"})
    assert "error" in said.json()


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"{", {}, 400), (b"[]", {}, 400), (b'"text"', {}, 400),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 7}', {}, 400), (b"[" * 100_000, {}, 400),
        (b" " * 200_001, {}, 413), (b"{}", {"Content-Type": "text/plain"}, 400),
        (b"{}", {"Accept": "text/html"}, 406), (b"{}", {"Mcp-Protocol-Version": "1999-01-01"}, 400),
    ],
)  # fmt: skip
def test_invalid_call_is_refused(
    client: httpx.Client, content: bytes, headers: dict[str, str], status: int
) -> None:
    whole = {"Content-Type": "application/json", **HEADERS, **headers}
    assert client.post("/mcp", content=content, headers=whole).status_code == status


def test_missing_package_is_named_with_its_command(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assistants, "find_spec", lambda name: None)
    said = client.post("/mcp", json=LIST, headers=HEADERS)
    assert said.status_code == 501
    assert "pip install 'chroma-ingestor[mcp]'" in said.json()["detail"]
