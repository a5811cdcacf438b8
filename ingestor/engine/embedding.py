"""Gathers requests for vectors in one queue, so that batches form across documents.

A round is a batch of texts that the model embeds together. Queries of readers are embedded before documents.
Documents of editions that readers see are embedded before documents of an edition that is being built. A
request that comes earlier in this order also interrupts a running round, between two of its steps.

Otherwise, documents follow the order in which the workers began them. A chunking strategy that embeds twice
then finishes one document before it begins the next. A document of many texts counts as begun later, so that
readers see small documents meanwhile.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import astuple, dataclass, field, replace
from enum import IntEnum, auto
from functools import reduce
from heapq import heappop, heappush
from itertools import count, islice
from operator import add
from threading import Condition, Event, Thread
from time import monotonic
from typing import Any

import numpy as np

from ingestor.core.errors import Stopped
from ingestor.core.events import event
from ingestor.core.fingerprint import text_digest
from ingestor.core.listings import pages
from ingestor.engine.vectors import HARMLESS, BadVectors, check_vectors, embed_in_steps, embed_on_server
from ingestor.engine.workers import CURRENT, as_exception
from ingestor.model import Answered, Digest, Fingerprint, Vector, Vectors
from ingestor.ports import Asymmetric, Embedder, NeedsHuman, Remote, Transient
from ingestor.state.cache import VectorCache

log = logging.getLogger("ingestor")

ROUND = 256  # texts of documents in a round
FIRST_ROUND = 16  # texts of a round before which nothing waited: readers see the first documents soon
LATER = 16  # texts; a document counts as begun one document later for each so many of its texts
ROUND_SECONDS = 1.0  # a round of this length is enlarged no more: documents begun earlier wait for it
QUESTION_ROUND = 16  # questions in a round
MOST_QUESTIONS = 64  # requests of readers that may wait; more are refused

CountTokens = Callable[[Sequence[str]], list[int]]
Waiting = Callable[[], AbstractContextManager[None]]


class Busy(Transient):
    """Error: too many queries of readers already wait for the embedder."""


class Rank(IntEnum):
    """Order in which requests for vectors are embedded, from the first to the last."""

    QUESTION = auto()
    DOCUMENT = auto()
    REBUILD = auto()  # a document of an edition that readers do not see yet


@dataclass(frozen=True, slots=True, order=True)
class _Request:
    """A request of one caller to embed some texts. A request without texts only loads the model.

    Requests are embedded in ascending order. ``position``: position in the order of documents. ``number``:
    position in the order of arrival. ``embed``: the model's function for readers' texts, else None.
    ``answer``: receives the vectors, or an error.
    """

    rank: Rank
    position: int
    number: int
    texts: Sequence[str] = field(compare=False)
    embed: Callable[[Sequence[str]], Vectors] | None = field(default=None, compare=False)
    answer: "Future[list[Vector]]" = field(default_factory=Future, compare=False)


@dataclass(slots=True)
class Counts:
    """Counts of embedded texts since the program started.

    ``texts``, ``tokens``, ``seconds``: documents' texts that the model embedded, their tokens, and the time.
    ``cached``: texts whose vectors were in the cache. ``waiting``: texts of documents that wait or are being
    embedded. ``loading``: whether the model is being loaded. ``busy_for``: seconds since the running step
    began; 0.0 if none runs.
    """

    texts: int = 0
    tokens: int = 0
    seconds: float = 0.0
    cached: int = 0
    waiting: int = 0
    loading: bool = False
    busy_for: float = 0.0

    def __add__(self, other: "Counts") -> "Counts":
        sums = Counts(*map(add, astuple(self), astuple(other)))
        longest = max(self.busy_for, other.busy_for)
        return replace(sums, loading=self.loading or other.loading, busy_for=longest)


class Embedding:
    """Returns vectors of texts, from the cache or from one embedder. All workers share its queue of requests.

    One thread runs the model. While the model is busy, requests queue up. The next round embeds up to ROUND
    of their texts at once, each text once; for a server a round may be larger. The first round of a local
    model has FIRST_ROUND texts. Rounds grow while requests wait, as long as a round takes less than
    ROUND_SECONDS.

    A request that precedes the running round waits for the running step of a local model, or for the server's
    whole round. ``waiting``: a context that a caller enters while it waits for vectors of documents. The
    context releases the caller's permit, so that other workers can submit requests, too, and rounds become
    full.
    """

    def __init__(
        self,
        embedder: Embedder,
        recipe: Fingerprint,
        cache: VectorCache,
        count_tokens: CountTokens,
        waiting: Waiting = nullcontext,
    ) -> None:
        self.embedder, self._recipe, self._cache = embedder, recipe, cache
        self._count_tokens, self._waiting = count_tokens, waiting
        self._is_server = isinstance(embedder, Remote)
        self._loaded = self._is_server  # a server has its model
        self._next_round = self._first_round
        self._queue = list[_Request]()  # a heap
        self._numbers, self._changed, self._stopped = count(), Condition(), Event()
        self._under_way = set[str]()  # the texts that the running rounds embed
        self._counts = Counts()
        self._busy_since: float | None = None  # monotonic seconds: when the running step began
        self._thread = Thread(target=self._serve, name="embedding", daemon=True)
        self._thread.start()

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Embed texts of a document. Return an array (n, dimensions) of float32, with a row for each text in
        order.

        Raises the errors of the embedder (Transient, NeedsHuman, BadDocument), BadVectors if its vectors
        break the protocol, and Stopped when the program ends.
        """
        if not texts:
            return np.zeros((0, self.embedder.dimensions), np.float32)
        digests = [text_digest(text) for text in texts]
        wanted = dict(zip(digests, texts, strict=True))
        vectors = dict[Digest, Vector]()
        for part in pages(wanted, ROUND):
            vectors |= self._cache.get(self._recipe, part)
        missing = [digest for digest in wanted if digest not in vectors]
        with self._changed:
            self._counts.cached += len(vectors)
        for part in pages(missing, self._round_size):
            rank = Rank.REBUILD if CURRENT.get().lane.background else Rank.DOCUMENT
            position = CURRENT.get().number + len(part) // LATER
            answer = self._put(rank, position, [wanted[digest] for digest in part])
            try:
                with self._waiting():
                    vectors.update(zip(part, answer.result(), strict=True))
            finally:
                with self._changed:
                    self._counts.waiting -= len(part)
        return np.array([vectors[digest] for digest in digests], np.float32)

    def ask(self, texts: Sequence[str], *, questions: bool = True) -> Vectors:
        """Embed texts of readers before any texts of documents. Return an array (n, dimensions) of float32.

        The vectors are not cached. ``questions``: whether the texts are queries, which some models embed
        differently from documents. Raises the errors of ``__call__``, and Busy if too many requests of
        readers wait.
        """
        model = self.embedder
        embed = model.embed_queries if questions and isinstance(model, Asymmetric) else model.embed
        with self._changed:
            if self.questions >= MOST_QUESTIONS:
                raise Busy("too many questions wait to be embedded: try again")
            answer = self._put(Rank.QUESTION, 0, list(texts), embed)
        return np.array(answer.result(), np.float32)

    def expect(self) -> None:
        """Load the model before the first request for vectors. That request raises any loading error."""
        if not self._loaded:
            self._put(Rank.DOCUMENT, 0, ())

    def count(self, texts: Sequence[str]) -> int:
        """Return how many tokens all texts have together, by the model's own tokenizer."""
        return sum(self.embedder.count(texts))

    @property
    def questions(self) -> int:
        """Return how many requests of readers wait."""
        with self._changed:
            return sum(request.rank is Rank.QUESTION for request in self._queue)

    def counts(self) -> Counts:
        since = self._busy_since
        return replace(self._counts, busy_for=0.0 if since is None else monotonic() - since)

    def stop(self) -> None:
        """Raise Stopped in all callers that wait for vectors, when the program ends."""
        with self._changed:
            self._stopped.set()
            self._changed.notify()

    def close(self) -> None:
        """Stop, and wait up to a minute until the running round has ended."""
        self.stop()
        self._thread.join(timeout=60)

    def _put(
        self,
        rank: Rank,
        position: int,
        texts: Sequence[str],
        embed: Callable[[Sequence[str]], Vectors] | None = None,
    ) -> "Future[list[Vector]]":
        """Queue a request, and return its future answer."""
        with self._changed:
            if self._stopped.is_set():
                raise Stopped
            request = _Request(rank, position, next(self._numbers), texts, embed)
            heappush(self._queue, request)
            self._counts.waiting += 0 if embed else len(texts)
            self._changed.notify()
        return request.answer

    # --- the thread that runs the model --------------------------------------------------------------

    @property
    def _round_size(self) -> int:
        """Return how many texts a round may have. A changed config may give the server another number."""
        return max(ROUND, getattr(self.embedder, "at_once", 0))

    @property
    def _first_round(self) -> int:
        return self._round_size if self._is_server else FIRST_ROUND

    def _serve(self) -> None:
        while True:
            with self._changed:
                if not self._queue:
                    self._next_round = self._first_round
                self._changed.wait_for(lambda: self._queue or self._stopped.is_set())
                if self._stopped.is_set():
                    return _refuse(self._queue, Stopped())
                requests = self._take()
            self._busy_since, before = monotonic(), self._counts.seconds
            self._answer(requests)
            if 0 < (seconds := self._counts.seconds - before) < ROUND_SECONDS:
                self._next_round = min(2 * self._next_round, self._round_size)
            elif seconds > 2 * ROUND_SECONDS:
                self._next_round = max(self._next_round // 2, self._first_round)
            self._busy_since = None

    def _take(self, under_way: _Request | None = None) -> list[_Request]:
        """Remove the next requests from the queue, all of one rank and at most a round of texts, and return
        them.

        ``under_way``: first request of the running round, if one runs. Then only requests whose document
        precedes that one are removed. They end before a request with a text that a running round embeds,
        because the cache will soon have its vector.
        """
        taken, size = list[_Request](), 0
        with self._changed:
            while self._queue:
                first = self._queue[0]
                if under_way and (first.rank, first.position) >= (under_way.rank, under_way.position):
                    break
                if not (first.embed or self._under_way.isdisjoint(first.texts)):
                    break
                most = QUESTION_ROUND if first.embed else self._next_round
                other = taken and (first.rank, first.embed) != (taken[0].rank, taken[0].embed)
                if taken and (other or size + len(first.texts) > most):
                    break
                taken.append(heappop(self._queue))
                size += len(first.texts)
        return taken

    def _answer(self, requests: Sequence[_Request]) -> None:
        """Embed the texts of several requests together, and answer the requests.

        If that fails, each request is embedded alone, so that a bad text fails only its own caller.
        """
        texts = [text for request in requests for text in request.texts]
        try:
            if self._stopped.is_set():
                raise Stopped
            if (embed := requests[0].embed) is None:
                answers = iter(self._embed_documents(texts, requests[0]))
            else:
                answers = iter(check_vectors(embed(texts), texts, self.embedder.dimensions))
        except BaseException as panic:  # noqa: BLE001 - raised in the callers; this thread continues
            error = as_exception(panic)
            if len(requests) == 1 or isinstance(error, Transient | NeedsHuman | Stopped):
                _refuse(requests, error)
            else:
                for request in requests:
                    self._answer([request])
            return
        for request in requests:
            answer = list(islice(answers, len(request.texts)))
            if errors := [each for each in answer if isinstance(each, Exception)]:
                request.answer.set_exception(errors[0])
            else:
                request.answer.set_result(answer)

    def _embed_documents(self, texts: Sequence[str], first: _Request) -> list[Any]:
        """Return for each text a vector, or an error if the embedder refuses the text.

        ``first``: the first request of this round. The cache is read again, since an earlier round may have
        made some of the vectors.
        """
        digests = [text_digest(text) for text in texts]
        wanted = dict(zip(digests, texts, strict=True))
        answers: dict[Digest, Any] = dict(self._cache.get(self._recipe, [*wanted]))
        missing = [digest for digest in wanted if digest not in answers]
        if not self._loaded and (missing or not texts):
            self._load([*texts, HARMLESS][0])
        if missing:
            unknown, counts = [wanted[digest] for digest in missing], self._counts
            self._under_way.update(unknown)
            try:
                made = self._embed(unknown, first)
            finally:
                self._under_way.difference_update(unknown)
            answers.update(zip(missing, made.vectors, strict=True))
            if good := [digest for digest in missing if not isinstance(answers[digest], Exception)]:
                self._cache.put(self._recipe, good, np.array([answers[digest] for digest in good]))
            counts.texts += len(good)
            counts.tokens += sum(self._count_tokens(unknown)) if made.tokens is None else made.tokens
        return [answers[digest] for digest in digests]

    def _load(self, text: str) -> None:
        """Load a local model by embedding a text, so that the measured time does not include the loading."""
        begun, self._counts.loading = monotonic(), True
        log.info("loading the embedding model", extra=event("model_loading"))
        try:
            self.embedder.embed([text])
        finally:
            self._counts.loading = False
        self._loaded, seconds = True, round(monotonic() - begun, 3)
        about = event("model_loaded", seconds=seconds)
        log.info("embedding model loaded in %.1f s", seconds, extra=about)

    def _embed(self, texts: Sequence[str], first: _Request) -> Answered:
        """Embed texts that are not cached. Requests that precede the request ``first`` are answered between
        two steps."""
        begun, others = monotonic(), 0.0
        if self._is_server:
            answered = embed_on_server(self.embedder, self._recipe, self._cache, texts, self._stopped)
        else:
            lost, left = BadVectors("the embedder returned no vector for this text"), len(texts)
            vectors: list[Vector | Exception] = [lost] * left
            with closing(embed_in_steps(self.embedder, texts)) as parts:
                for part in parts:
                    for position, vector in zip(part.positions, part.vectors, strict=True):
                        vectors[position] = vector
                    paused = monotonic()
                    while sooner := self._take(first):
                        self._answer(sooner)
                    self._busy_since = monotonic()
                    others += self._busy_since - paused
                    left -= len(part.positions)
                    if left and self._stopped.is_set():
                        raise Stopped
            answered = Answered(vectors)
        self._counts.seconds += monotonic() - begun - others
        return answered


def _refuse(requests: Iterable[_Request], error: Exception) -> None:
    for request in requests:
        request.answer.set_exception(error)


class Embeddings:
    """An ``Embedding`` by recipe of its embedder. Two exist while a collection changes its embedder."""

    def __init__(self, cache: VectorCache, count_tokens: CountTokens, waiting: Waiting = nullcontext) -> None:
        self._cache, self._count_tokens, self._waiting = cache, count_tokens, waiting
        self._by_recipe: dict[Fingerprint, Embedding] = {}
        self._closed = Counts()

    def of(self, recipe: Fingerprint, embedder: Callable[[], Embedder]) -> Embedding:
        """Return the ``Embedding`` of an embedder with this recipe, and create it if it does not exist.

        ``embedder``: builds the embedder, or returns one that was built. An existing ``Embedding`` of a
        server continues with this embedder, since the key of the server may have changed.
        """
        known = self._by_recipe.get(recipe)
        if known is None:
            known = Embedding(embedder(), recipe, self._cache, self._count_tokens, self._waiting)
            self._by_recipe[recipe] = known
        elif isinstance(known.embedder, Remote):
            known.embedder = embedder()
        return known

    def open_stream(self, recipe: str) -> Embedding | None:
        """Return the ``Embedding`` of an embedder by its recipe; None if it was not created.

        Any thread may call.
        """
        return self._by_recipe.get(Fingerprint(recipe))

    def keep(self, recipes: Collection[Fingerprint]) -> None:
        """Close the ``Embedding`` of every embedder whose recipe is not in ``recipes``.

        Call this after a config was applied.
        """
        for recipe in self._by_recipe.keys() - recipes:
            closed = self._by_recipe.pop(recipe)
            closed.close()
            self._closed += closed.counts()

    def counts(self) -> Counts:
        """Return the counts of all embedders, added up since the program started. Any thread may call."""
        return reduce(add, (one.counts() for one in list(self._by_recipe.values())), self._closed)

    def stop(self) -> None:
        for one in list(self._by_recipe.values()):
            one.stop()

    def close(self) -> None:
        self.keep(())
