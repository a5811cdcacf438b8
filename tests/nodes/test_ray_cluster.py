"""What a connection to Ray reports of processes that wait, end or are dismissed, by a Ray that is made up."""

import logging
from collections.abc import Callable
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import pytest

from ingestor.nodes import ray_cluster
from ingestor.nodes.crew import Withdrawn
from ingestor.nodes.deaths import ProcessLost
from ingestor.nodes.ray_cluster import RayCluster, RayHand, Room
from ingestor.ports import Transient
from tests.nodes.laws import outcomes, pooled


class RayError(Exception):
    pass


class GetTimeoutError(RayError):
    pass


class RayTaskError(RayError):
    pass


class RayActorError(RayError):
    actor_init_failed = False


class Unused(RayError):
    pass


class CreationFailed(RayActorError):
    actor_init_failed = True


def ray(get: Callable[..., Any]) -> Any:
    """As much of Ray as a hiring needs; every question is answered by ``get``."""
    remote = SimpleNamespace(remote=lambda *arguments: None)
    options = SimpleNamespace(remote=lambda make: SimpleNamespace(about=remote, call=remote))
    exceptions = SimpleNamespace(
        RayError=RayError, GetTimeoutError=GetTimeoutError, RayTaskError=RayTaskError,
        RayActorError=RayActorError, ActorUnschedulableError=Unused, NodeDiedError=Unused,
        WorkerCrashedError=Unused, OutOfMemoryError=Unused,
    )  # fmt: skip
    return SimpleNamespace(
        exceptions=exceptions, get=get, kill=lambda actor, no_restart: None,
        remote=lambda shown: SimpleNamespace(options=lambda **given: options),
    )  # fmt: skip


def test_want_of_room_is_logged_once_for_all_processes(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_cluster, "_PATIENCE", -1)
    together = Barrier(16)

    def get(asked: object, timeout: float) -> Any:
        together.wait(60)
        raise GetTimeoutError

    cluster = RayCluster(ray(get))

    def hire() -> None:
        turns = iter(range(3))
        cluster.hire(dict, Room(1.0), None, lambda: next(turns, None) is not None)

    with caplog.at_level(logging.WARNING), pooled(16) as pool:
        for number in range(16):
            pool.submit(number, hire)
        found = outcomes(pool, 16)
    assert {type(each.error) for each in found} == {Withdrawn}
    assert caplog.text.count("no node has had room for a process of 1 CPUs") == 1


@pytest.mark.parametrize(("error", "outcome"), [(RayActorError, ProcessLost), (CreationFailed, Transient)])
def test_start_that_fails_is_lost_unless_its_code_raised(
    error: type[Exception], outcome: type[Exception]
) -> None:
    def get(asked: object, timeout: float) -> Any:
        raise error("no module named wiki")

    with pytest.raises(outcome, match="no module named wiki"):
        RayCluster(ray(get)).hire(dict, Room(1.0))


def dismissed(hand: RayHand) -> None:
    hand.dismiss()


def at_work_for_a_document(hand: RayHand) -> None:
    with pytest.raises(ProcessLost) as lost:
        hand.call("begin", b"")
    assert lost.value.death.cause == "crash"


@pytest.mark.parametrize("by_another_caller", [dismissed, at_work_for_a_document])
def test_process_ended_by_another_caller_is_no_crash_of_texts(
    monkeypatch: pytest.MonkeyPatch, by_another_caller: Callable[[RayHand], None]
) -> None:
    """The call for a document stands before the call for texts in the queue of the process."""
    calls = list[str]()

    def get(asked: object) -> Any:
        calls.append("")
        if len(calls) == 1:
            by_another_caller(hand)
        raise RayActorError

    monkeypatch.setattr(RayCluster, "_lives", lambda cluster, node: True)
    hand = RayHand(RayCluster(ray(get)), ray(get).remote(None).options().remote(None), "a", "a")
    with pytest.raises(ProcessLost) as lost:
        hand.call("embed", "model", b"")
    assert lost.value.death.cause == "node"


def test_texts_that_end_a_process_of_their_own_are_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([b"", RayActorError()])

    def get(asked: object) -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(RayCluster, "_lives", lambda cluster, node: True)
    hand = RayHand(RayCluster(ray(get)), ray(get).remote(None).options().remote(None), "a", "a")
    assert hand.call("learn", "model", b"", b"") == b""
    with pytest.raises(ProcessLost) as lost:
        hand.call("embed", "model", b"")
    assert lost.value.death.cause == "crash"
