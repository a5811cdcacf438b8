"""The guard before a real Chroma: who gets in, what passes unharmed, and what cannot be smuggled past it."""

import json
import os
import re
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import chromadb
import numpy as np
import pytest
from chromadb.config import Settings
from chromadb.errors import AuthorizationError, ChromaError

from ingestor.chroma.client import connect
from ingestor.chroma.collections import open_collection
from ingestor.chroma.server import ChromaServer
from ingestor.ports import NeedsHuman
from tests.chroma.laws import DIMENSIONS, many
from tests.nobody import as_nobody
from tests.serving import HOST, free_port, server

ROOT = Path(__file__).parents[2]
TOKEN = "s3cret-of-the-tests"
HEARTBEAT = b"/api/v2/heartbeat"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChromaServer]:
    """With a token."""
    folder = tmp_path_factory.mktemp("guarded")
    with ChromaServer(
        folder / "db", HOST, free_port(), folder / "log", token=TOKEN, names=["ingestor"]
    ) as running:
        yield running


@pytest.fixture(scope="module")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChromaServer]:
    """Without a token."""
    with server(tmp_path_factory.mktemp("open")) as running:
        yield running


def request(
    *headers: bytes,
    method: bytes = b"GET",
    path: bytes = HEARTBEAT,
    host: bytes = b"localhost",
    body: bytes = b"",
) -> bytes:
    lines = [b"%b %b HTTP/1.1" % (method, path), b"Host: " + host, *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


BEARER = b"Authorization: Bearer " + TOKEN.encode()


def said(port: int, *parts: bytes, end: bool = True, seconds: float = 10.0) -> bytes:
    """All that is answered to these bytes; ``end``: nothing more is sent then."""
    with socket.create_connection((HOST, port), seconds) as connection:
        for part in parts:
            connection.sendall(part)
        if end:
            connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


def statuses(answers: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", answers)]


def client(port: int, **settings: Any) -> Any:
    return chromadb.HttpClient(HOST, port, settings=Settings(anonymized_telemetry=False, **settings))


def with_token(port: int, token: str = TOKEN, **settings: Any) -> Any:
    return client(
        port,
        chroma_client_auth_provider="chromadb.auth.token_authn.TokenAuthClientProvider",
        chroma_client_auth_credentials=token,
        **settings,
    )


# --- who gets in --------------------------------------------------------------------------------------------


def test_a_name_that_is_pointed_here_is_refused(open_server: ChromaServer) -> None:
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
        docs = with_token(guarded.port, **more).get_or_create_collection("own")
        docs.upsert(["a"], embeddings=[[1.0, 2.0]], documents=["words"])
        assert docs.query([[1.0, 2.0]], n_results=1)["documents"] == [["words"]]


def test_chromas_own_client_says_what_is_missing(guarded: ChromaServer) -> None:
    for settings in ({}, {"token": "wrong"}):
        with pytest.raises((ChromaError, ValueError), match="asks for a token"):
            (with_token if settings else client)(guarded.port, **settings).list_collections()
    with pytest.raises(AuthorizationError):
        chromadb.HttpClient(HOST, guarded.port).heartbeat()


def test_our_own_client_sends_the_token(guarded: ChromaServer) -> None:
    with connect(HOST, guarded.port, token=TOKEN) as ours:
        index = open_collection(ours, "ours", model=None, dimensions=DIMENSIONS, owner="ours")
        index.upsert(many(20))
        assert index.count() == 20
    with connect(HOST, guarded.port) as stranger, pytest.raises(NeedsHuman, match="check the token"):
        open_collection(stranger, "ours", model=None, dimensions=DIMENSIONS, owner="ours")


def test_the_token_is_in_no_environment_and_no_command_line(guarded: ChromaServer) -> None:
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
        assert statuses(b"".join(iter(lambda: connection.recv(65_536), b""))) == [421]


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
    "trailers": b"Transfer-Encoding: chunked\r\n\r\n0\r\nAuthorization: Bearer s3cret-of-the-tests\r\n\r\n{}",
    "no body": b"X: y\r\n\r\n{}",
    "an upgrade": b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n{}",
    "an upgrade with a body": b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 0\r\n\r\n{}",
    "expectation": b"Expect: 100-continue\r\nContent-Length: 0\r\n\r\n{}",
    "HTTP/2": b"X: y\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{}",
}


@pytest.mark.parametrize("trick", SMUGGLED)
def test_nothing_is_smuggled_past_the_token(guarded: ChromaServer, trick: str) -> None:
    """The first request may pass, the second may not: the collection that it would make is not made."""
    body = b'{"name": "smuggled"}'
    path = b"/api/v2/tenants/default_tenant/databases/default_database/collections"
    length = b"Content-Length: %d" % len(body)
    evil = request(b"Content-Type: application/json", length, method=b"POST", path=path, body=body)
    first = b"POST %b HTTP/1.1\r\nHost: localhost\r\n%b\r\n" % (HEARTBEAT, BEARER)
    answer = said(guarded.port, first + SMUGGLED[trick].replace(b"{}", evil))
    assert 200 not in statuses(answer)[1:]
    assert "smuggled" not in [each.name for each in with_token(guarded.port).list_collections()]


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
        (request(method=b"POST", path=HEARTBEAT) + b"x", 405),
    ],
)
def test_what_is_not_a_request_is_answered_all_the_same(
    open_server: ChromaServer, bytes_sent: bytes, status: int
) -> None:
    assert statuses(said(open_server.port, bytes_sent))[0] == status


