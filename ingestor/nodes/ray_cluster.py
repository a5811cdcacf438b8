"""Ray: processes on nodes as its actors. Nothing else imports Ray.

Ray is imported when a config asks for it. It sends no figures of its use. No task has a name that tells of a
document.
"""

import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any

from ingestor.config.workers import Workers
from ingestor.core.events import event
from ingestor.core.interruptions import Stopped
from ingestor.nodes.crew import Withdrawn
from ingestor.nodes.deaths import Death, ProcessLost
from ingestor.nodes.facts import require_same, versions
from ingestor.ports import NeedsHuman, Transient

log = logging.getLogger("ingestor")

PROOF_OF_LIFE = 30.0  # seconds in which a node must answer, or it counts as lost
_TICK = 1.0  # seconds: how soon a hiring process notices the stop
_CONNECT = 10.0  # seconds; Ray itself would wait for minutes, and not say for what
_PATIENCE = 60.0  # seconds after which the log says that no node has room
_MISSING = "workers.kind is ray, but the package ray is not installed: pip install 'chroma-ingestor[ray]'"
_MEMORY = ("node_out_of_memory", "running low on memory")  # how Ray tells that it ended a process


class NodeProcess:
    """Process on a node that passes calls on to the object that ``make`` made."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._inner = make()

    def about(self) -> tuple[str, str, dict[str, str]]:
        """Return the node's id and name, and the versions that the process runs."""
        import ray

        return ray.get_runtime_context().get_node_id(), socket.gethostname(), versions()

    def call(self, method: str, arguments: Sequence[bytes | str]) -> bytes:
        answer: bytes = getattr(self._inner, method)(*arguments)
        return answer


class PreparingProcess(NodeProcess):
    """Ray shows processes by the names of their classes."""


class EmbeddingProcess(NodeProcess):
    """Process that embeds, under the class name that Ray shows."""


@dataclass(frozen=True, slots=True)
class Room:
    """Resources that a process takes of its node. ``shown``: class by whose name Ray shows the process."""

    cpus: float
    gpus: float = 0.0
    shown: type[NodeProcess] = PreparingProcess


class RayHand:
    """See crew.Hand."""

    def __init__(self, cluster: "RayCluster", actor: Any, node_id: str, node: str) -> None:
        self._cluster, self._actor, self.node_id, self.node = cluster, actor, node_id, node
        self._known: set[str] = set()
        self._dismissed = False
        self._preparing = False  # whether the process works at a document, or loads what it needs

    def call(self, method: str, *arguments: Any) -> bytes:
        embeds = method == "embed"
        self._preparing |= not embeds
        try:
            answer: bytes = self._cluster.ray.get(self._actor.call.remote(method, arguments))
        except self._cluster.ray.exceptions.RayTaskError:
            raise  # a defect of ours: what a document raises is an answer
        except self._cluster.ray.exceptions.RayError as error:
            if self._dismissed or (embeds and self._preparing):
                death = Death(self.node, "node", "the process ended in the work of another caller")
            else:
                death = self._cluster.death(self, error)
            self._end()
            raise ProcessLost(death) from None
        self._preparing &= embeds
        return answer

    def knows(self, setup: str) -> bool:
        known = setup in self._known
        self._known.add(setup)
        return known

    def dismiss(self) -> None:
        self._dismissed = True
        self._end()

    def _end(self) -> None:
        with contextlib.suppress(Exception):
            self._cluster.ray.kill(self._actor, no_restart=True)


