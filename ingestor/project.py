"""The library: ``Project``, a config with a method for each command.

An error that a user can act on is an ``IngestorError``; any other exception is a defect. A method opens the
files that it needs, and closes them before it returns. Inside ``with``, searches keep Chroma and the model
open until the block ends. Objects may be used by several threads: searches run one at a time, and a second
writer raises ``Locked``.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Self

from ingestor.config.file import load
from ingestor.core.errors import describe
from ingestor.core.events import event
from ingestor.ports import NeedsHuman, Stop
from ingestor.queries.access import BadRequest, collection_of, collections_of, is_running, journal_of
from ingestor.state.editions import Editions
from ingestor.state.files import journal_path
from ingestor.state.run_status import config_file_in_use, in_force

if TYPE_CHECKING:
    from ingestor.app.daemon import Loop
    from ingestor.config.models import Config
    from ingestor.queries.inventory import CollectionInfo
    from ingestor.queries.plan import SyncPlan
    from ingestor.queries.reading import Searching, Shown
    from ingestor.queries.status import Status, SyncReport
    from ingestor.queries.verification import Verification
    from ingestor.search.values import Answer, Expand, Mode
    from ingestor.state.reports import Event, Listed
    from ingestor.state.run_status import InForce, SyncProgress

log = logging.getLogger("ingestor")

_PATIENCE = 5.0  # seconds for the first answer of a Chroma server that somebody else runs


@dataclass(frozen=True, slots=True)
class Ready:
    """The state of a daemon when it has nothing left to do for the first time.

    ``failed``: number of failed documents. ``unseen``: sources that are held, paused or not completely
    listed. ``unusable``: collections that cannot be written. ``listed``: whether any source was listed.
    ``seconds``: seconds since the start. ``chroma``, ``page``: the addresses of Chroma and of the web page;
    "" if there is none. ``question``: an example query that the collection can answer.
    """

    collections: tuple[str, ...]
    records: int
    failed: int
    unseen: tuple[str, ...]
    seconds: float
    chroma: str
    page: str
    question: str | None
    listed: bool = True
    unusable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of `apply`. ``approved``: a line of text for each approved change.

    ``report``: the report of the sync; None if a running daemon carries out the changes.
    """

    approved: tuple[str, ...]
    report: SyncReport | None


