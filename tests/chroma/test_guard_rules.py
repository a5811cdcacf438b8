"""What the guard before Chroma lets through, as functions of a request's head."""

import json

import pytest

from ingestor.chroma.guard_rules import answer, headers_to_forward
from ingestor.http_server.access import Refusal, rules

OURS = rules(["Chroma.Example.org", "ingestor"], None)
HOST = (b"host", b"localhost")


def status(refusal: Refusal | None) -> int:
    return refusal.status if refusal else 200


SERVED = (
    b"localhost", b"LocalHost:8000", b"localhost.:8000", b"127.0.0.1:8000", b"127.9.9.9", b"[::1]:8000",
    b"192.0.2.7:9000",  # an address is no name that somebody could point elsewhere
    b"chroma.example.org", b"ingestor:8000",
)  # fmt: skip
FOREIGN = (
    b"evil.example", b"evil.example:8000", b"localhost.evil.example", b"127.0.0.1.evil.example",
    b"evil-localhost", b"sub.localhost", b"localhost:8000@evil.example", b"evil.example@localhost",
    b"localhost, evil.example", b"localhost/evil.example", b"[localhost]", b"[::1", b"0177.0.0.1",
    b"2130706433", b"127.1", b"\xe2\x93\x9bocalhost", b"",
)  # fmt: skip


@pytest.mark.parametrize("host", [*SERVED, *FOREIGN])
def test_server_has_its_own_names_only(host: bytes) -> None:
    assert status(OURS.judge(b"/", [(b"host", host)])) == (200 if host in SERVED else 421)


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        (b"origin", [], 200),
        (b"origin", [b"http://localhost"], 200),
        (b"origin", [b"HTTP://LOCALHOST"], 200),
        (b"origin", [b"https://localhost"], 403),
        (b"origin", [b"http://localhost:3000"], 403),
        (b"origin", [b"http://evil.example"], 403),
        (b"origin", [b"null"], 403),
        (b"origin", [b""], 403),
        (b"origin", [b"http://localhost", b"http://evil.example"], 403),
        (b"sec-fetch-site", [b"none"], 200),
        (b"sec-fetch-site", [b"same-origin"], 200),
        (b"sec-fetch-site", [b"cross-site"], 403),
        (b"sec-fetch-site", [b"same-site"], 403),
    ],
)
def test_pages_of_other_origins_are_refused(name: bytes, values: list[bytes], expected: int) -> None:
    assert status(OURS.judge(b"/", [HOST, *((name, value) for value in values)])) == expected


BEARER, TOKEN = b"authorization", b"x-chroma-token"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([(BEARER, b"Bearer s3cret")], 200),
        ([(BEARER, b"bearer  s3cret ")], 200),
        ([(TOKEN, b"s3cret")], 200),
        ([(TOKEN, b"old"), (BEARER, b"Bearer s3cret")], 200),
        *(([(BEARER, b)], 401) for b in (b"s3cret", b"Basic s3cret", b"Bearer s3cre", b"Bearer s3crets")),
        *(([(TOKEN, value)], 401) for value in (b"", b"Bearer s3cret", b"S3CRET", b"\xff" * 60_000)),
        ([(b"cookie", b"s3cret")], 401),
        ([], 401),
    ],
)  # fmt: skip
def test_token_is_required(headers: list[tuple[bytes, bytes]], expected: int) -> None:
    assert status(rules([], "s3cret").judge(b"/", [HOST, *headers])) == expected


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        (b"http://localhost/", [HOST]),
        (b"*", [HOST]),
        (b"", [HOST]),
        (b"/", []),
        (b"/", [HOST, HOST]),
        (b"/", [HOST, (b"host", b"evil.example")]),
    ],
)
def test_invalid_head_is_refused_with_one_message(target: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    assert status(OURS.judge(target, headers)) == 400


def test_head_is_written_again() -> None:
    given = [
        (b"host", b"h"), (b"connection", b"close, x"), (b"upgrade", b"h2c"), (b"authorization", b"Bearer s"),
        (b"x-chroma-token", b"s"), (b"content-length", b"3"), (b"content-type", b"x/y"), (b"accept", b"*/*"),
    ]  # fmt: skip
    kept = [(b"host", b"h"), (b"content-type", b"x/y"), (b"accept", b"*/*")]
    assert headers_to_forward(given) == [*kept, (b"content-length", b"3")]
    chunked = (b"transfer-encoding", b"chunked")
    assert headers_to_forward([*given, chunked]) == [*kept, chunked]
    json = [(b"content-type", b"application/json"), (b"content-length", b"7")]
    assert headers_to_forward(given, 7) == [kept[0], kept[2], *json]


def test_refusal_is_an_answer_that_chroma_could_have_given() -> None:
    headers, _, body = answer(Refusal(401, "no")).partition(b"\r\n\r\n")
    assert json.loads(body) == {"error": "AuthorizationError", "message": "no"}
    assert headers.startswith(b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer")
    assert b"Content-Length: %d\r\n" % len(body) in headers
