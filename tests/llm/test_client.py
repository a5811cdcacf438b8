"""One question and all that can become of it: over HTTP, with a server that misbehaves on purpose."""

import logging
from collections.abc import Callable
from threading import Barrier, Event
from typing import Any

import pytest
from pydantic import ValidationError

from ingestor.llm.at_once import in_parallel
from ingestor.llm.client import Completion, LanguageModel, Prompt
from ingestor.llm.options import Endpoint
from ingestor.ports import NeedsHuman, Stop, Transient
from tests.endpoint import KEY, Reply, Script, in_turn, refused, said, serving
from tests.serving import free_port
from tests.waiting import LONG

MESSAGES = (("system", "Be brief."), ("user", "What is the capital of Peru?"))
FIELDS = {"city": {"type": "string"}}
LIMA = said("Lima.")


class Noted:
    """Asks everything, keeps nothing, and does not wait."""

    def __init__(self) -> None:
        self.questions: list[Prompt] = []
        self.answers: list[Completion] = []
        self.waits: list[float] = []

    def answer(self, question: Prompt, ask: Callable[[], Completion]) -> str:
        self.questions.append(question)
        self.answers.append(ask())
        return self.answers[-1].text

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)


class Keyed(Noted):
    """Asks nothing."""

    def answer(self, question: Prompt, ask: Callable[[], Completion]) -> str:
        self.questions.append(question)
        return ""


def options(base_url: str, **more: Any) -> Endpoint:
    return Endpoint.model_validate({"base_url": base_url, "model": "tiny", "api_key": KEY, **more})


def ask(
    *replies: Reply, fields: Any = None, script: Script | None = None, **more: Any
) -> tuple[Any, Any, Noted]:
    """Return the answer or the error, what the server heard, and what was noted."""
    with serving(script or in_turn(replies)) as endpoint:
        noted = Noted()
        try:
            answer: Any = LanguageModel(options(endpoint.base_url, **more), noted, fields)(MESSAGES)
        except (Transient, NeedsHuman) as error:
            answer = error
        return answer, endpoint, noted


def test_request_has_messages_settings_and_key() -> None:
    answer, endpoint, noted = ask(LIMA)
    assert (answer, noted.answers) == ("Lima.", [Completion("Lima.", 10, 2)])
    assert endpoint.paths == ["/v1/chat/completions"]
    assert endpoint.headers[0]["authorization"] == f"Bearer {KEY}"
    messages = [{"role": role, "content": text} for role, text in MESSAGES]
    sent = {"messages": messages, "temperature": 0, "seed": 0, "max_tokens": 1000}
    assert endpoint.bodies == [{"model": "tiny", **sent}]
    more = {"temperature": None, "max_tokens": None, "max_completion_tokens": 5, "top_p": 0.5}
    _, endpoint, _ = ask(LIMA, parameters=more, api_key=None)
    added = {"messages": messages, "seed": 0, "max_completion_tokens": 5, "top_p": 0.5}
    assert endpoint.bodies == [{"model": "tiny", **added}], "null leaves a parameter out"
    assert "authorization" not in endpoint.headers[0]


def test_fields_of_answers_are_sent_as_json_schema() -> None:
    answer, endpoint, _ = ask(said('{"city": "Lima"}'), fields=FIELDS)
    assert answer == '{"city": "Lima"}'
    schema = {"type": "object", "properties": FIELDS, "required": ["city"], "additionalProperties": False}
    named = {"name": "answer", "strict": True, "schema": schema}
    assert endpoint.bodies[0]["response_format"] == {"type": "json_schema", "json_schema": named}


@pytest.mark.parametrize("status", [400, 422])
def test_server_without_structured_outputs_is_asked_without_schema(status: int) -> None:
    def plain(body: dict[str, Any]) -> Reply:
        return refused(status, "response_format is not supported") if "response_format" in body else LIMA

    with serving(plain) as endpoint:
        noted = Noted()
        model = LanguageModel(options(endpoint.base_url), noted, FIELDS)
        assert [model(MESSAGES), model(MESSAGES)] == ["Lima.", "Lima."]
    assert ["response_format" in body for body in endpoint.bodies] == [True, False, False]
    assert len({question.key for question in noted.questions}) == 1


