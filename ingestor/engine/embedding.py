"""Gathers requests for vectors in one queue, so that batches form across documents.

A round is a batch of texts that the model embeds together. Queries of readers are embedded before documents.
Documents of editions that readers see are embedded before documents of an edition that is being built. A
request that comes earlier in this order also interrupts a running round, between two of its steps.

Otherwise, documents follow the order in which the workers began them. A chunking strategy that embeds twice
then finishes one document before it begins the next. A document of many texts counts as begun later, so that
readers see small documents meanwhile.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import astuple, dataclass, field, replace
from enum import IntEnum, auto
from functools import reduce
from heapq import heappop, heappush
from itertools import count
from operator import add
from threading import Condition, Event, Thread
from time import monotonic
from typing import Any

import numpy as np

from ingestor.core.errors import Stopped
from ingestor.core.fingerprint import text_digest
from ingestor.core.listings import pages
from ingestor.engine.vectors import HARMLESS, LocalVectors, RemoteVectors, check_vectors
from ingestor.engine.workers import CURRENT, as_exception
from ingestor.model import Digest, Fingerprint, Vector, Vectors
from ingestor.ports import Asymmetric, Embedder, NeedsHuman, Remote, Transient
from ingestor.state.cache import VectorCache

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


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    """A request of one caller to embed some texts. A request without texts only loads the model.

    ``order``: requests of one rank are embedded in ascending order. ``digests``: digests of the texts, if
    they are a document's texts; empty for queries of readers. ``embed``: the model's function that embeds
    queries. ``answer``: receives the vectors, or an error.
    """

    rank: Rank
    order: int = 0
    texts: Sequence[str] = ()
    digests: Sequence[Digest] = ()
    embed: Callable[[Sequence[str]], Vectors] | None = None
    answer: "Future[list[Vector]]" = field(default_factory=Future)


@dataclass(slots=True)
class Counts:
    """Counts of embedded texts since the program started.

    ``texts``, ``tokens``, ``seconds``: documents' texts that the model embedded, their tokens, and the time.
    ``cached``: texts whose vectors were in the cache. ``waiting``: texts of documents that wait or are being
    embedded. ``stepped``: how many of them the finished steps of the running round embedded. ``loading``:
    whether the model is being loaded. ``busy_for``: seconds since the running step began; 0.0 if none runs.
    """

    texts: int = 0
    tokens: int = 0
    seconds: float = 0.0
    cached: int = 0
    waiting: int = 0
    stepped: int = 0
    loading: bool = False
    busy_for: float = 0.0

    def __add__(self, other: "Counts") -> "Counts":
        sums = Counts(*map(add, astuple(self), astuple(other)))
        longest = max(self.busy_for, other.busy_for)
        return replace(sums, loading=self.loading or other.loading, busy_for=longest)

    @property
    def texts_and_rest(self) -> tuple[int, int]:
        """Return two numbers of texts: those embedded so far, including the running round, and those still
        waiting."""
        return self.texts + self.stepped, max(0, self.waiting - self.stepped)


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
        remote = isinstance(embedder, Remote)
        self._vectors_of = RemoteVectors(embedder, recipe, cache) if remote else LocalVectors(embedder)
        self._round_size = max(ROUND, embedder.at_once) if isinstance(embedder, Remote) else ROUND
        self._first_round = self._round_size if remote else FIRST_ROUND
        self._next_round = self._first_round
        self._queue = list[tuple[Rank, int, int, _Request]]()  # a heap
        self._numbers, self._changed, self._stopped = count(), Condition(), Event()
        self._expected = False
        self._under_way = set[Digest]()  # digests of the texts of rounds that have not ended
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
        return self._vectors_for(texts, Rank.DOCUMENT)

    def in_background(self, texts: Sequence[str]) -> Vectors:
        """Embed texts of an edition that readers do not see yet, after all other waiting texts.

        Returns and raises the same as ``__call__``.
        """
        return self._vectors_for(texts, Rank.REBUILD)

    def ask(self, texts: Sequence[str], *, questions: bool = True) -> Vectors:
        """Embed texts of readers before any texts of documents. Return an array (n, dimensions) of float32.

        The vectors are not cached. ``questions``: whether the texts are queries, which some models embed
        differently from documents. Raises the errors of ``__call__``, and Busy if too many requests of
        readers wait.
        """
        model = self.embedder
        embed = model.embed_queries if questions and isinstance(model, Asymmetric) else model.embed
        request = _Request(Rank.QUESTION, texts=list(texts), embed=embed)
        with self._changed:
            if self.questions >= MOST_QUESTIONS:
                raise Busy("too many questions wait to be embedded: try again")
            self._put(request)
        return np.array(request.answer.result(), np.float32)

    def expect(self) -> None:
        """Load the model before the first request for vectors. That request raises any loading error."""
        with self._changed:
            if not (self._expected or self._stopped.is_set()):
                self._expected = True
                self._put(_Request(Rank.DOCUMENT))

    def count(self, texts: Sequence[str]) -> int:
        """Return how many tokens all texts have together, by the model's own tokenizer."""
        return sum(self.embedder.count(texts))

    @property
    def questions(self) -> int:
        """Return how many requests of readers wait."""
        with self._changed:
            return sum(rank is Rank.QUESTION for rank, *_ in self._queue)

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

    # --- threads of callers ----------------------------------------------------------------------------

    def _vectors_for(self, texts: Sequence[str], rank: Rank) -> Vectors:
        if not texts:
            return np.zeros((0, self.embedder.dimensions), np.float32)
        digests = [text_digest(text) for text in texts]
        wanted = dict(zip(digests, texts, strict=True))
        rows = {digest: row for row, digest in enumerate(wanted)}
        vectors = np.zeros((0, 0), np.float32)
        for part, answers in self._answers(wanted, rank):
            if not vectors.size:  # a server's dimensions may be known by its answer only
                vectors = np.empty((len(rows), len(answers[0])), np.float32)
            vectors[[rows[digest] for digest in part]] = answers
        return vectors if len(rows) == len(digests) else vectors[[rows[digest] for digest in digests]]

    def _answers(
        self, wanted: Mapping[Digest, str], rank: Rank
    ) -> Iterator[tuple[Sequence[Digest], list[Vector]]]:
        """Yield digests together with their vectors, in parts, cached vectors first. No part is empty.

        ``wanted``: texts by digest. ``rank``: rank of the requests for vectors that are not cached.
        """
        missing: list[Digest] = []
        for part in pages(wanted, ROUND):
            cached = self._cache.get(self._recipe, part)
            missing += [digest for digest in part if digest not in cached]
            if cached:
                yield list(cached), list(cached.values())
        with self._changed:
            self._counts.cached += len(wanted) - len(missing)
        for part in pages(missing, self._round_size):
            request = _Request(rank, _order(len(part)), [wanted[digest] for digest in part], part)
            self._put(request)
            try:
                with self._waiting():
                    answer = request.answer.result()
            finally:
                with self._changed:
                    self._counts.waiting -= len(part)
            yield part, answer

    def _put(self, request: _Request) -> None:
        with self._changed:
            if self._stopped.is_set():
                raise Stopped
            heappush(self._queue, (request.rank, request.order, next(self._numbers), request))
            self._counts.waiting += len(request.digests)
            self._changed.notify()

    # --- the thread that runs the model --------------------------------------------------------------

    def _serve(self) -> None:
        while requests := self._wait():
            self._busy_since, before = monotonic(), self._counts.seconds
            self._answer(requests)
            if any(request.digests for request in requests):
                self._next_round = self._resize(self._counts.seconds - before)
            self._busy_since = None
        _refuse([request for *_, request in self._queue], Stopped())

    def _resize(self, seconds: float) -> int:
        """Return how many texts the next round may have.

        ``seconds``: the duration of the last round.
        """
        if seconds < ROUND_SECONDS:
            return min(2 * self._next_round, self._round_size)
        if seconds > 2 * ROUND_SECONDS:
            return max(self._next_round // 2, self._first_round)
        return self._next_round

    def _wait(self) -> list[_Request]:
        """Wait for requests, and return those of the next round; an empty list when the program ends."""
        with self._changed:
            if not self._queue:
                self._next_round = self._first_round
            self._changed.wait_for(lambda: self._queue or self._stopped.is_set())
            return [] if self._stopped.is_set() else self._take()

    def _take(self, under_way: _Request | None = None) -> list[_Request]:
        """Remove the next requests from the queue, all of one rank and at most a round of texts, and return
        them.

        ``under_way``: first request of the running round, if one runs. Then only requests that precede it are
        removed. A request that needs a text of a running round stays queued, since the cache will soon have
        the vector.
        """
        taken, size = list[_Request](), 0
        end = (Rank.REBUILD + 1,) if under_way is None else (under_way.rank, under_way.order)
        with self._changed:
            while self._queue and self._queue[0][:2] < end:
                request = self._queue[0][-1]
                if taken and (request.rank, request.embed) != (taken[0].rank, taken[0].embed):
                    break
                if not self._under_way.isdisjoint(request.digests):
                    break
                if request.rank is Rank.QUESTION:
                    full = size + len(request.texts) > QUESTION_ROUND
                else:
                    full = size >= self._next_round
                if taken and full:
                    break
                taken.append(heappop(self._queue)[-1])
                size += len(request.texts)
        return taken

    def _answer(self, requests: list[_Request]) -> None:
        """Embed the texts of several requests together, and answer the requests.

        If that fails, each request is embedded alone, so that a bad text fails only its own caller.
        """
        if self._stopped.is_set():
            return _refuse(requests, Stopped())
        try:
            question = requests[0].rank is Rank.QUESTION
            answers = self._embed_questions(requests) if question else self._embed_documents(requests)
        except BaseException as panic:  # noqa: BLE001 - raised in the callers; this thread continues
            error = as_exception(panic)
            if len(requests) == 1 or not self._is_up(error):
                return _refuse(requests, error)
            for request in requests:
                self._answer([request])
        else:
            for request, answer in zip(requests, answers, strict=True):
                if errors := [each for each in answer if isinstance(each, Exception)]:
                    request.answer.set_exception(errors[0])
                else:
                    request.answer.set_result(answer)

    def _is_up(self, error: Exception) -> bool:
        """Return whether a single bad text may have caused the error: the embedder still embeds a harmless
        text."""
        if isinstance(error, Transient | NeedsHuman):
            return False
        try:
            self.embedder.embed([HARMLESS])
        except BaseException:  # noqa: BLE001 - the callers get the first error
            return False
        return True

    def _embed_questions(self, requests: Sequence[_Request]) -> Iterator[list[Any]]:
        texts, embed = [text for request in requests for text in request.texts], requests[0].embed
        assert embed is not None
        vectors = iter(check_vectors(embed(texts), texts, self.embedder.dimensions))
        return ([next(vectors) for _ in request.texts] for request in requests)

    def _embed_documents(self, requests: Sequence[_Request]) -> Iterator[list[Any]]:
        """Return a list for each request, with a vector or an error for each of its texts.

        The cache is read again, since an earlier round may have made some of the vectors.
        """
        wanted = {d: t for request in requests for d, t in zip(request.digests, request.texts, strict=True)}
        if not wanted:
            self._load([HARMLESS])
        answers: dict[Digest, Any] = dict(self._cache.get(self._recipe, list(wanted)))
        if missing := [d for d in wanted if d not in answers]:
            answers |= self._embed(missing, [wanted[d] for d in missing], requests[0])
        return ([answers[digest] for digest in request.digests] for request in requests)

    def _load(self, texts: Sequence[str]) -> None:
        self._counts.loading = True
        try:
            self._vectors_of.load(texts)
        finally:
            self._counts.loading = False

    def _embed(self, digests: list[Digest], texts: list[str], first: _Request) -> dict[Digest, Any]:
        """Embed texts. Return a vector by digest, or an error by digest for a text that the embedder refuses.

        ``first``: the first request of this round. Requests that precede it are answered between two steps.
        """
        self._load(texts)
        counts, begun, others = self._counts, monotonic(), 0.0
        before = counts.stepped  # a round inside another one's step counts its own steps
        self._under_way.update(digests)

        def between_steps(embedded: int) -> None:
            nonlocal others
            counts.stepped += embedded
            paused = monotonic()
            while sooner := self._take(first):
                self._answer(sooner)
            self._busy_since = monotonic()
            others += self._busy_since - paused

        try:
            answered = self._vectors_of(texts, self._stopped, between_steps)
            counts.seconds += monotonic() - begun - others
            answers = dict(zip(digests, answered.vectors, strict=True))
            good = [digest for digest in digests if not isinstance(answers[digest], Exception)]
            if good:
                self._cache.put(self._recipe, good, np.array([answers[digest] for digest in good]))
            counts.texts += len(good)
        finally:
            counts.stepped = before
            self._under_way.difference_update(digests)
        counts.tokens += sum(self._count_tokens(texts)) if answered.tokens is None else answered.tokens
        return answers


def _order(texts: int) -> int:
    """Return the position in the queue for a request with this number of texts.

    It depends on when the document of the calling thread was begun.
    """
    task = CURRENT.get()
    return 0 if task is None else task.number + texts // LATER


def _refuse(requests: Sequence[_Request], error: Exception) -> None:
    for request in requests:
        request.answer.set_exception(error)


class Embeddings:
    """An ``Embedding`` by recipe of its embedder. Two exist while a collection changes its embedder."""

    def __init__(self, cache: VectorCache, count_tokens: CountTokens, waiting: Waiting = nullcontext) -> None:
        self._cache, self._count_tokens, self._waiting = cache, count_tokens, waiting
        self._by_recipe: dict[Fingerprint, Embedding] = {}
        self._settings: dict[Fingerprint, object] = {}
        self._requested = set[Fingerprint]()  # by ``of`` since the last ``keep``
        self._closed = Counts()

    def of(self, recipe: Fingerprint, embedder: Callable[[], Embedder], setting: object = None) -> Embedding:
        """Return the ``Embedding`` of an embedder with this recipe, and create it if it does not exist.

        ``embedder``: builds the embedder. ``setting``: the embedder's options. If they changed, the
        ``Embedding`` of a server is replaced, since the key of the server may have changed. That happens at
        most once between two calls of ``keep``, so that all callers in between get the same object.
        """
        known, requested = self._by_recipe.get(recipe), recipe in self._requested
        self._requested.add(recipe)
        other = not requested and self._settings.get(recipe) != setting
        if known is None or (other and isinstance(known.embedder, Remote)):
            self._close(self._by_recipe.keys() & {recipe})
            self._settings[recipe] = setting
            made = Embedding(embedder(), recipe, self._cache, self._count_tokens, self._waiting)
            self._by_recipe[recipe] = made
        return self._by_recipe[recipe]

    def open_stream(self, recipe: str) -> Embedding | None:
        """Return the ``Embedding`` of an embedder by its recipe; None if it was not created.

        Any thread may call.
        """
        return self._by_recipe.get(Fingerprint(recipe))

    def keep(self, recipes: Collection[Fingerprint]) -> None:
        """Close the ``Embedding`` of every embedder whose recipe is not in ``recipes``.

        Call this after a config was applied.
        """
        self._requested.clear()
        self._close(self._by_recipe.keys() - recipes)

    def _close(self, recipes: Collection[Fingerprint]) -> None:
        for recipe in recipes:
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
