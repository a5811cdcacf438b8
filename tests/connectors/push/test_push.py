"""The laws of connectors, and what callers are told."""

import hmac
import logging
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from ingestor.connectors.push import connector as push_connector
from ingestor.connectors.push.answers import WORKERS
from ingestor.connectors.push.store import PushStore
from ingestor.http_server.requests import ServerLimits
from ingestor.model import Item
from ingestor.ports import BadDocument, NeedsHuman, Stale
from tests.connectors.laws import ConnectorLaws, listed
from tests.connectors.push.watching import OURS, SECRET, Watch, answer, connector, raw, watched
from tests.connectors.pushing import TOKEN, Caller, Endpoints, PushedWorld, endpoints
from tests.waiting import wait


@pytest.fixture(scope="module")
def served() -> Iterator[Endpoints]:
    with endpoints() as running:
        yield running


class TestLaws(ConnectorLaws):
    @pytest.fixture
    def world(self, tmp_path: Path, served: Endpoints) -> PushedWorld:
        return PushedWorld(tmp_path / "root", served)


def test_document_is_indexed_updated_and_removed(here: Watch) -> None:
    caller = here.caller
    statuses = [caller.put("a.md", data).status for data in (b"one", b"one", b"two")]
    assert statuses == [201, 204, 200]
    assert caller.get("a.md").body == b"two"
    assert b'"key": "a.md"' in caller.ask("GET", "/documents").body
    assert [caller.delete("a.md").status for _ in range(2)] == [204, 404]
    assert caller.get("a.md").status == 404
    assert caller.put("a.md", b"two").status == 201


ODD = [
    *(
        "../../etc/passwd",
        "..",
        ".",
        "/etc/passwd",
        "a//b",
        "a/",
        "A.md",
        "a.md",
        "con",
        "-rf",
        "%2e%2e",
        "*",
    ),
    *(
        "a b?c#d",
        "e\u0301",
        "é",
        "文書/" + "長" * 600,
        "x" * 2000,
        "https://example.org/a?b=c",
        "'; DROP TABLE x",
    ),
]


def test_odd_keys_are_documents_like_any_other(tmp_path: Path, here: Watch) -> None:
    before = {path.name for path in tmp_path.rglob("*")}
    for key in ODD:
        assert here.caller.put(key, key.encode()).status == 201, key
    assert {key: here.caller.get(key).body.decode() for key in ODD} == {key: key for key in ODD}
    assert listed(connector(tmp_path / "pushed")).keys() == set(ODD)
    assert {path.name for path in tmp_path.rglob("*")} == before, "no file is named after a key"


@pytest.mark.parametrize("path", ["", "a%00b", "a%0Ab", "%FF", "x" * 2001, "a?b"])
def test_invalid_key_is_refused(here: Watch, path: str) -> None:
    said = here.caller.ask("PUT", f"/documents/{path}", b"x")
    assert said.status == 400
    assert "key" in said.error


