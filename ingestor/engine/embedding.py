"""Requests for vectors from all workers meet in one queue, so that batches form across documents.

Questions of readers go before documents.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Empty, Queue
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any

import numpy as np

from ingestor.core.fingerprint import text_digest
from ingestor.core.interruptions import Stopped
from ingestor.engine.remote_vectors import HARMLESS, LocalVectors, RemoteVectors
from ingestor.engine.vector_check import checked
from ingestor.engine.workers.outcomes import as_exception
from ingestor.model import Digest, Fingerprint, Vectors
from ingestor.ports import Asymmetric, Embedder, NeedsHuman, Remote, Transient
from ingestor.state.cache.store import VectorCache

WAITING = 64  # questions that may wait; more are refused
ASKED_AT_ONCE = 16  # texts of several questions that the model takes at once
ROUND = 256  # texts


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    digests: list[Digest]
    texts: list[str]
    answer: "Future[dict[Digest, Any]]"


class Busy(Transient):
    """Too many questions wait for the embedder."""


@dataclass(frozen=True, slots=True, eq=False)
class _Question:
    embed: Callable[[Sequence[str]], Vectors]
    texts: list[str]
    answer: "Future[Vectors]"


class Embedding:
    """Texts to vectors through the cache, gathered from all workers into one stream of batches.

    One thread runs the model. While it is busy, requests queue up; it then embeds up to ROUND texts of them
    at once, each text once; more where a server takes more. Questions go before documents: they wait for one
    step of a local model at most, or for one round of a server.
    """

    def __init__(
        self,
        embedder: Embedder,
        recipe: Fingerprint,
        cache: VectorCache,
        count_tokens: Callable[[Sequence[str]], list[int]],
    ) -> None:
        self.embedder, self._recipe, self._cache = embedder, recipe, cache
        self._count_tokens = count_tokens
        remote = isinstance(embedder, Remote)
        self._vectors_of = RemoteVectors(embedder, recipe, cache) if remote else LocalVectors(embedder)
        self._round_size = max(ROUND, embedder.at_once) if isinstance(embedder, Remote) else ROUND
        self._requests: Queue[_Request | None] = Queue()
        self._questions: deque[_Question] = deque()
        self._stopped = Event()
        self._lock = Lock()
        self.texts = 0  # embedded by the model, not from the cache
        self.tokens = 0
        self.seconds = 0.0
        self._waiting, self._expected = 0, False
        self.cached = 0  # texts whose vectors were in the cache
        self.busy_since: float | None = None  # monotonic seconds: when the step under way began
        self._thread = Thread(target=self._serve, name="embedding", daemon=True)
        self._thread.start()

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """(n, dimensions) float32, in the order of ``texts``.

        Raises what the embedder raises (Transient, NeedsHuman, BadDocument), BadVectors when its vectors
        break the protocol, or Stopped.
        """
        if not texts:
            return np.zeros((0, self.embedder.dimensions), np.float32)
        digests = [text_digest(text) for text in texts]
        wanted = dict(zip(digests, texts, strict=True))
        rows = {digest: row for row, digest in enumerate(wanted)}
        vectors = np.zeros((0, 0), np.float32)
        for found in self._found(wanted):
            if not vectors.size:  # a server's dimensions may be known by its answer only
                vectors = np.empty((len(rows), len(next(iter(found.values())))), np.float32)
            vectors[[rows[digest] for digest in found]] = list(found.values())
        return vectors if len(rows) == len(digests) else vectors[[rows[digest] for digest in digests]]

    def ask(self, texts: Sequence[str], *, questions: bool = True) -> Vectors:
        """Vectors for readers, before those of documents: (n, dimensions) float32. Not cached.

        ``questions``: embedded as such, if the model tells them from documents. Raises as ``__call__``, and
        Busy.
        """
        model = self.embedder
        embed = model.embed_queries if questions and isinstance(model, Asymmetric) else model.embed
        question = _Question(embed, list(texts), Future())
        with self._lock:
            if self._stopped.is_set():
                raise Stopped
            if len(self._questions) >= WAITING:
                raise Busy("too many questions wait to be embedded: try again")
            self._questions.append(question)
            self._requests.put(_Request([], [], Future()))  # wakes the thread
        return question.answer.result()

    def expect(self) -> None:
        """Texts will come: the model is loaded meanwhile. An error of that is told to those who ask."""
        if not self._expected:
            self._expected = True
            self._requests.put(_Request([], [], Future()))

    def count(self, texts: Sequence[str]) -> int:
        """Tokens of all texts, by the model's own tokenizer."""
        return sum(self.embedder.count(texts))

    @property
    def waiting(self) -> int:
        """Texts of documents that wait, or are embedded now."""
        return self._waiting

    def stop(self) -> None:
        """Every waiting request ends with Stopped."""
        self._stopped.set()
        self._requests.put(None)

    def close(self) -> None:
        """Stop, and wait up to a minute for the current batch."""
        self.stop()
        self._thread.join(timeout=60)

    def _found(self, wanted: Mapping[Digest, str]) -> Iterator[dict[Digest, Any]]:
        """Vectors in parts that are not empty: those in the cache, then the others."""
        missing: list[Digest] = []
        for part in _parts(list(wanted), ROUND):
            cached = self._cache.get(self._recipe, part)
            self.cached += len(cached)
            missing += [digest for digest in part if digest not in cached]
            if cached:
                yield cached
        for part in _parts(missing, self._round_size):
            yield self._ask(part, [wanted[digest] for digest in part])

    def _ask(self, digests: list[Digest], texts: list[str]) -> dict[Digest, Any]:
        request = _Request(digests, texts, Future())
        with self._lock:  # so that none is queued after the last drain of a stopped thread
            if self._stopped.is_set():
                raise Stopped
            self._requests.put(request)
            self._waiting += len(request.texts)
        try:
            return request.answer.result()
        finally:
            with self._lock:
                self._waiting -= len(request.texts)

    def _serve(self) -> None:
        while (requests := self._take()) and not self._stopped.is_set():
            self.busy_since = monotonic()
            self._answer_questions()
            self._answer(requests)
            self.busy_since = None
        with self._lock:
            self._stopped.set()
        _refuse(requests + self._drain(), Stopped())
        while self._questions:
            self._questions.popleft().answer.set_exception(Stopped())

    def _answer_questions(self) -> None:
        while self._questions:
            self._answer_together(self._take_questions())

    def _take_questions(self) -> list[_Question]:
        """The first, and those behind it that the model can take with it, up to ASKED_AT_ONCE texts."""
        first = self._questions.popleft()
        taken, size = [first], len(first.texts)
        while self._questions and self._questions[0].embed == first.embed:
            size += len(self._questions[0].texts)
            if size > ASKED_AT_ONCE:
                break
            taken.append(self._questions.popleft())
        return taken

    def _answer_together(self, questions: list[_Question]) -> None:
        """After an error each alone, so that a bad text fails its own asker only."""
        texts = [text for question in questions for text in question.texts]
        try:
            vectors = checked(questions[0].embed(texts), texts, self.embedder.dimensions)
        except BaseException as panic:  # noqa: BLE001 - the askers get it, and the thread lives on
            if len(questions) == 1:
                return questions[0].answer.set_exception(as_exception(panic))
            for question in questions:
                self._answer_together([question])
        else:
            for question in questions:
                question.answer.set_result(vectors[: len(question.texts)])
                vectors = vectors[len(question.texts) :]

    def _take(self) -> list[_Request]:
        first = self._requests.get()
        requests = [] if first is None else [first]
        size = sum(len(request.texts) for request in requests)
        while requests and size < self._round_size:
            try:
                request = self._requests.get_nowait()
            except Empty:
                break
            if request is None:
                self._stopped.set()
                break
            requests.append(request)
            size += len(request.texts)
        return requests

    def _drain(self) -> list[_Request]:
        left = []
        while not self._requests.empty():
            request = self._requests.get_nowait()
            if request is not None:
                left.append(request)
        return left

    def _answer(self, requests: list[_Request]) -> None:
        """Answer requests together; after an error each alone, so that a bad text fails one document only."""
        if self._stopped.is_set():
            return _refuse(requests, Stopped())
        try:
            answers = self._vectors(requests)
        except BaseException as panic:  # noqa: BLE001 - the askers get it, and the thread lives on
            error = as_exception(panic)
            if len(requests) == 1 or not self._is_up(error):
                return _refuse(requests, error)
            for request in requests:
                self._answer([request])
        else:
            for request in requests:
                _settle(request, {d: answers[d] for d in request.digests})

    def _is_up(self, error: Exception) -> bool:
        """Whether the error may be about one text: the embedder still embeds a harmless one."""
        if isinstance(error, Transient | NeedsHuman):
            return False
        try:
            self.embedder.embed([HARMLESS])
        except BaseException:  # noqa: BLE001 - the first error is the one that is told
            return False
        return True

    def _vectors(self, requests: list[_Request]) -> dict[Digest, Any]:
        """Vectors by digest. The cache is read again, since an earlier batch may have made some of them."""
        wanted = {d: t for request in requests for d, t in zip(request.digests, request.texts, strict=True)}
        if not wanted:
            self._vectors_of.load([HARMLESS])
        found: dict[Digest, Any] = dict(self._cache.get(self._recipe, list(wanted)))
        missing = [d for d in wanted if d not in found]
        return found | self._embed(missing, [wanted[d] for d in missing]) if missing else found

    def _embed(self, digests: list[Digest], texts: list[str]) -> dict[Digest, Any]:
        """By digest a vector, or the error of this text alone."""
        self._vectors_of.load(texts)
        begun, asked = monotonic(), 0.0

        def between_steps() -> None:
            nonlocal asked
            paused = monotonic()
            self._answer_questions()
            self.busy_since = monotonic()
            asked += self.busy_since - paused

        answered = self._vectors_of(texts, self._stopped, between_steps)
        self.seconds += monotonic() - begun - asked
        found = dict(zip(digests, answered.vectors, strict=True))
        good = [digest for digest in digests if not isinstance(found[digest], Exception)]
        if good:
            self._cache.put(self._recipe, good, np.array([found[digest] for digest in good]))
        self.texts += len(good)
        self.tokens += sum(self._count_tokens(texts)) if answered.tokens is None else answered.tokens
        return found


