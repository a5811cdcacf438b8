"""Connection to a Ray cluster. Each document is a task of Ray, and each embedding process is an actor.

No other module imports Ray. Ray queues tasks until a node has room, and reuses the processes that it starts.
An autoscaler counts waiting tasks as demand. A task that waits for vectors releases its CPUs, and an
embedding process reserves no CPU unless the config sets that. So a single CPU can prepare and embed. Tasks
are never named after documents, because Ray's dashboard shows their names.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from time import monotonic
from typing import Any

from ingestor.config.workers import Workers
from ingestor.core.errors import Stopped
from ingestor.core.events import event
from ingestor.nodes.deaths import ProcessLost
from ingestor.nodes.messages import Mismatch, Started, unpack
from ingestor.nodes.setup import EmbedderOf, Setup, ToolsOf
from ingestor.nodes.work import EmbeddingProcess, check_setups, prepare_document
from ingestor.ports import NeedsHuman, Transient

log = logging.getLogger("ingestor")

IDLE = 60.0  # seconds without work after which an embedding process ends
_TICK = 1.0  # seconds until a waiting thread notices the stop
_CONNECT = 10.0  # seconds; Ray itself would wait for minutes without a message
_PATIENCE = 60.0  # seconds until the lack of room is logged
_MESSAGES = 10_000  # calls of the relay at the same time
_GO, _END = b"go", b"end"  # replies to a task that may start, and to a cancelled one
_MISSING = "workers.kind is ray, but the package ray is not installed: pip install 'chroma-ingestor[ray]'"


class Relay:
    """Actor that passes messages between tasks and the daemon. It runs beside the head of the Ray cluster.

    A task sends a message to the daemon, such as a request for vectors, and waits for the reply. ``number``
    identifies the document of the task.
    """

    def __init__(self) -> None:
        self._questions = defaultdict[int, asyncio.Queue[bytes]](asyncio.Queue)
        self._replies = defaultdict[int, asyncio.Queue[bytes]](asyncio.Queue)
        self._abandoned = set[int]()

    async def ask(self, number: int, question: bytes) -> bytes:
        if number in self._abandoned:
            return _END
        self._questions[number].put_nowait(question)
        return await self._replies[number].get()

    async def question(self, number: int) -> bytes:
        return await self._questions[number].get()

    async def reply(self, number: int, reply: bytes) -> None:
        self._replies[number].put_nowait(reply)

    async def forget(self, number: int, finished: bool) -> None:
        """Delete the messages about a document, and end every wait for such a message.

        ``finished``: whether the task has ended. If not, later messages of the task are answered with its
        end.
        """
        if not finished:
            self._abandoned.add(number)
        self._questions.pop(number, asyncio.Queue[bytes]()).put_nowait(_END)
        self._replies.pop(number, asyncio.Queue[bytes]()).put_nowait(_END)


def _here() -> Started:
    """Return the report that this process has started, which names its node."""
    import ray

    node_id = ray.get_runtime_context().get_node_id()
    return Started(node_id, f"{socket.gethostname()} ({node_id[:8]})")


def _prepare(relay: Any, number: int, tools_of: ToolsOf, setup: Setup, task: bytes) -> bytes:
    """Prepare a document on a node. Ray calls this function as a task (see ``prepare_document``)."""
    import ray

    def ask(question: bytes) -> bytes:
        try:
            reply: bytes = ray.get(relay.ask.remote(number, question))
        except ray.exceptions.RayError:
            raise Transient("the node cannot reach the daemon") from None
        if reply == _END:
            raise Stopped
        return reply

    return prepare_document(tools_of, setup, task, ask, _here())


class Room:
    """The CPUs and GPUs that a process of one kind needs, and whether nodes have room for such processes.

    ``enter`` and ``leave`` count the processes at work. A lack of room is logged once, and again only after a
    process could start meanwhile.
    """

    def __init__(self, cpus: float, gpus: float = 0.0) -> None:
        self.cpus, self.gpus = cpus, gpus
        self._lock = threading.Lock()
        self._at_work, self._since, self._reported = 0, monotonic(), False

    def enter(self) -> None:
        with self._lock:
            self._at_work, self._reported = self._at_work + 1, False

    def leave(self) -> None:
        with self._lock:
            self._at_work, self._since = self._at_work - 1, monotonic()

    def report_lack(self, since: float) -> None:
        """Log that no node has room for a process, if none of this kind has worked for a minute.

        ``since``: monotonic seconds at which the caller began to wait.
        """
        with self._lock:
            short = not self._at_work and monotonic() - max(since, self._since) > _PATIENCE
            report, self._reported = short and not self._reported, short or self._reported
        if report:
            log.warning(
                "no node had room for a process of %g CPUs and %g GPUs for %d "
                "s; add nodes, or lower `workers.cpus`",
                self.cpus, self.gpus, _PATIENCE, extra=event("node"),
            )  # fmt: skip


class RayDocument:
    """A document that is being prepared on a node, or waits in Ray's queue. For use by one thread.

    The caller reads messages of the process by ``next``, up to the outcome. It answers Started by ``start``,
    and requests for vectors by ``reply``.
    """

    def __init__(self, cluster: "RayCluster", number: int, result: Any) -> None:
        self._cluster, self._number, self._result = cluster, number, result
        self._since, self._finished, self.node = monotonic(), False, ""

    def next(self) -> bytes:
        """Wait for the next message of the document's process, and return the packed message.

        Raises ProcessLost, Transient and Stopped.
        """
        cluster = self._cluster
        question = cluster.relay.question.remote(self._number)
        while not (ready := cluster.first_of(question, self._result)):
            if not self.node:
                cluster.room.report_lack(self._since)
        self._finished = question not in ready
        try:
            return cluster.get(ready[0], self.node)
        except ProcessLost:
            if self.node or not self._finished or not cluster.first_of(question):
                raise
        return cluster.get(question, "")  # the process ended just after its start was reported

    def start(self, started: Started) -> None:
        """Allow the process to prepare the document, and note the node on which it runs."""
        self.node = started.node
        self._cluster.room.enter()
        self.reply(_GO)

    def reply(self, packed: bytes) -> None:
        self._cluster.relay.reply.remote(self._number, packed)

    def close(self) -> None:
        """Cancel the document if it is not finished: its process ends when it sends its next message.

        ``ray.cancel`` is not used: Ray 2.60 crashes the daemon if the task's result arrives meanwhile.
        """
        if self.node:
            self._cluster.room.leave()
        with contextlib.suppress(Exception):
            self._cluster.relay.forget.remote(self._number, self._finished)


@dataclass(eq=False, slots=True)
class _Process:
    """An embedding process on a node. ``started``: Ray's future of the report that the process has started.

    ``node``: name of the node; "" until the report has arrived.
    """

    actor: Any
    started: Any
    node: str = ""
    busy: bool = False


class RayModels:
    """Processes on nodes that embed texts with one model. Any thread may call.

    There are as many processes as parallel calls, if nodes have room. A process ends after a minute without
    work. If the config reserves no resources for them, Ray starts a process where a CPU is free, and reserves
    no CPU afterwards.
    """

    def __init__(
        self, cluster: "RayCluster", workers: Workers, embedder_of: EmbedderOf, setup: Setup
    ) -> None:
        self._cluster, self._arguments = cluster, (embedder_of, setup, _here)
        self._room = Room(workers.embedder_cpus, workers.embedder_gpus)
        self._kind, self._lock = cluster.ray.remote(EmbeddingProcess), threading.Lock()
        self._processes: list[_Process] = []
        self._idle = threading.Timer(0, self._end_idle)

    def embed(self, texts: bytes) -> bytes:
        """Embed packed texts in a process. Return packed vectors, or a packed FailedCall.

        Raises ProcessLost, NeedsHuman, Transient and Stopped.
        """
        process = self._take()
        try:
            return self._cluster.get(process.actor.embed.remote(texts), process.node)
        except ProcessLost:
            self._end(process)
            raise
        finally:
            with self._lock:
                process.busy = False
                self._idle.cancel()
                self._idle = threading.Timer(IDLE, self._end_idle)
                self._idle.daemon = True
                self._idle.start()

    def _take(self) -> _Process:
        """Return a process that has no work, marked as busy. If there is none, start one, and wait for it."""
        since = monotonic()
        while True:
            with self._lock:
                free = [process for process in self._processes if not process.busy]
                if ready := [process for process in free if process.node]:
                    ready[0].busy = True
                    return ready[0]
                coming = free or [self._new()]
            if not (started := self._cluster.first_of(*(process.started for process in coming))):
                self._room.report_lack(since)
                continue
            process = next(each for each in coming if each.started == started[0])
            try:
                answer = unpack(self._cluster.get(process.started, ""))
            except ProcessLost:
                self._end(process)
                raise
            if isinstance(answer, Started):
                with self._lock:
                    if not process.node:
                        self._room.enter()
                    process.node = answer.node
                continue
            self._end(process)
            error = self._cluster.refuse(answer) if isinstance(answer, Mismatch) else answer.error
            if error is not None:
                raise error

    def _new(self) -> _Process:
        """Have Ray start another process. The caller must hold the lock."""
        reserved = {"num_cpus": self._room.cpus, "num_gpus": self._room.gpus}
        options = self._cluster.options(max_restarts=0, **(reserved if any(reserved.values()) else {}))
        actor = self._kind.options(**options).remote(*self._arguments)
        self._processes.append(_Process(actor, actor.start.remote()))
        return self._processes[-1]

    def _end(self, *ended: _Process) -> None:
        with self._lock:
            self._processes = [each for each in self._processes if each not in ended]
        for process in ended:
            if process.node:
                self._room.leave()
            with contextlib.suppress(Exception):
                self._cluster.ray.kill(process.actor, no_restart=True)

    def _end_idle(self) -> None:
        self._end(*[process for process in self._processes if not process.busy])


class RayCluster:
    """Connection to a Ray cluster. Any thread may call. ``ray``: the imported package."""

    def __init__(self, ray: Any, workers: Workers) -> None:
        self.ray = ray
        self.room = Room(workers.cpus)
        self._stopped = threading.Event()
        self._numbers = count()
        self._refused: dict[str, str] = {}  # by node id: reason why the node gets no work
        self._prepare, self._check = ray.remote(_prepare), ray.remote(check_setups)
        beside = {"resources": {"node:__internal_head__": 0.001}, "num_cpus": 0, "max_restarts": -1}
        self.relay = ray.remote(Relay).options(max_concurrency=_MESSAGES, **beside).remote()

    def stop(self) -> None:
        """Raise Stopped in every thread that waits for the cluster."""
        self._stopped.set()

    def first_of(self, *awaited: Any) -> Sequence[Any]:
        """Wait for one of several future values of Ray, for at most a second.

        Return a list with the value that arrived first; the list is empty if none arrived. Raises Stopped
        after ``stop``.
        """
        if self._stopped.is_set():
            raise Stopped
        ready: Sequence[Any] = self.ray.wait(list(awaited), num_returns=1, timeout=_TICK)[0]
        return ready

    def get(self, awaited: Any, node: str) -> bytes:
        """Wait for a future value of Ray, and return it.

        ``node``: name of the node on which its process runs; "" if it has not started. Raises Stopped,
        ProcessLost, and Transient if the node lacks a package or file that the process needs.
        """
        try:
            while not self.first_of(awaited):
                pass
            packed: bytes = self.ray.get(awaited)
        except self.ray.exceptions.RayTaskError as error:
            raise Transient(f"a process failed on a node, will be retried: {_short(error)}") from None
        except self.ray.exceptions.RayError as error:
            if getattr(error, "actor_init_failed", False):
                raise Transient(
                    f"a process did not start on a node, will be retried: {_short(error)}"
                ) from None
            raise _loss(error, node) from None
        return packed

    def prepare(self, tools_of: ToolsOf, setup: Setup, task: bytes, *, again: bool) -> RayDocument:
        """Have Ray prepare a document, as soon as a node has room. ``task``: the packed task.

        ``again``: whether the task was lost before. Ray then spreads tasks over nodes, so that the task
        rarely returns to the node that lost it.
        """
        options = self.options(num_cpus=self.room.cpus, max_retries=0, name="PreparingProcess")
        if again:
            options["scheduling_strategy"] = "SPREAD"
        number = next(self._numbers)
        result = self._prepare.options(**options).remote(self.relay, number, tools_of, setup, task)
        return RayDocument(self, number, result)

    def options(self, **options: Any) -> dict[str, Any]:
        """Return options for a task or actor of Ray, extended so that no refused node gets it."""
        if self._refused:
            options["label_selector"] = {"ray.io/node-id": f"!in({','.join(sorted(self._refused))})"}
        return options

    def refuse(self, refused: Mismatch) -> NeedsHuman | None:
        """Give no more work to a node that cannot build the tools, and log why.

        Return an error if no other node is large enough to prepare documents.
        """
        problem = f"node {refused.node}: {refused.problem}"
        if self._refused.setdefault(refused.node_id, problem) is problem:
            log.error("%s; no more work is sent to this node", problem, extra=event("node"))
        return None if self._nodes() else NeedsHuman(problem)

    def _nodes(self) -> list[str]:
        """Return the ids of living nodes that are not refused and have enough CPUs to prepare documents."""
        living = [(each["NodeID"], each["Resources"]) for each in self.ray.nodes() if each["Alive"]]
        large = [node for node, has in living if has.get("CPU", 0.0) >= self.room.cpus]
        return [node for node in large if node not in self._refused]

    def check(self, tools_of: ToolsOf, setups: Sequence[Setup]) -> list[str]:
        """Build the tools of all setups on every node. Return a message for each node that cannot build them.

        If a process is lost, Ray repeats the check twice. A node that loses all these processes is checked
        when it first gets work.
        """
        strategy = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        checks = {
            node: self._check.options(
                num_cpus=0, max_retries=2, scheduling_strategy=strategy(node, soft=False)
            ).remote(tools_of, list(setups))
            for node in self._nodes()
        }
        problems = list[str]()
        for node, check in checks.items():
            try:
                while not self.first_of(check):
                    pass
                problem: str | None = self.ray.get(check)
            except self.ray.exceptions.RayTaskError as error:
                problem = f"a process failed on this node: {_short(error)}"
            except self.ray.exceptions.RayError as error:
                log.warning(
                    "node %s: its processes ended while starting (%s); it is checked when it next gets work",
                    node[:8],
                    _short(error),
                    extra=event("node"),
                )
                continue
            problems += [f"node {node[:8]}: {problem}"] if problem else []
        return problems


def _loss(error: Exception, node: str) -> ProcessLost:
    """Convert an error of Ray to ProcessLost, with the cause for which the process ended.

    ``node``: name of the node; "" if the process had not started.
    """
    words, kind = str(error).lower(), type(error).__name__
    if kind == "OutOfMemoryError" or "node_out_of_memory" in words or "running low on memory" in words:
        return ProcessLost("memory", "the node ran out of memory", node)
    if kind not in ("WorkerCrashedError", "ActorDiedError") or "node has died" in words:
        return ProcessLost("node", "the node was lost", node)
    if not node:
        return ProcessLost("start", "the process ended while it started")
    return ProcessLost("crash", "the process crashed", node)


def _short(error: Exception) -> str:
    """Return the last line of an error of Ray: the lines above are a traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:500] if lines else type(error).__name__


