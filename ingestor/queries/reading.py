"""Answers what readers ask: searches, headings to try, documents by name, their records and their history.

Modules that are slow to import are imported where they are used.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from ingestor.config.models import Config
from ingestor.core.entries import Edition, Entry
from ingestor.core.escape import line, raw
from ingestor.model import INSIDE, CollectionName, Record, SourceName
from ingestor.ports import Gone, NeedsHuman, Torn, Transient
from ingestor.queries.access import (
    BadRequest,
    collections_of,
    is_running,
    journal_of,
    live_editions,
    require_known,
)
from ingestor.rechunk.policy import changes, metadata_change, profile_of
from ingestor.search.values import Answer, Question, check_question
from ingestor.state.editions import Editions
from ingestor.state.files import lexical_path
from ingestor.state.journal import Journal, sources_of
from ingestor.state.reports import (
    Event,
    Listed,
    all_keys,
    describe_document,
    find_named,
    id_of,
    last_events,
    list_documents,
)
from ingestor.units import quantity

if TYPE_CHECKING:
    from ingestor.app.parts import Parts
    from ingestor.chroma.backend import Collections
    from ingestor.search.rerankers import Reranker

UNDECODED = re.compile("[\udc80-\udcff]")  # bytes of the command line that are not valid text
SUGGESTED_FROM = 300  # records whose headings may be suggested as questions
LONGEST = 60  # characters of a suggested question


def search(config: Config, question: Question, searching: Searching | None = None) -> Answer:
    """Answer a search query, by the running daemon if there is one, else in this process.

    ``searching``: Chroma and the embedder, kept open for this and later queries. If it is None, they are
    opened and closed for this query. Raises BadRequest for an unknown collection, an empty text or a bad
    filter, and also NeedsHuman and Transient.
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
            require_known("collection", name, known)
        if config.http is not None and is_running(config):
            answer = DaemonClient(config.http, journal.owner).search(question)
            if answer is not None:
                return answer
        # No daemon answered, or its service port is off.
        here = searching or stack.enter_context(closing(Searching(config)))
        if names is None:
            return label(here.answer(question), str(question.collection))
        start = time.monotonic()
        answers = {name: here.answer(replace(question, collection=name)) for name in names}
        return fuse_answers(question, answers, {}, Tokens().counts, time.monotonic() - start)


class Searching:
    """Chroma and the embedder, opened by the first query and kept open until ``close``.

    Queries of several threads are answered one after the other. While Chroma is open here, no other process
    can write to it.
    """

    def __init__(self, config: Config) -> None:
        self.config, self._turn, self._open = config, Lock(), ExitStack()
        self._collections: Collections | None = None
        self._parts: Parts | None = None
        self._reranker: Reranker | None = None
        self._closed = False

    def close(self) -> None:
        """Close Chroma. A later query is still answered: it opens Chroma, and closes it afterwards."""
        with self._turn:
            self._closed = True
            self._release()

    def answer(self, question: Question) -> Answer:
        """Answer a query about one collection.

        It is retried once if Chroma cannot be reached, because the daemon whose server was used may have
        ended. Raises BadRequest for a bad filter, and the errors of ``search``.
        """
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

    def _answer(self, question: Question) -> Answer:
        from ingestor.app.parts import Parts, embedder_recipes_of
        from ingestor.lexical.check import words_of
        from ingestor.lexical.file import open_for_reading
        from ingestor.search.rerankers import Reranker, scores_of
        from ingestor.search.search import Searcher

        if self._collections is None:
            journal = self._open.enter_context(journal_of(self.config))
            self._collections = self._open.enter_context(collections_of(self.config, journal))
        with journal_of(self.config) as journal:
            edition = Editions(journal).live(CollectionName(str(question.collection)))
            index = self._collections.edition(edition)
            if index is None:
                raise NeedsHuman(
                    f"collection {edition.serves!r} is gone from Chroma; `ingestor sync` writes it again"
                )
            if self._parts is None:
                self._parts = Parts(self.config, embedder_recipes_of(journal))
                if (options := self.config.search.rerank) is not None:
                    self._reranker = Reranker(scores_of(options, patient=True), options.hits)
        parts, profile = self._parts, profile_of(edition.choices or {})
        embed, count = parts.query_vectors, parts.tokens.counts
        with words_of(open_for_reading(lexical_path(self.config)), edition.uuids) as words:
            searcher = Searcher(index, words, embed, count, time.monotonic, self._reranker, profile)
            return searcher.answer(question)


def suggest(collections: Collections, edition: Edition, number: int) -> tuple[str, ...]:
    """Return at most ``number`` headings of a collection as example queries, the best first.

    The result is empty if Chroma cannot be read.
    """
    with suppress(Transient, Gone, Torn, NeedsHuman):
        index = collections.edition(edition)
        if index is not None:
            records = index.read(list(islice(index.ids(), SUGGESTED_FROM)))
            titles = [r.metadata.get("section_title") or r.metadata.get("title") for r in records]
            return rank(line(str(title)) for title in titles if title)[:number]
    return ()


def rank(titles: Iterable[str]) -> tuple[str, ...]:
    """Return titles without section numbers, ordered as example queries: questions first, then the longest
    titles.

    Titles that are too long are left out.
    """
    plain = {re.sub(r"^[\d.]+\s+", "", title) for title in titles}
    fitting = sorted(title for title in plain if title and len(title) <= LONGEST)
    return tuple(sorted(fitting, key=lambda t: (t.endswith("?"), ". " not in t, len(t)), reverse=True))


