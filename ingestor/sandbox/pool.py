"""A pool of confined processes that parse binary formats and open archives and mails.

If a process hangs, crashes or needs too much memory, one document fails and nothing else.

A process starts when the first document needs it, reads one document at a time, and is replaced after some
hundreds. It has limits of memory, CPU time and elapsed time. Before it reads anything, it loses access to
files, network and most system calls (confinement/walls.py). It ends with this process.

Every parser runs there, unless its class sets ``isolated`` to False (never) or to ``"large"`` (only for large
documents). This process imports the parser's module, but only the confined process runs the parser.
"""

import json
import logging
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from queue import Empty, LifoQueue
from threading import Event, Lock
from typing import Any, TypeVar

from pydantic import SecretStr
from pydantic_core import to_jsonable_python

from ingestor.archives.members import LARGEST, MOST_BYTES, MOST_MEMBERS, Member
from ingestor.archives.unpack import Unpacked, holds_members
from ingestor.confinement.walls import describe
from ingestor.core.document_json import decode
from ingestor.core.errors import Slow, Stopped
from ingestor.core.events import event
from ingestor.core.fingerprint import digest
from ingestor.model import Blob, Digest, Document
from ingestor.ports import BadDocument, Parser, Transient
from ingestor.registry import Options
from ingestor.sandbox.process import Died, Killed, Limits, Process, Starved, TooSlow
from ingestor.sandbox.turns import ProcessTurns
from ingestor.sandbox.wire import BATCH, CROWD, DESCRIPTIONS, DOCUMENT, TICK

log = logging.getLogger("ingestor")

T = TypeVar("T")
_Lane = LifoQueue[Process | None]

_MOST_BATCHES = MOST_BYTES // BATCH + 2 * MOST_MEMBERS // CROWD + 2  # batches of one container
_HARMLESS = 100_000  # bytes of a document that a parser with ``isolated = "large"`` reads in the daemon
# A first attempt at a document has this part of its CPU time, but no fewer seconds: see Isolation.take_turns.
_FIRST_SHARE, _LEAST_FIRST = 12, 1.0
# The smallest container has this part of the CPU time, and one of this number of bytes has all of it.
_SMALLEST_SHARE, _FULL_SHARE = 1 / 20, 20 * 10**6


class Defect(Exception):
    """Error: a parser raised an exception that it should not raise. A note of the error has the traceback."""


class TookTooLong(BadDocument):
    """Error: the document exceeded its limit of CPU time or of elapsed time."""


class TurnLost(Transient):
    """Error: the machine was too busy to give the document its CPU time, so that a retry may succeed."""


