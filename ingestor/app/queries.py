"""Queries of the commands that only read. They work beside a running daemon, and change nothing.

Modules that are slow to import are imported where they are used.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from pydantic import SecretStr

from ingestor.config.models import Config
from ingestor.config.servers import Embedded, RemoteChroma, Supervised, local_address
from ingestor.core.entries import ChromaName, Edition, EditionName, Entry
from ingestor.core.escape import raw
from ingestor.core.shards import shard_names
from ingestor.model import INSIDE, CollectionName, Record, SourceName
from ingestor.ports import Gone, IngestorError, NeedsHuman, Torn, Transient
from ingestor.rechunk.recipes import changes, described_otherwise, profile_of, unpacked
from ingestor.search.values import Answer, Question, checked
from ingestor.state import run_status
from ingestor.state.editions import Editions
from ingestor.state.files import chroma_log_path, journal_path, lexical_path, lock_path
from ingestor.state.journal import Journal
from ingestor.state.journal import opened as open_journal
from ingestor.state.lock import Locked, held, noted, retry_until_free
from ingestor.state.queries.history import Event, happened, id_of
from ingestor.state.queries.reports import Listed, Reports
from ingestor.state.run_status import Live
from ingestor.state.running_config import InForce
from ingestor.units import counted

if TYPE_CHECKING:
    from ingestor.app.building.parts import Parts
    from ingestor.app.status import Status
    from ingestor.chroma.backend import Collections
    from ingestor.search.rerankers import Reranker

T = TypeVar("T")

PATIENCE = 30.0  # seconds
_HEARTBEAT = 3.0  # seconds
_SUGGESTING = 50_000  # documents; names of more are not compared with a misspelt one
_LOST = re.compile("[\udc80-\udcff]")  # bytes of the command line that are not valid text

_MEMBER = re.compile("(?<!/)!/")  # between container and member in metadata and addresses; a key has INSIDE


class BadRequest(IngestorError):
    """The command names something that does not exist or cannot be done; the message says what to do."""


@contextmanager
def journal_of(config: Config) -> Iterator[Journal]:
    """The journal. Raises NeedsHuman if there is none yet. Works beside a running daemon."""
    if not _there(journal_path(config)):
        raise NeedsHuman(
            f"no documents were indexed yet: {config.state} holds no journal; run: ingestor sync"
        )
    with open_journal(journal_path(config)) as journal:
        yield journal


def is_running(config: Config) -> bool:
    """Whether a daemon or a sync holds the state folder."""
    return _there(lock_path(config)) and held(lock_path(config))


def _there(path: Path) -> bool:
    try:
        return path.exists()
    except PermissionError as error:
        raise NeedsHuman(
            f"{path.parent} is closed to this user: only the user who runs ingestor may read it"
        ) from error


@contextmanager
def collections_of(config: Config, journal: Journal, patience: float | None = None) -> Iterator[Collections]:
    """Chroma for reading: the server of a running daemon or sync, else one for this command alone.

    ``patience``: seconds to wait while Chroma starts or another command uses it; PATIENCE if None. Raises
    Locked after that, NeedsHuman if Chroma cannot be shared.
    """
    from ingestor.chroma.backend import Collections
    from ingestor.chroma.collections import Ownership

    def opened(stack: ExitStack) -> Collections:
        running = is_running(config)
        place, log = (_as_served(config) if running else config).chroma, chroma_log_path(config)
        if running or isinstance(place, RemoteChroma):
            _check_answers(place)
        owner = Ownership(journal.owner, journal.uuids)
        return stack.enter_context(Collections(place, owner, log_path=log, attach=running))

    with ExitStack() as stack:
        yield retry_until_free(lambda: opened(stack), PATIENCE if patience is None else patience)


def _check_answers(chroma: Supervised | RemoteChroma | Embedded) -> None:
    """Raise Transient if Chroma accepts connections and does not answer: each request would wait a minute."""
    from ingestor.chroma.api import RestApi

    if isinstance(chroma, Embedded):
        return
    ssl = isinstance(chroma, RemoteChroma) and chroma.ssl
    with closing(RestApi(local_address(chroma.host), chroma.port, ssl=ssl, timeout=_HEARTBEAT)) as api:
        if api.hangs():
            place = f"{chroma.host}:{chroma.port}"
            raise Transient(
                f"Chroma at {place} hangs: no answer to a heartbeat in {_HEARTBEAT:g} s; "
                "restart it if that lasts"
            )


def _as_served(config: Config) -> Config:
    """The config with Chroma's address and secret now, as the lock on Chroma's folder says.

    Raises Locked if Chroma does not listen just now, NeedsHuman if it never does (``embedded``).
    """
    from ingestor.chroma.folder import LOCK

    chroma, who = config.chroma, f"process {' '.join(noted(lock_path(config))[:1])}"
    if isinstance(chroma, Embedded):
        raise NeedsHuman(
            f"Chroma is inside {who} (embedded: true); other processes can read it after its end"
        )
    if not isinstance(chroma, Supervised):
        return config
    match noted(lock_path(config)), noted(chroma.path / LOCK):
        case [pid, *_], [holder, host, port, secret] if pid == holder and _listens(host, int(port)):
            here = {"host": host, "port": int(port), "token": SecretStr(secret)}
            return replace(config, chroma=chroma.model_copy(update=here))
    raise Locked(f"Chroma is not up: {who}, which runs it, is starting or stopping it; try again in a moment")


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((local_address(host), port), _HEARTBEAT).close()
    except OSError:
        return False
    return True


def current_status(in_force: InForce) -> Status:
    """The status of everything, with or without a running daemon."""
    return replace(
        _status(in_force.config),
        config_error=in_force.error,
        config_since=in_force.since,
        config_restart=in_force.restart,
    )


def _status(config: Config) -> Status:
    from ingestor.app.status import gather

    running, said = is_running(config), run_status.read(config.state)
    if running and str(said.pid) not in noted(lock_path(config))[:1]:
        said = Live()  # the file is of an earlier process
    if not _there(journal_path(config)):
        return gather(config, None, said, running, None)
    with journal_of(config) as journal:
        try:
            with collections_of(config, journal, 0.0 if running else None) as collections:
                return gather(config, journal, said, running, collections.probe)
        except (NeedsHuman, Transient) as error:
            reason = str(error)
            return gather(config, journal, said, running, lambda name: reason)


def unusable(config: Config, journal: Journal) -> dict[str, str]:
    """Collections that differ in Chroma from the journal, or cannot be read, with the reason. Reads only."""
    kept = Reports(journal)
    editions = [one for one in Editions(journal).all() if one.role in ("live", "staging") and one.uuids]
    path = getattr(config.chroma, "path", None)
    if path is not None and not (path / "chroma.sqlite3").exists():
        reason = f"missing: Chroma has nothing in {path}; a sync writes all records again"
        return {one.serves: reason for one in editions if kept.records(one.name)}
    try:
        with _with_state(config) as place, collections_of(place, journal) as collections:
            here = [one.serves for one in editions]
            new = {each.collection: each.shards for each in config.sources if each.collection not in here}
            found = {name: _strange(collections, shard_names(name, shards)) for name, shards in new.items()}
            found |= {one.serves: _doubt(collections, kept, one) for one in editions}
    except (NeedsHuman, Transient) as error:
        return dict.fromkeys(config.collections, str(error))
    return {str(name): reason for name, reason in found.items() if reason is not None}


@contextmanager
def _with_state(config: Config) -> Iterator[Config]:
    """The config; where its state folder is lost, with another one for the log of Chroma's server."""
    if config.state.exists():
        yield config
        return
    with TemporaryDirectory(prefix="ingestor-") as folder:
        yield replace(config, state=Path(folder))