class RayCluster:
    """A connection to a cluster. Threads share it."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray
        self._stopped = threading.Event()
        self._refused: dict[str, str] = {}  # node ids, and why they get no work
        self._short: dict[Room, object] = {}  # rooms whose want is logged until a process gets such a room

    def stop(self) -> None:
        """Hiring ends, and the deaths that follow are told as such at once."""
        self._stopped.set()

    def nodes(self, room: Room) -> Sequence[str]:
        """Ids of living nodes, not refused, that are large enough for such a process.

        A head is often given no CPUs.
        """
        living = [(each["NodeID"], each["Resources"]) for each in self.ray.nodes() if each["Alive"]]
        wanted = {"CPU": room.cpus, "GPU": room.gpus}
        large = [n for n, has in living if all(has.get(name, 0.0) >= some for name, some in wanted.items())]
        return [node for node in large if node not in self._refused]

    def hire(
        self,
        make: Callable[[], Any],
        room: Room,
        node: str | None = None,
        wanted: Callable[[], bool] = lambda: True,
        *,
        spread: bool = False,
    ) -> RayHand:
        """A new process, once a node has room for it; on that ``node`` only, if one is given.

        Raises NeedsHuman if it runs other versions than this one; ProcessLost if it ends while it starts, and
        Transient if it cannot start; Stopped after ``stop``; Withdrawn if it is no longer ``wanted`` before
        there was room. ``spread``: prefer a node without such processes.
        """
        options: dict[str, Any] = {"num_cpus": room.cpus, "num_gpus": room.gpus, "max_restarts": 0}
        if node is not None:
            affinity = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
            options["scheduling_strategy"] = affinity(node, soft=False)
        elif spread:
            options["scheduling_strategy"] = "SPREAD"
        if node is None and self._refused:
            options["label_selector"] = {"ray.io/node-id": f"!in({','.join(sorted(self._refused))})"}
        actor = self.ray.remote(room.shown).options(**options).remote(make)
        try:
            node_id, host, theirs = self._began(actor, room, wanted)
            hand = RayHand(self, actor, node_id, _name(host, node_id))
            self.require(hand, lambda: require_same(versions(), theirs, "install the same on every node"))
        except BaseException:
            with contextlib.suppress(Exception):
                self.ray.kill(actor, no_restart=True)
            raise
        return hand

    def require(self, hand: RayHand, check: Callable[[], None]) -> None:
        """Run a check of this process. If it fails, its node gets no work any more.

        Raises NeedsHuman that names the node.
        """
        try:
            check()
        except NeedsHuman as error:
            problem = f"node {hand.node}: {error}"
            if self._refused.setdefault(hand.node_id, problem) is problem:
                log.error("%s; the node gets no more work", problem, extra=event("node"))
            raise NeedsHuman(problem) from None

    def death(self, hand: RayHand, error: Exception) -> Death:
        """Return the cause of a process's end: a crash, the loss of its node, or lack of memory."""
        words = str(error).lower()
        if any(word in words for word in _MEMORY):
            return Death(hand.node, "memory", "the node ran out of memory")
        if not self._lives(hand.node_id):
            return Death(hand.node, "node", "the node was lost")
        return Death(hand.node, "crash", "the process crashed")

    def _lives(self, node: str) -> bool:
        """Whether a node proves its life: it runs a task that was sent after the death."""
        if self._stopped.is_set():
            return False
        affinity = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
        proof = self.ray.remote(_alive).options(num_cpus=0, max_retries=0, scheduling_strategy=affinity)
        try:
            self.ray.get(proof.remote(), timeout=PROOF_OF_LIFE)
        except self.ray.exceptions.RayError:
            return False
        return True

    def _began(self, actor: Any, room: Room, wanted: Callable[[], bool]) -> Any:
        asked, since, reported = actor.about.remote(), monotonic(), False
        while not self._stopped.is_set():
            try:
                began = self.ray.get(asked, timeout=_TICK)
            except self.ray.exceptions.GetTimeoutError:
                if not wanted():
                    raise Withdrawn from None
                if not reported and monotonic() - since > _PATIENCE:
                    reported = True
                    if self._short.setdefault(room, actor) is actor:
                        log.warning(
                            "no node has had room for a process of %g CPUs and %g GPUs for %d seconds",
                            room.cpus, room.gpus, _PATIENCE, extra=event("node"),
                        )  # fmt: skip
            except self.ray.exceptions.RayError as error:
                if isinstance(error, self._losses()) and not getattr(error, "actor_init_failed", False):
                    raise ProcessLost(Death("a node", "crash", _short(error))) from None
                raise Transient(f"a process did not start on a node: {_short(error)}") from None
            else:
                self._short.pop(room, None)
                return began
        raise Stopped

    def _losses(self) -> tuple[type[Exception], ...]:
        """Return Ray's errors that name a lost process or node, and no defect of what was to run."""
        errors = self.ray.exceptions
        return (
            errors.RayActorError, errors.ActorUnschedulableError, errors.NodeDiedError,
            errors.WorkerCrashedError, errors.OutOfMemoryError,
        )  # fmt: skip


def _alive() -> bool:
    return True


def _short(error: Exception) -> str:
    """Return the last line of an error, which says most."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:500] if lines else type(error).__name__


def _name(host: str, node: str) -> str:
    return f"{host} ({node[:8]})"


@contextmanager
def connect(options: Workers) -> Iterator[RayCluster]:
    """The cluster, until the context ends. Raises NeedsHuman when there is no Ray, or no such cluster."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    own: dict[str, Any] = {"runtime_env": options.runtime_env} if options.runtime_env else {}
    if options.address == "local":
        own["include_dashboard"] = False
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # Ray's switch for loopback alone
    with _ours_kept():
        ray = _join(options.address, own)
    cluster = RayCluster(ray)
    try:
        yield cluster
    finally:
        cluster.stop()
        ray.shutdown()


def require_answer(address: str) -> None:
    """Raises NeedsHuman if nothing listens at the host and port of an address, where it names them."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT).close()
    except OSError as error:
        reason = error.strerror or error
        raise NeedsHuman(
            f"no Ray cluster answers at {address} ({reason}): start it, or change workers.address"
        ) from None


def _join(address: str, more: dict[str, Any]) -> Any:
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError:
        raise NeedsHuman(_MISSING) from None
    require_answer(address)
    _log_errors_of(ray)
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False, **more)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise NeedsHuman(f"the Ray cluster at {address!r} cannot be used: {_short(error)}") from None
    return ray


def _log_errors_of(ray: Any) -> None:
    """Ray prints errors of nodes on standard output, where commands answer, and has no option against it."""

    def tell(data: Mapping[str, Any], *_: object, **__: object) -> None:
        for line in data["lines"]:
            log.info("Ray: %s", line, extra=event("node"))

    ray._private.worker.print_to_stdstream = tell


@contextmanager
def _ours_kept() -> Iterator[None]:
    """Ray takes SIGTERM for itself, and adds a field to every line of the log: both are put back."""
    main = threading.current_thread() is threading.main_thread()
    before, records = signal.getsignal(signal.SIGTERM), logging.getLogRecordFactory()
    try:
        yield
    finally:
        logging.setLogRecordFactory(records)
        if main and before is not None:
            signal.signal(signal.SIGTERM, before)
