"""Search as an app would, and questions to try. Modules that are slow to import are imported where used."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import cached_property
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING

from ingestor.config.models import Config
from ingestor.core.entries import Edition
from ingestor.core.escape import line
from ingestor.model import CollectionName
from ingestor.ports import Gone, NeedsHuman, Torn, Transient
from ingestor.queries.access import (
    BadRequest,
    as_served,
    check_answers,
    collections_of,
    is_running,
    journal_of,
    live_editions,
    no_collection,
)
from ingestor.rechunk.recipes import profile_of
from ingestor.search.values import Answer, Question, check_question
from ingestor.state.editions import Editions
from ingestor.state.files import Locked, lexical_path
from ingestor.state.reports import Reports

if TYPE_CHECKING:
    from ingestor.app.parts import Parts
    from ingestor.chroma.backend import Collections
    from ingestor.search.rerankers import Reranker

UNDECODED = re.compile("[\udc80-\udcff]")  # bytes of the command line that are not valid text
LOOKED_AT = 300  # records whose headings are candidates
LONGEST = 60  # characters of a question


def search(config: Config, question: Question, searching: Searching | None = None) -> Answer:
    """Answer a question: by the daemon, if one runs and answers, else by this process.

    ``searching``: what stays open after the answer; None: everything is closed. Raises BadRequest for an
    unknown collection, empty text or bad filter, NeedsHuman and Transient.
    """
    from ingestor.search.several import fuse_answers, label, names_of
    from ingestor.service.client import DaemonClient
    from ingestor.text.tokens import Tokens

    if not question.query.strip():
        raise BadRequest("the text to search for is empty")
    if UNDECODED.search(question.query):
        raise BadRequest("the text is not valid in this terminal's encoding; is it set to UTF-8?")
    try:
        check_question(question)
    except ValueError as error:
        raise BadRequest(str(error)) from error
    with journal_of(config) as journal, ExitStack() as stack:
        known = [str(edition.serves) for edition in live_editions(journal)]
        names = names_of(question.collection, known)
        for name in [str(question.collection)] if names is None else names:
            if name not in known:
                raise no_collection(journal, name)
        if config.http is not None and is_running(config):
            with suppress(Locked, NeedsHuman):  # Chroma is starting, or inside the daemon
                check_answers(as_served(config).chroma)
            answer = DaemonClient(config.http, journal.owner).search(question)
            if answer is not None:
                return answer
        here = searching or stack.enter_context(closing(Searching(config)))
        if names is None:
            return label(here.answer(question), str(question.collection))
        start = time.monotonic()
        answers = {name: here.answer(replace(question, collection=name)) for name in names}
        return fuse_answers(question, answers, {}, Tokens().counts, time.monotonic() - start)


def unsearchable(config: Config) -> int:
    """Return the number of documents whose last change readers do not see yet, without quarantined ones."""
    with journal_of(config) as journal:
        return Reports(journal).due()


class Searching:
    """Chroma and the configured embedder, opened by the first question and open until closed.

    Threads take turns. While Chroma is open here, no other process can write to it.
    """

    def __init__(self, config: Config) -> None:
        self.config, self._turn, self._open = config, Lock(), ExitStack()
        self._collections: Collections | None = None
        self._closed = False

    def close(self) -> None:
        """Close what is open. A thread that asks nevertheless gets its answer, and leaves nothing open."""
        with self._turn:
            self._closed = True
            self._release()

    def answer(self, question: Question) -> Answer:
        """Answer from one collection. Retry once if Chroma went away: the daemon may just have ended."""
        from ingestor.chroma.client import Unreachable

        with self._turn:
            try:
                with suppress(Unreachable):
                    return self._answer(question)
                self._release()
                return self._answer(question)
            except ValueError as error:
                raise BadRequest(str(error)) from error
            finally:
                if self._closed:
                    self._release()

    def _release(self) -> None:
        self._collections = None
        self._open.close()

    @cached_property
    def _parts(self) -> Parts:
        from ingestor.app.parts import Parts, embedder_recipes_of

        with journal_of(self.config) as journal:
            return Parts(self.config, embedder_recipes_of(journal))

    @cached_property
    def _reranker(self) -> Reranker | None:
        from ingestor.search.rerankers import Reranker, scores_of

        options = self.config.search.rerank
        return None if options is None else Reranker(scores_of(options, patient=True), options.hits)

    def _answer(self, question: Question) -> Answer:
        from ingestor.chroma.filters import find_left_out
        from ingestor.lexical.check import words_of
        from ingestor.lexical.file import open_for_reading
        from ingestor.search.search import Searcher

        if self._collections is None:
            journal = self._open.enter_context(journal_of(self.config))
            self._collections = self._open.enter_context(collections_of(self.config, journal))
        with journal_of(self.config) as journal:
            edition = Editions(journal).live(CollectionName(str(question.collection)))
            index = self._collections.edition(edition)
            if index is None:
                raise no_collection(journal, str(question.collection))
        if question.where:  # first, since loading the model takes time
            profile = profile_of(edition.choices or {})
            if left_out := find_left_out(question.where, profile):
                raise BadRequest(f"where {left_out}")
        with words_of(open_for_reading(lexical_path(self.config)), edition.uuids) as words:
            parts = self._parts
            ask = Searcher(
                index, words, parts.query_vectors, parts.tokens.counts, time.monotonic, self._reranker
            )
            return ask.answer(question)


def suggest(collections: Collections, edition: Edition, number: int) -> tuple[str, ...]:
    """Return so many headings of a collection, the best first; none if Chroma cannot be read."""
    with suppress(Transient, Gone, Torn, NeedsHuman):
        index = collections.edition(edition)
        if index is not None:
            records = index.read(list(islice(index.ids(), LOOKED_AT)))
            titles = [r.metadata.get("section_title") or r.metadata.get("title") for r in records]
            return rank(line(str(title)) for title in titles if title)[:number]
    return ()


def rank(titles: Iterable[str]) -> tuple[str, ...]:
    """Order the candidates without their section numbers: questions first, then the longest."""
    plain = {re.sub(r"^[\d.]+\s+", "", title) for title in titles}
    fitting = sorted(title for title in plain if title and len(title) <= LONGEST)
    return tuple(
        sorted(fitting, key=lambda title: (title.endswith("?"), ". " not in title, len(title)), reverse=True)
    )