@pytest.mark.parametrize(
    ("method", "path", "status", "error"),
    [
        ("GET", "/", 404, "/documents"),
        ("GET", "/documents/../x", 404, "no document '../x'"),
        ("POST", "/documents", 405, "only GET"),
        ("POST", "/documents/a", 405, "only PUT, GET, DELETE"),
        ("PATCH", "/documents/a", 405, "only PUT, GET, DELETE"),
        ("FROB", "/documents/a", 405, "FROB"),
        ("GET", "/look?source=a", 405, "only POST"),
        ("POST", "/look", 400, "/look?source=NAME"),
        ("POST", "/look?source=a&path=b", 400, "/look?source=NAME"),
        ("POST", "/look?source=a&under=../b", 400, "`under`"),
        ("POST", "/look?source=a&under=b//c", 400, "`under`"),
        ("POST", "/look?source=a&under=b%00", 400, "`under`"),
        ("PUT", "/documents/a", 411, "Content-Length"),
    ],
)
def test_errors_name_the_remedy(here: Watch, method: str, path: str, status: int, error: str) -> None:
    connection = raw(here.caller.port)
    connection.sendall(f"{method} {path} HTTP/1.1\r\n{OURS}\r\nConnection: close\r\n\r\n".encode())
    head, body = answer(connection)
    assert head.startswith(f"HTTP/1.1 {status} ")
    assert error in body


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ("Transfer-Encoding: chunked\r\n\r\n3\r\none\r\n0\r\n", 411),
        ("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\none", 400),
        ("Content-Length: 3\r\nContent-Length: 4\r\n\r\none", 400),
        ("Content-Length: -3\r\n\r\none", 400),
        ("Content-Length: \r\n\r\none", 400),
        (f"Content-Length: {10**17}\r\n\r\none", 413),
        ("Content-Length: 1000001\r\nExpect: 100-continue\r\n\r\n", 413),
        ("X: y\r\n" * 120 + "Content-Length: 3\r\n\r\none", 431),
    ],
)
def test_body_of_unknown_or_excessive_length_is_refused(here: Watch, lines: str, status: int) -> None:
    connection = raw(here.caller.port)
    begin = f"PUT /documents/a HTTP/1.1\r\n{OURS}\r\n"
    connection.sendall(f"{begin}{lines}\r\n".encode())
    assert answer(connection)[0].startswith(f"HTTP/1.1 {status} ")
    assert here.caller.get("a").status == 404


def test_body_too_large_is_answered_unread(here: Watch) -> None:
    assert here.caller.put("a", bytes(10**6)).status == 201
    said = here.caller.put("a", bytes(2 * 10**7))  # more than sockets hold
    assert (said.status, said.error) == (
        413,
        "the document has 20,000,000 bytes, more than max_size (1,000,000)",
    )


def test_truncated_upload_is_not_stored(here: Watch) -> None:
    connection = raw(here.caller.port)
    head = f"PUT /documents/a HTTP/1.1\r\n{OURS}\r\nContent-Length: 9\r\n\r\n"
    connection.sendall(f"{head}only".encode())
    connection.close()
    assert here.caller.put("b", b"x").status == 201
    assert here.caller.get("a").status == 404


def test_type_metadata_and_source_of_a_put_are_stored(here: Watch, tmp_path: Path) -> None:
    facts = '{"author": "Zo\\u00eb", "year": 1843, "draft": false, "source": "https://wiki.example.org/1"}'
    page = {"Content-Type": "text/html; charset=utf-8", "Metadata": facts}
    here.caller.put("page", b"<p>Hello</p>", **page)
    here.caller.put("note.md", b"# Hello", **{"Content-Type": "application/json"})
    of = connector(tmp_path / "pushed")
    items = listed(of)
    assert items["page"].uri == "https://wiki.example.org/1"
    assert items["page"].extra == (("author", "Zoë"), ("draft", False), ("year", 1843))
    assert items["note.md"].uri == "note.md"
    assert of.fetch(items["page"]).content_type == "text/html; charset=utf-8"
    assert of.fetch(items["note.md"]).content_type is None, "the ending tells more than a client's default"
    assert here.caller.get("page").headers["Metadata"] == facts.replace(
        '"author": "Zo\\u00eb", "year": 1843, "draft": false, "source": "https://wiki.example.org/1"',
        '"author": "Zo\\u00eb", "draft": false, "source": "https://wiki.example.org/1", "year": 1843',
    )


@pytest.mark.parametrize(
    "changed",
    [{"Metadata": '{"author": "Ada"}'}, {"Content-Type": "text/html"}, {"Metadata": '{"source": "x"}'}],
)
def test_fields_of_a_record_are_part_of_the_version(here: Watch, changed: dict[str, str]) -> None:
    assert [here.caller.put("a", b"x", **h).status for h in ({}, changed, changed, {})] == [
        201,
        200,
        204,
        200,
    ]


