"""The guard before a real Chroma: who gets in, what passes unharmed, and what cannot be smuggled past it."""

import json
import resource
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import pytest
from chromadb.errors import AuthorizationError, ChromaError

from ingestor.chroma import guard, guard_rules
from ingestor.chroma.client import Client
from ingestor.chroma.server import ChromaServer
from ingestor.http_server.access import rules
from ingestor.ports import NeedsHuman
from tests.chroma.guarding import (
    BEARER,
    HEARTBEAT,
    ROOT,
    TOKEN,
    WRITER,
    client,
    request,
    said,
    statuses,
    with_token,
)
from tests.chroma.laws import many
from tests.chroma.opening import opened
from tests.serving import HOST, free_port

COLLECTIONS = b"/api/v2/tenants/default_tenant/databases/default_database/collections"


def made(name: str) -> bytes:
    return json.dumps({"name": name, "get_or_create": True}).encode()


def post(*headers: bytes, body: bytes = b"", path: bytes = COLLECTIONS) -> bytes:
    return request(*headers, b"Content-Type: application/json", method=b"POST", path=path, body=body)


def rest(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65_536), b""))


# --- who gets in --------------------------------------------------------------------------------------------


def test_name_that_is_pointed_here_is_refused(open_server: ChromaServer) -> None:
    """DNS rebinding: the browser of a user of this machine asks under the name of a page elsewhere."""
    answer = said(open_server.port, request(host=b"evil.example:8000"))
    assert statuses(answer) == [421]
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"] == "AuthError"
    for name in (b"localhost:8000", b"127.0.0.1", b"[::1]:1"):
        assert statuses(said(open_server.port, request(host=name))) == [200]


@pytest.mark.parametrize("method", [b"GET", b"POST", b"DELETE", b"OPTIONS"])
def test_pages_of_other_origins_are_refused(open_server: ChromaServer, method: bytes) -> None:
    answer = said(open_server.port, request(b"Origin: http://evil.example", method=method))
    assert statuses(answer) == [403]
    assert b"access-control" not in answer.lower()


def test_names_of_the_config_are_served(guarded: ChromaServer) -> None:
    assert statuses(said(guarded.port, request(BEARER, host=b"ingestor:8000"))) == [200]


def test_chromas_own_client_sends_the_token(guarded: ChromaServer) -> None:
    for more in ({}, {"chroma_auth_token_transport_header": "X-Chroma-Token"}):
        docs = with_token(guarded.port, WRITER, **more).get_or_create_collection("own")
        docs.upsert(["a"], embeddings=[[1.0, 2.0]], documents=["words"])
        assert docs.query([[1.0, 2.0]], n_results=1)["documents"] == [["words"]]


def test_chromas_own_client_reports_what_is_missing(guarded: ChromaServer) -> None:
    for settings in ({}, {"token": "wrong"}):
        with pytest.raises((ChromaError, ValueError), match="requires a token"):
            (with_token if settings else client)(guarded.port, **settings).list_collections()
    with pytest.raises(AuthorizationError):
        chromadb.HttpClient(HOST, guarded.port).heartbeat()


def test_wrong_tokens_are_answered_late_and_logged(
    guarded: ChromaServer, caplog: pytest.LogCaptureFixture
) -> None:
    begun = time.monotonic()
    answer = said(guarded.port, request(b"X-Chroma-Token: wrong"), seconds=60.0)
    assert statuses(answer) == [401]
    assert time.monotonic() - begun >= 1.0
    with socket.create_connection((HOST, guarded.port), 60.0) as leaving:
        leaving.sendall(request(b"Authorization: Bearer wrong"))
    guarded.poll()
    assert "with a wrong token, the last from 127.0.0.1" in caplog.text
    assert statuses(said(guarded.port, request(), seconds=60.0)) == [401], "without a token, at once"
    assert statuses(said(guarded.port, request(BEARER), seconds=60.0)) == [200]


