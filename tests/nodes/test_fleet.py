"""Processes that prepare and processes that embed, where there is not room for all."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from threading import Event, Semaphore
from time import monotonic
from typing import Any

import numpy as np
import pytest

from ingestor.config.workers import Workers
from ingestor.core.entries import EditionName
from ingestor.core.interruptions import Stopped
from ingestor.engine.workers import Outcome
from ingestor.model import Fingerprint, Vectors
from ingestor.nodes import crew as crews
from ingestor.nodes import embedding
from ingestor.nodes import fleet as fleets
from ingestor.nodes.crew import Crew, Hand, NoRoom, Withdrawn
from ingestor.nodes.deaths import Death, ProcessLost
from ingestor.nodes.facts import MODEL, recipes_of
from ingestor.nodes.fleet import Fleet
from ingestor.nodes.preparing import Setup
from ingestor.nodes.ray_cluster import EmbeddingProcess, Room
from ingestor.pipeline.prepare import Job, Tools
from ingestor.ports import NeedsHuman, Stop, Transient
from tests.nodes import shop
from tests.nodes.laws import nobody, outcomes, pooled
from tests.waiting import LONG, wait


class Process:
    """What ``make`` made, in one of the rooms of a cluster."""

    node = node_id = "here"

    def __init__(self, inner: Any, leave: Callable[[], None]) -> None:
        self._inner, self._leave = inner, leave
        self._known, self._gone = set[str](), Event()

    def call(self, method: str, *arguments: object) -> bytes:
        if self._gone.is_set():
            raise ProcessLost(Death(self.node, "node", "the node was lost"))
        answer: bytes = getattr(self._inner, method)(*arguments)
        return answer

    def knows(self, setup: str) -> bool:
        known = setup in self._known
        self._known.add(setup)
        return known

    def dismiss(self) -> None:
        if not self._gone.is_set():
            self._gone.set()
            self._leave()

    def lose(self) -> None:
        """With its room."""
        self._gone.set()


class SmallCluster:
    """As much of a RayCluster as a fleet needs. ``rooms``: processes that it takes, of any kind."""

    def __init__(self, rooms: int) -> None:
        self._rooms, self._stopped = Semaphore(rooms), Event()
        self.embedding: list[Process] = []

    def hire(
        self,
        make: Callable[[], Any],
        room: Room,
        node: str | None,
        wanted: Callable[[], bool],
        *,
        spread: bool,
    ) -> Process:
        del spread
        while not self._rooms.acquire(timeout=0.05):
            if self._stopped.is_set():
                raise Stopped
            if not wanted():
                raise Withdrawn
        made = Process(make(), self._rooms.release)
        self.embedding += [made] if room.shown is EmbeddingProcess else []
        return made

    def require(self, hand: Process, check: Callable[[], None]) -> None:
        check()

    def nodes(self, room: Room) -> Sequence[str]:
        return ()

    def stop(self) -> None:
        self._stopped.set()


def vectors_of(embedder: Any, texts: Sequence[str]) -> Vectors:
    answers = embedder.embed_each(texts, Stop()).vectors
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return np.array(answers)


@contextmanager
def fleet_in(cluster: SmallCluster, count: int, gpus: int = 0) -> Iterator[Callable[[int], list[Outcome]]]:
    """Prepares so many documents on its processes."""
    workers = Workers(kind="ray", count=count, embedder_gpus=gpus)
    fleet = Fleet(cluster, workers, shop.tools_of, shop.embedder_of)  # type: ignore[arg-type]
    embedder: Any = fleet.embedder(shop.embedder_of(b"")[0], Setup("hashing", b"", {MODEL: "hashing"}))

    def run(number: int) -> list[Outcome]:
        texts = shop.Texts({f"{each}.txt": f"{shop.TEXT} {each}" for each in range(number)})
        tools = replace(shop.tools("sentence", texts), embed=partial(vectors_of, embedder))
        fleet.know(shop.entry("0.txt").feed, tools, shop.setup("sentence"))
        fleet.adopt_setups()
        with pooled(count) as pool:
            for each, key in enumerate(texts.texts):
                pool.submit(key, partial(fleet.preparing, Job(shop.entry(key, each)), tools, nobody))
            return outcomes(pool, number)

    try:
        yield run
    finally:
        fleet.stop()


def test_processes_that_prepare_leave_room_for_one_that_embeds() -> None:
    """Else all of them wait for vectors, and for ever."""
    with fleet_in(SmallCluster(2), count=4) as run:
        found = run(8)
    assert len(found) == 8
    assert not [each.error for each in found if each.error]


def test_lost_last_embedding_process_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents wait meanwhile as after other errors: processes that prepare have no GPU."""
    monkeypatch.setattr(embedding, "PATIENCE", 0.2)
    monkeypatch.setattr(crews, "BORROW", 0.1)
    cluster = SmallCluster(3)
    with fleet_in(cluster, count=4, gpus=1) as run:
        assert len(run(4)) == 4
        cluster.embedding[-1].lose()
        errors = [each.error for each in run(8) if each.error]
        assert {type(error) for error in errors} <= {NoRoom}
        again = run(8)
    assert len(again) == 8
    assert not [each.error for each in again if each.error]
    assert len(cluster.embedding) > 1


