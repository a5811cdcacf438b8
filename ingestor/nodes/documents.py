"""Prepares documents on nodes, with the arguments and results of ``pipeline.prepare.prepare``.

The daemon keeps the journal, the caches and the writer. It reads a document's bytes, or takes its text from
the cache, and sends no task if nothing changed. The node parses and chunks the document, and requests vectors
from the daemon, which batches the texts of all documents.
"""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from threading import Event
from typing import Protocol

from ingestor.core.document_json import Parsed
from ingestor.core.entries import Feed
from ingestor.core.events import event
from ingestor.model import Blob, Item
from ingestor.nodes.deaths import ProcessLost, repeat_if_lost
from ingestor.nodes.messages import (
    Done,
    FailedCall,
    Mismatch,
    Started,
    Task,
    WantedVectors,
    pack,
    unpack,
)
from ingestor.nodes.setup import Setup
from ingestor.pipeline.limits import TextBudget
from ingestor.pipeline.prepare import Job, Predecessor, Prepared, Tools, prepare, renew_if_same
from ingestor.ports import NeedsHuman
from ingestor.sandbox.turns import ProcessTurns

log = logging.getLogger("ingestor")

_TICK = 1.0  # seconds: how soon a waiting thread notices the stop
Resting = Callable[[], AbstractContextManager[None]]  # releases the calling thread's worker slot


class Conversation(Protocol):
    """Protocol: messages to and from the process that prepares a document (see cluster.RayDocument)."""

    node: str

    def next(self) -> bytes: ...
    def start(self, started: Started) -> None: ...
    def reply(self, packed: bytes) -> None: ...
    def close(self) -> None: ...


class Nodes(Protocol):
    """Protocol: functions of the cluster that ``OnNodes`` needs (see fleet.Fleet).

    ``work``: queues a packed task. ``refuse``: gives no more work to a node; returns an error if no other
    node is left.
    """

    def work(self, setup: Setup, task: bytes, *, again: bool) -> Conversation: ...
    def refuse(self, refused: Mismatch) -> NeedsHuman | None: ...


class OnNodes:
    """Prepares documents on nodes, as ``pipeline.prepare.prepare`` does in the daemon. Any thread may call.

    ``setup_of``: returns the setup of some tools, or None if the daemon must prepare their documents itself.
    ``most``: number of documents that are prepared at the same time. ``in_flight``: bytes of documents that
    may be on their way to nodes; a larger document is sent alone. ``resting``: context that is entered while
    a document waits for a process. ``behind``: returns whether the document of the calling thread must yield
    to all others.
    """

    def __init__(
        self,
        nodes: Nodes,
        setup_of: Callable[[Feed, Tools], Setup | None],
        most: int,
        in_flight: int,
        resting: Resting = nullcontext,
        behind: Callable[[], bool] = lambda: False,
    ) -> None:
        self._nodes, self._setup_of, self._resting, self._behind = nodes, setup_of, resting, behind
        self._budget = TextBudget(in_flight, small=0)
        self._stopped = Event()
        self._turns = ProcessTurns(most, self._stopped.is_set, _TICK)
        self.lost = 0  # processes that died at work

    def __call__(self, job: Job, tools: Tools, predecessor: Predecessor) -> Prepared:
        """Prepare a document.

        Raises the errors of ``prepare``, and BadDocument if the document crashes processes.
        """
        setup = self._setup_of(job.entry.feed, tools)
        if setup is None:
            return prepare(job, tools, predecessor)
        task = _read(job, tools, predecessor)
        if isinstance(task, Prepared):
            return task
        size = len(task.blob.data) if task.blob else len(task.parsed.document.text) if task.parsed else 0
        budget = self._budget.take(size)
        with self._resting():
            budget.__enter__()
        try:
            done = self._run_to_end(task, setup, tools)
        finally:
            budget.__exit__(None, None, None)
        if done.parsed is not None and job.entry.item is not None:
            tools.reader.remember(job.entry.item, done.parsed)
        for stage, seconds in done.seconds:
            tools.times.add(stage, seconds)
        if job.exchange_sums is not None and done.prepared.receipt.sums is not None:
            job.exchange_sums(done.prepared.receipt.sums)
        return done.prepared

    def stop(self) -> None:
        """Raise Stopped in every thread that waits for a process or a node."""
        self._stopped.set()

    def _run_to_end(self, task: Task, setup: Setup, tools: Tools) -> Done:
        """Have a process prepare a task, and return the outcome.

        Another process takes over if one is lost, or if its node cannot build the tools.
        """
        entry, packed = task.job.entry, pack(task)

        def attempt(again: bool) -> Done | FailedCall | Mismatch:
            behind = self._behind()
            with self._resting():
                self._turns.take(behind=behind)
            try:
                with closing(self._nodes.work(setup, packed, again=again)) as document:
                    return self._talk(document, tools)
            finally:
                self._turns.give_back(behind=behind)

        def note(death: ProcessLost) -> None:
            self.lost += 1
            log.warning(
                "%s (%s): process ended while preparing the document (%s)",
                entry.key,
                entry.source,
                death,
                extra=event("node", source=str(entry.source), document=entry.key),
            )

        answer = repeat_if_lost(attempt, note)
        while isinstance(answer, Mismatch):
            if (error := self._nodes.refuse(answer)) is not None:
                raise error
            answer = repeat_if_lost(attempt, note)
        for line in answer.lines:
            log.log(line.level, "%s", line.message, extra=event("node"))
        if isinstance(answer, FailedCall):
            raise answer.error
        return answer

    def _talk(self, document: Conversation, tools: Tools) -> Done | FailedCall | Mismatch:
        """Answer the messages of the process that prepares a document, until the outcome. Return the outcome.

        Raises ProcessLost, and the errors of embedding.
        """
        with self._resting():
            answer = unpack(document.next())
        while True:
            if isinstance(answer, Started):
                document.start(answer)
            elif isinstance(answer, WantedVectors):
                document.reply(pack(tools.embed(answer.texts)))  # an error ends the process, too
            else:
                outcome: Done | FailedCall | Mismatch = answer
                return outcome
            answer = unpack(document.next())


def _read(job: Job, tools: Tools, predecessor: Predecessor) -> Task | Prepared:
    """Read a document in the daemon, and return the task for a node: with the bytes or the cached text.

    If the document did not change, return the result without a task.
    """
    entry, fetched = job.entry, list[Blob]()
    assert entry.item is not None

    def fetch(item: Item) -> Blob:
        fetched.append(tools.reader.fetch(item))
        return fetched[-1]

    with tools.times.measure("read"):
        reading = replace(tools.reader, fetch=fetch).read(entry.item)
    if (same := renew_if_same(job, reading, tools)) is not None:
        return same
    new = not (entry.records or entry.digest)
    vanished = predecessor(entry, reading.content) if new else None
    job = replace(job, exchange_sums=None)  # only this process can call it
    if fetched:
        keeps = reading.parser in tools.reader.costly
        return Task(job, blob=fetched[-1], predecessor=vanished, keeps=keeps)
    recipe = tools.reader.recipes[reading.parser]
    parsed = Parsed(reading.content, reading.parser, recipe, reading.document())
    return Task(job, parsed=parsed, predecessor=vanished)
