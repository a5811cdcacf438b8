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


def cut_off(connection: socket.socket) -> None:
    connection.sendall(OK + b"Content-Length: 99\r\n\r\n{")
    connection.shutdown(socket.SHUT_RDWR)


def used(tokens: float) -> Serve:
    return once(whole(said("x", usage={"prompt_tokens": tokens}).body))


BOMB = gzip.compress(bytes(1_000_000))
SPACES = b" " * 65536
DEEP = b"[" * 100_000
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
LARGE, LATE, NONE = "sent more than 4,000,000 bytes", "did not answer within 0.2 s", "can't be reached"
OTHER = "OpenAI-compatible"
HOSTILE: dict[str, tuple[Serve, str]] = {
    "endless": (endless(OK + b"\r\n", SPACES), LARGE),
    "endless chunks": (endless(CHUNKED, b"10000\r\n" + SPACES + b"\r\n"), LARGE),
    "announced as huge": (endless(OK + b"Content-Length: 1000000000000\r\n\r\n", SPACES), LARGE),
    "compressed": (
        once(whole(BOMB, b"Content-Encoding: gzip\r\n")),
        "Encoding gzip, which was not requested",
    ),
    "dripping body": (endless(OK + b"Content-Length: 1000\r\n\r\n", b" ", 0.05), LATE),
    "dripping chunks": (endless(CHUNKED, b"1\r\n \r\n", 0.05), LATE),
    "dripping head": (endless(b"", b"H", 0.05), f"{LATE}|{NONE}"),
    "dripping headers": (endless(OK + b"X-A: ", b"a", 0.05), LATE),
    "headers without end": (endless(OK, b"X-A: " + b"a" * 1000 + b"\r\n"), NONE),
    "a line without end": (endless(b"HTTP/1.1 200 ", b"a" * 65536), NONE),
    "interim answers without end": (endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.01), LATE),
    "deep": (once(whole(DEEP)), "nested too deeply"),
    "deep objects": (once(whole(b'{"a":' * 100_000)), "nested too deeply"),
    "cut off": (cut_off, NONE),
    "longer than said": (once(OK + b"Content-Length: 3\r\n\r\n" + said("Lima.").body), OTHER),
    "two lengths": (once(OK + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"), NONE),
    "negative length": (once(OK + b"Content-Length: -1\r\n\r\n"), NONE),
    "bytes that are no text": (once(whole(b"\xff\xfe\x00" * 100)), OTHER),
    "tokens without end": (used(10**300), OTHER),
    "infinite tokens": (used(float("inf")), OTHER),
}


def model_of(base_url: str) -> LanguageModel:
    given = {"base_url": base_url, "model": "m", "timeout": 0.2, "retries": 0}
    return LanguageModel(Endpoint.model_validate(given), DirectAnswers())


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_server_does_no_harm(name: str) -> None:
    serve, reason = HOSTILE[name]
    with serving(serve) as base_url, pytest.raises(Transient, match=reason):
        model_of(base_url)((("user", "?"),))


@pytest.mark.parametrize(
    "body", [DEEP, b'{"error": {"message": ' + b"[" * 900 + b"]" * 900 + b', "code": [[[]]]}}']
)
def test_hostile_refusal_is_truncated_and_escaped(body: bytes) -> None:
    answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    refused = pytest.raises(NeedsHuman, match=r"refused the request \(400\)")
    with serving(once(answer)) as base_url, refused as caught:
        model_of(base_url)((("user", "?"),))
    assert len(str(caught.value)) < 500


def test_kept_connection_has_a_deadline_for_each_request() -> None:
    """The second request runs over the connection of the first, and drips."""
    answers = iter([once(whole(said("Lima.").body)), HOSTILE["dripping body"][0]])
    with serving(lambda connection: next(answers)(connection)) as base_url:
        model = model_of(base_url)
        assert model((("user", "?"),)) == "Lima."
        with pytest.raises(Transient, match=LATE):
            model((("user", "!"),))