NO_METADATA = ["author", "[1]", '{"a": [1]}', '{"a": null}', '{"a": NaN}', '{"a": "\\ud800"}', '{"a": 1e999}']
NO_METADATA += ["[" * 50_000, '{"a":' * 10_000, '{"a": 9223372036854775808}', '{"a": ' + "9" * 5000 + "}"]


@pytest.mark.parametrize("field", NO_METADATA, ids=lambda field: field[:12])
def test_invalid_metadata_is_refused(here: Watch, field: str) -> None:
    said = here.caller.put("a", b"x", Metadata=field)
    assert (said.status, said.error) == (
        400,
        "the header Metadata must be a JSON object of texts, numbers and booleans",
    )


def test_document_grown_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    PushStore(tmp_path).put("a", b"x" * 11, None, ())
    of = connector(tmp_path, max_size=10)
    [item] = of.scan()
    with pytest.raises(BadDocument, match=r"11 bytes, more than max_size \(10"):
        of.fetch(item)


def test_another_document_of_that_name_is_not_what_was_listed(tmp_path: Path) -> None:
    with pytest.raises(Stale):
        connector(tmp_path).fetch(Item("a", "1", "a"))


def test_damaged_file_needs_a_person(tmp_path: Path) -> None:
    store = PushStore(tmp_path)
    store.put("a", b"x", None, ())
    store.path.write_bytes(b"not a database" * 100)
    with pytest.raises(NeedsHuman, match=r"damaged .* put a backup of it in its place"):
        listed(connector(tmp_path))


def test_missing_parent_folders_are_not_created(tmp_path: Path) -> None:
    with pytest.raises(NeedsHuman, match="correct `folder`"):
        listed(connector(tmp_path / "no" / "such"))


WRONG = [
    None,
    "",
    "Bearer",
    "Bearer ",
    "Bearer wrong",
    f"Bearer {TOKEN}x",
    TOKEN,
    f"Basic {TOKEN}",
    "Bearer \xe9",
]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/documents/a"),
        ("GET", "/documents/a"),
        ("GET", "/documents"),
        ("DELETE", "/documents/a"),
        ("POST", "/look?source=x"),
        ("GET", "/nowhere"),
        ("PATCH", "/documents"),
    ],
)
def test_request_without_token_is_refused(here: Watch, method: str, path: str) -> None:
    for given in WRONG:
        stranger = Caller(here.caller.port, {} if given is None else {"Authorization": given})
        said = stranger.ask(method, path, b"x")
        assert (said.status, said.body) == (401, b'{"error": "the token is missing or wrong"}\n'), given
        assert said.headers["WWW-Authenticate"] == "Bearer"
    assert here.caller.ask("GET", "/documents").body == b'{"documents": []}\n'


def test_tokens_are_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    of = connector(tmp_path / "pushed")
    with watched(of) as watch:
        wait(watch.caller.is_answered, every=0.01)
        watch.caller.put("a", b"x")
        watch.caller.put("a", b"x", Authorization="Bearer wr0ng")
        watch.caller.look("source=a", **signed(b"{}"))
    assert "/documents/a" in caplog.text
    shown = caplog.text + repr(of._options)
    assert not [secret for secret in (TOKEN, SECRET, "wr0ng") if secret in shown]


