"""A language model behind any OpenAI-compatible endpoint: one POST a question, the answer as text.

Whoever asks says through which ``Answers`` it asks: they may know the answer already, count what is asked,
or see to it that nothing is asked at all. What is cached there depends on the question alone, which holds the
model's name and everything that may change what it says, and neither the endpoint's address nor its key.

The key is sent as a header, and appears nowhere else: where a server quotes it, it is struck out.
"""

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Protocol, runtime_checkable
from urllib.parse import urlsplit
from weakref import finalize

from pydantic import AfterValidator, Field, SecretStr

from ingestor.core.backoff import ceiling
from ingestor.core.fingerprint import text_digest
from ingestor.llm import bounded_http
from ingestor.llm.bounded_http import Reply, Unusable
from ingestor.ports import Chunker, NeedsHuman, Transient
from ingestor.registry import Options, tuning
from ingestor.units import Duration

if TYPE_CHECKING:
    import httpx

Message = tuple[str, str]  # role (system, user or assistant) and content
Messages = tuple[Message, ...]

_LONGEST_ANSWER = 4_000_000  # bytes
_SHOWN = 10_000  # bytes of an error that is no JSON
_MOST_TOKENS = 10**9  # of an answer, as the server counts
_LONGEST_WAIT = 30.0  # seconds; the engine, which can do something else meanwhile, waits longer ones
_AGAIN = frozenset({408, 409, 425, 429})  # besides 5xx: the same request may succeed later
_ABOUT_THIS_TEXT = ("content_filter", "content_policy", "context_length", "exceed_context_size")


def _address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an address such as https://api.example.com/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("must be an address alone; a key belongs in api_key")
    return url.rstrip("/").removesuffix("/chat/completions")


class Endpoint(Options):
    """Which model to ask, and where. ``base_url`` is no part of a recipe: a model may move."""

    base_url: Annotated[str, AfterValidator(_address)] = tuning(
        ..., description="of an OpenAI-compatible server, usually ending in `/v1`"
    )
    model: str = Field(min_length=1, description="as the server names it; another name asks everything again")
    api_key: SecretStr | None = tuning(
        None, description="a secret: `${VAR}` or `file:/path` keep it out of the file"
    )
    answer_tokens: int = Field(
        default=1000, ge=1, description="the longest answer; one cut off by it does not count"
    )
    parameters: dict[str, Any] = Field(
        default={},
        description="further fields of every request, such as `response_format`; `null` leaves out one of "
        "`temperature` (0), `seed` (0) and `max_tokens` (`answer_tokens`)",
    )
    timeout: Duration = tuning(
        120.0,
        gt=0,
        allow_inf_nan=False,
        description="for an answer, from the first byte sent to the last received",
    )
    retries: int = tuning(
        4, ge=0, le=20, description="after no answer, a 429 or a 5xx; then the document waits its turn again"
    )
    concurrency: int = tuning(4, ge=1, le=64, description="questions asked at the same time")
    prompt_price: float = tuning(
        0.0, ge=0, description="of a million tokens that the model reads; `plan` and `sync` reckon with it"
    )
    answer_price: float = tuning(0.0, ge=0, description="of a million tokens that it writes")


@dataclass(frozen=True, slots=True)
class Question:
    """``key``: a digest of all that the answer depends on; ``prompt_price``: of a million tokens."""

    messages: Messages
    key: str
    prompt_price: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model said ("": nothing that can be used), the tokens that the server counted, their price."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0


Ask = Callable[[Messages], str | None]  # None: must not be asked now


class Answers(Protocol):
    """Through which questions are asked. Threads share it."""

    def answer(self, question: Question, ask: Callable[[], Answer]) -> str | None:
        """What is known already, or what ``ask`` says; None where it must not be asked now."""
        ...

    def wait(self, seconds: float) -> None:
        """Before the next try of one question."""
        ...


@runtime_checkable
class Asking(Protocol):
    """A chunker that asks a language model."""

    def through(self, answers: Answers) -> Chunker:
        """The same chunker, asking through these."""
        ...


class DirectAnswers:
    """``Answers`` that keep nothing: every question is asked."""

    def answer(self, question: Question, ask: Callable[[], Answer]) -> str:
        return ask().text

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)


class _Busy(Exception):
    """Worth another try; ``after``: seconds that the server asks for."""

    def __init__(self, reason: str, after: float | None = None) -> None:
        super().__init__(reason)
        self.after = after