class Project:
    """A config file with its sources, its state and its collections. Each method call reads the file anew.

    ``env``: values for ``${NAME}`` in the config; by default the environment variables of the process.
    """

    def __init__(
        self, config: str | os.PathLike[str] = "config.yaml", *, env: Mapping[str, str] | None = None
    ) -> None:
        self.path = Path(config)
        self._env = os.environ if env is None else env
        self._given: InForce | None = None
        self._lock, self._blocks, self._writers = Lock(), 0, 0
        self._searching: Searching | None = None

    @classmethod
    def of(cls, given: InForce) -> Self:
        """Return a project for a config that was already read and checked."""
        project = cls(given.config.origin.file)
        project._given = given
        return project

    def __enter__(self) -> Self:
        with self._lock:
            self._blocks += 1
        return self

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._blocks -= 1
            last = not self._blocks
        if last:
            self.close()

    def close(self) -> None:
        """Close Chroma and the model, which searches keep open. The project can still be used afterwards."""
        with self._lock:
            searching, self._searching = self._searching, None
        if searching is not None:
            searching.close()

    # --- bringing collections in step ----------------------------------------------------------------------

    def plan(
        self,
        *,
        sample: int | None = None,
        everything: bool = False,
        progress: Callable[[str], None] | None = None,
    ) -> SyncPlan:
        """Estimate what a sync would do, and its time and cost, without changing anything.

        ``sample``: how many documents are read of each source. By default all are, or 2,000 of a source that
        has more than 20,000 new ones. ``everything``: read all new documents. ``progress``: called with the
        progress in words.
        """
        from ingestor.queries.plan import Sampling, make_plan

        config = self._config()
        bounds = Sampling() if sample is None else Sampling(sample, sample)
        bounds = Sampling(above=sys.maxsize) if everything else bounds
        with _explain_errors():
            plan = make_plan(config, bounds, progress or (lambda how_far: None))
            restart = in_force(self.path, self._env).restart
            file = config_file_in_use(config.state) if plan.running else None
        elsewhere = file if file not in (None, str(self.path.absolute())) else None
        return replace(plan, restart=restart, follows=elsewhere)

    def sync(
        self,
        *,
        progress: Callable[[SyncProgress], None] | None = None,
        stop: Stop | None = None,
        handle_signals: bool = False,
        patience: float | None = None,
    ) -> SyncReport:
        """Bring all collections in step with their sources, once.

        ``progress``: called about once a second. ``stop``: an event that ends the sync early; the next sync
        resumes the work. ``handle_signals``: whether SIGTERM and Ctrl-C end the sync early; only in the main
        thread. ``patience``: seconds for which failures are retried while nothing else succeeds; default: 30.
        """
        from ingestor.app.daemon import Loop, Signals
        from ingestor.app.wiring import open_state
        from ingestor.queries.status import report_sync

        config = self._config()
        begun, signals = time.monotonic(), Signals(stop)
        with (
            self._alone(),
            signals.handle() if handle_signals else nullcontext(),
            open_state(config, serve=False) as running,
        ):
            Loop(running, signals, progress).sync(patience)
            return report_sync(running, time.monotonic() - begun, interrupted=signals.stop)

    def run(
        self,
        *,
        progress: Callable[[SyncProgress], None] | None = None,
        ready: Callable[[Ready], None] | None = None,
        stopping: Callable[[], None] | None = None,
        stop: Stop | None = None,
        handle_signals: bool = False,
    ) -> None:
        """Keep the collections in step until ``stop`` is set. This is the daemon, with Chroma and the service
        port.

        ``progress``: called about once a second. ``ready``: called once, when there is nothing left to do for
        the first time. ``stopping``: called before the last writes are finished. ``handle_signals``: whether
        SIGTERM, Ctrl-C and a closed terminal end the daemon, and SIGHUP reloads the config; only in the main
        thread. A config file that was changed is reloaded in any case.
        """
        from ingestor.app.daemon import Loop, Reloader, Signals
        from ingestor.app.wiring import open_state
        from ingestor.page.opening import pages_of
        from ingestor.service.port import open_service

        signals = Signals(stop)
        reloader = Reloader(self.path, self._env, signals)
        config = reloader.config
        with (
            self._alone(),
            signals.handle() if handle_signals else nullcontext(),
            open_state(config, serve=True) as running,
        ):
            connection = running.collections.connection
            if connection.address and (connection.server or connection.answers(_PATIENCE)):
                known = event("listening", address=connection.address)
                log.info("Chroma listens at %s", connection.address, extra=known)
            loop = Loop(running, signals, progress, config_state=reloader.state)
            paging = partial(pages_of, config=lambda: loop.running.parts.config, path=self.path)
            with open_service(config.http, journal_path(config), loop.view, paging) as unopened:
                if unopened:
                    loop.go_without_service(unopened)
                loop.run(reloader.next_config, lambda: ready(_ready(loop)) if ready else None)
            if stopping:
                stopping()

    def apply(
        self, *, progress: Callable[[SyncProgress], None] | None = None, handle_signals: bool = False
    ) -> Applied:
        """Approve all pending changes of the config, and carry them out.

        If a daemon runs, it carries them out. ``progress``, ``handle_signals``: as in ``sync``.
        """
        from ingestor.queries.changes import approve

        config = self._config()
        with _explain_errors():
            approved = tuple(approve(config))
        if self.is_running():
            return Applied(approved, None)
        return Applied(approved, self.sync(progress=progress, handle_signals=handle_signals))

    def rollback(self, collection: str | None = None) -> bool:
        """Switch readers back to the collection that they saw before the last change.

        Return whether that change was itself a rollback, which is now undone. ``collection``: optional if the
        config has one.
        """
        from ingestor.queries.changes import roll_back

        config = self._config()
        with self._alone():
            return roll_back(config, collection_of(config, collection))

    def verify(self, *, repair: bool = False, rebuild: bool = False) -> Verification:
        """Compare sources, journal, Chroma and the lexical index. ``repair``: write differing records again.

        ``rebuild``: with ``repair``, move Chroma's folder aside first, and write all records again.
        """
        from ingestor.queries.verification import verify

        if rebuild and not repair:
            raise BadRequest("--rebuild goes with --repair: ingestor verify --repair --rebuild")
        config = self._config() if repair else self._in_force().config
        with self._alone():
            return verify(config, repair, rebuild)

    # --- queries -------------------------------------------------------------------------------------------

    def is_running(self) -> bool:
        """Return whether a daemon or a sync runs with this state, in this process or in another one."""
        return is_running(self._in_force().config)

    def status(self) -> Status:
        """Return the status of the program and of every source and collection."""
        from ingestor.queries.status import current_status

        with _explain_errors():
            return current_status(self._in_force())

    def search(
        self,
        text: str,
        *,
        collection: str | Sequence[str] | None = None,
        n: int = 5,
        where: Mapping[str, object] | None = None,
        mode: Mode = "hybrid",
        expand: Expand = "none",
        budget_tokens: int | None = None,
        distinct: bool | None = None,
    ) -> Answer:
        """Search a collection. If a daemon runs, it answers; otherwise this process does.

        ``collection``: one name, several, or ``*`` for all; optional if the config has only one. ``n``:
        number of passages. ``budget_tokens``: tokens of all passages together, in place of ``n``.
        ``distinct``: whether to return only one of several passages that are nearly equal.
        """
        from ingestor.queries.reading import Searching, search
        from ingestor.search.values import Question

        config = self._in_force().config
        several = collection is not None and not isinstance(collection, str)
        name = collection if several else collection_of(config, collection)  # type: ignore[arg-type]
        question = Question(text, name or "", n, budget_tokens, mode, where, expand, distinct)
        if self._searching is not None and self._searching.config != config:
            self.close()
        with self._lock:
            if self._blocks and not self._writers and self._searching is None:
                self._searching = Searching(config)
            searching = self._searching
        with _explain_errors():
            return search(config, question, searching)

    def unsearchable(self) -> int:
        """Return how many documents have a last change that cannot be found by a search yet."""
        from ingestor.state.reports import measure_unsettled

        with journal_of(self._in_force().config) as journal:
            return measure_unsettled(journal)[0]

    def suggest(self, number: int = 3, collection: str | None = None) -> tuple[str, ...]:
        """Return at most ``number`` example queries that a collection can answer, taken from its headings."""
        from ingestor.queries.reading import suggest

        config = self._in_force().config
        name = collection_of(config, collection)
        with self._alone(), journal_of(config) as journal, collections_of(config, journal) as collections:
            return suggest(collections, Editions(journal).live(name), number)

    @contextmanager
    def documents(
        self,
        source: str | None = None,
        collection: str | None = None,
        state: str | None = None,
        pattern: str | None = None,
    ) -> Iterator[tuple[Sequence[str], Iterator[Listed]]]:
        """Open the list of documents. Return the names of their sources, and an iterator over the documents.

        ``source``, ``collection``, ``state``: select documents; None selects all. ``pattern``: a shell
        pattern for the key, or a part of the key.
        """
        from ingestor.queries.reading import select_documents

        with _explain_errors(), journal_of(self._in_force().config) as journal:
            yield select_documents(journal, source, collection, state, pattern or "")

    def history(self, source: str | None = None, document: str | None = None, n: int = 50) -> list[Event]:
        """Return the last ``n`` events of the history, newest first.

        ``source``, ``document``: the only source or document whose events are returned; None for all.
        """
        from ingestor.queries.reading import history

        with _explain_errors(), journal_of(self._in_force().config) as journal:
            return history(journal, source, document, n)

    def document(self, name: str) -> Shown:
        """Return a document with its records. ``name``: the document's key, path, id or file name."""
        from ingestor.queries.reading import show_document

        config = self._in_force().config
        with self._alone():
            return show_document(config, name)

    def collections(self) -> list[CollectionInfo]:
        """Return every collection in Chroma, whoever owns it."""
        from ingestor.queries import inventory

        config = self._config()
        with self._alone():
            return inventory.list_collections(config)

    # --- decisions of people -------------------------------------------------------------------------------

    def retry(self, document: str | None = None) -> int:
        """Retry a failed or quarantined document now, or all of them if ``document`` is None.

        ``document``: its key, path, id or file name. Return how many documents are retried.
        """
        from ingestor.queries.reading import find_documents

        with _explain_errors(), journal_of(self._in_force().config) as journal:
            rows = [entry.row for entry in find_documents(journal, document)] if document else None
            return journal.retry(rows)

    def accept(self, source: str) -> None:
        """Accept the loss of documents for which a source is held. The next listing then removes them."""
        from ingestor.queries.sources import accept_loss

        with _explain_errors():
            accept_loss(self._in_force().config, source)

    def pause(self, source: str | None = None) -> list[str]:
        """Pause a source, or all sources if ``source`` is None, until it is resumed. Return the names."""
        from ingestor.queries.sources import pause_sources

        with _explain_errors():
            return pause_sources(self._in_force().config, source)

    def resume(self, source: str | None = None) -> list[str]:
        """Resume a paused source, or all if ``source`` is None.

        Return the names of the sources that were paused.
        """
        from ingestor.queries.sources import resume_sources

        with _explain_errors():
            return resume_sources(self._in_force().config, source)

    def delete_collection(self, name: str, *, not_ours: bool = False) -> CollectionInfo:
        """Delete a collection that no source uses, and return it.

        ``not_ours``: whether a collection of another program may be deleted.
        """
        from ingestor.queries import inventory

        config = self._config()
        with self._alone():
            return inventory.delete(config, name, not_ours=not_ours)

    def adopt_collection(self, name: str) -> CollectionInfo:
        """Let this project write to a collection that another state folder of ingestor wrote so far.

        The command is `ingestor collections --adopt`.
        """
        from ingestor.queries import inventory

        config = self._config()
        with self._alone():
            return inventory.adopt(config, name)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Close Chroma while the context runs, so that another writer can open it.

        Explain errors of the context.
        """
        with self._lock:
            self._writers += 1
        try:
            self.close()
            with _explain_errors():
                yield
        finally:
            with self._lock:
                self._writers -= 1

    # --- the config ----------------------------------------------------------------------------------------

    def _config(self) -> Config:
        """Return the config in the file. Raises ConfigError if the file has an error."""
        return load(self.path, self._env) if self._given is None else self._given.config

    def _in_force(self) -> InForce:
        """Return the config in force: that of the file, or of the running daemon if the file has an error."""
        return in_force(self.path, self._env) if self._given is None else self._given


@contextmanager
def _explain_errors() -> Iterator[None]:
    """Raise NeedsHuman in place of errors of the operating system, so that callers need to catch
    IngestorError only."""
    try:
        yield
    except OSError as error:
        raise NeedsHuman(describe(error)) from error


def _ready(loop: Loop) -> Ready:
    from ingestor.queries.reading import suggest
    from ingestor.state.reports import count_records_of, failures
    from ingestor.state.sources import SourceRows

    live, running, config = loop.shown, loop.running, loop.running.parts.config
    names = sorted({source.collection for source in config.sources})
    editions, rows = Editions(running.journal), SourceRows(running.journal)
    known = {source.name: rows.of(source.name) for source in config.sources}
    questions = suggest(running.collections, editions.live(names[0]), 1)
    unlisted = running.engine.scanner.sources_not_listed()
    return Ready(
        collections=tuple(names),
        records=sum(count_records_of(running.journal, editions.live(name).name) for name in names),
        failed=len(failures(running.journal)),
        unseen=tuple(name for name, row in known.items() if row.trouble or not row.ready),
        seconds=live.at - live.started,
        chroma=live.chroma,
        page="" if config.http is None or live.no_service else config.http.url,
        question=questions[0] if questions else None,
        listed=any(name not in unlisted and row.paused is None for name, row in known.items()),
        unusable=tuple(sorted(running.engine.health.troubles())),
    )