def test_refusal_for_another_reason_than_the_schema_is_raised() -> None:
    error, endpoint, _ = ask(refused(400, "temperature is not supported"), fields=FIELDS)
    assert isinstance(error, NeedsHuman) and "temperature is not supported" in str(error)
    assert ["response_format" in body for body in endpoint.bodies] == [True, False]
    for own in (None, {"type": "json_object"}):
        error, endpoint, _ = ask(refused(400, "no"), fields=FIELDS, parameters={"response_format": own})
        assert isinstance(error, NeedsHuman)
        assert [body.get("response_format") for body in endpoint.bodies] == [own]


@pytest.mark.parametrize(
    "reply",
    [
        said(None),  # a refusal in a field of its own
        said("Li", finish_reason="length"),
        said("Li", finish_reason="content_filter"),
        refused(400, "The prompt was filtered", code="content_filter"),
        refused(400, "too long", code="context_length_exceeded"),
    ],
)
def test_unusable_answer_is_none(reply: Reply) -> None:
    answer, endpoint, noted = ask(reply)
    assert (answer, endpoint.calls, noted.waits) == ("", 1, [])


PASSING = {
    "429 that says when": (refused(429, "slow down", retry_after="3"), 3.0),
    "429 that does not": (refused(429, "slow down"), 1.0),
    "429 that names a date": (refused(429, "slow down", retry_after="Fri, 31 Dec 2021 23:59:59 GMT"), 0.0),
    "503 without words": (Reply(503), 1.0),
    "garbage": (Reply(body=b"<html>hello</html>"), 1.0),
    "JSON of another kind": (Reply(body=b'{"choices": []}'), 1.0),
    "a list": (Reply(body=b"[]"), 1.0),
    "usage that is no number": (said("Lima.", usage={"prompt_tokens": "many"}), 1.0),
    "cut off": (Reply(body=b'{"choices": [', missing=100), 1.0),
}


@pytest.mark.parametrize("name", PASSING)
def test_passing_fault_is_retried(name: str) -> None:
    reply, wait = PASSING[name]
    answer, endpoint, noted = ask(reply, LIMA)
    assert (answer, endpoint.calls, noted.waits) == ("Lima.", 2, [wait])


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (refused(429, "slow down"), "answered 429: slow down"),
        (Reply(502, b"<html>Bad   Gateway</html>"), "answered 502: <html>Bad Gateway</html>"),
        (Reply(body=b"hello"), "did not answer as an OpenAI-compatible server does; check `base_url`"),
    ],
)
def test_lasting_fault_is_transient(reply: Reply, words: str) -> None:
    error, endpoint, noted = ask(reply, retries=3)
    assert isinstance(error, Transient) and words in str(error)
    assert (endpoint.calls, noted.waits) == (4, [1.0, 2.0, 4.0])


def test_long_wait_is_the_engines() -> None:
    error, endpoint, noted = ask(refused(429, "tomorrow", retry_after="86400"))
    assert isinstance(error, Transient)
    assert (endpoint.calls, noted.waits) == (1, [])


def test_answer_too_late_is_retried() -> None:
    error, endpoint, _ = ask(script=lambda body: Reply(hang=True), timeout=0.2, retries=1)
    assert isinstance(error, Transient) and "did not answer within 0.2 s" in str(error)
    assert endpoint.calls == 2