# --- what passes unharmed -----------------------------------------------------------------------------------


def test_large_bodies_pass_both_ways(open_server: ChromaServer) -> None:
    vectors = np.random.default_rng(1).normal(size=(2000, 384)).astype(np.float32)
    ids = [str(n) for n in range(len(vectors))]
    docs = client(open_server.port).create_collection("large")
    docs.upsert(ids, embeddings=vectors, documents=["ü" * 2000] * len(ids))
    found = docs.get(ids, include=["embeddings", "documents"])
    assert np.array_equal(np.asarray(found["embeddings"], dtype=np.float32), vectors)
    assert set(found["documents"]) == {"ü" * 2000}


COLLECTIONS = b"/api/v2/tenants/default_tenant/databases/default_database/collections"


def made(name: str) -> bytes:
    return json.dumps({"name": name, "get_or_create": True}).encode()


def test_chunked_bodies_pass(open_server: ChromaServer) -> None:
    body = made("chunked")
    pieces = b"".join(b"1;x=y\r\n%c\r\n" % byte for byte in body) + b"0\r\nTrailer: x\r\n\r\n"
    headers = b"Content-Type: application/json", b"Transfer-Encoding: chunked"
    asked = request(*headers, method=b"POST", path=COLLECTIONS, body=pieces)
    assert statuses(said(open_server.port, asked + request())) == [200, 200]
    assert client(open_server.port).get_collection("chunked")


def test_a_body_that_is_announced_first_is_asked_for(open_server: ChromaServer) -> None:
    """Expect: 100-continue, as curl sends it with a large body."""
    body = made("expected")
    headers = (
        b"Content-Type: application/json", b"Expect: 100-continue", b"Content-Length: %d" % len(body)
    )  # fmt: skip
    with socket.create_connection((HOST, open_server.port), 10) as connection:
        connection.sendall(request(*headers, method=b"POST", path=COLLECTIONS))
        assert statuses(connection.recv(1000)) == [100]
        connection.sendall(body)
        assert statuses(connection.recv(65_536)) == [200]
        connection.sendall(request(b"Connection: close"))
        assert statuses(b"".join(iter(lambda: connection.recv(65_536), b""))) == [200]


@pytest.mark.parametrize("framed", [b"Content-Length: %d", b"Transfer-Encoding: chunked"])
def test_an_offer_to_upgrade_is_ignored(open_server: ChromaServer, framed: bytes) -> None:
    """As Java's client makes it with its first request."""
    body = made("upgraded")
    sent = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if b"chunked" in framed else body
    offer = b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAEAAEAA"
    framed = framed.replace(b"%d", b"%d" % len(body))
    asked = request(b"Content-Type: application/json", framed, *offer, method=b"POST", path=COLLECTIONS)
    assert statuses(said(open_server.port, asked, sent[:5], sent[5:], request())) == [200, 200]


def test_a_client_that_drips_is_served(open_server: ChromaServer) -> None:
    body = made("dripping")
    length = b"Content-Length: %d" % len(body)
    whole = request(b"Content-Type: application/json", length, method=b"POST", path=COLLECTIONS, body=body)
    assert statuses(said(open_server.port, *(whole[n : n + 1] for n in range(len(whole))))) == [200]


