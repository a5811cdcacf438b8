"""Requests to one embedding server: at its pace, repeated while it is busy, their answers checked."""

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from math import inf
from typing import Any

from ingestor.core.interruptions import Stopped
from ingestor.embedders.openai import batching
from ingestor.embedders.openai.answers import EmbeddingAnswer, Malformed, longest, read
from ingestor.embedders.openai.counting import Count, counter
from ingestor.embedders.openai.options import OpenAIOptions
from ingestor.embedders.openai.pace import Pace
from ingestor.embedders.openai.rates import RateLimits
from ingestor.llm.server import LONGEST_WAIT, TOO_LONG, ModelRequests, RequestNotTaken, TryAgain, patiently
from ingestor.model import Vector
from ingestor.ports import NeedsHuman, Stop, Transient

HARMLESS = "word"  # a text that any model can take
_ABOUT_TEXTS = (400, 413, 422)  # statuses that one text of many may be the reason for


class Sender:
    """Threads may share it. ``width``: dimensions of the first answer, None before it."""

    def __init__(self, options: OpenAIOptions) -> None:
        self._options = options
        self._requests = ModelRequests(options, "the embedding server", options.model)
        self._pace = Pace(RateLimits(options.requests_per_minute or inf, options.tokens_per_minute or inf))
        self._learned: dict[str, int] = {}

    @property
    def width(self) -> int | None:
        return self._learned.get("dimensions")

    def said(self, what: object) -> str:
        return self._requests.said(what)

    @cached_property
    def count(self) -> Count:
        return counter(self._options.tokenizer)

    def answer(self, texts: Sequence[str], more: Mapping[str, Any], stop: Stop) -> EmbeddingAnswer:
        """Sends a request, repeatedly. Raises batching.Refused, Transient, NeedsHuman or Stopped."""
        tokens = sum(self.count(texts))
        body: dict[str, Any] = {
            "model": self._options.model,
            "input": list(texts),
            "encoding_format": "float",
        }
        if self._options.dimensions is not None:
            body["dimensions"] = self._options.dimensions
        whole = {name: value for name, value in {**body, **more}.items() if value is not None}
        try:
            return patiently(
                lambda: self._once(whole, len(texts), tokens, stop),
                self._options.retries,
                partial(_wait, stop),
            )
        except TryAgain as busy:
            raise Transient(self.said(busy)) from None
        except RequestNotTaken as refused:
            if refused.status in _ABOUT_TEXTS or TOO_LONG in refused.code:
                raise batching.TextsRefused(str(refused)) from None
            raise NeedsHuman(self.said(refused)) from None

    def _once(self, body: Mapping[str, Any], texts: int, tokens: int, stop: Stop) -> EmbeddingAnswer:
        _wait(stop, self._pace.take(tokens))
        try:
            content = self._requests.post("/embeddings", body, longest(texts, self._options.dimensions))
            return self._checked(read(content, texts))
        except Malformed as error:
            raise TryAgain(str(error)) from None
        except TryAgain as busy:
            if busy.after is not None and busy.after <= LONGEST_WAIT:
                self._pace.pause(busy.after)
            raise

    def _checked(self, answer: EmbeddingAnswer) -> EmbeddingAnswer:
        wanted = self._options.dimensions
        if wanted is not None and answer.dimensions != wanted:
            raise NeedsHuman(
                self.said(
                    f"gave vectors of {answer.dimensions} dimensions, not of {wanted}: correct `dimensions`,"
                    f" or leave it out if model {self._options.model!r} cannot shorten its vectors"
                )
            )
        before = self._learned.setdefault("dimensions", answer.dimensions)
        if answer.dimensions != before:
            raise Malformed(f"gave vectors of {answer.dimensions} dimensions, and of {before} before")
        return answer


class Call:
    """Requests of one call, with the prompt, fields and stop flag that they share.

    ``tokens``: sum of the server's counts; None if an answer had no count.
    """

    def __init__(self, sender: Sender, prompt: str, more: Mapping[str, Any], stop: Stop) -> None:
        self._sender, self._prompt, self._more, self._stop = sender, prompt, more, stop
        self._counted: list[int | None] = []
        self._harmless_passed = False

    @property
    def tokens(self) -> int | None:
        told = [number for number in self._counted if number is not None]
        return sum(told) if len(told) == len(self._counted) else None

    def vectors(self, texts: Sequence[str], positions: Sequence[int]) -> Sequence[Vector | None]:
        answer = self._sender.answer([texts[position] for position in positions], self._more, self._stop)
        self._counted.append(answer.tokens)
        return answer.vectors

    def check(self, reason: str) -> None:
        """See batching.resolved."""
        if self._harmless_passed:
            return
        said = self._sender.said
        try:
            [vector] = self.vectors([self._prompt + HARMLESS], [0])
        except batching.TextsRefused:
            raise NeedsHuman(said(reason)) from None
        if vector is None:
            raise Transient(said("gives no usable vectors, not even for a harmless word"))
        self._harmless_passed = True


def _wait(stop: Stop, seconds: float) -> None:
    if stop.wait(seconds) if seconds > 0 else stop.is_set():
        raise Stopped