def signed(body: bytes, secret: str = SECRET) -> dict[str, str]:
    digest = hmac.new(secret.encode(), body, "sha256").hexdigest()
    return {"Authorization": "", "X-Hub-Signature-256": f"sha256={digest}"}


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        ("/look?source=wiki", b'{"ref": "main"}', signed(b'{"ref": "main"}'), 202),
        ("/look?source=wiki", b'{"ref": "main"}', signed(b'{"ref": "other"}'), 401),
        ("/look?source=wiki", b"", signed(b"", "other"), 401),
        ("/look?source=wiki", b"", {"Authorization": "", "X-Hub-Signature-256": "sha256="}, 401),
        ("/look", b"", signed(b""), 400),
        ("/documents", b"", signed(b""), 401),
    ],
)
def test_signed_webhook_may_hint_but_not_write(
    here: Watch, path: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    assert here.caller.ask("POST", path, body, **headers).status == status


def test_signature_without_a_secret_is_refused(tmp_path: Path) -> None:
    with watched(connector(tmp_path / "pushed", webhook_secret=None)) as watch:
        wait(watch.caller.is_answered, every=0.01)
        assert watch.caller.look("source=wiki", **signed(b"")).status == 401


def test_slow_clients_are_disconnected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_connector, "LIMITS", ServerLimits(prompt=0.5, slowest=100))
    with watched(connector(tmp_path / "pushed")) as watch:
        wait(watch.caller.is_answered, every=0.01)
        slow = [raw(watch.caller.port) for _ in range(2 * WORKERS)]
        for connection in slow[:-1]:
            connection.sendall(b"PUT /documents/a HTTP/1.1\r\n")
        head = f"PUT /documents/a HTTP/1.1\r\n{OURS}\r\nContent-Length: 99\r\n\r\n"
        slow[-1].sendall(f"{head}only".encode())
        assert watch.caller.put("b", b"x").status == 201, "it is its turn once they are gone"
        assert [answer(connection) for connection in slow[:-1]] == [("", "")] * (len(slow) - 1)
        assert answer(slow[-1])[0].startswith("HTTP/1.1 408 "), "its head was there: it is told why"
        assert watch.caller.get("a").status == 404


def test_silent_client_leaves_others_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_connector, "LIMITS", ServerLimits(prompt=1000))  # nobody is cut off meanwhile
    with watched(connector(tmp_path / "pushed")) as watch, ExitStack() as opened:
        wait(watch.caller.is_answered, every=0.01)
        idle = [opened.enter_context(raw(watch.caller.port)) for _ in range(2 * ServerLimits().connections)]
        for connection in idle[: ServerLimits().connections]:
            with suppress(OSError):  # the oldest made room
                connection.sendall(b"PUT /documents/a HTTP/1.1\r\nX-Long: ")
        assert watch.caller.put("b", b"x").status == 201
        with suppress(ConnectionResetError):  # a connection is reset if its last bytes were not read
            assert answer(idle[0]) == ("", "")


def test_silent_client_without_token_leaves_others_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        push_connector, "LIMITS", ServerLimits(linger=1000)
    )  # a caller is heard out for as long
    with watched(connector(tmp_path / "pushed")) as watch, ExitStack() as opened:
        wait(watch.caller.is_answered, every=0.01)
        strangers = [opened.enter_context(raw(watch.caller.port)) for _ in range(4 * WORKERS)]
        for connection in strangers:
            connection.sendall(b"PUT /documents/a HTTP/1.1\r\nHost: here\r\nContent-Length: 99\r\n\r\n")
        assert watch.caller.put("b", b"x").status == 201
        assert all(connection.recv(100).startswith(b"HTTP/1.1 401") for connection in strangers)


def test_head_without_end_is_refused(here: Watch) -> None:
    connection = raw(here.caller.port)
    with suppress(OSError):
        connection.sendall(b"GET /documents HTTP/1.1\r\n" + b"X-A: " + b"a" * 2**18)
    with suppress(ConnectionError):
        assert answer(connection)[0].startswith("HTTP/1.1 431")
    assert here.caller.put("b", b"x").status == 201


def test_head_in_small_pieces_is_parsed(here: Watch) -> None:
    connection = raw(here.caller.port)
    for piece in f"PUT /documents/s HTTP/1.1\r\n{OURS}\r\nContent-Length: 4\r\n\r\nw":
        connection.sendall(piece.encode())
    connection.sendall(b"hol")
    assert answer(connection)[0].startswith("HTTP/1.1 201")
    assert here.caller.get("s").body == b"whol"
