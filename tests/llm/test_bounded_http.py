"""A server of a language model that means harm: requests end soon, in little memory, with clear reasons."""

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from ingestor.llm.client import DirectAnswers, LanguageModel
from ingestor.llm.options import Endpoint
from ingestor.ports import NeedsHuman, Transient
from tests.endpoint import said

Serve = Callable[[socket.socket], None]
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@contextmanager
def serving(serve: Serve) -> Iterator[str]:
    """A server that reads a request and then does as it likes with the connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def one(connection: socket.socket) -> None:
        with connection, suppress(OSError), connection.makefile("rb") as asked:
            while line := asked.readline():
                length = 0
                while line.strip():
                    name, _, value = line.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                    line = asked.readline()
                asked.read(length)
                serve(connection)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=one, args=(listener.accept()[0],), daemon=True).start()

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def whole(body: bytes, more: bytes = b"") -> bytes:
    return OK + more + b"Content-Length: %d\r\n\r\n" % len(body) + body


def endless(head: bytes, part: bytes, pause: float = 0.0) -> Serve:
    def serve(connection: socket.socket) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(part)
            time.sleep(pause)

    return serve


def once(answer: bytes) -> Serve:
    return lambda connection: connection.sendall(answer)


def bomb() -> bytes:
    return gzip.compress(bytes(100_000_000))


DEEP = b"[" * 100_000
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"

HOSTILE: dict[str, tuple[Callable[[], Serve], str]] = {
    "endless": (lambda: endless(OK + b"\r\n", b" " * 65536), r"sent more than 4,000,000 bytes"),
    "endless chunks": (lambda: endless(CHUNKED, b"10000\r\n" + b" " * 65536 + b"\r\n"), r"sent more than"),
    "announced as huge": (
        lambda: endless(OK + b"Content-Length: 1000000000000\r\n\r\n", b" " * 65536),
        "sent more",
    ),
    "compressed": (
        lambda: once(whole(bomb(), b"Content-Encoding: gzip\r\n")),
        r"Content-Encoding gzip, which was not requested",
    ),
    "dripping body": (
        lambda: endless(OK + b"Content-Length: 1000\r\n\r\n", b" ", 0.05),
        r"did not answer within 0.5 s",
    ),
    "dripping chunks": (lambda: endless(CHUNKED, b"1\r\n \r\n", 0.05), r"did not answer within 0.5 s"),
    "dripping head": (lambda: endless(b"", b"H", 0.05), r"did not answer within 0.5 s|can't be reached"),
    "dripping headers": (lambda: endless(OK + b"X-A: ", b"a", 0.05), r"did not answer within 0.5 s"),
    "headers without end": (lambda: endless(OK, b"X-A: " + b"a" * 1000 + b"\r\n"), r"can't be reached"),
    "a line without end": (lambda: endless(b"HTTP/1.1 200 ", b"a" * 65536), r"can't be reached"),
    "interim answers without end": (
        lambda: endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.01),
        r"did not answer within 0.5 s",
    ),
    "deep": (lambda: once(whole(DEEP)), "nested too deeply"),
    "deep objects": (lambda: once(whole(b'{"a":' * 100_000)), "nested too deeply"),
    "cut off": (
        lambda: lambda c: (c.sendall(OK + b"Content-Length: 99\r\n\r\n{"), c.shutdown(socket.SHUT_RDWR))[0],
        "can't be reached",
    ),
    "longer than said": (
        lambda: once(OK + b"Content-Length: 3\r\n\r\n" + said("Lima.").body),
        "OpenAI-compatible",
    ),
    "two lengths": (
        lambda: once(OK + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"),
        "can't be reached",
    ),
    "negative length": (lambda: once(OK + b"Content-Length: -1\r\n\r\n"), "can't be reached"),
    "bytes that are no text": (lambda: once(whole(b"\xff\xfe\x00" * 100)), "OpenAI-compatible"),
    "tokens without end": (
        lambda: once(whole(said("x", usage={"prompt_tokens": 10**300}).body)),
        "OpenAI-compatible",
    ),
    "infinite tokens": (
        lambda: once(whole(said("x", usage={"prompt_tokens": float("inf")}).body)),
        "OpenAI-compatible",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_server_does_no_harm(name: str) -> None:
    make, reason = HOSTILE[name]
    with serving(make()) as base_url:
        endpoint = Endpoint.model_validate({"base_url": base_url, "model": "m", "timeout": 0.5, "retries": 0})
        with pytest.raises(Transient, match=reason):
            LanguageModel(endpoint, DirectAnswers())((("user", "?"),))


@pytest.mark.parametrize(
    "body", [DEEP, b'{"error": {"message": ' + b"[" * 900 + b"]" * 900 + b', "code": [[[]]]}}']
)
def test_hostile_refusal_is_truncated_and_escaped(body: bytes) -> None:
    answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    with serving(once(answer)) as base_url:
        endpoint = Endpoint.model_validate({"base_url": base_url, "model": "m"})
        with pytest.raises(NeedsHuman, match=r"refused the request \(400\)") as caught:
            LanguageModel(endpoint, DirectAnswers())((("user", "?"),))
    assert len(str(caught.value)) < 500


def test_kept_connection_has_a_deadline_for_each_request() -> None:
    """The second request runs over the connection of the first, and drips."""
    answers = iter(
        [once(whole(said("Lima.").body)), endless(OK + b"Content-Length: 1000\r\n\r\n", b" ", 0.05)]
    )
    with serving(lambda connection: next(answers)(connection)) as base_url:
        endpoint = Endpoint.model_validate({"base_url": base_url, "model": "m", "timeout": 0.5, "retries": 0})
        model = LanguageModel(endpoint, DirectAnswers())
        assert model((("user", "?"),)) == "Lima."
        with pytest.raises(Transient, match=r"did not answer within 0.5 s"):
            model((("user", "!"),))
