"""``/mcp`` at the service port: by the official SDK's own client, and by requests that it would not send."""

import asyncio
import json
import re
from collections.abc import Coroutine, Iterator
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from ingestor.core.escape import escape_invisible
from ingestor.service import assistants
from tests.search.test_search import TEXTS
from tests.service.test_searching import chroma as chroma
from tests.service.test_searching import daemon as daemon
from tests.service.test_searching import mail as mail
from tests.service.world import Daemon, note_documents, served

pytestmark = pytest.mark.skipif(find_spec("mcp") is None, reason="the package mcp is not installed")

HEADERS = {"Accept": "application/json, text/event-stream"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@pytest.fixture(scope="module")
def client(daemon: Daemon) -> Iterator[httpx.Client]:
    note_documents(daemon, TEXTS)
    with served(daemon) as client:
        yield client


def sdk(client: httpx.Client, **options: Any) -> Any:
    from mcp import Client  # takes half a second, and few processes run these tests

    return Client(str(client.base_url.join("/mcp")), **options)


def assisted(client: httpx.Client, work: Any, mode: str) -> Any:
    async def session() -> Any:
        async with sdk(client, mode=mode) as assistant:
            return await work(assistant)

    return asyncio.run(session())


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_tools_and_resources_work_over_stdio(client: httpx.Client, mode: str) -> None:
    async def work(assistant: Any) -> None:
        tools = {tool.name: tool.description for tool in (await assistant.list_tools()).tools}
        assert set(tools) == {"search", "read", "list_documents", "status"}
        assert "\n    " not in "".join(tools.values()), "the indentation of the source"
        found = await assistant.call_tool("search", {"query": "ERR_4711", "expand": "document"})
        assert found.structured_content["passages"][0]["document_id"] == "faq"
        document = await assistant.call_tool("read", {"document_id": "faq"})
        assert "With a card" in str(document.structured_content["passages"])
        listed = await assistant.call_tool("list_documents", {"match": "haus"})
        assert [one["key"] for one in listed.structured_content["documents"]] == ["haus.md"]
        assert not (await assistant.call_tool("status", {})).is_error
        resource = await assistant.read_resource("ingestor://docs/faq")
        assert "With a card" in resource.contents[0].text
        wrong = await assistant.call_tool("search", {"query": "bridge", "collection": "other"})
        assert (wrong.is_error, "known: docs" in wrong.content[0].text) == (True, True)

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


@pytest.mark.parametrize("wanted", ["*", ["docs", "mail"]])
def test_search_of_an_assistant_covers_several_collections(
    client: httpx.Client, mail: None, wanted: object
) -> None:
    async def work(assistant: Any) -> Any:
        arguments = {"query": "opening hours of the bridge", "collection": wanted, "n": 20}
        return await assistant.call_tool("search", arguments)

    passages = assisted(client, work, "auto").structured_content["passages"]
    assert {passage["collection"] for passage in passages} == {"docs", "mail"}
    assert all(passage["text"] and passage["document_id"] for passage in passages)


def test_schemas_of_tools_are_closed(client: httpx.Client) -> None:
    async def work(assistant: Any) -> Any:
        return (await assistant.list_tools()).tools

    assert all(tool.input_schema["additionalProperties"] is False for tool in assisted(client, work, "auto"))


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
    for name, given in {
        "search": {"query": "\ud800"},
        "read": {"document_id": "\ud800"},
        "list_documents": {"match": "\udfff"},
    }.items():
        call = {**LIST, "method": "tools/call", "params": {"name": name, "arguments": given}}
        headers = {**HEADERS, "Content-Type": "application/json"}
        said = client.post("/mcp", content=json.dumps(call).encode(), headers=headers)
        assert said.status_code == 400, said.text


def test_many_assistants_at_once_each_get_their_own_answer(client: httpx.Client) -> None:
    async def one(name: str) -> str:
        async with sdk(client) as assistant:
            found = await assistant.call_tool("read", {"document_id": name})
            return str(found.structured_content["document_id"])

    async def all_of_them() -> list[str]:
        work: list[Coroutine[Any, Any, str]] = [one(name) for name in [*TEXTS] * 4]
        return list(await asyncio.gather(*work))

    assert asyncio.run(all_of_them()) == [*TEXTS] * 4


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_assistant_endpoint_has_no_sessions_and_no_streams(client: httpx.Client, method: str) -> None:
    """A stream would hold a connection open, and tell nothing."""
    said = client.request(method, "/mcp", headers=HEADERS)
    assert (said.status_code, said.headers["Allow"]) == (405, "POST")
    assert "Mcp-Session-Id" not in client.post("/mcp", json=LIST, headers=HEADERS).headers


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"{", {}, 400),
        (b"[]", {}, 400),
        (b'"text"', {}, 400),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 7}', {}, 400),
        (b"[" * 100_000, {}, 400),
        (b" " * 200_001, {}, 413),
        (b"{}", {"Content-Type": "text/plain"}, 400),
        (b"{}", {"Accept": "text/html"}, 406),
        (b"{}", {"Origin": "http://elsewhere.example"}, 403),
        (b"{}", {"Sec-Fetch-Site": "cross-site"}, 403),
        (b"{}", {"Host": "elsewhere.example"}, 421),
        (b"{}", {"Mcp-Protocol-Version": "1999-01-01"}, 400),
    ],
)
def test_invalid_call_is_refused(
    client: httpx.Client, content: bytes, headers: dict[str, str], status: int
) -> None:
    whole = {"Content-Type": "application/json", **HEADERS, **headers}
    assert client.post("/mcp", content=content, headers=whole).status_code == status


def test_endpoint_requires_the_token(daemon: Daemon) -> None:
    with served(daemon, token="t0ken") as client:
        assert client.post("/mcp", json=LIST, headers=HEADERS).status_code == 401
        bearer = {"Authorization": "Bearer t0ken"}
        said = client.post("/mcp", json=LIST, headers={**HEADERS, **bearer})
        assert len(said.json()["result"]["tools"]) == 4


def test_listener_gets_the_error_at_once(client: httpx.Client) -> None:
    listen = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {}}
    said = client.post("/mcp", json=listen, headers={**HEADERS, "Mcp-Protocol-Version": "2026-07-28"})
    assert "error" in said.json()


def test_missing_package_is_named_with_its_command(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assistants, "find_spec", lambda name: None)
    said = client.post("/mcp", json=LIST, headers=HEADERS)
    assert said.status_code == 501
    assert "pip install 'chroma-ingestor[mcp]'" in said.json()["detail"]