def _strange(collections: Collections, names: Sequence[str]) -> str | None:
    """Why a new collection, of these shards, could not be created, or None."""
    try:
        for name in names:
            collections.existing(ChromaName(name))
    except NeedsHuman as error:
        return str(error)
    return None


def _doubt(collections: Collections, kept: Reports, edition: Edition) -> str | None:
    try:
        index = collections.edition(edition)
        if index is None:
            return "missing in Chroma; a sync writes all records again"
        before, there, after = kept.sure(edition.name), index.count(), kept.records(edition.name)
    except (Gone, Torn, NeedsHuman) as error:
        return str(error)
    if before <= there <= max(after, kept.records(edition.name)):
        return None
    records = counted(there, "record")
    return f"Chroma holds {records} and the journal {after:,}; to repair: ingestor verify --repair"


def search(config: Config, question: Question, searching: Searching | None = None) -> Answer:
    """The answer to a question: the daemon's, if one runs and answers, else our own.

    ``searching``: what stays open after the answer; None: everything is closed. Raises BadRequest for an
    unknown collection, empty text or bad filter, NeedsHuman and Transient.
    """
    from ingestor.search.several import fused, labelled, names_of
    from ingestor.service.client import DaemonClient
    from ingestor.text.tokens import Tokens

    if not question.query.strip():
        raise BadRequest("the text to search for is empty")
    if _LOST.search(question.query):
        raise BadRequest("the text is not valid in this terminal's encoding; is it set to UTF-8?")
    try:
        checked(question)
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
                _check_answers(_as_served(config).chroma)
            answer = DaemonClient(config.http, journal.owner).search(question)
            if answer is not None:
                return answer
        here = searching or stack.enter_context(closing(Searching(config)))
        if names is None:
            return labelled(here.answer(question), str(question.collection))
        start = time.monotonic()
        answers = {name: here.answer(replace(question, collection=name)) for name in names}
        return fused(question, answers, {}, Tokens().counts, time.monotonic() - start)