@pytest.mark.parametrize("count", [1, 4])
def test_room_for_one_process_prepares_and_embeds_there(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(crews, "BORROW", 0.1)
    cluster = SmallCluster(1)
    with fleet_in(cluster, count) as run:
        found = run(8)
    assert [each.error for each in found] == [None] * 8
    assert len(cluster.embedding) == 1


def test_lost_node_that_embedded_leaves_embedding_to_process_that_prepares(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(crews, "BORROW", 0.1)
    cluster = SmallCluster(2)
    with fleet_in(cluster, count=4) as run:
        assert len(run(4)) == 4
        cluster.embedding[-1].lose()
        found = run(8)
    assert [each.error for each in found] == [None] * 8
    assert len(cluster.embedding) == 1


def test_borrowed_process_is_kept_while_its_lender_is_idle() -> None:
    lender = Crew(shop.LocalHand, 1, idle=0.1)
    with lender.hand():
        pass
    borrower = Crew(iter(()).__next__, 1, lenders=lambda: [lender])
    borrower._lacking = monotonic() - crews.BORROW
    with borrower.hand() as borrowed:
        Event().wait(0.5)
        assert not borrowed.dead  # type: ignore[attr-defined]
    wait(lambda: borrowed.dead)  # type: ignore[attr-defined]
    lender.stop()
    borrower.stop()


class LosesStarts(SmallCluster):
    """Its first processes end while they start: before they answer, or while they learn."""

    def __init__(self, lost: int, learning: bool) -> None:
        super().__init__(4)
        self._lost, self._learning = iter(range(lost)), learning
        self.starts: list[bool] = []  # whether the node of the start before was avoided

    def hire(self, *arguments: Any, spread: bool) -> Process:
        self.starts.append(spread)
        lost = next(self._lost, None) is not None
        if lost and not self._learning:
            raise ProcessLost(Death("a node", "crash", "killed"))
        made = super().hire(*arguments, spread=spread)
        if lost:
            made.lose()
            self._rooms.release()
        return made

    def nodes(self, room: Room) -> Sequence[str]:
        return ("a",)


@pytest.mark.parametrize("learning", [False, True])
def test_lost_start_is_tried_again_elsewhere(learning: bool) -> None:
    """The check of the node loses one start, and the first process that embeds another."""
    cluster = LosesStarts(1, learning)
    with fleet_in(cluster, count=1) as run:
        assert [each.error for each in run(1)] == [None]
        assert len(cluster.starts) == 4
        cluster._lost = iter(range(2))
        cluster.embedding[-1].lose()
        assert [each.error for each in run(4)] == [None] * 4
    assert cluster.starts[4:] == [False, True, True]


def test_processes_lost_at_every_start_are_an_error_of_documents(caplog: pytest.LogCaptureFixture) -> None:
    with fleet_in(LosesStarts(100, learning=True), count=1) as run:
        (found,) = run(1)
    assert type(found.error) is Transient
    assert "processes end while they start" in str(found.error)
    assert "Traceback" not in caplog.text


def test_an_embedder_that_no_longer_is_needed_holds_up_no_other_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It finds no room, as one that asks for a GPU where none is, and the config takes another one."""
    monkeypatch.setattr(fleets, "IDLE", 0.1)
    awaited = Event()

    class WithoutGPU(SmallCluster):
        def hire(self, make: Any, room: Room, *others: Any, spread: bool) -> Process:
            if room.shown is not EmbeddingProcess:
                return super().hire(make, room, *others, spread=spread)
            awaited.set()
            self._stopped.wait()
            raise Stopped

    fleet = Fleet(WithoutGPU(2), Workers(kind="ray", count=2), shop.tools_of, shop.embedder_of)  # type: ignore[arg-type]
    fleet.embedder(shop.embedder_of(b"")[0], Setup("large", b"", {MODEL: "large"}))
    texts = shop.Texts({"a.txt": shop.TEXT})
    tools, setup = shop.tools("sentence", texts), shop.setup("sentence")
    fleet.know(shop.entry("a.txt").feed, tools, replace(setup, recipes={MODEL: "large"}))
    fleet.adopt_setups()
    with pooled(1) as pool:
        pool.submit("a.txt", partial(fleet.preparing, Job(shop.entry("a.txt")), tools, nobody))
        assert awaited.wait(LONG)
        fleet.know(shop.entry("a.txt").feed, tools, setup)
        fleet.adopt_setups()
        (found,) = outcomes(pool, 1)
        fleet.stop()
    assert found.error is None


def test_two_models_take_turns_where_there_is_room_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection moves to another model, and documents of both are to be prepared."""
    monkeypatch.setattr(fleets, "IDLE", 0.2)
    monkeypatch.setattr(crews, "RETRY", 0.2)
    monkeypatch.setattr(embedding, "PATIENCE", 0.5)
    monkeypatch.setitem(Crew.__init__.__kwdefaults__ or {}, "idle", 0.2)

    def tools_of(packed: bytes) -> Tools:
        return replace(shop.tools_of(shop.packed("sentence")), embedder_recipe=Fingerprint(packed.decode()))

    def model_of(packed: bytes) -> Any:
        return shop.embedder_of(packed)[0], Fingerprint(packed.decode())

    fleet = Fleet(SmallCluster(2), Workers(kind="ray", count=2), tools_of, model_of)  # type: ignore[arg-type]
    texts = shop.Texts({f"{each}.txt": f"{shop.TEXT} {each}" for each in range(3)})
    jobs, tools = dict[str, list[Job]](), dict[str, Tools]()
    for model in ("old", "new"):
        embedder = fleet.embedder(model_of(model.encode())[0], Setup(model, model.encode(), {MODEL: model}))
        made = shop.tools("sentence", texts, partial(vectors_of, embedder))
        tools[model] = replace(made, embedder_recipe=Fingerprint(model), collection=EditionName(model))
        entries = [replace(shop.entry(key, row), collection=EditionName(model))
                   for row, key in enumerate(texts.texts)]  # fmt: skip
        jobs[model] = list(map(Job, entries))

    def run(model: str) -> list[Outcome]:
        with pooled(2) as pool:
            for number, job in enumerate(jobs[model]):
                pool.submit(number, partial(fleet.preparing, job, tools[model], nobody))
            return outcomes(pool, len(jobs[model]))

    for models in (["old"], ["old", "new"]):
        for model in models:
            setup = Setup(f"sentence {model}", model.encode(), recipes_of(tools[model]))
            fleet.know(jobs[model][0].entry.feed, tools[model], setup)
        fleet.adopt_setups()
        for _ in range(20):  # again after NoRoom, as the engine does
            errors = [each.error for each in run(models[-1]) if each.error]
            assert {type(error) for error in errors} <= {NoRoom}
            if not errors:
                break
        assert not errors
    fleet.stop()


def test_waiting_for_a_process_takes_its_patience_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a fleet asks without a pause while a cluster starts a machine."""
    ended = Event()

    def hire() -> Hand:
        ended.wait()
        raise Stopped

    crew, begun = Crew(hire, 1), monotonic()
    for _ in range(3):
        with pytest.raises(NoRoom), crew.hand(patience=0.2):
            pass
    assert monotonic() - begun >= 0.6
    ended.set()
    crew.stop()


def test_a_process_that_nobody_waits_for_any_more_is_not_hired() -> None:
    """Else an autoscaler would keep machines for it."""
    rooms, crew = Semaphore(1), list[Crew]()

    def hire() -> Hand:
        while not rooms.acquire(timeout=0.01):
            if not crew[0].wanted():
                raise Withdrawn
        return shop.LocalHand()

    crew.append(Crew(hire, 3, idle=0.3))
    with pooled(3) as pool:
        for each in range(3):
            pool.submit(each, partial(used, crew[0]))
        assert len(outcomes(pool, 3)) == 3
    wait(lambda: not crew[0].active)
    crew[0].stop()


def test_refusal_of_every_node_reaches_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    """An autoscaler may bring one after the other, for ever."""
    monkeypatch.setattr(crews, "RETRY", 0.1)
    turns = count()

    def hire() -> Hand:
        Event().wait(0.15 + 0.45 * (next(turns) % 2))
        raise NeedsHuman("node a has no plugin `wiki`")

    crew = Crew(hire, 4)
    with pooled(4) as pool:
        for each in range(4):
            pool.submit(each, partial(used, crew))
        found = [pool.next(LONG) for _ in range(4)]
        crew.stop()
    assert {type(each.error) for each in found if each} == {NeedsHuman}
    assert all(found)


def used(crew: Crew) -> None:
    with crew.hand():
        Event().wait(0.05)


def test_process_stays_while_needed() -> None:
    needed = Event()
    needed.set()
    crew = Crew(shop.LocalHand, 2, idle=0.05, kept=needed.is_set)
    with crew.hand(), crew.hand():
        pass
    wait(lambda: crew.size == 1)
    Event().wait(0.2)
    assert crew.size == 1
    needed.clear()
    wait(lambda: not crew.size)
    crew.stop()
