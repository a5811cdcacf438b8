"""The client alone: whom it asks, what it tells whom, when it gives up. Real servers, names of our own."""

import gzip
import socket
import ssl
import subprocess
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from ingestor.connectors.http.address import parse_allowed
from ingestor.connectors.http.answers import Validators
from ingestor.connectors.http.client import Terms, WebClient
from ingestor.connectors.http.network import AddressRefused, Outside
from ingestor.ports import Transient
from tests.connectors.sites import LONG_AGO, Clock, Reply, Site, outside, site
from tests.waiting import LONG

HERE = parse_allowed(["127.0.0.2"])  # where the site is that may be asked; 127.0.0.1 may not


@pytest.fixture
def server() -> Iterator[Site]:
    with site("127.0.0.2") as server:
        yield server


@pytest.fixture
def victim(server: Site) -> Iterator[Site]:
    """On an address that must not be asked, at a port that may be."""
    with site("127.0.0.1", server.port) as server:
        server.say("/", b"inside")
        yield server


def client_of(
    server: Site, clock: Clock | None = None, *, names: Outside | None = None, **terms: object
) -> WebClient:
    given = {"origins": frozenset([server.url("")]), "allowed": HERE, **terms}
    return WebClient(Terms(**given), names or outside(clock), {})  # type: ignore[arg-type]


REACHING = ["127.0.0.1", "2130706433", "0x7f.1", "017700000001", "127.1", "inside.test"]
OTHERS = [
    "localhost", "0", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::]", "both.test", "mapped.test",
]  # fmt: skip


def test_address_not_public_is_refused_before_a_request(server: Site, victim: Site) -> None:
    own = {"inside_test": ["127.0.0.1"], "both_test": ["127.0.0.2 127.0.0.1"]}
    names = outside(**own, mapped_test=["::ffff:127.0.0.1"])
    for host in REACHING + OTHERS:
        inside = f"http://{host}:{server.port}/"
        server.redirect("/", inside)
        with client_of(server, names=names) as client:
            for url in (inside, server.url("/")):
                with pytest.raises(AddressRefused, match="is not a public address"):
                    client.follow(url)
        assert (victim.connections, len(server.asked)) == (0, 1), host
        server.asked.clear()
    with client_of(server) as client:
        for port in (22, 25, 6379, 8080):
            with pytest.raises(AddressRefused, match="port"):
                client.get(f"http://127.0.0.2:{port}/")


def test_address_not_public_can_be_allowed(server: Site, victim: Site) -> None:
    """The refused addresses would have been reached."""
    names, allowed = outside(inside_test=["127.0.0.1"]), parse_allowed(["127.0.0.0/8"])
    with client_of(server, names=names, allowed=allowed) as client:
        for host in REACHING:
            assert client.get(f"http://{host}:{server.port}/").data == b"inside"
    assert victim.connections == len(REACHING), "a connection is used for one name"


def test_address_that_was_checked_is_the_one_that_is_requested(server: Site, victim: Site) -> None:
    """The name says something else from the second time on, and the system knows no such name at all."""
    asked: list[str] = []
    answers = iter(["127.0.0.2", "127.0.0.1", "127.0.0.1"])

    def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return [next(answers)]

    server.say("/", b"outside", Connection="close")
    with client_of(server, names=replace(outside(), resolve=resolve)) as client:
        url = f"http://rebinding.test:{server.port}/"
        assert client.get(url).data == b"outside"
        assert asked == ["rebinding.test"], "a connection looks a name up once"
        with pytest.raises(AddressRefused, match=r"rebinding\.test \(it resolves to 127\.0\.0\.1\)"):
            client.get(url)
    assert victim.connections == 0
    assert server.asked[0][1]["host"] == f"rebinding.test:{server.port}"


def test_proxy_of_the_environment_is_not_used(
    server: Site, victim: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, victim.url())
    server.say("/", b"here")
    with client_of(server) as client:
        assert client.get(server.url("/")).data == b"here"
    assert victim.connections == 0