_SUGGESTING = 50_000  # documents whose names are compared with a misspelt one
# Metadata and addresses have "!/" between a container and its member, where a key has INSIDE.
_MEMBER = re.compile("(?<!/)!/")


@dataclass(frozen=True, slots=True)
class Shown:
    """A document with its records in the order of its text.

    ``others``: further documents with the requested name.
    """

    document: Listed
    records: list[Record]
    others: tuple[Listed, ...] = ()


def show_document(config: Config, document: str) -> Shown:
    """Return a document by its key, path, id or file name.

    Raises BadRequest if no document has this name, or several do.
    """
    from ingestor.pipeline.prepare import record_id

    with journal_of(config) as journal:
        entry, *others = find_documents(journal, document)
        document_row, *fitting = (describe_document(journal, each.row) for each in (entry, *others))
        ids = [record_id(entry.document_id, known.slot) for known in entry.records]
        with collections_of(config, journal) as collections:
            index = collections.edition(Editions(journal).of_name(entry.edition))
            records = index.read(ids) if index is not None and ids else []
        in_order = sorted(records, key=lambda record: int(str(record.metadata.get("chunk_index") or 0)))
        return Shown(document_row, in_order, tuple(fitting))


def history(journal: Journal, source: str | None, document: str | None, n: int) -> list[Event]:
    """Return the last ``n`` events of the history, newest first.

    ``source``, ``document``: the only source or document whose events are returned; None for all. A removed
    document is found by its last key and its id. Raises BadRequest if the document or source does not exist.
    """
    id_ = None
    if document is not None:
        id_ = id_of(journal, document) or find_documents(journal, document)[0].document_id
    events = [explain(one) for one in last_events(journal, source, id_, n)]
    if source is not None and not events:
        require_known("source", source, sources_of(journal))
    return events


def explain(one: Event) -> Event:
    """Return an event with its reason in words.

    If the choices of a collection changed, the reason names the changed keys of the config.
    """
    if one.after is None:
        return one
    differences = [] if one.before is None else [*changes(one.before, one.after)]
    described = None if one.before is None else metadata_change(one.before, one.after)
    reasons = [str(each) for each in (one.why, *differences, described) if each is not None]
    return replace(one, why="; ".join(reasons) or "other sources or recipes", before=None, after=None)


def find_documents(journal: Journal, wanted: str) -> list[Entry]:
    """Return the documents with this key, path or id. If there are none, return the one whose file has this
    name.

    Raises BadRequest if no document is found, with the most similar names, or if several files have the name.
    """
    wanted = UNDECODED.sub(lambda byte: f"\\x{ord(byte[0]) - 0xDC00:02X}", wanted)  # as keys spell such bytes
    entry = next(filter(None, (find_named(journal, each) for each in _spellings(wanted))), None)
    if entry is not None:
        return entry
    keys = all_keys(journal)
    others = [key for key in keys if key.endswith(f"/{wanted}")]
    if len(others) == 1:
        return find_named(journal, others[0])
    if others:
        some = " or ".join(map(repr, others[:3]))
        number = quantity(len(others), "document")
        raise BadRequest(f"{wanted!r} names {number}: choose one by its key, such as {some}")
    names = {key.rpartition("/")[2].casefold(): key for key in keys[:_SUGGESTING]}
    near = [repr(names[name]) for name in get_close_matches(wanted.casefold(), names, n=2, cutoff=0.7)]
    advice = f"did you mean {' or '.join(near)}?" if near else "`ingestor ls` lists them by key"
    raise BadRequest(f"no document {wanted!r}; {advice}")


def _spellings(wanted: str) -> Iterator[str]:
    """Yield the keys and paths that a person may mean by a name.

    These are the name itself, its absolute path, a key as `ls` escapes it, and a member of a container.
    """
    for text in dict.fromkeys((wanted, raw(wanted))):
        yield text
        yield str(Path(text).absolute())
        yield _MEMBER.sub(INSIDE, text)
        yield str(Path(text.replace(INSIDE, "!/")).absolute())


def select_documents(
    journal: Journal, source: str | None, collection: str | None, state: str | None, pattern: str
) -> tuple[Sequence[SourceName], Iterator[Listed]]:
    """Return the selected sources, and an iterator over the selected documents of these sources.

    A condition that is None selects all documents. ``pattern``: a shell pattern for the whole key; without
    ``*``, ``?`` and ``[`` a part of the key. Raises BadRequest if the source or the collection has no
    documents.
    """
    serves = {str(each.name): str(each.serves) for each in Editions(journal).all()}
    names = sources_of(journal)
    if collection is not None:
        require_known("collection", collection, {*serves.values()})
    if source is not None:
        require_known("source", source, names)
    every = list_documents(journal, source)
    named = (replace(one, collection=serves.get(one.collection, one.collection)) for one in every)
    is_whole = any(mark in pattern for mark in "*?[")
    return names if source is None else [SourceName(source)], (
        one
        for one in named
        if collection in (None, one.collection)
        and state in (None, one.state)
        and (fnmatchcase(one.document, pattern) if is_whole else pattern in one.document)
    )