def test_old_and_closing_clients_are_served(open_server: ChromaServer) -> None:
    old = b"GET %b HTTP/1.0\r\nHost: localhost\r\n\r\n" % HEARTBEAT
    assert b" 200 OK" in said(open_server.port, old, end=False)
    assert statuses(said(open_server.port, request(b"Connection: close"), end=False)) == [200]
    assert b" 200 OK" in said(open_server.port, request(method=b"HEAD"), end=False)


# --- clients that cost much ---------------------------------------------------------------------------------


def memory(pid: int) -> int:
    """Bytes resident."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def test_a_client_that_does_not_read_takes_no_memory(open_server: ChromaServer) -> None:
    """It asks for one answer after the other: 400 MB in all."""
    docs = client(open_server.port).get_or_create_collection("unread")
    docs.upsert(["a"], embeddings=[[1.0]], documents=["x" * 4_000_000])
    body = json.dumps({"ids": ["a"]}).encode()
    headers = b"Content-Type: application/json", b"Content-Length: %d" % len(body)
    path = b"%b/%b/get" % (COLLECTIONS, str(docs.id).encode())
    asked = request(*headers, method=b"POST", path=path, body=body)
    docs.get("a")
    before = memory(open_server.pid or 0)
    with socket.create_connection((HOST, open_server.port), 10) as connection:
        connection.sendall(asked * 100)
        time.sleep(2)
        assert memory(open_server.pid or 0) < before + 60e6
        assert statuses(said(open_server.port, request())) == [200]


def test_a_refused_client_may_be_sending_much(open_server: ChromaServer) -> None:
    asked = request(b"Content-Length: 20000000", b"Origin: null", method=b"POST", path=COLLECTIONS)
    before = memory(open_server.pid or 0)
    assert statuses(said(open_server.port, asked, b"x" * 20_000_000)) == [403]
    assert memory(open_server.pid or 0) < before + 20e6


def test_a_thousand_idle_connections_keep_nobody_out(open_server: ChromaServer) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    ours = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 4096), most))
    try:
        with ExitStack() as stack:
            for n in range(1000):
                idle = stack.enter_context(socket.create_connection((HOST, open_server.port), 10))
                if n % 2:
                    idle.sendall(b"GET / HT")
            begun = time.monotonic()
            assert client(open_server.port).heartbeat()
            assert time.monotonic() - begun < 5
            assert open_server.poll() is None
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, ours)


def test_beyond_the_limit_the_idle_make_room(tmp_path: Path) -> None:
    """A connection with a request under way stays, however long it was silent."""
    code = (
        "import resource, sys, time; from pathlib import Path; from tests.serving import server\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (600, 600))\n"
        "running = server(Path(sys.argv[1]), int(sys.argv[2])); running.start()\n"
        "print(running.pid, flush=True); sys.stdin.read(); running.stop()"
    )
    port = free_port()
    with subprocess.Popen(
        [sys.executable, "-c", code, tmp_path, str(port)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as daemon:  # fmt: skip
        assert daemon.stdin and daemon.stdout
        daemon.stdout.readline()
        body = made("under-way")
        head = b"Content-Type: application/json", b"Content-Length: %d" % len(body)
        with ExitStack() as stack:
            busy = stack.enter_context(socket.create_connection((HOST, port), 10))
            busy.sendall(request(*head, method=b"POST", path=COLLECTIONS, body=body[:5]))
            time.sleep(0.2)
            for _ in range(200):  # there is room for 44
                stack.enter_context(socket.create_connection((HOST, port), 10))
            busy.sendall(body[5:])
            assert statuses(busy.recv(65_536)) == [200]
            assert statuses(said(port, request())) == [200]
        daemon.stdin.close()


# --- other users of the machine -----------------------------------------------------------------------------


PEER = r"""
import socket, sys
for port in map(int, sys.argv[1:]):
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as peer:
            peer.sendall(b"GET /api/v2/heartbeat HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            print(peer.recv(12).decode()[-3:])
    except OSError as error:
        print(type(error).__name__)
"""
# A server, as a user without privilege or under a policy that denies system calls: (number, error) each.
DAEMON = r"""
import ctypes, json, struct, sys, urllib.request
from pathlib import Path
from ingestor.chroma.server import ChromaServer, free_port
folder, denied = Path(sys.argv[1]), json.loads(sys.argv[2])
for number, error in denied:
    steps = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50000 | error), (0x06, 0, 0, 0x7FFF0000)]
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    array = ctypes.create_string_buffer(code, len(code))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, struct.pack("HP", len(steps), ctypes.addressof(array)), 0, 0) == 0
with ChromaServer(folder / "db", "127.0.0.1", free_port("127.0.0.1"), folder / "log") as running:
    assert running.poll() is None
    with urllib.request.urlopen(f"http://127.0.0.1:{running.port}/api/v2/heartbeat") as answer:
        told = {"level": running.level, "status": answer.status, "port": running.port, "pid": running.pid}
    print(json.dumps(told), flush=True)
    sys.stdin.read()