def test_unreachable_server_is_transient() -> None:
    port, noted = free_port(), Noted()
    with pytest.raises(Transient, match=f"at http://127.0.0.1:{port}/v1 can't be reached: .*refused"):
        LanguageModel(options(f"http://127.0.0.1:{port}/v1", retries=2), noted)(MESSAGES)
    assert noted.waits == [1.0, 2.0]


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (refused(401, f"Incorrect API key: {KEY}"), "(401): Incorrect API key: ***; check `api_key`"),
        (refused(403, "no access"), "(403): no access; check `api_key`"),
        (refused(404, "no such model"), "(404): no such model; check `base_url`, and model 'tiny'"),
        (Reply(404, b"not here"), "(404): not here; check `base_url`, and model 'tiny'"),
        (Reply(307, headers={"Location": "http://elsewhere/"}), "(307): Temporary Redirect"),
        (refused(422, "x" * 5000), "(422): " + "x" * 299 + "…"),
    ],
)
def test_refused_request_needs_a_person(reply: Reply, words: str) -> None:
    error, endpoint, _ = ask(reply)
    assert isinstance(error, NeedsHuman) and str(error).endswith(words)
    assert endpoint.calls == 1


def test_key_is_nowhere_but_in_the_header(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for status in (500, 401):
        for size in (1, 290):
            error, endpoint, noted = ask(refused(status, f"{'x' * size} {KEY}"), retries=1)
            shown = [error, error.__cause__, error.__context__, endpoint.bodies, noted.questions]
            assert KEY[:8] not in repr((str(error), shown, options(endpoint.base_url)))
    assert KEY[:8] not in caplog.text
    assert "chat/completions" in caplog.text  # the libraries below did log
    error, endpoint, _ = ask(LIMA, api_key=f"{KEY}\nX-Other: {KEY}")
    assert isinstance(error, NeedsHuman)
    assert str(error).endswith("can't be called: api_key must be one line of ASCII")
    assert endpoint.calls == 0


def test_key_of_a_question_ignores_options_of_the_connection_alone() -> None:
    def key_of(messages: Any = MESSAGES, **more: Any) -> str:
        noted = Keyed()
        LanguageModel(options("http://127.0.0.1:9/v1", **more), noted)(messages)
        return noted.questions[0].key

    ignored: list[dict[str, Any]] = [{"api_key": None}, {"timeout": "3s"}, {"retries": 0}, {"concurrency": 2}]
    assert {key_of(**more) for more in ignored} == {key_of()}
    joined = {"messages": (("user", "Be brief.What is the capital of Peru?"),)}
    counted = [{}, {"model": "huge"}, {"answer_tokens": 5}, {"parameters": {"top_p": 0.5}}, joined]
    assert len({key_of(**more) for more in counted}) == len(counted)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("https://api.example.com/v1/", "https://api.example.com/v1"),
        ("http://[::1]:8080/v1/chat/completions", "http://[::1]:8080/v1"),
        ("https://api.example.com/v1/embeddings", "https://api.example.com/v1"),
    ],
)
def test_address_is_kept_without_the_path_of_a_call(given: str, kept: str) -> None:
    assert options(given).base_url == kept


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("api.example.com/v1", "must be an address such as https://"),
        ("ftp://example.com", "must be an address such as https://"),
        ("http://example.com:99999/v1", "Port out of range"),
        ("http://", "must be an address such as https://"),
        ("https://me:secret@example.com/v1", "put a key into `api_key`"),
        ("https://example.com/v1?key=secret", "put a key into `api_key`"),
    ],
)
def test_invalid_address_is_refused(given: str, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        options(given)


def test_results_are_in_order_and_made_together() -> None:
    together = Barrier(3, timeout=LONG)  # passed only if three run at the same time

    def do(number: int) -> int:
        together.wait()
        return number * number

    assert in_parallel(do, [3, 1, 2], 3, Stop()) == [9, 1, 4]


def test_error_stops_what_waits_and_leaves_out_the_rest() -> None:
    stopped, begun = Event(), list[int]()

    def do(number: int) -> None:
        begun.append(number)
        if number == 0:
            raise ValueError("first")
        assert stopped.wait(LONG)

    with pytest.raises(ValueError, match="first"):
        in_parallel(do, range(50), 2, Stop(), stopped.set)
    assert len(begun) < 50