def _parts(digests: list[Digest], size: int) -> Iterator[list[Digest]]:
    return (digests[start : start + size] for start in range(0, len(digests), size))


def _settle(request: _Request, answers: dict[Digest, Any]) -> None:
    error = next((answer for answer in answers.values() if isinstance(answer, Exception)), None)
    if error is None:
        request.answer.set_result(answers)
    else:
        request.answer.set_exception(error)


def _refuse(requests: Sequence[_Request], error: Exception) -> None:
    for request in requests:
        request.answer.set_exception(error)


class Embeddings:
    """One ``Embedding`` per embedder: there are two while a collection moves from one to the other."""

    def __init__(self, cache: VectorCache, count_tokens: Callable[[Sequence[str]], list[int]]) -> None:
        self._cache, self._count_tokens = cache, count_tokens
        self._by_recipe: dict[Fingerprint, Embedding] = {}
        self._before = (0, 0, 0.0)  # texts, tokens, seconds of those that were closed
        self._cached_before = 0

    def of(self, recipe: Fingerprint, embedder: Callable[[], Embedder]) -> Embedding:
        """Of this recipe. One to a server is replaced with its embedder: the key may be another now."""
        known = self._by_recipe.get(recipe)
        if known is None or (isinstance(known.embedder, Remote) and known.embedder is not embedder()):
            self.keep(self._by_recipe.keys() - {recipe})
            self._by_recipe[recipe] = Embedding(embedder(), recipe, self._cache, self._count_tokens)
        return self._by_recipe[recipe]

    def asking(self, recipe: str) -> Embedding | None:
        """The open embedding of that recipe. Any thread."""
        return self._by_recipe.get(Fingerprint(recipe))

    def keep(self, recipes: Collection[Fingerprint]) -> None:
        """Close those of all other recipes."""
        for recipe in self._by_recipe.keys() - recipes:
            closed = self._by_recipe.pop(recipe)
            closed.close()
            texts, tokens, seconds = self._before
            self._before = (texts + closed.texts, tokens + closed.tokens, seconds + closed.seconds)
            self._cached_before += closed.cached

    @property
    def texts(self) -> int:
        return self._before[0] + sum(one.texts for one in list(self._by_recipe.values()))

    @property
    def tokens(self) -> int:
        return self._before[1] + sum(one.tokens for one in list(self._by_recipe.values()))

    @property
    def seconds(self) -> float:
        return self._before[2] + sum(one.seconds for one in list(self._by_recipe.values()))

    @property
    def cached(self) -> int:
        return self._cached_before + sum(one.cached for one in list(self._by_recipe.values()))

    @property
    def waiting(self) -> int:
        """Texts of documents that wait, or are embedded now."""
        return sum(one.waiting for one in list(self._by_recipe.values()))

    @property
    def busy_for(self) -> float:
        """Seconds that the oldest batch under way has taken so far."""
        since = [one.busy_since for one in list(self._by_recipe.values())]
        return max((monotonic() - begun for begun in since if begun is not None), default=0.0)

    def stop(self) -> None:
        for one in list(self._by_recipe.values()):
            one.stop()

    def close(self) -> None:
        self.keep(())