def test_name_without_an_address_is_retried_later(server: Site) -> None:
    never = threading.Event()

    def unknown(host: str, port: int) -> list[str]:
        raise socket.gaierror(-2, "Name or service not known")

    def silent(host: str, port: int) -> list[str]:
        never.wait()
        return ["127.0.0.2"]

    for resolve, message in ((unknown, "not known"), (silent, "took too long")):
        late = pytest.raises(Transient, match=message)
        with client_of(server, names=Outside(resolve), timeout=0.2) as client, late:
            client.get("http://nowhere.test/")
    never.set()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the site.test, signed by itself."""
    folder = tmp_path_factory.mktemp("certificate")
    name = ["-subj", "/CN=site.test", "-addext", "subjectAltName=DNS:site.test"]
    key = ["-newkey", "rsa:2048", "-nodes", "-keyout", str(folder / "key.pem")]
    command = ["openssl", "req", "-x509", *key, "-out", str(folder / "cert.pem"), "-days", "2", *name]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.mark.parametrize(("name", "trusted"), [("site.test", True), ("other.test", False)])
def test_certificates_are_checked_against_the_name(certificate: Path, name: str, trusted: bool) -> None:
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    seen: list[str | None] = []
    serving.sni_callback = lambda connection, asked, context: seen.append(asked)
    trusting = ssl.create_default_context(cafile=str(certificate / "cert.pem"))
    with site("127.0.0.2", tls=serving) as server:
        server.say("/", b"safe")
        names = replace(outside(**{name.replace(".", "_"): ["127.0.0.2"]}), ssl_context=trusting)
        url = f"https://{name}:{server.port}/"
        with client_of(server, names=names, origins=frozenset([url.rstrip("/")])) as client:
            if trusted:
                assert client.get(url).data == b"safe"
            else:
                with pytest.raises(Transient, match="certificate"):
                    client.get(url)
        assert seen == [name]


def test_secrets_go_to_their_origin_alone(server: Site, victim: Site) -> None:
    secrets = (("Authorization", "Bearer s3cret"),)
    server.redirect("/", victim.url("/"))
    server.say("/a", b"mine")
    with client_of(server, allowed=parse_allowed(["127.0.0.0/8"]), secrets=secrets) as client:
        client.get(server.url("/a"))
        assert client.follow(server.url("/")).data == b"inside"
    assert [headers.get("authorization") for _, headers in server.asked] == ["Bearer s3cret"] * 2
    assert "authorization" not in victim.asked[0][1]


def test_redirect_from_https_to_http_with_secrets_is_refused(server: Site) -> None:
    there = {"location": "http://site.test/"}
    refused = pytest.raises(AddressRefused, match="not encrypted")
    with client_of(server, secrets=(("Cookie", "s3cret"),)) as client, refused:
        client._location("https://site.test/", there)
    with client_of(server) as client:
        assert client._location("https://site.test/", there) == "http://site.test/"


def test_requests_name_the_agent_and_keep_no_cookies(server: Site) -> None:
    server.say("/", b"here", Set_Cookie="session=1; Path=/")
    with client_of(server, contact="https://example.org/bot") as client:
        client.get(server.url("/"))
        client.get(server.url("/"))
    for _, headers in server.asked:
        assert "cookie" not in headers
        assert headers["user-agent"].startswith("ingestor/")
        assert headers["user-agent"].endswith(" (+https://example.org/bot)")


def test_unchanged_page_is_not_sent(server: Site) -> None:
    server.say("/", b"here")
    server.replies["/old"] = Reply(b"old", headers={"Last-Modified": LONG_AGO}, etag=False)
    with client_of(server) as client:
        etag = client.get(server.url("/")).headers["etag"]
        assert client.get(server.url("/"), Validators(etag)).status == 304
        assert client.get(server.url("/old"), Validators(None, LONG_AGO)).status == 304
    assert server.connections == 1, "answers without a body leave the connection open"


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress(b"text" * 100, mtime=0)),
        ("gzip", gzip.compress(b"text" * 50, mtime=0) + gzip.compress(b"text" * 50, mtime=0) + b"\0" * 8),
        ("deflate", zlib.compress(b"text" * 100)),
        ("deflate", zlib.compress(b"text" * 100)[2:-4]),
        ("identity", b"text" * 100),
    ],
)
def test_packed_body_is_unpacked(server: Site, encoding: str, packed: bytes) -> None:
    server.say("/", packed, Content_Encoding=encoding)
    with client_of(server) as client:
        assert client.get(server.url("/")).data == b"text" * 100


OK = b"HTTP/1.1 200 OK\r\n"
CHUNK = b"fffff\r\n" + b"x" * 0xFFFFF + b"\r\n"
TOO_LARGE: dict[str, Callable[[], Reply]] = {
    "large": lambda: Reply(b"x" * 2_000_000),
    "bomb": lambda: Reply(gzip.compress(b"x" * 50_000_000, 1), headers={"Content-Encoding": "gzip"}),
    "said to be large": lambda: Reply(raw=OK + b"Content-Length: 99999999999\r\n\r\n"),
    "chunked": lambda: Reply(raw=OK + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNK),
}


@pytest.mark.parametrize("kind", TOO_LARGE)
def test_body_too_large_is_reported_and_not_read(server: Site, kind: str) -> None:
    server.replies["/"] = TOO_LARGE[kind]()
    with client_of(server, max_size=1_000_000) as client:
        answer = client.get(server.url("/"))
    assert answer.data == b""
    assert "more than 1,000,000 bytes" in (answer.problem or "")


BROKEN = {
    "short": OK + b"Content-Length: 100\r\n\r\nnot so much",
    "chunks": OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n",
    "cut gzip": OK + b"Content-Encoding: gzip\r\nContent-Length: 20\r\n\r\n" + gzip.compress(b"x" * 900)[:20],
    "no gzip": OK + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd",
    "brotli": OK + b"Content-Encoding: br\r\nContent-Length: 4\r\n\r\nabcd",
    "no http": b"not HTTP at all\r\n\r\n",
    "nothing": b"",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_body_truncated_or_broken_is_retried_later(server: Site, kind: str) -> None:
    server.replies["/"] = Reply(raw=BROKEN[kind])
    with client_of(server) as client, pytest.raises(Transient, match="can't be read now"):
        client.get(server.url("/"))


@pytest.mark.parametrize("start", [b"", OK + b"X: ", OK + b"\r\n"])
def test_dripping_answer_is_left_at_the_deadline(start: bytes) -> None:
    """Each byte comes soon, the last one never does."""
    stop = threading.Event()

    def drip() -> None:
        with suppress(OSError), listening.accept()[0] as connection:
            connection.sendall(start)
            while not stop.wait(0.02):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.2", 0)) as listening:
        thread = threading.Thread(target=drip)
        thread.start()
        url = f"http://127.0.0.2:{listening.getsockname()[1]}"
        terms = Terms(frozenset([url]), allowed=HERE, timeout=0.3)
        late = pytest.raises(Transient, match=r"too long|timed out")
        with WebClient(terms, Outside(), {}) as client, late:
            client.get(f"{url}/")
        stop.set()
        thread.join(LONG)


def test_redirect_loops_are_refused(server: Site) -> None:
    server.redirect("/a", "/b")
    server.redirect("/b", "/a")
    server.redirect("/one", "/two")
    server.say("/two", b"here")
    with client_of(server) as client:
        assert client.follow(server.url("/one")).url == server.url("/two")
        with pytest.raises(AddressRefused, match="redirects more than"):
            client.follow(server.url("/a"))
    assert len(server.asked) == 2 + 11


def test_busy_server_is_retried_after_its_delay(server: Site) -> None:
    replies = iter([Reply(status=429, headers={"Retry-After": "7"}), *[Reply(b"here")] * 5])
    server.fallback = lambda path: next(replies)
    clock = Clock()
    with client_of(server, clock) as client:
        assert client.get(server.url("/")).data == b"here"
    with client_of(server, clock, delay=2.0) as client:
        for _ in range(3):
            client.get(server.url("/"))
        client.delays[f"127.0.0.2:{server.port}"] = 10.0
        client.get(server.url("/"))
    assert [round(seconds) for seconds in clock.slept] == [7, 2, 2, 10]


@pytest.mark.parametrize("status", [429, 503])
def test_server_busy_for_long_is_not_called_before(server: Site, status: int) -> None:
    clock, busy = Clock(), dict[str, float]()
    server.say("/", b"", status, Retry_After="3600")
    terms = Terms(frozenset([server.url("")]), allowed=HERE)
    for _ in range(3):
        waiting = pytest.raises(Transient, match="asks to wait")
        with WebClient(terms, outside(clock), busy) as client, waiting:
            client.get(server.url("/"))
    assert len(server.asked) == 1
    clock.sleep(3601)
    server.say("/", b"here")
    with WebClient(terms, outside(clock), busy) as client:
        assert client.get(server.url("/")).data == b"here"