class LanguageModel:
    """An ``Ask``. Threads may share it. Raises Transient, or NeedsHuman where the config must change."""

    def __init__(self, endpoint: Endpoint, answers: Answers) -> None:
        self._endpoint, self._answers = endpoint, answers

    def __call__(self, messages: Messages) -> str | None:
        body = self._body(messages)
        key = text_digest(json.dumps(body, sort_keys=True))
        question = Question(messages, key, self._endpoint.prompt_price)
        return self._answers.answer(question, lambda: self._patiently(body))

    def _body(self, messages: Messages) -> dict[str, Any]:
        body = {
            "model": self._endpoint.model,
            "messages": [{"role": role, "content": content} for role, content in messages],
            "temperature": 0,
            "seed": 0,
            "max_tokens": self._endpoint.answer_tokens,
            **self._endpoint.parameters,
        }
        return {name: value for name, value in body.items() if value is not None}

    def _patiently(self, body: Mapping[str, Any]) -> Answer:
        attempt = 0
        while True:
            attempt += 1
            try:
                return self._once(body)
            except _Busy as busy:
                wait = ceiling(attempt) if busy.after is None else busy.after
                if attempt > self._endpoint.retries or wait > _LONGEST_WAIT:
                    raise Transient(self._said(str(busy))) from None
            self._answers.wait(wait)

    def _once(self, body: Mapping[str, Any]) -> Answer:
        import httpx

        try:
            reply = bounded_http.post(self._client, "/chat/completions", body, _LONGEST_ANSWER)
        except httpx.TimeoutException:
            raise _Busy(f"gave no answer within {self._endpoint.timeout:g} s") from None
        except httpx.TransportError as error:
            raise _Busy(f"can't be reached: {self._quoted(str(error))}") from None
        except Unusable as error:
            raise _Busy(self._quoted(str(error))) from None
        return self._answer(reply) if reply.status == httpx.codes.OK else self._refused(reply)

    def _answer(self, reply: Reply) -> Answer:
        try:
            found = json.loads(reply.content)
            text, usage = _content(found["choices"][0]), found.get("usage") or {}
            read, written = (_count(usage.get(f"{kind}_tokens") or 0) for kind in ("prompt", "completion"))
        except RecursionError:
            raise _Busy("sent JSON that is nested too deeply") from None
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError):
            raise _Busy("did not answer as an OpenAI-compatible server does; check base_url") from None
        cost = read * self._endpoint.prompt_price + written * self._endpoint.answer_price
        return Answer(text, read, written, cost / 1e6)

    def _refused(self, reply: Reply) -> Answer:
        status, (said, code) = reply.status, _reason(reply)
        reason = self._quoted(said)
        if status in _AGAIN or status >= 500:
            raise _Busy(f"answered {status}: {reason}", _retry_after(reply.headers.get("retry-after")))
        if any(mark in code for mark in _ABOUT_THIS_TEXT):
            return Answer("")
        advice = {
            401: "; check api_key",
            403: "; check api_key",
            404: f"; check base_url, and model {self._endpoint.model!r}",
        }
        raise NeedsHuman(self._said(f"refused the request ({status}): {reason}{advice.get(status, '')}"))

    @cached_property
    def _client(self) -> "httpx.Client":
        if not (self._key.isascii() and self._key.isprintable()):
            raise NeedsHuman(self._said("can't be asked: api_key must be one line of ASCII"))
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        endpoint = self._endpoint
        client = bounded_http.client(endpoint.base_url, headers, endpoint.timeout, endpoint.concurrency)
        finalize(self, client.close)
        return client

    @property
    def _key(self) -> str:
        key = self._endpoint.api_key
        return key.get_secret_value() if key else ""

    def _said(self, what: str) -> str:
        return f"the language model at {self._endpoint.base_url} {what}"

    def _quoted(self, text: str) -> str:
        """In one line, not too long, and without the key."""
        line = " ".join((text.replace(self._key, "***") if self._key else text).split())
        return line if len(line) <= 300 else f"{line[:299]}…"


def _content(choice: Mapping[str, Any]) -> str:
    content = choice["message"].get("content")
    whole = isinstance(content, str) and choice.get("finish_reason") not in ("length", "content_filter")
    return content if whole else ""


def _count(value: object) -> int:
    """Of tokens. Raises ValueError, TypeError or OverflowError."""
    number = int(value)  # type: ignore[call-overload]
    if not 0 <= number <= _MOST_TOKENS:
        raise ValueError
    return int(number)


def _reason(reply: Reply) -> tuple[str, str]:
    """The server's message, and its code or type, as far as it sent them."""
    try:
        error = json.loads(reply.content).get("error")
    except (ValueError, AttributeError, RecursionError):
        error = reply.content[:_SHOWN].decode("utf-8", "replace")
    if isinstance(error, dict):
        code = f"{_word(error.get('code'))} {_word(error.get('type'))}"
        return _word(error.get("message")) or reply.reason, code
    return _word(error) or reply.reason, ""


def _word(value: object) -> str:
    """Nothing for what is nested, which can be so deep that it can't be shown."""
    return str(value) if isinstance(value, str | int) else ""


def _retry_after(header: str | None) -> float | None:
    """Seconds; None without a header, and for a date, which nobody sends here."""
    return float(header) if header and re.fullmatch(r"\d{1,9}(\.\d*)?", header.strip()) else None