class Isolation:
    """A pool of confined processes.

    At most ``limits.processes`` documents are parsed at the same time. One more process opens containers.
    After ``take_turns`` was called, quick documents do not wait for slow ones.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._stopped = Event()
        self._lock = Lock()
        self._layers: dict[str, str] = {}
        self._running: set[Process] = set()
        self._free = _lane(limits.processes + 1)  # slow documents never take the last one
        self._quick = ProcessTurns(limits.processes, self._stopped.is_set, TICK)
        self._slow = ProcessTurns(limits.processes, self._stopped.is_set, TICK)
        self._first: float | None = None  # CPU seconds of a first attempt; None for the limit of all attempts
        self._known_slow: set[Digest] = set()
        self._resting: Callable[[], AbstractContextManager[None]] = nullcontext
        self._behind: Callable[[], bool] = lambda: False
        self._opening = _lane(1)  # a process of its own, so that listings do not wait for slow documents

    @property
    def level(self) -> str:
        """Describe how well the processes are confined; "" before the first process starts."""
        return describe(self._layers)

    def parse(self, kind: str, options: Options, blob: Blob) -> Document:
        """Parse a blob in a confined process.

        ``kind``, ``options``: the parser's name in the config, and its options. Raises BadDocument, also if a
        limit is exceeded or the process crashes, and Defect for any other exception of the parser. Raises
        Transient if no process can be started or the machine is too busy. Raises Slow if the next attempt
        will have more time, and Stopped after ``stop`` was called.
        """
        request = [
            *("parse", kind, pack_options(options)),
            *(blob.name, blob.content_type, blob.configured_type),
        ]

        def ask(process: Process, seconds: float) -> dict[str, Any]:
            process.ask(request, blob.data, seconds)
            return process.answer(DOCUMENT)

        document = _raise_problem(self._in_turn(blob, ask))["document"]
        assert isinstance(document, dict)
        return decode(document)

    def take_turns(
        self,
        resting: Callable[[], AbstractContextManager[None]] = nullcontext,
        behind: Callable[[], bool] = lambda: False,
    ) -> None:
        """Limit the first attempt at a document to a twelfth of the CPU time. If it takes longer, it ends
        with Slow.

        So slow documents, which are parsed at a second attempt, always leave a process for the others.
        ``resting``: a context that a thread enters while it waits for a process. ``behind``: returns whether
        the calling thread works for a collection that readers do not see yet. Such work waits for all other
        work.
        """
        self._resting, self._behind = resting, behind
        self._first = max(_LEAST_FIRST, self._limits.seconds / _FIRST_SHARE)

    def _in_turn(self, blob: Blob, ask: Callable[[Process, float], T]) -> T:
        """Call ``ask`` with a process and the limit of CPU seconds for this attempt at a blob.

        Raises Slow if a first attempt takes too long.
        """
        whole, first = self._limits.seconds, self._first
        if first is None or first >= whole:
            return self._wait_and_run(self._quick, lambda process: ask(process, whole))
        content = digest(blob.data)
        if content in self._known_slow:
            self._known_slow.discard(content)
            return self._wait_and_run(self._slow, lambda process: ask(process, whole))
        try:
            return self._wait_and_run(self._quick, lambda process: ask(process, first))
        except (TookTooLong, TurnLost):
            self._known_slow.add(content)
            raise Slow(f"takes more than {first:g} s of CPU time") from None

    def _wait_and_run(self, turns: ProcessTurns, ask: Callable[[Process], T]) -> T:
        behind = self._behind()
        if not turns.take_free(behind=behind):
            with self._resting():
                turns.take(behind=behind)
        try:
            return self._run(self._free, ask)
        finally:
            turns.give_back(behind=behind)

    @property
    def unpack(self) -> "Opener":
        """Return the function object that opens archives, mailboxes and mails."""
        return Opener(self._unpack, f"{self._limits.memory} {self._limits.seconds:g}")

    def _unpack(self, blob: Blob, archives: bool) -> Unpacked | None:
        if not holds_members(blob):
            return None
        request = ["unpack", blob.name, blob.content_type, archives]

        def ask(process: Process) -> tuple[Unpacked, dict[str, Any]]:
            process.ask(request, blob.data, self._seconds(len(blob.data)))
            unpacked = Unpacked()
            for _ in range(_MOST_BATCHES):
                answer = process.answer(DESCRIPTIONS)
                if "members" not in answer:
                    return unpacked, answer
                listed = answer["members"]
                _add(unpacked, listed, process.frame(LARGEST + BATCH))
            raise ValueError("the list of members does not end")

        try:
            unpacked, answer = self._run(self._opening, ask)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise BadDocument(
                f"the archive's list of members is invalid ({error}); exclude the archive"
            ) from error
        _raise_problem(answer)
        return unpacked

    def stop(self) -> None:
        """Raise Stopped soon in every thread that waits for a document or for a process."""
        self._stopped.set()

    def close(self) -> None:
        """End all processes, including busy ones. Threads that wait for them get Stopped."""
        self.stop()
        with self._lock:
            running = tuple(self._running)
        for process in running:
            process.kill()
        for lane in (self._free, self._opening):
            for process in _idle(lane):
                self._end(process)

    def _end(self, process: Process) -> None:
        process.end()
        with self._lock:
            self._running.discard(process)

    def _seconds(self, size: int) -> float:
        """Return the limit of CPU seconds for opening a container of ``size`` bytes.

        The smallest containers get a twentieth of the limit for a document, and containers from 20 MB on all
        of it. The listing of a source waits meanwhile, and a small container that takes long is hostile.
        """
        return math.ceil(self._limits.seconds * min(1.0, _SMALLEST_SHARE + size / _FULL_SHARE))

    def _run(self, lane: _Lane, ask: Callable[[Process], T]) -> T:
        """Call ``ask`` with an idle process. Afterwards return the process to its queue, unless it has ended.

        ``lane``: the queue of the idle processes for this kind of work.
        """
        process = lane.get()
        kept = process
        try:
            if self._stopped.is_set():
                raise Stopped
            kept = None
            kept, result = self._ask_fresh(process, ask)
        finally:
            if kept is not None and self._stopped.is_set():
                self._end(kept)
                kept = None
            lane.put(kept)
        return result

    def _ask_fresh(self, process: Process | None, ask: Callable[[Process], T]) -> tuple[Process | None, T]:
        """Call ``ask`` with a process. If the process dies, call it again with a new process.

        An earlier document may be the cause of the death. Return the process if it can be used again, else
        None, and the result.
        """
        try:
            if process is not None:
                try:
                    return self._ask(process, ask)
                except Died as died:
                    if isinstance(died, TooSlow | Starved):
                        raise
            return self._ask(self._start(), ask)
        except Killed as killed:
            raise Defect(str(killed)) from None
        except TooSlow as slow:
            raise TookTooLong(str(slow)) from None
        except Starved as starved:
            raise TurnLost(str(starved)) from None
        except Died as died:
            raise BadDocument(str(died)) from None

    def _ask(self, process: Process, ask: Callable[[Process], T]) -> tuple[Process | None, T]:
        """Call ``ask`` with a process; start one if ``process`` is None.

        Return the process if it can be used again, else None, and the result.
        """
        try:
            result = ask(process)
        except BaseException:
            self._end(process)
            raise
        if not process.over:
            return process, result
        self._end(process)
        return None, result

    def _start(self) -> Process:
        process = Process(self._limits, self._stopped)
        with self._lock:
            self._running.add(process)
            first, self._layers = not self._layers, process.layers
        if first:
            weak = process.layers["landlock"] or process.layers["seccomp"]
            log.log(
                logging.WARNING if weak else logging.DEBUG,
                "isolation of the processes that parse: %s",
                describe(process.layers),
                extra=event("isolation", walls=describe(process.layers)),
            )
        return process


@dataclass(frozen=True, slots=True)
class Opener:
    """Opens containers in a confined process.

    ``limits``: the limits of the processes as text. If they change, containers that exceeded them are opened
    again.
    """

    _open: Callable[[Blob, bool], Unpacked | None]
    limits: str

    def __call__(self, blob: Blob, archives: bool) -> Unpacked | None:
        """Unpack an archive, mailbox or mail, together with the containers in it.

        Return None if the blob cannot have members. ``archives``: whether archives are opened; if not, only
        mails are. Raises the errors of ``Isolation.parse``, and OSError.
        """
        return self._open(blob, archives)


def pack_options(options: Options) -> str:
    """Return a parser's options as JSON.

    Unlike pydantic's JSON it contains the secrets, since a parser may need its password.
    """

    def plain(value: object) -> object:
        return value.get_secret_value() if isinstance(value, SecretStr) else to_jsonable_python(value)

    return json.dumps(options.model_dump(), default=plain)


class Isolated:
    """A proxy for a parser that runs in a confined process."""

    def __init__(self, kind: str, options: Options, isolation: Isolation) -> None:
        self._kind, self._options, self._isolation = kind, options, isolation

    def parse(self, blob: Blob) -> Document:
        """Parse a blob in a confined process. Raises the errors of ``Isolation.parse``."""
        return self._isolation.parse(self._kind, self._options, blob)


class IsolatedIfLarge:
    """A parser that runs in a confined process, unless the content is so small that it can do no harm."""

    def __init__(self, here: Parser, elsewhere: Isolated) -> None:
        self._here, self._elsewhere = here, elsewhere

    def parse(self, blob: Blob) -> Document:
        """Parse a blob. Raises the errors of ``Isolation.parse``."""
        parser: Parser = self._here if len(blob.data) <= _HARMLESS else self._elsewhere
        return parser.parse(blob)


def _lane(processes: int) -> _Lane:
    """Return a queue of idle processes, from which the one used last is taken first.

    At the beginning it has a None for each process, in place of a process that is not started yet.
    """
    lane: _Lane = LifoQueue(processes)
    for _ in range(processes):
        lane.put(None)
    return lane


def _idle(lane: _Lane) -> Iterator[Process]:
    """Remove the idle processes from a queue, and yield them."""
    for _ in range(lane.maxsize):
        try:
            process = lane.get_nowait()
        except Empty:
            return
        if process is not None:
            yield process


def _add(unpacked: Unpacked, listed: list[list[Any]], content: bytes) -> None:
    """Add members of a container with their bytes. If a container inside it is broken, its members are
    dropped again.

    ``listed``: the rows that the process sent. A row has the fields of a member, or name and reason of a
    broken container, which follows the members that were read from it. ``content``: the bytes of all members.
    """
    members: list[Member] = []
    rest = memoryview(content)
    for row in listed:
        if len(row) != 2:
            members.append(_member(*row))
            continue
        rest = _take_members(unpacked, members, rest)
        unpacked.drop(str(row[0]), str(row[1]))
        members = []
    if _take_members(unpacked, members, rest):
        raise ValueError("holds members with more bytes than its directory lists")


def _take_members(unpacked: Unpacked, members: list[Member], content: memoryview) -> memoryview:
    """Add members with their bytes, which are at the beginning of ``content``.

    Return the rest of the content.
    """
    size = sum(member.size for member in members if not member.problem)
    unpacked.add(members, content[: max(size, 0)])
    return content[max(size, 0) :]


def _member(
    name: Any, version: Any, size: Any, modified: Any, kind: Any, problem: Any, opened: Any
) -> Member:
    """Build a member from fields that the process sent. Fields of a wrong type are converted or refused."""
    kind, problem = (None if value is None else str(value) for value in (kind, problem))
    time = None if modified is None else float(modified)
    return Member(str(name), str(version), int(size), time, kind, problem, bool(opened))


def _raise_problem(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of a process. If it reports an error, raise that error."""
    if "bad" in answer:
        raise BadDocument(str(answer["bad"]))
    if "defect" in answer:
        defect = Defect(str(answer["defect"]))
        defect.add_note(str(answer["trace"]))
        raise defect
    return answer