def unsearchable(config: Config) -> int:
    """Number of documents whose last change readers do not see yet, without quarantined ones."""
    with journal_of(config) as journal:
        return Reports(journal).due()


class Searching:
    """Chroma and the configured embedder, opened by the first question of this process and open until closed.

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
        """Answer from one collection. Asked once more if Chroma went away: the daemon may just have ended."""
        from ingestor.chroma.client import Unreachable

        with self._turn:
            try:
                with suppress(Unreachable):
                    return self._answered(question)
                self._release()
                return self._answered(question)
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
        from ingestor.app.building.parts import Parts, made_by

        with journal_of(self.config) as journal:
            return Parts(self.config, made_by(journal))

    @cached_property
    def _reranker(self) -> Reranker | None:
        from ingestor.search.rerankers import Reranker, scores_of

        options = self.config.search.rerank
        return None if options is None else Reranker(scores_of(options, patient=True), options.hits)

    def _answered(self, question: Question) -> Answer:
        from ingestor.chroma.filters import find_left_out
        from ingestor.lexical.check import words_of
        from ingestor.lexical.file import reading
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
            profile = profile_of(unpacked(edition.choices)) if edition.choices else "full"
            if left_out := find_left_out(question.where, profile):
                raise BadRequest(f"where {left_out}")
            index.check_filter(dict(question.where))
        with words_of(reading(lexical_path(self.config)), edition.uuids) as words:
            parts = self._parts
            ask = Searcher(
                index, words, parts.query_vectors, parts.tokens.counts, time.monotonic, self._reranker
            )
            return ask.answer(question)


def _answer(config: Config, journal: Journal, ask: Callable[[Collections], T]) -> T:
    """Chroma's answer. Asked once more if Chroma went away: the daemon may just have ended."""
    from ingestor.chroma.client import Unreachable

    with suppress(Unreachable), collections_of(config, journal) as collections:
        return ask(collections)
    with collections_of(config, journal) as collections:
        return ask(collections)


def live_editions(journal: Journal) -> list[Edition]:
    """The editions that readers see."""
    return [edition for edition in Editions(journal).all() if edition.role == "live"]


def no_collection(journal: Journal, wanted: str) -> Exception:
    """Return the error for a collection that is unknown, or gone from Chroma."""
    known = [edition.serves for edition in live_editions(journal)]
    if wanted in known:
        return NeedsHuman(f"collection {wanted!r} is gone from Chroma; `ingestor sync` writes it again")
    return BadRequest(f"there is no collection {wanted!r}; known: {', '.join(known) or 'none yet'}")


@dataclass(frozen=True, slots=True)
class Shown:
    """A document and its records, in document order. ``others``: further documents that its name fits."""

    document: Listed
    records: list[Record]
    others: tuple[Listed, ...] = ()


def shown(config: Config, document: str) -> Shown:
    from ingestor.pipeline.prepare import record_id

    with journal_of(config) as journal:
        entry, *others = find_documents(journal, document)
        found, *fitting = (Reports(journal).document(each.row) for each in (entry, *others))
        ids = [record_id(entry.document_id, known.slot) for known in entry.known]

        def read(collections: Collections) -> list[Record]:
            index = collections.edition(Editions(journal).named(entry.collection))
            return index.read(ids) if index is not None and ids else []

        records = _answer(config, journal, read)
        in_order = sorted(records, key=lambda record: int(str(record.metadata.get("chunk_index") or 0)))
        return Shown(found, in_order, tuple(fitting))


