"""Prepares documents on nodes, in the place of ``pipeline.prepare.prepare``: same arguments, same answer.

The head keeps what there is one of: the journal, the caches, the writer. It reads the document, or finds its
text in the cache, and sends nothing if nothing changed. The node parses and chunks, and asks the head for
vectors, where the texts of all documents meet in batches.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from threading import Lock
from types import TracebackType
from typing import Generic, TypeVar

from ingestor.core.document_json import Parsed
from ingestor.core.entries import Entry, Feed
from ingestor.core.events import event
from ingestor.core.interruptions import Stopped
from ingestor.model import Blob, Item
from ingestor.nodes.crew import Crew, Hand, NoRoom
from ingestor.nodes.deaths import Death, ProcessLost, describe, judge
from ingestor.nodes.messages import (
    Done,
    FailedCall,
    LogLine,
    Reply,
    Task,
    TaskAnswer,
    WantedVectors,
    failed_call,
    pack,
    unpack_answer,
)
from ingestor.pipeline.limits import TextBudget
from ingestor.pipeline.prepare import Job, Predecessor, Prepared, Tools, prepare, unchanged
from ingestor.ports import BadDocument, Transient

log = logging.getLogger("ingestor")

T = TypeVar("T")
Resting = Callable[[], AbstractContextManager[None]]
Behind = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Setup:
    """Recipe by which a process makes the tools of one source. ``key``: differs wherever the tools differ.

    ``recipes``: fingerprints by part, as they are here; a process must come to the same ones.
    """

    key: str
    packed: bytes
    recipes: Mapping[str, str]


class OnNodes:
    """See ``pipeline.prepare.prepare``. Any thread.

    ``setup_of``: of tools; None: their documents are prepared here. ``in_flight``: bytes of documents that
    are on their way at the same time; a larger one goes alone. ``resting``: entered while a document waits
    for a process. ``behind``: whether the calling thread's document waits for all others.
    """

    def __init__(
        self,
        crew: Crew,
        setup_of: Callable[[Feed, Tools], Setup | None],
        in_flight: int,
        resting: Resting = nullcontext,
        behind: Behind = lambda: False,
    ) -> None:
        self.crew, self._setup_of, self._resting, self._behind = crew, setup_of, resting, behind
        self._budget = TextBudget(in_flight, small=0)
        self._lock = Lock()
        self._deaths: dict[tuple[Feed, str, str], list[Death]] = {}
        self.sent = 0  # documents that a node prepared
        self.lost = 0  # processes that died at work

    def __call__(self, job: Job, tools: Tools, predecessor: Predecessor) -> Prepared:
        """Raises what ``prepare`` raises, and BadDocument for a document that kills its processes."""
        setup = self._setup_of(job.entry.feed, tools)
        if setup is None:
            return prepare(job, tools, predecessor)
        task = _read(job, setup, tools, predecessor)
        if isinstance(task, Prepared):
            return task
        prepared = self._send(task, setup, tools, _size(task))
        if job.others_by_now is not None and prepared.receipt.sums is not None:
            job.others_by_now(prepared.receipt.sums)
        return prepared

    def stop(self) -> None:
        """Raise Stopped in every waiting thread."""
        self._budget.stop()
        self.crew.stop()

    def _send(self, task: Task, setup: Setup, tools: Tools, size: int) -> Prepared:
        with _Turn(self._budget.taken(size), self._resting):
            done = self._run_to_end(task, setup, tools)
        for kept in done.keep:
            if tools.reader.memory is not None:
                tools.reader.memory.keep(kept.source, kept.key, kept.stamp, kept.parsed)
        for stage, seconds in done.seconds:
            tools.times.add(stage, seconds)
        self.sent += 1
        return done.prepared

    def _run_to_end(self, task: Task, setup: Setup, tools: Tools) -> Done:
        """Prepare a document in the first process that lives to the end."""
        while True:
            deaths = self._deaths_of(task.job.entry)
            try:
                answer, where = self._talk(task, setup, tools, frozenset(death.node for death in deaths))
            except ProcessLost as died:
                self._blame(task.job.entry, died.death)
                continue
            self._forget(task.job.entry)
            _tell(answer.lines)
            if isinstance(answer, FailedCall):
                raise answer.error(where)
            return answer

    def _talk(
        self, task: Task, setup: Setup, tools: Tools, avoid: frozenset[str]
    ) -> tuple[Done | FailedCall, str]:
        """Talk with one process to the end; return its answer and its node. Raises ProcessLost."""
        with _Turn(self.crew.hand(avoid, behind=self._behind()), self._resting) as hand:
            teach(hand, setup)
            answer: TaskAnswer = unpack_answer(hand.call("begin", pack(task)))
            while isinstance(answer, WantedVectors):
                answer = unpack_answer(hand.call("resume", pack(_reply(tools, answer))))
            return answer, hand.node

    def _deaths_of(self, entry: Entry) -> Sequence[Death]:
        with self._lock:
            return tuple(self._deaths.get(_version(entry), ()))

    def _forget(self, entry: Entry) -> None:
        with self._lock:
            self._deaths.pop(_version(entry), None)

    def _blame(self, entry: Entry, death: Death) -> None:
        """Note the death. Raises what follows for the document, unless it is sent again at once."""
        with self._lock:
            deaths = self._deaths.setdefault(_version(entry), [])
            deaths.append(death)
            self.lost += 1
        log.warning(
            "%s (%s): process ended while preparing the document (%s)",
            entry.key,
            entry.source,
            describe([death]),
            extra=event("node", source=str(entry.source), document=entry.key),
        )
        verdict = judge(deaths)
        if verdict == "quarantine":
            self._forget(entry)
            raise BadDocument(
                f"crashes the processes that prepare the document ({describe(deaths)}); "
                "exclude or split the document; to retry: `ingestor retry`"
            )
        if verdict == "later":
            raise Transient(f"the processes that prepared the document ended ({describe(deaths)})")


def teach(hand: Hand, setup: Setup) -> None:
    """Have a process make the tools of a setup, unless it has them. Raises NeedsHuman if it cannot."""
    if hand.knows(setup.key):
        return
    if refused := hand.call("learn", setup.key, setup.packed, pack(dict(setup.recipes))):
        raise unpack_answer(refused).error(hand.node)


class _Turn(Generic[T]):
    """Context manager that enters ``inner`` while the thread rests."""

    def __init__(self, inner: AbstractContextManager[T], resting: Resting) -> None:
        self._inner, self._resting = inner, resting

    def __enter__(self) -> T:
        with self._resting():
            return self._inner.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._inner.__exit__(kind, error, trace)


def _read(job: Job, setup: Setup, tools: Tools, predecessor: Predecessor) -> Task | Prepared:
    """The task, with the document's bytes or its text; or the writes, if nothing changed."""
    entry, fetched = job.entry, list[Blob]()
    assert entry.item is not None

    def fetch(item: Item) -> Blob:
        fetched.append(tools.reader.fetch(item))
        return fetched[-1]

    with tools.times.measured("read"):
        reading = replace(tools.reader, fetch=fetch).read(entry.item)
    if (same := unchanged(job, reading, tools)) is not None:
        return same
    new = not (entry.known or entry.digest)
    vanished = predecessor(entry, reading.content) if new else None
    job = replace(job, others_by_now=None)  # it can be called here alone
    if fetched:
        return Task(setup.key, job, blob=fetched[-1], predecessor=vanished)
    recipe = tools.reader.recipes[reading.parser]
    parsed = Parsed(reading.content, reading.parser, recipe, reading.document())
    return Task(setup.key, job, parsed=parsed, predecessor=vanished)


def _reply(tools: Tools, wanted: WantedVectors) -> Reply:
    """Raises NoRoom where no process embeds: the one that waits is dismissed, and leaves its room."""
    try:
        return tools.embed(wanted.texts)  # type: ignore[return-value]
    except (Stopped, NoRoom):
        raise
    except Exception as error:  # noqa: BLE001 - the process goes on, and fails as it would here
        return failed_call(error)


def _size(task: Task) -> int:
    if task.blob is not None:
        return len(task.blob.data)
    return 0 if task.parsed is None else len(task.parsed.document.text)


def _version(entry: Entry) -> tuple[Feed, str, str]:
    return entry.feed, entry.key, entry.item.version if entry.item else ""


def _tell(lines: Sequence[LogLine]) -> None:
    for line in lines:
        log.log(
            line.level,
            "%s",
            line.message,
            extra=event("node"),
        )