def test_wrong_tokens_are_reported_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now, reports = [1000.0], list[tuple[int, str]]()
    monkeypatch.setattr(guard, "monotonic", lambda: now[0])
    access = guard_rules.access(rules([], None), "secret", [])
    peers: Any = None  # nobody connects
    shared = guard.Guard(access, peers, 0, lambda: None, 10, lambda *report: reports.append(report))
    for number in range(150):
        shared.count_wrong_token(f"10.0.0.{number}")
        now[0] += 1.0
    assert reports == [(1, "10.0.0.0"), (62, "10.0.0.61"), (123, "10.0.0.122")]


def test_our_own_client_sends_the_token(guarded: ChromaServer) -> None:
    with Client(HOST, guarded.port, token=guarded.secret) as ours:
        index = opened(ours, "ours")
        index.upsert(many(20))
        assert index.count() == 20
    with Client(HOST, guarded.port) as stranger, pytest.raises(NeedsHuman, match=r"check `chroma\.token`"):
        opened(stranger, "ours")


def test_token_is_in_no_environment_and_no_command_line(guarded: ChromaServer) -> None:
    for file in ("environ", "cmdline"):
        assert TOKEN.encode() not in Path(f"/proc/{guarded.pid}/{file}").read_bytes()
    assert TOKEN not in guarded.log_path.read_text()


# --- every request of a connection --------------------------------------------------------------------------


def test_each_request_of_a_connection_is_judged(open_server: ChromaServer) -> None:
    with socket.create_connection((HOST, open_server.port), 10) as connection:
        for _ in range(3):
            connection.sendall(request())
            assert statuses(connection.recv(65_536)) == [200]
        connection.sendall(request(host=b"evil.example"))
        assert statuses(rest(connection)) == [421]


def test_requests_sent_at_once_are_answered_in_turn(guarded: ChromaServer) -> None:
    good, bad = request(BEARER), request()
    assert statuses(said(guarded.port, good * 5)) == [200] * 5
    assert statuses(said(guarded.port, good * 3 + bad + good)) == [200, 200, 200, 401]


# What could make a guard and a server see different ends of one request. ``{}`` is the smuggled one.
SMUGGLED = {
    "length and chunks": b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{}",
    "chunks and length": b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n{}",
    "two lengths": b"Content-Length: 0\r\nContent-Length: 400\r\n\r\n{}",
    "a list of lengths": b"Content-Length: 0, 400\r\n\r\n{}",
    "a signed length": b"Content-Length: +0\r\n\r\n{}",
    "a negative length": b"Content-Length: -1\r\n\r\n{}",
    "an endless length": b"Content-Length: 99999999999999999999999\r\n\r\n{}",
    "a length in hex": b"Content-Length: 0x0\r\n\r\n{}",
    "another coding": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{}",
    "two codings": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{}",
    "coding twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n{}",
    "a coding after a tab": b"Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n{}",
    "a space before the colon": b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n{}",
    "a folded header": b"Content-Length: 0\r\n x: y\r\n\r\n{}",
    "bare line feeds": b"X: y\n\n{}",
    "a bare carriage return": b"X: y\rContent-Length: 400\r\n\r\n{}",
    "a NUL": b"X: y\0z\r\n\r\n{}",
    "a chunk's extension": b'Transfer-Encoding: chunked\r\n\r\n0;a="\n\n{}"\r\n\r\n{}',
    "a chunk's bare end": b"Transfer-Encoding: chunked\r\n\r\n0\n\n{}",
    "a chunk's size": b"Transfer-Encoding: chunked\r\n\r\n00000000000000000\r\n\r\n{}",
    "a chunk of signed size": b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n{}",
    "trailers": b"Transfer-Encoding: chunked\r\n\r\n0\r\nX-Chroma-Token: may-write-in-the-tests\r\n\r\n{}",
    "no body": b"X: y\r\n\r\n{}",
    "an upgrade": b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n{}",
    "an upgrade with a body": b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 0\r\n\r\n{}",
    "expectation": b"Expect: 100-continue\r\nContent-Length: 0\r\n\r\n{}",
    "HTTP/2": b"X: y\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{}",
}


@pytest.fixture(scope="module")
def known(guarded: ChromaServer) -> Any:
    """A client with the token."""
    return with_token(guarded.port)


AS_WRITER = b"Authorization: Bearer " + WRITER.encode()


