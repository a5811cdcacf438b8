"""Questions of readers, which wait for the model as documents do, and go before them."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from ingestor.engine.vectors.check import checked
from ingestor.engine.workers import as_exception
from ingestor.model import Vectors
from ingestor.ports import Asymmetric, Embedder, Transient

WAITING = 64  # questions that may wait; more are refused
ASKED_AT_ONCE = 16  # texts of several questions that the model takes at once


class Busy(Transient):
    """Too many questions wait for the embedder."""


@dataclass(frozen=True, slots=True, eq=False)
class _Question:
    embed: Callable[[Sequence[str]], Vectors]
    texts: list[str]
    answer: "Future[Vectors]"


class Questions:
    """The questions that wait for a model. Only the model's thread answers questions."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._waiting: deque[_Question] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, texts: Sequence[str], *, questions: bool) -> "Future[Vectors]":
        """Queue texts to embed, and return their future vectors. Raises Busy if too many wait.

        ``questions``: whether to embed the texts as questions, if the model distinguishes questions.
        """
        if len(self._waiting) >= WAITING:
            raise Busy("too many questions wait to be embedded: try again")
        model = self._embedder
        embed = model.embed_queries if questions and isinstance(model, Asymmetric) else model.embed
        question = _Question(embed, list(texts), Future())
        self._waiting.append(question)
        return question.answer

    def answer(self) -> None:
        """All that wait."""
        while self._waiting:
            self._answer_together(self._take())

    def refuse(self, error: Exception) -> None:
        """All that wait."""
        while self._waiting:
            self._waiting.popleft().answer.set_exception(error)

    def _take(self) -> list[_Question]:
        """The first, and those behind it that the model can take with it, up to ASKED_AT_ONCE texts."""
        first = self._waiting.popleft()
        taken, size = [first], len(first.texts)
        while self._waiting and self._waiting[0].embed == first.embed:
            size += len(self._waiting[0].texts)
            if size > ASKED_AT_ONCE:
                break
            taken.append(self._waiting.popleft())
        return taken

    def _answer_together(self, questions: list[_Question]) -> None:
        """After an error each alone, so that a bad text fails its own asker only."""
        texts = [text for question in questions for text in question.texts]
        try:
            vectors = checked(questions[0].embed(texts), texts, self._embedder.dimensions)
        except BaseException as panic:  # noqa: BLE001 - the askers get it, and the thread lives on
            if len(questions) == 1:
                return questions[0].answer.set_exception(as_exception(panic))
            for question in questions:
                self._answer_together([question])
        else:
            for question in questions:
                question.answer.set_result(vectors[: len(question.texts)])
                vectors = vectors[len(question.texts) :]
