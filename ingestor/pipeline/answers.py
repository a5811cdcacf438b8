"""Answers of language models: requested once, cached and counted."""

import logging
from collections.abc import Callable
from threading import Event, Lock

from ingestor.core.errors import Stopped
from ingestor.core.events import event
from ingestor.llm.client import Completion, Prompt
from ingestor.state.cache import VectorCache

_log = logging.getLogger(__name__)
_TURNS = 256


class CachedAnswers:
    """Answers questions from the cache, else by the model. Equal requests at the same time are sent once.

    Counts the requests that were sent, and the tokens that the servers reported.
    """

    def __init__(self, cache: VectorCache) -> None:
        self._cache = cache
        self._stopped = Event()
        self._turns = [Lock() for _ in range(_TURNS)]
        self._counting = Lock()
        self.calls = self.prompt_tokens = self.completion_tokens = 0
        self.cost = 0.0

    def answer(self, question: Prompt, ask: Callable[[], Completion]) -> str:
        """Return the answer. Raises what the request raises, or Stopped."""
        with self._turns[int(question.key[:8], 16) % _TURNS]:
            known = self._cache.get_answer(question.key)
            if known is not None:
                return known
            self._go_on()
            answer = ask()
            self._cache.put_answer(question.key, answer.text)
        with self._counting:
            self.calls += 1
            self.prompt_tokens += answer.prompt_tokens
            self.completion_tokens += answer.completion_tokens
            self.cost += answer.cost
        return answer.text

    def wait(self, seconds: float) -> None:
        self._stopped.wait(seconds)
        self._go_on()

    def stop(self) -> None:
        """Send no more requests; the answer to a running one is still cached."""
        self._stopped.set()
        if self.calls:
            _log.info("language models called", extra=event("models_asked", **self.counts()))

    def counts(self) -> dict[str, float]:
        return {
            "calls": self.calls,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "cost": round(self.cost, 6),
        }

    def _go_on(self) -> None:
        if self._stopped.is_set():
            raise Stopped


class DryRunAnswers:
    """Returns cached answers, else None, and counts requests to send; an implementation of ``Answers``.

    The counts are an estimate: without an answer a strategy falls back, and with one it might send other
    requests.
    """

    def __init__(self, cache: VectorCache | None, count_tokens: Callable[[list[str]], list[int]]) -> None:
        self._cache, self._count_tokens = cache, count_tokens
        self._noted: set[str] = set()  # keys of requests
        self.prompt_tokens = 0
        self.cost = 0.0  # of the prompts alone

    def answer(self, question: Prompt, ask: Callable[[], Completion]) -> str | None:
        known = self._cache.get_answer(question.key) if self._cache is not None else None
        if known is None and question.key not in self._noted:
            self._noted.add(question.key)
            tokens = sum(self._count_tokens([text for _, text in question.messages]))
            self.prompt_tokens += tokens
            self.cost += tokens * question.prompt_price / 1e6
        return known

    def wait(self, seconds: float) -> None:
        """Return at once, since nothing is sent."""

    @property
    def calls(self) -> int:
        return len(self._noted)
