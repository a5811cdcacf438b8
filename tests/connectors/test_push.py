import hmac
import logging
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from ingestor.connectors.push import connector as push_connector
from ingestor.connectors.push.answers import WORKERS
from ingestor.connectors.push.connector import Push, PushOptions
from ingestor.connectors.push.store import Changes, Store, _connected
from ingestor.http_server.limits import Limits
from ingestor.model import Hint, Item, SourceName
from ingestor.ports import BadDocument, NeedsHuman, Stale
from tests.connectors.laws import ConnectorLaws, listed
from tests.connectors.pushing import TOKEN, Caller, Endpoints, PushedWorld, endpoints
from tests.e2e.project import free_port, wait
from tests.small_disk import fill, small_disk

SECRET = "s3cret-of-the-webhook"
OURS = f"Host: here\r\nAuthorization: bearer {TOKEN}"  # headers of a request that may pass


@pytest.fixture(autouse=True)
def _quicker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_connector, "TICK", 0.02)


@pytest.fixture(scope="module")
def served() -> Iterator[Endpoints]:
    with endpoints() as running:
        yield running


class TestLaws(ConnectorLaws):
    @pytest.fixture
    def world(self, tmp_path: Path, served: Endpoints) -> PushedWorld:
        return PushedWorld(tmp_path / "root", served)


def connector(folder: Path, **more: Any) -> Push:
    options = {"folder": folder, "token": TOKEN, "port": free_port(), "webhook_secret": SECRET, **more}
    return Push(PushOptions.model_validate(options))


class Watch:
    """A watch of a connector, in a thread."""

    def __init__(self, of: Push) -> None:
        self.caller, self.folder = Caller(of._options.port), of._options.folder
        self.hints: list[Hint] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._gather, args=(of,))
        self._thread.start()
        wait(lambda: self.hints, every=0.01)
        self.hints.clear()

    def _gather(self, of: Push) -> None:
        for hint in of.watch(self._stop):
            self.hints.append(hint)

    def end(self) -> None:
        self._stop.set()
        self._thread.join(20)
        assert not self._thread.is_alive()


@contextmanager
def watched(of: Push) -> Iterator[Watch]:
    watch = Watch(of)
    try:
        yield watch
    finally:
        watch.end()


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Watch]:
    """An endpoint in this process, for documents of at most 1 MB."""
    with watched(connector(tmp_path / "pushed", max_size=10**6)) as watch:
        wait(watch.caller.is_answered, every=0.01)
        yield watch


# --- what callers are told -------------------------------------------------------------------------------


def test_a_document_comes_changes_and_goes(here: Watch) -> None:
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
def test_what_is_no_key(here: Watch, path: str) -> None:
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
def test_errors_say_what_to_do(here: Watch, method: str, path: str, status: int, error: str) -> None:
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
def test_bodies_of_no_known_or_bearable_length(here: Watch, lines: str, status: int) -> None:
    connection = raw(here.caller.port)
    begin = f"PUT /documents/a HTTP/1.1\r\n{OURS}\r\n"
    connection.sendall(f"{begin}{lines}\r\n".encode())
    assert answer(connection)[0].startswith(f"HTTP/1.1 {status} ")
    assert here.caller.get("a").status == 404


def test_a_body_that_is_too_large_is_answered_though_nobody_reads_it(here: Watch) -> None:
    assert here.caller.put("a", bytes(10**6)).status == 201
    said = here.caller.put("a", bytes(2 * 10**7))  # more than sockets hold
    assert (said.status, said.error) == (413, "20,000,000 bytes are too many; max_size is 1,000,000")


def test_what_is_cut_off_is_not_taken(here: Watch) -> None:
    connection = raw(here.caller.port)
    head = f"PUT /documents/a HTTP/1.1\r\n{OURS}\r\nContent-Length: 9\r\n\r\n"
    connection.sendall(f"{head}only".encode())
    connection.close()
    assert here.caller.put("b", b"x").status == 201
    assert here.caller.get("a").status == 404


