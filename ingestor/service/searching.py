"""Serves ``POST /search``: hits and passages of one or several collections, as in ``ingestor query --json``.

A collection is opened by its UUID, so that searches work during a swap. Questions are embedded by the
embedder that made the collection, and before documents.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ingestor.core.entries import Edition
from ingestor.core.errors import describe
from ingestor.http_server.requests import RequestProblem, RequestRefused, json_response, read_object
from ingestor.lexical.check import words_of
from ingestor.lexical.file import Unusable
from ingestor.model import Vectors
from ingestor.ports import Gone, NeedsHuman, Torn, Transient
from ingestor.rechunk.policy import profile_of
from ingestor.search.search import Searcher
from ingestor.search.several import fuse_answers, label, names_of
from ingestor.search.values import Answer, BadQuestion, Question, as_json, question_of
from ingestor.service.client import OWNER
from ingestor.service.daemon_view import DaemonView
from ingestor.service.embeddings import vectors_of
from ingestor.state.editions import searchable
from ingestor.state.journal import fact

T = TypeVar("T")

AT_ONCE = 8  # searches at the same time; more wait
WAITING = 64  # searches that may wait; more are refused
MOST_BYTES = 200_000  # of a request


class Turns:
    """Limits how many requests run at the same time, each in a thread.

    Methods must be called in the server's event loop.
    """

    def __init__(self) -> None:
        self._limiter = CapacityLimiter(AT_ONCE)
        self._taken = 0  # running and waiting requests: the limiter counts a request only after it yields

    async def run(self, work: Callable[[], T]) -> T:
        """Run ``work`` in a thread when fewer requests than the limit are running, and return its result.

        Raises RequestProblem if too many requests wait, and in place of the errors of Chroma and the journal.
        """
        if self._taken >= AT_ONCE + WAITING:
            raise RequestProblem.at(None, 429, "too many requests wait: try again in a moment")
        self._taken += 1
        try:
            with problems():
                return await run_sync(lambda: _repeat_after_swap(work), limiter=self._limiter)
        finally:
            self._taken -= 1


def _repeat_after_swap(work: Callable[[], T]) -> T:
    """Call ``work``, and call it again if the collection that it chose was swapped before it was read."""
    with suppress(Gone):
        return work()
    return work()


def routes(daemon: DaemonView, turns: Turns) -> list[BaseRoute]:
    async def search(request: Request) -> Response:
        with problems():
            require_owner(daemon, request)
            question = question_of(await read_object(request, MOST_BYTES))
        answer = await turns.run(partial(answer_question, daemon, question))
        return json_response(200, as_json(answer))

    return [Route("/search", search, methods=["POST"])]


def require_owner(daemon: DaemonView, request: Request) -> None:
    """Raise RequestProblem if a request is for a daemon with another state folder.

    Two projects may be configured with the same port. A command of one must not get answers of the other.
    """
    wanted = request.headers.get(OWNER)
    if wanted is None:
        return
    if wanted != fact(daemon.journal, "owner"):
        raise RequestProblem.at(OWNER, 421, "another ingestor listens on this port: check http.port")


def answer_question(daemon: DaemonView, question: Question) -> Answer:
    """Answer a question from one collection, from several collections, or from all.

    A collection that cannot be searched now is left out if another one can. Raises RequestProblem, and the
    errors of Chroma, the embedder and the journal.
    """
    names = names_of(question.collection, searchable(daemon.journal))
    if names is None:
        assert isinstance(question.collection, str)
        edition = collection_of(daemon, question.collection)
        return label(_answer_of(daemon, edition, question), edition.serves)
    start, answers, refused = time.monotonic(), dict[str, Answer](), dict[str, str]()
    known = [collection_of(daemon, name) for name in names or [""]]
    for edition in known:
        try:
            with problems():
                answers[edition.serves] = _answer_of(daemon, edition, question)
        except RequestRefused as problem:
            if problem.status != 503 or (edition is known[-1] and not answers):
                raise
            refused[edition.serves] = str(problem)
    return fuse_answers(question, answers, refused, daemon.count_tokens, time.monotonic() - start)


def _answer_of(daemon: DaemonView, edition: Edition, question: Question) -> Answer:
    """Answer a question from the records of one edition of a collection."""
    store = daemon.collection(edition.uuids)

    def embed(texts: Sequence[str]) -> Vectors:
        embedding = daemon.embeddings.open_stream(edition.embedder or "")
        if embedding is None:
            raise RequestProblem.at(
                "mode", 503, f"the embedder of collection {edition.serves} is not loaded: use mode lexical"
            )
        return vectors_of(embedding, texts, questions=True)

    profile, count, reranker = profile_of(edition.choices or {}), daemon.count_tokens, daemon.reranker()
    with words_of(daemon.lexical.connect(), edition.uuids) as words:
        searcher = Searcher(store, words, embed, count, time.monotonic, reranker, profile)
        return searcher.answer(replace(question, collection=edition.serves))


def collection_of(daemon: DaemonView, wanted: str) -> Edition:
    """Return the edition of a collection that searches use now. Raises RequestProblem.

    ``wanted``: name of the collection; "" selects the only collection.
    """
    known = searchable(daemon.journal)
    if wanted in known:
        return known[wanted]
    if not wanted and len(known) == 1:
        return next(iter(known.values()))
    names = ", ".join(known) or "none yet"
    if wanted:
        raise RequestProblem.at("collection", 404, f"there is no collection {wanted[:100]!r}; known: {names}")
    raise RequestProblem.at("collection", 422 if known else 503, f"name a collection; known: {names}")


@contextmanager
def problems() -> Iterator[None]:
    """Convert errors that a search is expected to raise to RequestProblem. Defects are raised unchanged."""
    try:
        yield
    except RequestRefused as refused:
        raise RequestProblem.of(refused) from refused
    except BadQuestion as error:
        raise RequestProblem.at(error.key, 422, str(error)) from error
    except ValueError as error:  # of the filter
        raise RequestProblem.at("where", 422, str(error)) from error
    except Gone as error:
        raise RequestProblem.at(
            "collection", 503, f"the collection is being replaced: try again ({error})"
        ) from error
    except (Transient, NeedsHuman, Torn, sqlite3.Error, Unusable) as error:
        raise RequestProblem.at(None, 503, f"{describe(error)}: try again in a moment") from error
