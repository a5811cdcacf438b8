"""What language models answered: kept in the cache, asked for once, counted (see language_model.Answers)."""

import logging
from collections.abc import Callable
from threading import Event, Lock

from ingestor.core.interruptions import Stopped
from ingestor.llm.client import Answer, Question
from ingestor.state.cache.store import VectorCache

_log = logging.getLogger(__name__)
_TURNS = 256


class CachedAnswers:
    """``Answers`` through the cache. Two documents that ask the same at the same time ask once.

    Counts what the models were really asked, and the tokens that their servers say they read and wrote.
    """

    def __init__(self, cache: VectorCache) -> None:
        self._cache = cache
        self._stopped = Event()
        self._turns = [Lock() for _ in range(_TURNS)]
        self._counting = Lock()
        self.calls = self.prompt_tokens = self.completion_tokens = 0
        self.cost = 0.0

    def answer(self, question: Question, ask: Callable[[], Answer]) -> str:
        """Raises what asking raises, or Stopped."""
        with self._turns[int(question.key[:8], 16) % _TURNS]:
            known = self._cache.get_answer(question.key)
            if known is not None:
                return known
            self._go_on()
            answer = ask()
            self._cache.put_answer(question.key, answer.text)
        self._count(answer)
        return answer.text

    def wait(self, seconds: float) -> None:
        self._stopped.wait(seconds)
        self._go_on()

    def stop(self) -> None:
        """Nothing more is asked; the answer under way is still kept."""
        self._stopped.set()
        if self.calls:
            _log.info("language models were asked", extra=self.counts())

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

    def _count(self, answer: Answer) -> None:
        with self._counting:
            self.calls += 1
            self.prompt_tokens += answer.prompt_tokens
            self.completion_tokens += answer.completion_tokens
            self.cost += answer.cost


class DryRunAnswers:
    """``Answers`` that ask nobody: what the cache knows, and else None and a note of the question.

    Without an answer a strategy falls back, where with one it might have asked more, or something else: the
    counts are an estimate.
    """

    def __init__(self, cache: VectorCache | None, count_tokens: Callable[[list[str]], list[int]]) -> None:
        self._cache, self._count_tokens = cache, count_tokens
        self._noted: set[str] = set()  # keys of questions
        self.prompt_tokens = 0
        self.cost = 0.0  # of reading the questions alone

    def answer(self, question: Question, ask: Callable[[], Answer]) -> str | None:
        known = self._cache.get_answer(question.key) if self._cache is not None else None
        if known is None and question.key not in self._noted:
            self._noted.add(question.key)
            tokens = sum(self._count_tokens([text for _, text in question.messages]))
            self.prompt_tokens += tokens
            self.cost += tokens * question.prompt_price / 1e6
        return known

    def wait(self, seconds: float) -> None:
        """Nobody is asked, so nothing is waited for."""

    @property
    def calls(self) -> int:
        return len(self._noted)
