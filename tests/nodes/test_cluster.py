"""What a connection to Ray makes of its errors and its silence, by a Ray that is made up."""

import logging
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from ingestor.config.workers import Workers
from ingestor.core.errors import Stopped
from ingestor.nodes import cluster as module
from ingestor.nodes.cluster import RayCluster, RayModels, Room
from ingestor.nodes.deaths import ProcessLost
from ingestor.nodes.messages import Mismatch, Started, pack
from ingestor.ports import NeedsHuman, Transient
from tests.nodes import shop
from tests.nodes.laws import outcomes, pooled


class RayError(Exception):
    pass


RayTaskError, WorkerCrashedError, NodeDiedError, OutOfMemoryError = (
    type(name, (RayError,), {})
    for name in ("RayTaskError", "WorkerCrashedError", "NodeDiedError", "OutOfMemoryError")
)


class ActorDiedError(RayError):
    actor_init_failed = False


class CreationFailed(ActorDiedError):
    actor_init_failed = True


class MadeUpRay:
    """As much of Ray as a cluster needs. ``answer``: of every call, by what it was called with."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self, answer: Callable[[tuple[Any, ...]], Any]) -> None:
        self._answer, self.killed, self.options = answer, list[object](), list[dict[str, Any]]()

    def remote(self, what: object) -> Any:
        def options(**given: Any) -> Any:
            self.options.append(given)
            return SimpleNamespace(remote=lambda *arguments: actor)

        def method(name: str) -> Any:
            return SimpleNamespace(remote=lambda *arguments: (name, *arguments))

        methods = ("ask", "question", "reply", "forget", "start", "embed")
        actor = SimpleNamespace(**{name: method(name) for name in methods})
        return SimpleNamespace(options=options)

    def wait(self, awaited: Sequence[Any], num_returns: int, timeout: float) -> Any:
        return awaited[:1], awaited[1:]

    def get(self, awaited: Any) -> Any:
        answer = self._answer(awaited)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def nodes(self) -> list[dict[str, Any]]:
        return [{"NodeID": node, "Alive": True, "Resources": {"CPU": 1.0}} for node in ("a", "b")]

    def kill(self, actor: object, no_restart: bool) -> None:
        self.killed.append(actor)


def cluster(answer: Callable[[tuple[Any, ...]], Any]) -> tuple[RayCluster, MadeUpRay]:
    ray = MadeUpRay(answer)
    return RayCluster(ray, Workers(kind="ray")), ray


def models(found: RayCluster) -> RayModels:
    return RayModels(found, Workers(kind="ray"), shop.embedder_of, shop.setup("sentence"))


@pytest.mark.parametrize(
    ("error", "node", "cause"),
    [
        (WorkerCrashedError("died"), "a", "crash"),
        (WorkerCrashedError("died"), "", "start"),
        (ActorDiedError("its worker process has died"), "a", "crash"),
        (ActorDiedError("because its node has died"), "a", "node"),
        (NodeDiedError("dead or unavailable"), "a", "node"),
        (NodeDiedError("dead or unavailable"), "", "node"),
        (RayError("unavailable"), "a", "node"),
        (OutOfMemoryError("killed"), "a", "memory"),
        (ActorDiedError("The node was running low on memory"), "a", "memory"),
    ],
)
def test_error_of_ray_names_the_cause_of_a_death(error: Exception, node: str, cause: str) -> None:
    found, _ = cluster(lambda call: error)
    with pytest.raises(ProcessLost) as lost:
        found.get("call", node)
    assert lost.value.cause == cause


@pytest.mark.parametrize("error", [RayTaskError, CreationFailed])
def test_process_whose_code_cannot_run_makes_documents_wait(error: type[Exception]) -> None:
    found, _ = cluster(lambda call: error("no module named wiki"))
    with pytest.raises(Transient, match="no module named wiki"):
        found.get("call", "")


def test_lack_of_room_is_logged_once_until_a_process_starts(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PATIENCE", -1)
    room = Room(1.0)

    def want() -> int:
        caplog.clear()
        with pooled(16) as pool:
            for number in range(16):
                pool.submit(number, lambda: room.report_lack(0.0))
            assert not [each.error for each in outcomes(pool, 16) if each.error]
        return caplog.text.count("no node had room for a process of 1 CPUs")

    with caplog.at_level(logging.WARNING):
        assert want() == 1
        assert want() == 0
        room.enter()
        assert want() == 0, "one is at work"
        room.leave()
        assert want() == 1


def test_model_lost_at_its_start_starts_again() -> None:
    starts = iter([ActorDiedError("killed"), pack(Started("a", "a"))])
    found, ray = cluster(lambda call: next(starts) if call[0] == "start" else b"vectors")
    processes = models(found)
    with pytest.raises(ProcessLost, match="while it started"):
        processes.embed(b"")
    assert len(ray.killed) == 1
    assert processes.embed(b"") == b"vectors"


def test_model_lost_at_work_is_replaced() -> None:
    answers = {
        "start": iter([pack(Started("a", "a"))] * 2),
        "embed": iter([WorkerCrashedError(), b"vectors"]),
    }
    found, _ = cluster(lambda call: next(answers[call[0]]))
    processes = models(found)
    with pytest.raises(ProcessLost):
        processes.embed(b"")
    assert processes.embed(b"") == b"vectors"


def test_idle_model_ends_and_starts_again_when_texts_come() -> None:
    found, ray = cluster(lambda call: pack(Started("a", "a")) if call[0] == "start" else b"vectors")
    processes = models(found)
    processes.embed(b"")
    processes._idle.function()
    assert len(ray.killed) == 1
    assert processes.embed(b"") == b"vectors"


def test_refused_nodes_are_avoided_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    starts = iter([pack(Mismatch(node, node, "no plugin `wiki`")) for node in ("a", "a", "b")])
    found, ray = cluster(lambda call: next(starts))
    with pytest.raises(NeedsHuman, match="node b: no plugin `wiki`"):
        models(found).embed(b"")
    assert caplog.text.count("node a: no plugin `wiki`; no more work is sent to this node") == 1
    assert [each.get("label_selector") for each in ray.options[1:]] == [
        None, {"ray.io/node-id": "!in(a)"}, {"ray.io/node-id": "!in(a)"}
    ]  # fmt: skip


def test_stop_ends_every_wait() -> None:
    found, _ = cluster(lambda call: b"")
    found.stop()
    with pytest.raises(Stopped):
        found.first_of("call")
    with pytest.raises(Stopped):
        models(found).embed(b"")