def history(journal: Journal, source: str | None, document: str | None, n: int) -> list[Event]:
    """Return the last events, newest first. Raises BadRequest if there is no such document.

    ``source``, ``document``: only theirs. A removed document is known by its last key and its id.
    """
    id_ = None
    if document is not None:
        id_ = id_of(journal, document) or find_documents(journal, document)[0].document_id
    return [explained(one) for one in happened(journal, source, id_, n)]


def explained(one: Event) -> Event:
    """Return an event of a collection with what changed in its config as the reason."""
    if one.after is None:
        return one
    old, new = (unpacked(each) if each else None for each in (one.before, one.after))
    found = [] if old is None or new is None else [*changes(old, new)]
    described = None if old is None or new is None else described_otherwise(old, new)
    told = [str(each) for each in (*found, described) if each is not None]
    return replace(one, why="; ".join(told) or "other sources or recipes", before=None, after=None)


def find_documents(journal: Journal, wanted: str) -> list[Entry]:
    """Return documents with this key, path or id, or the one whose file has this name.

    Raises BadRequest, with the names that are nearest, if there is none or if several files have the name.
    """
    wanted = _LOST.sub(lambda byte: f"\\x{ord(byte[0]) - 0xDC00:02X}", wanted)  # as keys spell such bytes
    found = next(filter(None, map(journal.named, _spellings(wanted))), None)
    if found is not None:
        return found
    keys = journal.keys()
    named = [key for key in keys if key.endswith(f"/{wanted}")]
    if len(named) == 1:
        return journal.named(named[0])
    if named:
        some = " or ".join(map(repr, named[:3]))
        number = counted(len(named), "document")
        raise BadRequest(f"{wanted!r} names {number}: choose one by its key, such as {some}")
    names = {key.rpartition("/")[2].casefold(): key for key in keys[:_SUGGESTING]}
    near = [repr(names[name]) for name in get_close_matches(wanted.casefold(), names, n=2)]
    advice = f"did you mean {' or '.join(near)}?" if near else "`ingestor ls` lists them by key"
    raise BadRequest(f"no document {wanted!r}; {advice}")


def _spellings(wanted: str) -> Iterator[str]:
    """Yield spellings of a name: as given, as a path, as `ls` escapes keys, as members are written."""
    for text in dict.fromkeys((wanted, raw(wanted))):
        yield text
        yield str(Path(text).absolute())
        yield _MEMBER.sub(INSIDE, text)
        yield str(Path(text.replace(INSIDE, "!/")).absolute())


@dataclass(frozen=True, slots=True)
class Wanted:
    """The documents to list: of a source, of a collection, in a state, by key. None: all.

    ``pattern``: a shell pattern of the whole key, or without ``*``, ``?`` and ``[`` a part of it.
    """

    source: str | None = None
    collection: str | None = None
    state: str | None = None
    pattern: str | None = None

    def takes(self, one: Listed) -> bool:
        if self.collection not in (None, one.collection) or self.state not in (None, one.state):
            return False
        pattern = self.pattern or ""
        whole = any(mark in pattern for mark in "*?[")
        return fnmatchcase(one.document, pattern) if whole else pattern in one.document


def listed(journal: Journal, wanted: Wanted) -> tuple[Sequence[SourceName], Iterator[Listed]]:
    """The sources that are meant, and their documents.

    Raises BadRequest if the source or the collection has none.
    """
    source = wanted.source
    serves = {each.name: each.serves for each in Editions(journal).all()}
    if wanted.collection is not None and wanted.collection not in serves.values():
        known = ", ".join(sorted({*serves.values()})) or "none yet"
        raise BadRequest(f"no collection {wanted.collection!r}; known: {known}")
    names = journal.sources()
    if source is not None and source not in names:
        raise BadRequest(f"no source {source!r} has documents; known: {', '.join(names) or 'none yet'}")
    every = Reports(journal).documents(source)
    named = (
        replace(one, collection=str(serves.get(EditionName(one.collection), one.collection))) for one in every
    )
    return names if source is None else [SourceName(source)], filter(wanted.takes, named)