# --- who may -----------------------------------------------------------------------------------------------


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
def test_without_the_token_nothing_is_told(here: Watch, method: str, path: str) -> None:
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
def test_a_signed_webhook_may_say_look_again_and_nothing_else(
    here: Watch, path: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    assert here.caller.ask("POST", path, body, **headers).status == status


def test_without_a_secret_no_signature_is_right(tmp_path: Path) -> None:
    with watched(connector(tmp_path / "pushed", webhook_secret=None)) as watch:
        wait(watch.caller.is_answered, every=0.01)
        assert watch.caller.look("source=wiki", **signed(b"")).status == 401


@pytest.mark.parametrize(
    "options",
    [
        {"token": ""},
        {},
        {"token": "t", "webhook_secret": ""},
        {"token": "t", "port": 0},
        {"token": "t", "max_size": "1GB"},
        {"token": "t", "host": "http://x"},
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, options: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        PushOptions.model_validate({"folder": tmp_path, **options})


# --- hints -------------------------------------------------------------------------------------------------


def test_look_again_is_passed_on(here: Watch) -> None:
    assert here.caller.look("source=wiki").status == 202
    assert here.caller.look("source=wiki&under=docs/%C3%A9/").status == 202
    wait(lambda: len(here.hints) == 2)
    assert here.hints == [Hint("", SourceName("wiki")), Hint("docs/é", SourceName("wiki"))]


def test_of_two_watches_one_serves_and_both_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(push_connector, "PATIENCE", 0.0)
    one, other = (connector(tmp_path / "pushed", port=port) for port in [free_port()] * 2)
    first = Watch(one)
    wait(first.caller.is_answered)
    with watched(other) as second:
        first.caller.put("a", b"x")
        wait(lambda: Hint("a") in first.hints and Hint("a") in second.hints)
        first.end()
        wait(second.caller.is_answered)
        second.caller.put("b", b"x")
        wait(lambda: Hint("b") in second.hints)
    assert caplog.text == "", "none complains that the other has the port"


def test_who_missed_changes_that_are_remembered_no_more_looks_everywhere(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with closing(Changes(store)) as changes:
        assert changes.take() == [""]
        for asked, remembered in ((1500, [""]), (3, ["0", "1", "2"])):
            with store._writing() as db:
                db.executemany("INSERT INTO changes (key) VALUES (?)", [(f"{n}",) for n in range(asked)])
                db.execute("DELETE FROM changes WHERE number <= (SELECT max(number) FROM changes) - 1000")
            assert changes.take() == remembered
            assert changes.take() == []


def test_many_changes_are_drawn_together(here: Watch) -> None:
    with Store(here.folder)._writing() as db:
        db.executemany("INSERT INTO changes (key) VALUES (?)", [(f"a/{n}",) for n in range(99)])
    wait(lambda: here.hints == [Hint("a")])


def test_only_the_last_changes_are_remembered(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store._writing() as db:
        db.executemany("INSERT INTO changes (key) VALUES (?)", [("x",)] * 1200)
    store.put("a", b"x", None, ())
    with store.opened() as db:
        assert db.execute("SELECT count(*), max(number) FROM changes").fetchone() == (1000, 1201)


def test_a_store_that_was_replaced_is_looked_at_whole(tmp_path: Path) -> None:
    of = connector(tmp_path / "pushed")
    with watched(of) as watch:
        wait(watch.caller.is_answered)
        watch.caller.put("a", b"x")
        before = of.identity()
        (tmp_path / "pushed").rename(tmp_path / "aside")
        wait(lambda: Hint("") in watch.hints)
        watch.hints.clear()
        assert watch.caller.put("b", b"x").status == 201
        wait(lambda: Hint("b") in watch.hints)
    assert listed(of).keys() == {"b"}
    assert of.identity() != before, "so that what is missing counts as a loss"


def test_a_port_in_use_is_said_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(push_connector, "PATIENCE", 0.0)
    monkeypatch.setattr(push_connector, "RETRY", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        watch = Watch(connector(tmp_path / "pushed", port=port))
        try:
            wait(lambda: f"can't listen on 127.0.0.1 port {port} (Address already in use)" in caplog.text)
            taken.close()
            wait(watch.caller.is_answered)
        finally:
            watch.end()
    assert caplog.text.count("can't listen") == 1


def test_it_listens_on_the_address_that_it_is_told(tmp_path: Path) -> None:
    with watched(connector(tmp_path / "pushed", host="::1")) as watch:

        def answered() -> bool:
            try:
                with socket.create_connection(("::1", watch.caller.port), timeout=60) as connection:
                    connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
                    return connection.recv(12) == b"HTTP/1.1 401"
            except ConnectionError:
                return False

        wait(answered, every=0.01)
        assert not watch.caller.is_answered()


# --- what becomes of documents -----------------------------------------------------------------------------


def test_type_metadata_and_source(here: Watch, tmp_path: Path) -> None:
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
def test_all_that_a_record_may_show_is_part_of_the_version(here: Watch, changed: dict[str, str]) -> None:
    assert [here.caller.put("a", b"x", **h).status for h in ({}, changed, changed, {})] == [
        201,
        200,
        204,
        200,
    ]


NO_METADATA = ["author", "[1]", '{"a": [1]}', '{"a": null}', '{"a": NaN}', '{"a": "\\ud800"}', '{"a": 1e999}']
NO_METADATA += ["[" * 50_000, '{"a":' * 10_000, '{"a": 9223372036854775808}', '{"a": ' + "9" * 5000 + "}"]


@pytest.mark.parametrize("field", NO_METADATA, ids=lambda field: field[:12])
def test_what_is_no_metadata(here: Watch, field: str) -> None:
    said = here.caller.put("a", b"x", Metadata=field)
    assert (said.status, said.error) == (
        400,
        "the header Metadata must be a JSON object of texts, numbers and booleans",
    )


def test_a_document_that_is_too_large_by_now(tmp_path: Path) -> None:
    Store(tmp_path).put("a", b"x" * 11, None, ())
    of = connector(tmp_path, max_size=10)
    [item] = of.scan()
    with pytest.raises(BadDocument, match="11 bytes; max_size is 10"):
        of.fetch(item)


def test_another_document_of_that_name_is_not_what_was_listed(tmp_path: Path) -> None:
    with pytest.raises(Stale):
        connector(tmp_path).fetch(Item("a", "1", "a"))


def test_a_damaged_file_needs_a_person(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put("a", b"x", None, ())
    store.path.write_bytes(b"not a database" * 100)
    with pytest.raises(NeedsHuman, match=r"damaged .* put a backup of it in its place"):
        listed(connector(tmp_path))


def test_folders_above_are_not_made(tmp_path: Path) -> None:
    with pytest.raises(NeedsHuman, match="correct `folder`"):
        listed(connector(tmp_path / "no" / "such"))


# --- nothing is lost, nothing is mixed ---------------------------------------------------------------------


def test_a_commit_waits_for_the_disk(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put("a", b"x", None, ())
    with store.opened() as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db.execute("PRAGMA synchronous").fetchone() == (2,)
    assert _connected(store.path).isolation_level is None


def test_of_many_at_once_one_wins_whole(here: Watch) -> None:
    bodies = [bytes([n]) * 200_000 for n in range(24)]
    statuses: list[int] = []
    together(lambda body: statuses.append(here.caller.put("a", body).status), bodies)
    assert sorted(statuses) == [200] * 23 + [201]
    assert here.caller.get("a").body in bodies


def together(do: Any, values: list[Any]) -> None:
    threads = [threading.Thread(target=do, args=(value,)) for value in values]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_store_is_made_once_however_many_begin(tmp_path: Path) -> None:
    together(lambda n: Store(tmp_path / "pushed").put(f"{n}", b"x", None, ()), list(range(20)))
    assert len(list(Store(tmp_path / "pushed").listed())) == 20


def test_the_slow_are_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_connector, "LIMITS", Limits(prompt=0.5, slowest=100))
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


def test_more_than_can_wait_are_told_to_come_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_connector, "LIMITS", Limits(connections=4))
    with watched(connector(tmp_path / "pushed")) as watch:
        wait(watch.caller.is_answered, every=0.01)
        busy = [begun(watch.caller.port) for _ in range(4)]
        said = wait(lambda: (s := watch.caller.ask("GET", "/documents")).status == 503 and s)
        assert said.headers["Retry-After"] == "1"
        for connection in busy:
            connection.close()
        wait(watch.caller.is_answered)


def begun(port: int) -> socket.socket:
    """A connection whose request is worked on: its body is awaited."""
    connection = raw(port)
    head = f"PUT /documents/a HTTP/1.1\r\n{OURS}\r\nContent-Length: 99\r\n"
    connection.sendall(f"{head}Expect: 100-continue\r\n\r\n".encode())
    assert connection.recv(100).startswith(b"HTTP/1.1 100")
    return connection


def test_who_says_nothing_is_in_nobodys_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_connector, "LIMITS", Limits(prompt=1000))  # nobody is cut off meanwhile
    with watched(connector(tmp_path / "pushed")) as watch:
        wait(watch.caller.is_answered, every=0.01)
        idle = [raw(watch.caller.port) for _ in range(2 * Limits().connections)]
        for connection in idle[: Limits().connections]:
            with suppress(OSError):  # the oldest made room
                connection.sendall(b"PUT /documents/a HTTP/1.1\r\nX-Long: ")
        assert watch.caller.put("b", b"x").status == 201
        assert answer(idle[0]) == ("", "")
        for connection in idle:
            connection.close()


def test_who_has_no_right_and_sends_nothing_is_in_nobodys_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push_connector, "LIMITS", Limits(linger=1000))  # a caller is heard out for as long
    with watched(connector(tmp_path / "pushed")) as watch:
        wait(watch.caller.is_answered, every=0.01)
        strangers = [raw(watch.caller.port) for _ in range(4 * WORKERS)]
        for connection in strangers:
            connection.sendall(b"PUT /documents/a HTTP/1.1\r\nHost: here\r\nContent-Length: 99\r\n\r\n")
        assert watch.caller.put("b", b"x").status == 201
        assert all(connection.recv(100).startswith(b"HTTP/1.1 401") for connection in strangers)
        for connection in strangers:
            connection.close()


def test_a_head_without_end_is_refused(here: Watch) -> None:
    connection = raw(here.caller.port)
    with suppress(OSError):
        connection.sendall(b"GET /documents HTTP/1.1\r\n" + b"X-A: " + b"a" * 2**18)
    with suppress(ConnectionError):
        assert answer(connection)[0].startswith("HTTP/1.1 431")
    assert here.caller.put("b", b"x").status == 201


def test_a_head_that_comes_in_small_pieces(here: Watch) -> None:
    connection = raw(here.caller.port)
    for piece in f"PUT /documents/s HTTP/1.1\r\n{OURS}\r\nContent-Length: 4\r\n\r\nw":
        connection.sendall(piece.encode())
    connection.sendall(b"hol")
    assert answer(connection)[0].startswith("HTTP/1.1 201")
    assert here.caller.get("s").body == b"whol"


def test_a_full_disk_refuses_and_loses_nothing(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 8) as disk, watched(connector(disk / "pushed")) as watch:
        caller = watch.caller
        wait(caller.is_answered)
        kept = {f"{n}": bytes([n]) * 100_000 for n in range(5)}
        for key, data in kept.items():
            assert caller.put(key, data).status == 201
        ballast = fill(disk, leave=50_000)
        said = caller.put("0", b"y" * 2_000_000)
        assert said.status == 507
        assert "make room" in said.error
        assert caller.put("new", b"y" * 2_000_000).status == 507
        assert {
            item.key: caller.get(item.key).body for item in listed(connector(disk / "pushed")).values()
        } == kept
        ballast.unlink()
        assert caller.put("0", b"y" * 200_000).status == 200


class Client:
    """Puts and deletes a few keys of its own, and remembers what it was told."""

    def __init__(self, caller: Caller, name: str, seed: int) -> None:
        self.caller, self.name, self.random = caller, name, random.Random(seed)
        self.known: dict[str, bytes | None] = {}
        self.asked: tuple[str, bytes | None] | None = None  # and not answered
        self.answered = 0

    def run(self) -> None:
        try:
            while True:
                self.act()
        except (OSError, HTTPException):
            pass  # it was killed

    def act(self) -> None:
        key = f"{self.name}/{self.random.randrange(4)}"
        data = (
            None
            if self.random.random() < 0.3
            else self.random.randbytes(self.random.choice([9, 5000, 10**5]))
        )
        self.asked = key, data
        status = self.caller.delete(key).status if data is None else self.caller.put(key, data).status
        assert status in (200, 201, 204, 404)
        self.known[key], self.asked, self.answered = data, None, self.answered + 1

    def check(self, store: Store) -> None:
        for key in {*self.known, *([self.asked[0]] if self.asked else [])}:
            found = store.get(key)
            may_be = {self.known.get(key)} | (
                {self.asked[1]} if self.asked and self.asked[0] == key else set()
            )
            assert (found and found[1]) in may_be, key


def kills(folder: Path, times: int) -> tuple[int, int]:
    """Kill the endpoint again and again: how many requests were answered, and how many were under way."""
    store, chance = Store(folder), random.Random(times)
    answered = under_way = 0
    for number in range(times):
        running = Endpoints()
        clients = [Client(running.open(folder, free_port()), f"{number}-{n}", n) for n in range(1)]
        clients += [Client(clients[0].caller, f"{number}-{n}", n) for n in range(1, 4)]
        killer = threading.Timer(chance.uniform(0.05, 0.4), running.process.kill)
        killer.start()
        together(lambda client: client.run(), clients)
        running.kill()
        for client in clients:
            client.check(store)
        answered += sum(client.answered for client in clients)
        under_way += sum(client.asked is not None for client in clients)
    with store.opened() as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return answered, under_way


def test_killed_at_any_moment_it_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    answered, under_way = kills(tmp_path / "pushed", 5)
    assert answered > 50
    assert under_way > 5


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_two_hundred_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answered, under_way = kills(tmp_path / "pushed", 200)
    with capsys.disabled():
        print(f"\n200 kills: {answered} requests were answered, {under_way} were under way")


def raw(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def answer(connection: socket.socket) -> tuple[str, str]:
    """Head and body of all that comes until the connection ends."""
    with connection, connection.makefile("rb") as stream:
        head, _, body = stream.read().decode().partition("\r\n\r\n")
    return head, body
