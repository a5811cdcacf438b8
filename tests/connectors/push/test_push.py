"""The laws of connectors, and what callers are told."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.connectors.laws import ConnectorLaws, listed
from tests.connectors.push.watching import OURS, Watch, answer, connector, raw
from tests.connectors.pushing import Endpoints, PushedWorld, endpoints


@pytest.fixture(scope="module")
def served() -> Iterator[Endpoints]:
    with endpoints() as running:
        yield running


class TestLaws(ConnectorLaws):
    @pytest.fixture
    def world(self, tmp_path: Path, served: Endpoints) -> PushedWorld:
        return PushedWorld(tmp_path / "root", served)


def test_document_comes_changes_and_goes(here: Watch) -> None:
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
def test_body_of_unknown_or_excessive_length_is_refused(here: Watch, lines: str, status: int) -> None:
    connection = raw(here.caller.port)
    begin = f"PUT /documents/a HTTP/1.1\r\n{OURS}\r\n"
    connection.sendall(f"{begin}{lines}\r\n".encode())
    assert answer(connection)[0].startswith(f"HTTP/1.1 {status} ")
    assert here.caller.get("a").status == 404


def test_body_that_is_too_large_is_answered_though_nobody_reads_it(here: Watch) -> None:
    assert here.caller.put("a", bytes(10**6)).status == 201
    said = here.caller.put("a", bytes(2 * 10**7))  # more than sockets hold
    assert (said.status, said.error) == (413, "20,000,000 bytes are too many; max_size is 1,000,000")


def test_truncated_upload_is_not_stored(here: Watch) -> None:
    connection = raw(here.caller.port)
    head = f"PUT /documents/a HTTP/1.1\r\n{OURS}\r\nContent-Length: 9\r\n\r\n"
    connection.sendall(f"{head}only".encode())
    connection.close()
    assert here.caller.put("b", b"x").status == 201
    assert here.caller.get("a").status == 404
