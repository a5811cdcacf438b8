"""Vectors of one embedder, here or from a server: of documents, checked, and of questions."""

import logging
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from time import monotonic

import numpy as np

from ingestor.core.events import event
from ingestor.core.fingerprint import text_digest
from ingestor.core.interruptions import Stopped
from ingestor.engine.workers import as_exception
from ingestor.model import Answered, EmbeddedPart, Fingerprint, Vector, Vectors
from ingestor.ports import Asymmetric, Embedder, Gradual, NeedsHuman, Remote, Stop, Transient
from ingestor.state.cache import VectorCache
from ingestor.units import counted

log = logging.getLogger("ingestor")

_TOLERANCE = 0.01  # of a unit vector's length; rounding to float16 moves it by 0.0005, to bfloat16 by 0.004
_QUOTED = 60  # code points of a text


class BadVectors(Exception):
    """The embedder's vectors break its protocol, so they are neither cached nor written."""


def checked(answer: object, texts: Sequence[str], dimensions: int) -> Vectors:
    """The vectors as (n, dimensions) float32, copied: an embedder may reuse its memory.

    Raises BadVectors for a wrong shape, and for vectors that are not finite or not of length 1.
    """
    try:
        with np.errstate(over="ignore"):
            vectors: Vectors = np.array(answer, np.float32)
    except (TypeError, ValueError) as error:
        raise BadVectors(f"the embedder gave no array of numbers: {error}") from error
    if vectors.shape != (len(texts), dimensions):
        raise BadVectors(
            f"the embedder gave an array of shape {vectors.shape} for {counted(len(texts), 'text')}; "
            f"of {dimensions} dimensions it must be {(len(texts), dimensions)}"
        )
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    off = np.flatnonzero(~(np.abs(lengths - 1) <= _TOLERANCE))  # so that nan is off, too
    if off.size:
        text = texts[int(off[0])]
        raise BadVectors(
            f"the embedder gave a vector of length {lengths[off[0]]:.4g}, which must be 1, "
            f"for the text that begins with {text[:_QUOTED]!r}"
        )
    return vectors


STEP = 16  # texts of documents that a model which is not gradual embeds before questions have their turn


class LocalVectors:
    """Raises what the embedder raises, for all texts together."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._loaded = False

    def load(self, texts: Sequence[str]) -> None:
        """Load the model, which does not count as embedding."""
        if not self._loaded:
            begun = monotonic()
            log.info("loading the model", extra=event("model_loading"))
            self._embedder.embed(texts[:1])
            self._loaded, seconds = True, round(monotonic() - begun, 3)
            log.info("model loaded in %.1f s", seconds, extra=event("model_loaded", seconds=seconds))

    def __call__(self, texts: Sequence[str], stop: Stop, between_steps: Callable[[int], None]) -> Answered:
        """Embed in steps; ``between_steps`` gets the number of texts of each. Raises Stopped, too."""
        vectors: list[Vector | Exception] = [BadVectors("the embedder gave this text no vector")] * len(texts)
        model, left = self._embedder, len(texts)
        with closing(
            model.embed_gradually(texts) if isinstance(model, Gradual) else self._steps(texts)
        ) as parts:
            for part in parts:
                chosen = [texts[position] for position in part.positions]
                rows = checked(part.vectors, chosen, model.dimensions)
                for position, vector in zip(part.positions, rows, strict=True):
                    vectors[position] = vector
                left -= len(rows)
                between_steps(len(rows))
                if left and stop.is_set():
                    raise Stopped
        return Answered(vectors)

    def _steps(self, texts: Sequence[str]) -> Generator[EmbeddedPart]:
        """Each holds texts of similar lengths, as embedders batch them."""
        longest_first = sorted(range(len(texts)), key=lambda position: -len(texts[position]))
        for start in range(0, len(texts), STEP):
            step = longest_first[start : start + STEP]
            yield EmbeddedPart(step, self._embedder.embed([texts[position] for position in step]))


HARMLESS = "word"  # a text that any model can take
ALIKE = 0.99  # cosine; that of unrelated models is near 0


class RemoteVectors:
    """Vectors from a server; each error is that of its texts alone. ``recipe``: of the embedder.

    A server may become another one without a word: its address may lead to another machine, and some servers
    ignore the model's name. So the vector of one word is kept in the cache, and compared with each batch. The
    word goes along with every batch, so no batch of another model is kept.
    """

    def __init__(self, embedder: Embedder, recipe: Fingerprint, cache: VectorCache) -> None:
        assert isinstance(embedder, Remote)
        self._remote: Remote = embedder
        self._embedder, self._recipe, self._cache = embedder, recipe, cache

    def load(self, texts: Sequence[str]) -> None:
        """Do nothing: no model is loaded in this process."""

    def __call__(self, texts: Sequence[str], stop: Stop, between_steps: Callable[[int], None]) -> Answered:
        answered = self._remote.embed_each([HARMLESS, *texts], stop)
        now, *vectors = answered.vectors
        error = now if isinstance(now, Exception) else self._other_server(now)
        if error is not None:
            return Answered([error] * len(texts), answered.tokens)
        pairs = zip(texts, vectors, strict=True)
        sound = [(text, vector) for text, vector in pairs if not isinstance(vector, Exception)]
        if sound:
            checked([vector for _, vector in sound], [text for text, _ in sound], self._embedder.dimensions)
        return Answered(vectors, answered.tokens)

    def _other_server(self, now: Vector) -> NeedsHuman | None:
        """Compare the word's vector with the one that is kept, or keep it."""
        digest = text_digest(HARMLESS)
        before = self._cache.get(self._recipe, [digest]).get(digest)
        if before is None:
            self._cache.put(self._recipe, [digest], np.array([now]))
        elif (why := difference(before, now)) is not None:
            return NeedsHuman(
                f"the embedding server gives other vectors for the same text than before ({why}): it runs"
                " another model. Let base_url lead to the former model, or set embedding.revision to another"
                " word, which embeds everything again"
            )
        return None


def difference(before: Vector, now: Vector) -> str | None:
    """In words, between two vectors of length 1; None if one model may have made both. Pure."""
    if before.shape != now.shape:
        return f"{len(now)} numbers, not {len(before)}"
    cosine = float(before @ now)
    return None if cosine >= ALIKE else f"cosine {cosine:.2f}"


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