@contextmanager
def connect(options: Workers) -> Iterator[RayCluster]:
    """Connect to the cluster until the context ends.

    Raises NeedsHuman if Ray is not installed, or the cluster cannot be reached.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    own: dict[str, Any] = {"runtime_env": options.runtime_env} if options.runtime_env else {}
    if options.address == "local":
        own["include_dashboard"] = False
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # Ray's switch for loopback alone
    main = threading.current_thread() is threading.main_thread()
    before, records = signal.getsignal(signal.SIGTERM), logging.getLogRecordFactory()
    try:
        ray = _join(options.address, own)
    finally:  # Ray replaces the handler of SIGTERM, and adds a field to every log line
        logging.setLogRecordFactory(records)
        if main and before is not None:
            signal.signal(signal.SIGTERM, before)
    cluster = RayCluster(ray, options)
    try:
        yield cluster
    finally:
        cluster.stop()
        ray.shutdown()


def require_answer(address: str) -> None:
    """Raise NeedsHuman if nothing listens at the host and port of an address.

    Ray itself would wait for minutes without a message. Other addresses, such as "auto", are not checked.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT).close()
    except OSError as error:
        reason = error.strerror or error
        raise NeedsHuman(
            f"no Ray cluster answers at {address} ({reason}): start it, or correct `workers.address`"
        ) from None


def _join(address: str, more: dict[str, Any]) -> Any:
    """Import Ray, connect to a cluster, and return the package.

    ``more``: further arguments for ``ray.init``. Raises NeedsHuman.
    """
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError:
        raise NeedsHuman(_MISSING) from None
    require_answer(address)

    def log_lines(data: Mapping[str, Any], *_: object, **__: object) -> None:
        for line in data["lines"]:
            log.info("Ray: %s", line, extra=event("node"))

    # Ray prints errors of nodes on standard output, which is for commands' answers; no option changes that.
    ray._private.worker.print_to_stdstream = log_lines
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False, **more)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise NeedsHuman(f"the Ray cluster at {address!r} cannot be used: {_short(error)}") from None
    return ray
