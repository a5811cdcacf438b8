"""Requests for vectors from all workers meet in one queue, so that batches form across documents.

Questions of readers go before documents, and documents that readers see before those of a rebuild. A document
that was begun earlier goes before others: a strategy that embeds twice ends one before it begins the next.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import count
from queue import Empty, PriorityQueue
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any

import numpy as np

from ingestor.core.fingerprint import text_digest
from ingestor.core.interruptions import Stopped
from ingestor.engine.vectors.models import HARMLESS, LocalVectors, Questions, RemoteVectors
from ingestor.engine.workers import TURN, as_exception
from ingestor.model import Digest, Fingerprint, Vectors
from ingestor.ports import Embedder, NeedsHuman, Remote, Transient
from ingestor.state.cache import VectorCache

ROUND = 256  # texts
FIRST_ROUND = 32  # texts, where nothing waited: readers see the first documents soon

Resting = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    digests: list[Digest]
    texts: list[str]
    answer: "Future[dict[Digest, Any]]"
    behind: bool = False  # of an edition that readers do not see yet


class _Queue:
    """Requests, those of the work that was submitted first before others. Any thread."""

    def __init__(self) -> None:
        self._waiting: PriorityQueue[tuple[int, int, _Request | None]] = PriorityQueue()
        self._numbers = count()

    def put(self, request: _Request | None) -> None:
        self._waiting.put((TURN.get() if request and request.texts else 0, next(self._numbers), request))

    def get(self) -> _Request | None:
        return self._waiting.get()[2]

    def get_nowait(self) -> _Request | None:
        """Raises Empty."""
        return self._waiting.get_nowait()[2]

    def qsize(self) -> int:
        return self._waiting.qsize()


class Embedding:
    """Texts to vectors through the cache, gathered from all workers into one stream of batches.

    One thread runs the model. While it is busy, requests queue up; it then embeds up to ROUND texts of them
    at once, each text once; more where a server takes more. Rounds of a local model grow to that size from
    FIRST_ROUND on while requests wait. Questions, and documents that readers see beside
    those of a rebuild, wait for one step of a local model at most, or for one round of a server.
    ``resting``: entered by each asker of documents' vectors while it waits, so that others ask, too, and
    batches fill.
    """

    def __init__(
        self,
        embedder: Embedder,
        recipe: Fingerprint,
        cache: VectorCache,
        count_tokens: Callable[[Sequence[str]], list[int]],
        resting: Resting = nullcontext,
    ) -> None:
        self.embedder, self._recipe, self._cache = embedder, recipe, cache
        self._count_tokens, self._resting = count_tokens, resting
        remote = isinstance(embedder, Remote)
        self._vectors_of = RemoteVectors(embedder, recipe, cache) if remote else LocalVectors(embedder)
        self._round_size = max(ROUND, embedder.at_once) if isinstance(embedder, Remote) else ROUND
        self._first_round = self._round_size if remote else FIRST_ROUND
        self._next_round = self._first_round
        self._requests = _Queue()
        self._behind = _Queue()  # begun when there are no others
        self._questions = Questions(embedder)
        self._stopped = Event()
        self._lock = Lock()
        self.texts = 0  # embedded by the model, not from the cache
        self.tokens = 0
        self.seconds = 0.0
        self.loading = False  # the model, into memory
        self._stepped = 0  # texts of the round under way that are embedded
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
        return self._vectors_for(texts, behind=False)

    def behind(self, texts: Sequence[str]) -> Vectors:
        """Embed texts of an edition that readers do not see yet, after all others. See ``__call__``."""
        return self._vectors_for(texts, behind=True)

    def _vectors_for(self, texts: Sequence[str], *, behind: bool) -> Vectors:
        if not texts:
            return np.zeros((0, self.embedder.dimensions), np.float32)
        digests = [text_digest(text) for text in texts]
        wanted = dict(zip(digests, texts, strict=True))
        rows = {digest: row for row, digest in enumerate(wanted)}
        vectors = np.zeros((0, 0), np.float32)
        for answers in self._answers(wanted, behind):
            if not vectors.size:  # a server's dimensions may be known by its answer only
                vectors = np.empty((len(rows), len(next(iter(answers.values())))), np.float32)
            vectors[[rows[digest] for digest in answers]] = list(answers.values())
        return vectors if len(rows) == len(digests) else vectors[[rows[digest] for digest in digests]]

    def ask(self, texts: Sequence[str], *, questions: bool = True) -> Vectors:
        """Vectors for readers, before those of documents: (n, dimensions) float32. Not cached.

        ``questions``: embedded as such, if the model tells them from documents. Raises as ``__call__``, and
        Busy.
        """
        with self._lock:
            if self._stopped.is_set():
                raise Stopped
            answer = self._questions.put(texts, questions=questions)
            self._requests.put(_Request([], [], Future()))  # wakes the thread
        return answer.result()

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

    @property
    def known(self) -> tuple[int, int]:
        """Return texts that the model has embedded, those of the round under way included, and those left."""
        stepped = self._stepped
        return self.texts + stepped, max(0, self._waiting - stepped)

    def stop(self) -> None:
        """Every waiting request ends with Stopped."""
        self._stopped.set()
        self._requests.put(None)

    def close(self) -> None:
        """Stop, and wait up to a minute for the current batch."""
        self.stop()
        self._thread.join(timeout=60)

    def _answers(self, wanted: Mapping[Digest, str], behind: bool) -> Iterator[dict[Digest, Any]]:
        """Vectors in parts that are not empty: those in the cache, then the others."""
        missing: list[Digest] = []
        for part in _parts(list(wanted), ROUND):
            cached = self._cache.get(self._recipe, part)
            self.cached += len(cached)
            missing += [digest for digest in part if digest not in cached]
            if cached:
                yield cached
        for part in _parts(missing, self._round_size):
            yield self._ask(_Request(part, [wanted[digest] for digest in part], Future(), behind))

    def _ask(self, request: _Request) -> dict[Digest, Any]:
        with self._lock:  # so that none is queued after the last drain of a stopped thread
            if self._stopped.is_set():
                raise Stopped
            if request.behind:
                self._behind.put(request)
                self._requests.put(_Request([], [], Future()))  # wakes the thread
            else:
                self._requests.put(request)
            self._waiting += len(request.texts)
        try:
            with self._resting():
                return request.answer.result()
        finally:
            with self._lock:
                self._waiting -= len(request.texts)

    def _serve(self) -> None:
        while (requests := self._take()) and not self._stopped.is_set():
            self.busy_since = monotonic()
            self._questions.answer()
            self._answer(requests)
            if any(request.texts for request in requests):
                self._next_round = min(2 * self._next_round, self._round_size)
            self.busy_since = None
        with self._lock:
            self._stopped.set()
        _refuse(requests + self._drain(), Stopped())
        self._questions.refuse(Stopped())

    def _take(self) -> list[_Request]:
        """Wait for the requests of a round; none after the end. A rebuild has rounds of its own."""
        requests = list[_Request]()
        if not (self._requests.qsize() or self._behind.qsize()):
            self._next_round = self._first_round
        if not self._behind.qsize():
            if (first := self._requests.get()) is None:
                return []
            requests.append(first)
        requests += self._take_waiting(self._requests, sum(len(request.texts) for request in requests))
        if not any(request.texts for request in requests):
            requests += self._take_waiting(self._behind)
        return requests

    def _take_waiting(self, queue: _Queue, size: int = 0) -> list[_Request]:
        """Take what waits, up to a round. ``size``: texts that the round has already."""
        taken = list[_Request]()
        while size < self._next_round:
            try:
                request = queue.get_nowait()
            except Empty:
                break
            if request is None:
                self._stopped.set()
                break
            taken.append(request)
            size += len(request.texts)
        return taken

    def _drain(self) -> list[_Request]:
        left = []
        for queue in (self._requests, self._behind):
            while queue.qsize():
                if (request := queue.get_nowait()) is not None:
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
            self._load([HARMLESS])
        answers: dict[Digest, Any] = dict(self._cache.get(self._recipe, list(wanted)))
        missing = [d for d in wanted if d not in answers]
        behind = any(request.behind for request in requests)
        return answers | self._embed(missing, [wanted[d] for d in missing], behind) if missing else answers

    def _load(self, texts: Sequence[str]) -> None:
        self.loading = True
        try:
            self._vectors_of.load(texts)
        finally:
            self.loading = False

    def _embed(self, digests: list[Digest], texts: list[str], behind: bool) -> dict[Digest, Any]:
        """By digest a vector, or the error of this text alone. ``behind``: others are answered meanwhile."""
        self._load(texts)
        begun, asked = monotonic(), 0.0

        def between_steps(embedded: int) -> None:
            nonlocal asked
            self._stepped += embedded
            paused = monotonic()
            self._questions.answer()
            if behind and (requests := self._take_waiting(self._requests)):
                self._answer(requests)
            self.busy_since = monotonic()
            asked += self.busy_since - paused

        before = self._stepped
        try:
            answered = self._vectors_of(texts, self._stopped, between_steps)
            self.seconds += monotonic() - begun - asked
            answers = dict(zip(digests, answered.vectors, strict=True))
            good = [digest for digest in digests if not isinstance(answers[digest], Exception)]
            if good:
                self._cache.put(self._recipe, good, np.array([answers[digest] for digest in good]))
            self.texts += len(good)
        finally:
            self._stepped = before
        self.tokens += sum(self._count_tokens(texts)) if answered.tokens is None else answered.tokens
        return answers


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
    """An ``Embedding`` for each embedder: two exist while a collection moves to another embedder."""

    def __init__(
        self,
        cache: VectorCache,
        count_tokens: Callable[[Sequence[str]], list[int]],
        resting: Resting = nullcontext,
    ) -> None:
        self._cache, self._count_tokens, self._resting = cache, count_tokens, resting
        self._by_recipe: dict[Fingerprint, Embedding] = {}
        self._settings: dict[Fingerprint, object] = {}
        self._asked = set[Fingerprint]()  # since the last ``keep``
        self._before = (0, 0, 0.0)  # texts, tokens, seconds of those that were closed
        self._cached_before = 0

    def of(self, recipe: Fingerprint, embedder: Callable[[], Embedder], setting: object = None) -> Embedding:
        """Return the stream of this recipe.

        ``setting``: how its embedder is set. A stream to a server is replaced once between two calls of
        ``keep`` if the setting differs, since the key may be another now. So several askers get the same.
        """
        known, asked = self._by_recipe.get(recipe), recipe in self._asked
        self._asked.add(recipe)
        other = not asked and self._settings.get(recipe) != setting
        if known is None or (other and isinstance(known.embedder, Remote)):
            self._close(self._by_recipe.keys() & {recipe})
            self._settings[recipe] = setting
            self._by_recipe[recipe] = Embedding(
                embedder(), recipe, self._cache, self._count_tokens, self._resting
            )
        return self._by_recipe[recipe]

    def asking(self, recipe: str) -> Embedding | None:
        """The open embedding of that recipe. Any thread."""
        return self._by_recipe.get(Fingerprint(recipe))

    def keep(self, recipes: Collection[Fingerprint]) -> None:
        """Close those of all other recipes, after a config was taken over."""
        self._asked.clear()
        self._close(self._by_recipe.keys() - recipes)

    def _close(self, recipes: Collection[Fingerprint]) -> None:
        for recipe in recipes:
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
    def known(self) -> tuple[int, int]:
        """Return texts that models have embedded, rounds under way included, and those left."""
        each = [one.known for one in list(self._by_recipe.values())]
        return self._before[0] + sum(done for done, _ in each), sum(left for _, left in each)

    @property
    def loading(self) -> bool:
        """Whether a model is being loaded."""
        return any(one.loading for one in list(self._by_recipe.values()))

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
