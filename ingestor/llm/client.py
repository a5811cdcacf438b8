"""Client of a language model behind a server with OpenAI's API, with one POST for each question.

Each caller passes the ``Answers`` through which its questions go: a cache, a counter, or a refusal of every
question. A cached answer depends on the question alone. The question includes the model's name and every
setting that may change the answer, but neither the server's address nor its key.

After an invalid answer, the question is sent again with the reason (``ask_until_valid``). Invalid answers are
cached as well, so that the same question always has the same result.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from ingestor.core.fingerprint import text_digest
from ingestor.llm.options import Endpoint
from ingestor.llm.server import TOO_LONG, ModelRequests, RequestNotTaken, TryAgain, patiently, token_count
from ingestor.ports import Chunker, NeedsHuman, Transient

Message = tuple[str, str]  # role (system, user or assistant) and content
Messages = tuple[Message, ...]

_LONGEST_ANSWER = 4_000_000  # bytes
_FORM = "response_format"
_FORM_REFUSED = (400, 422)  # statuses
_ABOUT_THIS_TEXT = ("content_filter", "content_policy", TOO_LONG, "exceed_context_size")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A question to a language model, with its price and the key under which its answer is cached."""

    messages: Messages
    key: str  # digest of everything that the answer depends on
    prompt_price: float = 0.0  # of a million tokens
    answer_price: float = 0.0  # of a million tokens
    answer_tokens: int = 0  # longest answer


