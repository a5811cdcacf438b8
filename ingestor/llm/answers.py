"""Answers of language models: each is requested once, cached, and counted."""

import logging
from collections.abc import Callable
from threading import Event, Lock
from typing import Any, Protocol

from ingestor.core.errors import Stopped
from ingestor.core.events import event
from ingestor.llm.client import Completion, Prompt

_log = logging.getLogger(__name__)
_LOCKS = 256  # locks by the beginning of a request's key, so that equal requests wait for each other


class AnswerCache(Protocol):
    """A store of answers by the key of their prompt, which may lose any answer at any time."""

    def get_answer(self, key: str) -> str | None: ...
    def put_answer(self, key: str, text: str) -> None: ...


class CachedAnswers:
    """Returns answers of language models to prompts, from the cache or by a request.

    If several threads ask an equal prompt at the same time, it is sent once. ``calls``: number of requests
    sent. ``prompt_tokens``, ``completion_tokens``, ``cost``: sums of the numbers that the servers reported.
    """

    def __init__(self, cache: AnswerCache) -> None:
        self._cache = cache
        self._stopped = Event()
        self._locks = [Lock() for _ in range(_LOCKS)]
        self._counting = Lock()
        self.calls = self.prompt_tokens = self.completion_tokens = 0
        self.cost = 0.0

    def answer(self, question: Prompt, ask: Callable[[], Completion]) -> str:
        """Return the model's answer to a prompt, from the cache if it is there.

        ``ask``: sends the request to the model. Raises the errors of ``ask``, and Stopped when the program
        ends.
        """
        with self._locks[int(question.key[:8], 16) % _LOCKS]:
            known = self._cache.get_answer(question.key)
            if known is not None:
                return known
            self.wait(0)
            answer = ask()
            self._cache.put_answer(question.key, answer.text)
        with self._counting:
            self.calls += 1
            self.prompt_tokens += answer.prompt_tokens
            self.completion_tokens += answer.completion_tokens
            self.cost += answer.cost
        return answer.text

    def wait(self, seconds: float) -> None:
        """Wait this number of seconds before a retry. Raises Stopped as soon as the program ends."""
        if self._stopped.wait(seconds):
            raise Stopped

    def stop(self) -> None:
        """Send no more requests. The answer to a request that is already running is still cached."""
        self._stopped.set()
        if self.calls:
            about = event("models_asked", **self.counts())
            _log.info("language models answered %d requests", self.calls, extra=about)

    def counts(self) -> dict[str, Any]:
        return {
            "calls": self.calls,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "cost": round(self.cost, 6),
        }


class DryRunAnswers:
    """Returns cached answers, or None, and counts the requests that a sync would send.

    The counts are an estimate. Without an answer a chunking strategy falls back to another method; with an
    answer it might send further requests. ``cost``: the price of the prompts, without the answers.
    """

    def __init__(self, cache: AnswerCache | None, count_tokens: Callable[[list[str]], list[int]]) -> None:
        self._cache, self._count_tokens = cache, count_tokens
        self._counted: set[str] = set()  # keys of prompts
        self.prompt_tokens = 0
        self.cost = 0.0

    def answer(self, question: Prompt, ask: Callable[[], Completion]) -> str | None:
        known = self._cache.get_answer(question.key) if self._cache is not None else None
        if known is None and question.key not in self._counted:
            self._counted.add(question.key)
            tokens = sum(self._count_tokens([text for _, text in question.messages]))
            self.prompt_tokens += tokens
            self.cost += tokens * question.prompt_price / 1e6
        return known

    def wait(self, seconds: float) -> None:
        """Return at once, without waiting: a dry run sends no requests."""

    @property
    def calls(self) -> int:
        return len(self._counted)
