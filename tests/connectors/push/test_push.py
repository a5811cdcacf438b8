"""The laws of connectors, and what callers are told."""

import hmac
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingestor.connectors.push import connector as push_connector
from ingestor.connectors.push.answers import WORKERS
from ingestor.connectors.push.store import PushStore
from ingestor.http_server.requests import ServerLimits
from ingestor.model import Hint, Item, SourceName
from ingestor.ports import BadDocument, NeedsHuman, Stale
from tests.connectors.laws import ConnectorLaws, listed
from tests.connectors.pushing import (
    OURS,
    SECRET,
    TOKEN,
    Caller,
    Endpoints,
    PushedWorld,
    Watch,
    answer,
    answering,
    connector,
    endpoints,
    raw,
)  # fmt: skip
from tests.waiting import wait


@pytest.fixture(scope="module")
def served() -> Iterator[Endpoints]:
    with endpoints() as running:
        yield running


class TestLaws(ConnectorLaws):
    @pytest.fixture
    def world(self, tmp_path: Path, served: Endpoints) -> PushedWorld:
        return PushedWorld(tmp_path / "root", served)


def test_document_is_stored_updated_and_removed(here: Watch) -> None:
    caller = here.caller
    statuses = [caller.put("a.md", data).status for data in (b"one", b"one", b"two")]
    assert statuses == [201, 204, 200]
    assert caller.get("a.md").body == b"two"
    assert b'"key": "a.md"' in caller.ask("GET", "/documents").body
    assert [caller.delete("a.md").status for _ in range(2)] == [204, 404]
    assert caller.get("a.md").status == 404


ODD = ["../../etc/passwd", "..", ".", "/etc/passwd", "a//b", "a/", "A.md", "a.md", "con", "-rf", "%2e%2e"]
ODD += ["*", "a b?c#d", "e\u0301", "é", "文書/" + "長" * 600, "x" * 2000, "https://example.org/a?b=c"]
ODD += ["'; DROP TABLE x"]


def test_odd_keys_are_documents_like_any_other(tmp_path: Path, here: Watch) -> None:
    before = {path.name for path in tmp_path.rglob("*")}
    for key in ODD:
        assert here.caller.put(key, key.encode()).status == 201, key
    assert {key: here.caller.get(key).body.decode() for key in ODD} == {key: key for key in ODD}
    assert listed(connector(tmp_path / "pushed")).keys() == set(ODD)
    assert {path.name for path in tmp_path.rglob("*")} == before, "no file is named after a key"


def test_invalid_key_is_refused(here: Watch) -> None:
    for path in ("", "a%00b", "a%0Ab", "%FF", "x" * 2001, "a?b"):
        said = here.caller.ask("PUT", f"/documents/{path}", b"x")
        assert (said.status, "key" in said.error) == (400, True), path


WRONG_REQUESTS = [
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
    ("POST", "/look?source=nope", 404, "there is no source 'nope'; sources: a, wiki"),
    ("PUT", "/documents/a", 411, "Content-Length"),
]


def test_errors_name_the_remedy(here: Watch) -> None:
    for method, path, status, error in WRONG_REQUESTS:
        connection = raw(here.caller.port)
        connection.sendall(f"{method} {path} HTTP/1.1\r\n{OURS}\r\nConnection: close\r\n\r\n".encode())
        head, body = answer(connection)
        assert head.startswith(f"HTTP/1.1 {status} ") and error in body, (method, path)


def test_request_for_a_listing_is_passed_on(here: Watch) -> None:
    assert here.caller.look("source=wiki").status == 202
    assert here.caller.look("source=wiki&under=docs/%C3%A9/").status == 202
    wait(lambda: len(here.hints) == 2)
    assert here.hints == [Hint("", SourceName("wiki")), Hint("docs/é", SourceName("wiki"))]


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ("Transfer-Encoding: chunked\r\n\r\n3\r\none\r\n0\r\n", 411),
        (f"Content-Length: {10**17}\r\n\r\none", 413),
        ("Content-Length: 1000001\r\nExpect: 100-continue\r\n\r\n", 413),
    ],
)
def test_body_of_unknown_or_excessive_length_is_refused(
    tmp_path: Path, lines: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push_connector, "LIMITS", ServerLimits(linger=0.1))
    with answering(tmp_path / "pushed", max_size=10**6) as watch:
        connection = raw(watch.caller.port)
        connection.sendall(f"PUT /documents/a HTTP/1.1\r\n{OURS}\r\n{lines}\r\n".encode())
        assert answer(connection)[0].startswith(f"HTTP/1.1 {status} ")
        assert watch.caller.get("a").status == 404


def test_body_too_large_is_answered_unread(here: Watch) -> None:
    assert here.caller.put("a", bytes(10**6)).status == 201
    said = here.caller.put("a", bytes(2 * 10**7))  # more than sockets hold
    expected = "the document has 20,000,000 bytes, more than max_size (1,000,000)"
    assert (said.status, said.error) == (413, expected)