@dataclass(frozen=True, slots=True)
class Completion:
    """The model's answer ("" if unusable), the tokens that the server counted, and their price."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0


Ask = Callable[[Messages], str | None]  # returns the answer; None if no question may be sent now


class Answers(Protocol):
    """Decides how each question to a language model is answered. Threads share an object."""

    def answer(self, question: Prompt, ask: Callable[[], Completion]) -> str | None:
        """Return the stored answer to a question, else that of ``ask``, which sends it to the model.

        Return None if ``ask`` must not be called now.
        """
        ...

    def wait(self, seconds: float) -> None:
        """Wait for some seconds before a question is sent again."""
        ...


@runtime_checkable
class Asking(Protocol):
    """A chunker that asks a language model."""

    def through(self, answers: Answers) -> Chunker:
        """Return the same chunker, but with all its questions going through ``answers``."""
        ...


class DirectAnswers:
    """Answers that send every question to the model and store nothing."""

    def answer(self, question: Prompt, ask: Callable[[], Completion]) -> str:
        return ask().text

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)


class LanguageModel:
    """A language model as a function that answers messages (see ``Ask``). Threads may share it.

    Calls raise Transient, or NeedsHuman if the config must be corrected. ``fields``: JSON schema of each
    field, if every answer is to be a JSON object. Servers with structured outputs obey it. If a server
    refuses it, requests are sent without it.
    """

    def __init__(self, endpoint: Endpoint, answers: Answers, fields: Mapping[str, Any] | None = None) -> None:
        self._endpoint, self._answers = endpoint, answers
        self._form: Mapping[str, Any] = {}
        if fields is not None and _FORM not in endpoint.parameters:
            schema = {"type": "object", "properties": fields, "required": list(fields)}
            named = {"name": "answer", "strict": True, "schema": {**schema, "additionalProperties": False}}
            self._form = {_FORM: {"type": "json_schema", "json_schema": named}}
        self._form_refused = False
        self._requests = ModelRequests(endpoint, "the language model", endpoint.model)

    def __call__(self, messages: Messages) -> str | None:
        body = self._body(messages)
        key = text_digest(json.dumps(body, sort_keys=True))
        asked = self._endpoint
        question = Prompt(messages, key, asked.prompt_price, asked.answer_price, asked.answer_tokens)
        return self._answers.answer(question, lambda: self._patiently(body))

    def _body(self, messages: Messages) -> dict[str, Any]:
        body = {
            "model": self._endpoint.model,
            "messages": [{"role": role, "content": content} for role, content in messages],
            "temperature": 0,
            "seed": 0,
            "max_tokens": self._endpoint.answer_tokens,
            **self._form,
            **self._endpoint.parameters,
        }
        return {name: value for name, value in body.items() if value is not None}

    def _patiently(self, body: Mapping[str, Any]) -> Completion:
        try:
            return patiently(lambda: self._once(body), self._endpoint.retries, self._answers.wait)
        except TryAgain as busy:
            raise Transient(self._requests.describe(busy)) from None
        except RequestNotTaken as refused:
            raise NeedsHuman(self._requests.describe(refused)) from None

    def _once(self, body: Mapping[str, Any]) -> Completion:
        bare = {name: value for name, value in body.items() if name not in self._form}
        sent = bare if self._form_refused else body
        try:
            return self._answer(self._requests.post("/chat/completions", sent, _LONGEST_ANSWER))
        except RequestNotTaken as refused:
            if any(mark in refused.code for mark in _ABOUT_THIS_TEXT):
                return Completion("")
            if sent == bare or refused.status not in _FORM_REFUSED:
                raise
        completion = self._once(bare)
        self._form_refused = True
        return completion

    def _answer(self, content: bytes) -> Completion:
        try:
            answer = json.loads(content)
            text, usage = _content(answer["choices"][0]), answer.get("usage") or {}
            read, written = (
                token_count(usage.get(f"{kind}_tokens") or 0) for kind in ("prompt", "completion")
            )
        except RecursionError:
            raise TryAgain("sent JSON that is nested too deeply") from None
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError):
            raise TryAgain("did not answer as an OpenAI-compatible server does; check `base_url`") from None
        cost = read * self._endpoint.prompt_price + written * self._endpoint.answer_price
        return Completion(text, read, written, cost / 1e6)


def _content(choice: Mapping[str, Any]) -> str:
    """Return the text of a completion; "" if it was truncated or filtered."""
    content = choice["message"].get("content")
    complete = isinstance(content, str) and choice.get("finish_reason") not in ("length", "content_filter")
    return content if complete else ""


T = TypeVar("T")


def ask_until_valid(
    ask: Ask,
    messages: Messages,
    read: Callable[[str], T],
    times: int = 3,
    invalid: Callable[[str], None] = lambda reason: None,
) -> T | None:
    """Ask until an answer is valid, and return the result of ``read``; None after ``times`` invalid answers.

    ``read``: parses an answer, and raises ValueError with the reason if it is invalid. The model is told the
    reason with the next question. ``invalid``: called with each reason. None is also returned if no question
    may be sent now.
    """
    for _ in range(times):
        answer = ask(messages)
        if answer is None:
            return None
        try:
            return read(answer)
        except ValueError as wrong:
            invalid(str(wrong))
            turn = ("assistant", answer.strip() or "(no answer)")
            messages = (*messages, turn, ("user", f"That can't be used: {wrong}. Answer again, as asked."))
    return None


def json_list(answer: str) -> list[Any]:
    """Return the JSON list in an answer; text around it is ignored.

    Raises ValueError, with a message for the model, if there is none.
    """
    value = _json(answer, "[", "]")
    if not isinstance(value, list):
        raise ValueError("the answer is not a JSON list")
    return value


def json_object(answer: str) -> dict[str, Any]:
    """Return the JSON object in an answer; text around it is ignored.

    Raises ValueError, with a message for the model, if there is none.
    """
    value = _json(answer, "{", "}")
    if not isinstance(value, dict):
        raise ValueError("the answer is not a JSON object")
    return value


def _json(answer: str, first: str, last: str) -> Any:
    """Return the JSON value in an answer from bracket ``first`` to bracket ``last``, or None."""
    body = answer.rpartition("</think>")[2]
    start, end = body.find(first), body.rfind(last)
    try:
        return json.loads(body[start : end + 1] if start >= 0 else "")
    except (ValueError, RecursionError):
        return None