@pytest.mark.parametrize("way", ["streamed", "held"])
@pytest.mark.parametrize("trick", SMUGGLED)
def test_smuggled_requests_need_the_token(guarded: ChromaServer, known: Any, trick: str, way: str) -> None:
    """The first request may pass, the second may not: the collection that it would make is not made."""
    body = b'{"name": "smuggled"}'
    evil = post(b"Content-Length: %d" % len(body), body=body)
    line, token = (HEARTBEAT, AS_WRITER) if way == "streamed" else (b"%b/x/get" % COLLECTIONS, BEARER)
    first = b"POST %b HTTP/1.1\r\nHost: localhost\r\n%b\r\n" % (line, token)
    answer = said(guarded.port, first + SMUGGLED[trick].replace(b"{}", evil))
    assert 200 not in statuses(answer)[1:]
    assert "smuggled" not in [each.name for each in known.list_collections()]


@pytest.mark.parametrize(
    ("bytes_sent", "status"),
    [
        (b"no HTTP at all\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),  # TLS
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (request(b"X: " + b"x" * 70_000), 431),
        (b"GET /" + b"x" * 300_000, 431),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 60_000, 431),
        (request(method=b"POST", path=HEARTBEAT) + b"x", 403),
    ],
)
def test_malformed_request_is_answered(open_server: ChromaServer, bytes_sent: bytes, status: int) -> None:
    assert statuses(said(open_server.port, bytes_sent))[0] == status


# --- what passes unharmed -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_large_bodies_pass_both_ways(open_server: ChromaServer) -> None:
    vectors = np.random.default_rng(1).normal(size=(2000, 384)).astype(np.float32)
    ids = [str(n) for n in range(len(vectors))]
    docs = client(open_server.port, open_server.secret).create_collection("large")
    docs.upsert(ids, embeddings=vectors, documents=["ü" * 2000] * len(ids))
    found = docs.get(ids, include=["embeddings", "documents"])
    assert np.array_equal(np.asarray(found["embeddings"], dtype=np.float32), vectors)
    assert set(found["documents"]) == {"ü" * 2000}


def secret(server: ChromaServer) -> bytes:
    return b"X-Chroma-Token: " + server.secret.encode()


# Bodies are forwarded as they come for the daemon, and are held for readers: both ways.
@pytest.fixture(scope="module", params=["streamed", "held"])
def sender(request: pytest.FixtureRequest, open_server: ChromaServer) -> bytes:
    """A header of the daemon, or of a reader. The collections that are asked for exist."""
    ours = client(open_server.port, open_server.secret)
    for name in ("chunked", "expected", "upgraded", "dripping"):
        ours.get_or_create_collection(name)
    return secret(open_server) if request.param == "streamed" else b"X: y"


def test_chunked_bodies_pass(open_server: ChromaServer, sender: bytes) -> None:
    body = made("chunked")
    pieces = b"".join(b"1;x=y\r\n%c\r\n" % byte for byte in body) + b"0\r\nTrailer: x\r\n\r\n"
    asked = post(sender, b"Transfer-Encoding: chunked", body=pieces)
    assert statuses(said(open_server.port, asked + request())) == [200, 200]
    assert client(open_server.port).get_collection("chunked")


def test_announced_body_is_requested_by_100_continue(open_server: ChromaServer, sender: bytes) -> None:
    """Expect: 100-continue, as curl sends it with a large body."""
    body = made("expected")
    with socket.create_connection((HOST, open_server.port), 10) as connection:
        connection.sendall(post(sender, b"Expect: 100-continue", b"Content-Length: %d" % len(body)))
        assert statuses(connection.recv(1000)) == [100]
        connection.sendall(body)
        assert statuses(connection.recv(65_536)) == [200]
        connection.sendall(request(b"Connection: close"))
        assert statuses(rest(connection)) == [200]


@pytest.mark.parametrize("framed", [b"Content-Length: %d", b"Transfer-Encoding: chunked"])
def test_offer_to_upgrade_is_ignored(open_server: ChromaServer, sender: bytes, framed: bytes) -> None:
    """As Java's client makes it with its first request."""
    body = made("upgraded")
    sent = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if b"chunked" in framed else body
    offer = b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAEAAEAA"
    framed = framed.replace(b"%d", b"%d" % len(body))
    asked = post(sender, framed, *offer)
    assert statuses(said(open_server.port, asked, sent[:5], sent[5:], request())) == [200, 200]


