"""Gathers requests for vectors in one queue, so that batches form across documents.

Questions of readers go before documents, and documents that readers see before those of a rebuild: also
between the steps of a round under way. A document that was begun earlier goes before others, between these
steps, too: a strategy that embeds twice ends one before it begins the next. A document of many texts waits as
if it was begun later, so that readers see small ones meanwhile.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
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
from ingestor.engine.vectors.models import HARMLESS, LocalVectors, RemoteVectors, check_vectors
from ingestor.engine.workers import CURRENT, as_exception
from ingestor.model import Digest, Fingerprint, Vector, Vectors
from ingestor.ports import Asymmetric, Embedder, NeedsHuman, Remote, Transient
from ingestor.state.cache import VectorCache

ROUND = 256  # texts of documents
FIRST_ROUND = 16  # texts, where nothing waited: readers see the first documents soon
LATER = 16  # texts of a request, for each of which its document counts as begun one later
ROUND_SECONDS = 1.0  # a longer round grows no more: documents begun earlier wait for it, and ask again
QUESTION_ROUND = 16  # texts of questions
MOST_QUESTIONS = 64  # requests of readers that may wait; more are refused

Resting = Callable[[], AbstractContextManager[None]]


class Busy(Transient):
    """Error: too many questions wait for the embedder."""


class Rank(IntEnum):
    """Order of requests."""

    QUESTION = auto()
    DOCUMENT = auto()
    REBUILD = auto()  # a document of an edition that readers do not see yet


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    """Texts of one requester. ``digests``: digests of documents' texts.

    ``turn``: requests of one rank are answered in this order.
    ``embed``: the model's function for questions.

    A request without texts loads the model.
    """

    rank: Rank
    turn: int = 0
    texts: Sequence[str] = ()
    digests: Sequence[Digest] = ()
    embed: Callable[[Sequence[str]], Vectors] | None = None
    answer: "Future[list[Vector]]" = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts so far. ``texts``, ``tokens``, ``seconds``: embedded by the model.

    ``cached``: texts found in the cache.

    ``waiting``: texts of documents that wait or are being embedded; ``stepped`` of them are embedded.
    ``busy_for``: seconds of the oldest running step.
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
        return Counts(
            self.texts + other.texts, self.tokens + other.tokens, self.seconds + other.seconds,
            self.cached + other.cached, self.waiting + other.waiting, self.stepped + other.stepped,
            self.loading or other.loading, max(self.busy_for, other.busy_for),
        )  # fmt: skip

    @property
    def texts_and_rest(self) -> tuple[int, int]:
        """Return the number of texts that the model has embedded, including the running round, and the number
        left.
        """
        return self.texts + self.stepped, max(0, self.waiting - self.stepped)


class Embedding:
    """Texts to vectors through the cache, gathered from all workers into one stream of batches.

    One thread runs the model. While the model is busy, requests queue up. The next round embeds up to ROUND
    of their texts at once, each text once; a server may take more. Rounds of a local model begin with
    FIRST_ROUND texts and grow while requests wait, as long as a round takes less than ROUND_SECONDS.

    A request of better rank than the running round waits for a step of a local model, or a server's round.
    ``resting``: context in which a caller waits for vectors of documents, so that others call, too, and
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
        self._queue = list[tuple[Rank, int, int, _Request]]()  # a heap
        self._numbers, self._changed, self._stopped = count(), Condition(), Event()
        self._expected = self._loading = False
        self._under_way = set[Digest]()  # digests of the texts of rounds that have not ended
        self._texts = self._tokens = self._cached = self._waiting = self._stepped = 0
        self._seconds = 0.0
        self._busy_since: float | None = None  # monotonic seconds: when the step under way began
        self._thread = Thread(target=self._serve, name="embedding", daemon=True)
        self._thread.start()

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Embed texts: (n, dimensions) float32, in their order.

        Raises what the embedder raises (Transient, NeedsHuman, BadDocument), BadVectors when its vectors
        break the protocol, or Stopped.
        """
        return self._vectors_for(texts, Rank.DOCUMENT)

    def behind(self, texts: Sequence[str]) -> Vectors:
        """Embed texts of an edition that readers do not see yet, after all others. See ``__call__``."""
        return self._vectors_for(texts, Rank.REBUILD)

    def ask(self, texts: Sequence[str], *, questions: bool = True) -> Vectors:
        """Embed texts of readers before texts of documents: (n, dimensions) float32. Not cached.

        ``questions``: whether to embed them as questions, if the model distinguishes questions. Raises as
        ``__call__``, and Busy.
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
        """Load the model for texts that will come. The first asker gets an error of the loading."""
        with self._changed:
            if not (self._expected or self._stopped.is_set()):
                self._expected = True
                self._put(_Request(Rank.DOCUMENT))

    def count(self, texts: Sequence[str]) -> int:
        """Count the tokens of all texts by the model's own tokenizer."""
        return sum(self.embedder.count(texts))

    @property
    def questions(self) -> int:
        """Number of requests of readers that wait."""
        with self._changed:
            return sum(rank is Rank.QUESTION for rank, *_ in self._queue)

    def counts(self) -> Counts:
        since = self._busy_since
        return Counts(
            self._texts, self._tokens, self._seconds, self._cached, self._waiting, self._stepped,
            self._loading, 0.0 if since is None else monotonic() - since,
        )  # fmt: skip

    def stop(self) -> None:
        """End every waiting request with Stopped."""
        with self._changed:
            self._stopped.set()
            self._changed.notify()

    def close(self) -> None:
        """Stop, and wait up to a minute for the current batch."""
        self.stop()
        self._thread.join(timeout=60)

    # --- threads that ask ----------------------------------------------------------------------------

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
        """Yield vectors in parts that are not empty: cached vectors first."""
        missing: list[Digest] = []
        for part in _parts(list(wanted), ROUND):
            cached = self._cache.get(self._recipe, part)
            missing += [digest for digest in part if digest not in cached]
            if cached:
                yield list(cached), list(cached.values())
        with self._changed:
            self._cached += len(wanted) - len(missing)
        for part in _parts(missing, self._round_size):
            request = _Request(rank, _turn(len(part)), [wanted[digest] for digest in part], part)
            self._put(request)
            try:
                with self._resting():
                    answer = request.answer.result()
            finally:
                with self._changed:
                    self._waiting -= len(part)
            yield part, answer

    def _put(self, request: _Request) -> None:
        with self._changed:
            if self._stopped.is_set():
                raise Stopped
            heappush(self._queue, (request.rank, request.turn, next(self._numbers), request))
            self._waiting += len(request.digests)
            self._changed.notify()

    # --- the thread that runs the model --------------------------------------------------------------

    def _serve(self) -> None:
        while requests := self._wait():
            self._busy_since, before = monotonic(), self._seconds
            self._answer(requests)
            if any(request.digests for request in requests):
                self._next_round = self._resize(self._seconds - before)
            self._busy_since = None
        _refuse([request for *_, request in self._queue], Stopped())

    def _resize(self, seconds: float) -> int:
        """Return the size of the next round, given the seconds of the last one."""
        if seconds < ROUND_SECONDS:
            return min(2 * self._next_round, self._round_size)
        if seconds > 2 * ROUND_SECONDS:
            return max(self._next_round // 2, self._first_round)
        return self._next_round

    def _wait(self) -> list[_Request]:
        """Wait for the requests of a round; none after the end."""
        with self._changed:
            if not self._queue:
                self._next_round = self._first_round
            self._changed.wait_for(lambda: self._queue or self._stopped.is_set())
            return [] if self._stopped.is_set() else self._take()

    def _take(self, under_way: _Request | None = None) -> list[_Request]:
        """Take the first requests of one kind, up to a round.

        ``under_way``: only requests that go before this one, and want none of the texts under way.
        """
        taken, size = list[_Request](), 0
        end = (Rank.REBUILD + 1,) if under_way is None else (under_way.rank, under_way.turn)
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
        """Answer requests together; after an error each alone, so that a bad text fails only its asker."""
        if self._stopped.is_set():
            return _refuse(requests, Stopped())
        try:
            question = requests[0].rank is Rank.QUESTION
            answers = self._of_questions(requests) if question else self._of_documents(requests)
        except BaseException as panic:  # noqa: BLE001 - the askers get it, and the thread lives on
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
        """Return whether the error may be about one text: the embedder still embeds a harmless one."""
        if isinstance(error, Transient | NeedsHuman):
            return False
        try:
            self.embedder.embed([HARMLESS])
        except BaseException:  # noqa: BLE001 - the askers get the first error
            return False
        return True

    def _of_questions(self, requests: Sequence[_Request]) -> Iterator[list[Any]]:
        texts, embed = [text for request in requests for text in request.texts], requests[0].embed
        assert embed is not None
        vectors = iter(check_vectors(embed(texts), texts, self.embedder.dimensions))
        return ([next(vectors) for _ in request.texts] for request in requests)

    def _of_documents(self, requests: Sequence[_Request]) -> Iterator[list[Any]]:
        """Read the cache again, since an earlier batch may have made some of the vectors."""
        wanted = {d: t for request in requests for d, t in zip(request.digests, request.texts, strict=True)}
        if not wanted:
            self._load([HARMLESS])
        answers: dict[Digest, Any] = dict(self._cache.get(self._recipe, list(wanted)))
        if missing := [d for d in wanted if d not in answers]:
            answers |= self._embed(missing, [wanted[d] for d in missing], requests[0])
        return ([answers[digest] for digest in request.digests] for request in requests)

    def _load(self, texts: Sequence[str]) -> None:
        self._loading = True
        try:
            self._vectors_of.load(texts)
        finally:
            self._loading = False

    def _embed(self, digests: list[Digest], texts: list[str], first: _Request) -> dict[Digest, Any]:
        """Return by digest a vector, or the error of this text alone.

        ``first``: request of the round that goes before its others.
        """
        self._load(texts)
        begun, others, before = monotonic(), 0.0, self._stepped
        self._under_way.update(digests)

        def between_steps(embedded: int) -> None:
            nonlocal others
            self._stepped += embedded
            paused = monotonic()
            while sooner := self._take(first):
                self._answer(sooner)
            self._busy_since = monotonic()
            others += self._busy_since - paused

        try:
            answered = self._vectors_of(texts, self._stopped, between_steps)
            self._seconds += monotonic() - begun - others
            answers = dict(zip(digests, answered.vectors, strict=True))
            good = [digest for digest in digests if not isinstance(answers[digest], Exception)]
            if good:
                self._cache.put(self._recipe, good, np.array([answers[digest] for digest in good]))
            self._texts += len(good)
        finally:
            self._stepped = before
            self._under_way.difference_update(digests)
        self._tokens += sum(self._count_tokens(texts)) if answered.tokens is None else answered.tokens
        return answers


def _turn(texts: int) -> int:
    """Return the place in the queue of the document that this thread prepares, with ``texts`` texts."""
    task = CURRENT.get()
    return 0 if task is None else task.number + texts // LATER


def _parts(digests: list[Digest], size: int) -> Iterator[list[Digest]]:
    return (digests[start : start + size] for start in range(0, len(digests), size))


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
        self._closed = Counts()

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

    def open_stream(self, recipe: str) -> Embedding | None:
        """Return the open stream of that recipe. Any thread."""
        return self._by_recipe.get(Fingerprint(recipe))

    def keep(self, recipes: Collection[Fingerprint]) -> None:
        """Close the streams of all other recipes, once a config is in force."""
        self._asked.clear()
        self._close(self._by_recipe.keys() - recipes)

    def _close(self, recipes: Collection[Fingerprint]) -> None:
        for recipe in recipes:
            closed = self._by_recipe.pop(recipe)
            closed.close()
            self._closed += closed.counts()

    def counts(self) -> Counts:
        """Return the counts of all streams since the start. Any thread."""
        return reduce(add, (one.counts() for one in list(self._by_recipe.values())), self._closed)

    def stop(self) -> None:
        for one in list(self._by_recipe.values()):
            one.stop()

    def close(self) -> None:
        self.keep(())