"""
UNSHARE = {"x86_64": 272, "aarch64": 97}[os.uname().machine]


def listening(table: str) -> set[int]:
    rows = [line.split() for line in Path(table).read_text().splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A"}


def asked_by_another_user(*ports: int) -> list[str]:
    command = as_nobody(sys.executable, "-c", PEER, *map(str, ports))
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd="/").stdout.split()


def has_namespaces(*command: str) -> bool:
    done = subprocess.run([*command, "unshare", "--user", "--net", "true"], check=False)
    return done.returncode == 0


def test_another_user_finds_no_way_past_the_guard(guarded: ChromaServer) -> None:
    if not has_namespaces():
        pytest.skip("no namespaces here")
    assert guarded.level == "host and origin checks, token, network namespace"
    (inner,) = listening(f"/proc/{guarded.pid}/net/tcp")
    before = listening("/proc/net/tcp")
    assert guarded.port in before
    assert asked_by_another_user(guarded.port, inner) == ["401", "ConnectionRefusedError"]


def run_daemon(folder: Path, command: list[str], *denied: tuple[int, int]) -> dict[str, Any]:
    """What a server tells that is started so, and what is found while it runs."""
    folder.chmod(0o777)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        [*command, sys.executable, "-c", DAEMON, str(folder), json.dumps(denied)],
        env=environment, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as daemon:  # fmt: skip
        assert daemon.stdin and daemon.stdout
        told: dict[str, Any] = json.loads(daemon.stdout.readline())
        told["inner"] = listening(f"/proc/{told['pid']}/net/tcp") - listening("/proc/net/tcp")
        database = (folder / "db" / "chroma.sqlite3").stat()
        told["owner"], told["mode"] = database.st_uid, database.st_mode & 0o777
        told["answers"] = asked_by_another_user(told["port"], *told["inner"])
        daemon.stdin.close()
    assert daemon.returncode == 0
    return told


@pytest.fixture
def anywhere(tmp_path: Path) -> Iterator[Path]:
    """A folder that everybody can reach."""
    with TemporaryDirectory() as folder:
        yield Path(folder)


def test_a_user_without_privilege_has_a_namespace_too(anywhere: Path) -> None:
    if not has_namespaces(*as_nobody()):
        pytest.skip("no namespaces here")
    told = run_daemon(anywhere, as_nobody())
    assert told["level"] == "host and origin checks, network namespace; without token (none is configured)"
    assert (told["status"], told["answers"]) == (200, ["200", "ConnectionRefusedError"])
    assert told["owner"] != 0
    assert told["mode"] == 0o600


def test_without_namespaces_the_guard_holds_what_it_can(anywhere: Path) -> None:
    """The level says by which port others get past it."""
    told = run_daemon(anywhere, as_nobody(), (UNSHARE, 1))
    assert told["status"] == 200
    assert "network namespace (Operation not permitted; past the guard, other users" in told["level"]
    port = int(told["level"].rpartition("port ")[2].split(")")[0])
    assert asked_by_another_user(port) == ["ConnectionRefusedError"]  # for it has ended


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to give up")
def test_a_namespace_without_loopback_is_left_alone(anywhere: Path) -> None:
    """As where a policy lets a process leave its network, and then forbids it to set up another one."""
    drop = ["setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin"]
    told = run_daemon(anywhere, drop)
    assert told["status"] == 200
    assert "loopback can't be set up: Operation not permitted" in told["level"]