def test_client_that_drips_is_served(open_server: ChromaServer, sender: bytes) -> None:
    body = made("dripping")
    whole = post(sender, b"Content-Length: %d" % len(body), body=body)
    assert statuses(said(open_server.port, *(whole[n : n + 1] for n in range(len(whole))))) == [200]


def test_old_and_closing_clients_are_served(open_server: ChromaServer) -> None:
    old = b"GET %b HTTP/1.0\r\nHost: localhost\r\n\r\n" % HEARTBEAT
    assert b" 200 OK" in said(open_server.port, old, end=False)
    assert statuses(said(open_server.port, request(b"Connection: close"), end=False)) == [200]
    assert b" 200 OK" in said(open_server.port, request(b"Connection: close", method=b"HEAD"), end=False)


# --- clients that cost much ---------------------------------------------------------------------------------


def memory(pid: int) -> int:
    """Bytes resident."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def test_client_that_does_not_read_takes_no_memory(open_server: ChromaServer) -> None:
    """It asks for one answer after the other: 200 MB in all."""
    docs = client(open_server.port, open_server.secret).get_or_create_collection("unread")
    docs.upsert(["a"], embeddings=[[1.0]], documents=["x" * 2_000_000])
    body = json.dumps({"ids": ["a"]}).encode()
    path = b"%b/%b/get" % (COLLECTIONS, str(docs.id).encode())
    asked = post(b"Content-Length: %d" % len(body), path=path, body=body)
    docs.get("a")
    before = memory(open_server.pid or 0)
    with socket.create_connection((HOST, open_server.port), 10) as connection:
        connection.sendall(asked * 100)
        time.sleep(1)
        assert memory(open_server.pid or 0) < before + 60e6
        assert statuses(said(open_server.port, request())) == [200]


def test_refused_client_with_a_large_body_gets_the_answer(open_server: ChromaServer) -> None:
    asked = post(b"Content-Length: 20000000", b"Origin: null")
    before = memory(open_server.pid or 0)
    assert statuses(said(open_server.port, asked, b"x" * 20_000_000)) == [403]
    assert memory(open_server.pid or 0) < before + 20e6


def test_thousand_idle_connections_keep_nobody_out(open_server: ChromaServer) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    ours = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 4096), most))
    try:
        with ExitStack() as stack:
            for n in range(1000):
                idle = stack.enter_context(socket.create_connection((HOST, open_server.port), 10))
                if n % 2:
                    idle.sendall(b"GET / HT")
            assert client(open_server.port).heartbeat()
            assert open_server.poll() is None
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, ours)


def test_idle_connections_are_closed_beyond_the_limit(tmp_path: Path) -> None:
    """A connection with a request under way stays, however long it was silent."""
    code = """
import resource, sys, time; from pathlib import Path; from tests.serving import server
resource.setrlimit(resource.RLIMIT_NOFILE, (600, 600))
running = server(Path(sys.argv[1]), int(sys.argv[2])); running.start()
print(running.secret, flush=True); sys.stdin.read(); running.stop()
"""
    port, pipe = free_port(), subprocess.PIPE
    command = [sys.executable, "-c", code, tmp_path, str(port)]
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe) as daemon:
        assert daemon.stdin and daemon.stdout
        secret = daemon.stdout.readline().strip()
        body = made("under-way")
        head = b"X-Chroma-Token: " + secret, b"Content-Length: %d" % len(body)
        with ExitStack() as stack:
            busy = stack.enter_context(socket.create_connection((HOST, port), 10))
            busy.sendall(post(*head, body=body[:5]))
            assert statuses(said(port, request())) == [200]  # so the guard has read the request before
            for _ in range(200):  # there is room for 44
                stack.enter_context(socket.create_connection((HOST, port), 10))
            busy.sendall(body[5:])
            assert statuses(busy.recv(65_536)) == [200]
            assert statuses(said(port, request())) == [200]
        daemon.stdin.close()