def test_truncated_upload_is_not_stored(here: Watch) -> None:
    with raw(here.caller.port) as connection:
        head = f"PUT /documents/a HTTP/1.1\r\n{OURS}\r\nContent-Length: 9\r\n\r\n"
        connection.sendall(f"{head}only".encode())
    assert here.caller.put("b", b"x").status == 201
    assert here.caller.get("a").status == 404


def test_type_metadata_and_source_of_a_put_are_stored(here: Watch, tmp_path: Path) -> None:
    facts = '{"author": "Zo\\u00eb", "draft": false, "source": "https://wiki.example.org/1", "year": 1843}'
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
    assert here.caller.get("page").headers["Metadata"] == facts


def test_type_metadata_and_source_are_part_of_the_version(here: Watch) -> None:
    author, source = {"Metadata": '{"author": "Ada"}'}, {"Metadata": '{"source": "x"}'}
    for changed in (author, source, {"Content-Type": "text/html"}):
        statuses = [here.caller.put("a", b"x", **given).status for given in ({}, changed, changed, {})]
        assert statuses == [201, 200, 204, 200]
        here.caller.delete("a")


NO_METADATA = ["author", "[1]", '{"a": [1]}', '{"a": null}', '{"a": NaN}', '{"a": "\\ud800"}', '{"a": 1e999}']
NO_METADATA += ["[" * 50_000, '{"a":' * 10_000, '{"a": 9223372036854775808}', '{"a": ' + "9" * 5000 + "}"]


@pytest.mark.parametrize("field", NO_METADATA, ids=lambda field: field[:12])
def test_invalid_metadata_is_refused(here: Watch, field: str) -> None:
    said = here.caller.put("a", b"x", Metadata=field)
    expected = "the header Metadata must be a JSON object of texts, numbers and booleans"
    assert (said.status, said.error) == (400, expected)


def test_document_grown_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    PushStore(tmp_path).put("a", b"x" * 11, None, ())
    of = connector(tmp_path, max_size=10)
    with pytest.raises(BadDocument, match=r"11 bytes are more than max_size \(10"):
        of.fetch(*of.scan())
    with pytest.raises(Stale):
        of.fetch(Item("a", "1", "a"))


def test_damaged_file_or_missing_parent_folder_needs_a_person(tmp_path: Path) -> None:
    store = PushStore(tmp_path)
    store.put("a", b"x", None, ())
    store.path.write_bytes(b"not a database" * 100)
    with pytest.raises(NeedsHuman, match=r"damaged .* put a backup of it in its place"):
        listed(connector(tmp_path))
    with pytest.raises(NeedsHuman, match="correct `folder`"):
        listed(connector(tmp_path / "no" / "such"))


WRONG = [None, "", "Bearer", "Bearer ", "Bearer wrong", f"Bearer {TOKEN}x", TOKEN, f"Basic {TOKEN}"]
WRONG += ["Bearer \xe9"]
ADDRESSES = ["PUT /documents/a", "GET /documents/a", "GET /documents", "DELETE /documents/a"]
ADDRESSES += ["POST /look?source=x", "GET /nowhere", "PATCH /documents"]


@pytest.mark.parametrize("address", ADDRESSES)
def test_request_without_token_is_refused(here: Watch, address: str) -> None:
    for given in WRONG:
        stranger = Caller(here.caller.port, {} if given is None else {"Authorization": given})
        said = stranger.ask(*address.split(), b"x")
        assert (said.status, said.body) == (401, b'{"error": "the token is missing or wrong"}\n'), given
        assert said.headers["WWW-Authenticate"] == "Bearer"
    assert here.caller.ask("GET", "/documents").body == b'{"documents": []}\n'


def test_tokens_are_not_logged(here: Watch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    here.caller.put("a", b"x")
    here.caller.put("a", b"x", Authorization="Bearer wr0ng")
    here.caller.look("source=a", **signed(b"{}"))
    assert "/documents/a" in caplog.text
    shown = caplog.text + repr(connector(here.folder)._options)
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
    with answering(tmp_path / "pushed", webhook_secret=None) as watch:
        assert watch.caller.look("source=wiki", **signed(b"")).status == 401


def test_slow_uploads_are_ended_and_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = ServerLimits(prompt=0.3, slowest=100, linger=0.1)
    monkeypatch.setattr(push_connector, "LIMITS", limits)
    with answering(tmp_path / "pushed") as watch:
        slow = [raw(watch.caller.port) for _ in range(2 * WORKERS)]
        for connection in slow:
            head = f"PUT /documents/a HTTP/1.1\r\n{OURS}\r\nContent-Length: 9\r\n\r\n"
            connection.sendall(f"{head}only".encode())
        assert watch.caller.put("b", b"x").status == 201, "it is its turn once they are gone"
        assert {answer(connection)[0].split()[1] for connection in slow} == {"408"}
        assert watch.caller.get("a").status == 404
