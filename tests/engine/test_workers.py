"""Documents to begin, and tasks for threads: large, slow and hung work leaves room to other work."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from threading import Event, Thread
from time import sleep

import pytest

from ingestor.core.errors import Stopped
from ingestor.engine import workers
from ingestor.engine.loop import choose
from ingestor.engine.workers import BEGUN, Lane, Pool, WorkItem, WorkQueue
from ingestor.model import SourceName
from ingestor.ports import Transient
from ingestor.state.backlog import Queued
from tests.engine.worlds import begun as begun_documents
from tests.waiting import wait

# --- documents to begin -------------------------------------------------------------------------------------

LARGE, USUAL, SMALL = 3_000_000, 100_000, 10  # bytes
MOST = {"small": 8, "large": 2, "": 4}


def queued(*sizes: int, source: str = "files", attempts: int = 0) -> list[Queued]:
    first = 1000 * sum(map(ord, source))
    return [Queued(row, SourceName(source), size, attempts) for row, size in enumerate(sizes, first)]


def others(*sizes: int) -> list[Queued]:
    return queued(*sizes, source="other")


SMALL_ONES = queued(*[SMALL] * 20)
HUNG = queued(*[SMALL] * 9)


@pytest.mark.parametrize(
    ("queue", "begun", "full", "share", "chosen"),
    [
        # large documents occupy half of the workers
        (queued(LARGE, LARGE, LARGE, USUAL, USUAL), [], [], 1, [0, 1, 3, 4]),
        (queued(LARGE, LARGE, LARGE, USUAL, USUAL), others(LARGE), [], 1, [0, 3, 4]),
        # small ones are begun ahead of free workers, unless they failed before or have an unknown size
        (SMALL_ONES, [], [], 1, [*range(8)]),
        (SMALL_ONES, others(*[USUAL] * 4), [], 1, [*range(8)]),
        (SMALL_ONES, others(*[SMALL] * 5), [], 1, [0, 1, 2]),
        (queued(*[SMALL] * 20, attempts=1), [], [], 1, [0, 1, 2, 3]),
        (queued(*[0] * 20), [], [], 1, [0, 1, 2, 3]),
        # they fill at most two batches
        (SMALL_ONES, [], others(*[SMALL] * 8), 1, [*range(8)]),
        (SMALL_ONES, [], others(*[SMALL] * 16), 1, []),
        (queued(USUAL), [], others(*[USUAL] * 4), 1, []),
        # a single source of several has three quarters of each kind
        ([*HUNG, *others(*[SMALL] * 9)], [], [], 3 / 4, [*range(6), 9, 10]),
        ([*queued(*[USUAL] * 9), *others(USUAL)], [], [], 3 / 4, [0, 1, 2, 9]),
        (HUNG, HUNG[:6], [], 3 / 4, []),
        # a document larger than all bytes goes alone but for small ones
        (queued(11 * LARGE, USUAL, SMALL), [], [], 1, [0, 2]),
        (queued(11 * LARGE, USUAL, SMALL), others(USUAL), [], 1, [1, 2]),
        (queued(USUAL, SMALL), others(11 * LARGE), [], 1, [1]),
    ],
)
def test_choice_of_documents_leaves_workers_to_others(
    queue: Sequence[Queued], begun: Sequence[Queued], full: Sequence[Queued], share: float, chosen: list[int]
) -> None:
    rows = choose(queue, begun, full, MOST, share, 10 * LARGE)
    assert [at for at, each in enumerate(queue) if each.row in rows] == chosen


# --- lanes --------------------------------------------------------------------------------------------------


def put(turns: WorkQueue, *lanes: Lane) -> None:
    for lane in lanes:
        turns.put(WorkItem("", lambda: None, lane))


def taken(turns: WorkQueue, number: int) -> list[object]:
    found = [turns.get() for _ in range(number)]
    return [task.lane.name for task in found if task is not None]


def test_lanes_take_turns_in_order() -> None:
    turns, a, b = WorkQueue(), Lane("a"), Lane("b")
    put(turns, a, a, a, b, b)
    assert taken(turns, 5) == ["a", "b", "a", "b", "a"]


def test_hanging_lane_leaves_turns_to_other_lanes() -> None:
    turns, hung, other = WorkQueue(4), Lane("hung", 3), Lane("other", 3)
    put(turns, *[hung] * 9)
    assert taken(turns, 3) == ["hung"] * 3
    put(turns, other, other)
    assert taken(turns, 1) == ["other"]
    following = turns.get(WorkItem("", lambda: None, other))  # its thread continues
    assert following is not None and following.lane == other


def test_lane_whose_tasks_rest_leaves_threads_to_other_lanes() -> None:
    turns, parsed, other = WorkQueue(4), Lane("files", 3), Lane("other", 3)
    put(turns, *[parsed] * 30)
    with ExitStack() as stack:
        for _ in range(3 * BEGUN):
            assert taken(turns, 1) == ["files"]
            stack.enter_context(turns.release_permit(parsed))
        put(turns, other)
        assert taken(turns, 1) == ["other"]


def test_queue_without_a_free_turn_hands_out_no_task() -> None:
    turns, lane, got = WorkQueue(1), Lane("a"), list[object]()
    put(turns, lane, lane, lane)
    first = turns.get()
    waiting = Thread(target=lambda: got.append(turns.get()), daemon=True)
    waiting.start()
    waiting.join(0.05)
    assert first is not None and not got
    with turns.release_permit(lane):
        waiting.join(30)
        assert len(got) == 1, "work that rests needs no turn"
    turns.close()
    assert turns.get(first) is None


# --- threads ------------------------------------------------------------------------------------------------


def test_work_that_rests_leaves_its_thread_to_other_work() -> None:
    pool, over = Pool(1), Event()

    def rest() -> None:
        with pool.release_permit():
            over.wait(60)

    with closing(pool):
        documents = begun_documents(range(BEGUN - 1))
        for document in documents:
            pool.submit(document, rest)
        pool.submit("quick", lambda: "done")
        found = pool.next(30)
        assert found is not None and (found.tag, found.value) == ("quick", "done")
        over.set()
        assert all(pool.next(30) for _ in documents)


@pytest.mark.parametrize("rests", [True, False])
def test_cancelled_work_ends_where_it_waits_or_before_it_begins(rests: bool) -> None:
    pool, under_way, revoked = Pool(1), Event(), Event()

    def work() -> str:
        under_way.set()
        assert revoked.wait(30)
        if rests:
            with pool.release_permit():
                pass
        return "done"

    with closing(pool):
        first, second = begun_documents(range(2))
        pool.submit(first, work)
        assert under_way.wait(30)
        pool.submit(second, lambda: "done")
        first.cancelled = second.cancelled = True
        revoked.set()
        outcomes = {one.tag: one for _ in range(2) if (one := pool.next(30)) is not None}
    assert isinstance(outcomes[second].error, Stopped)
    assert isinstance(outcomes[first].error, Stopped) if rests else outcomes[first].value == "done"


def test_hanging_listings_do_not_delay_other_listings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "STUCK", 0.2)
    monkeypatch.setattr(workers, "PATIENCE", 0.2)
    never = Event()
    with closing(Pool(1)) as pool:
        for number in range(6):
            pool.submit(f"hung {number}", never.wait, scan=True)
        pool.submit("sound", lambda: "listed", scan=True)
        found = wait(lambda: pool.next(0.05))
        assert (found.tag, found.value) == ("sound", "listed")
    never.set()


def test_listing_without_a_thread_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    with closing(Pool(1)) as pool:
        monkeypatch.setattr(Thread, "start", fail)
        pool.submit("full", lambda: None, scan=True)
        outcome = pool.next(0)
        assert outcome is not None
        assert isinstance(outcome.error, Transient)


def test_long_listings_are_joined_by_few_others_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now, begun, end = [0.0], list[int](), Event()
    monkeypatch.setattr(workers, "monotonic", lambda: now[0])
    monkeypatch.setattr(workers, "STUCK", 0.2)
    monkeypatch.setattr(workers, "PATIENCE", 0.0)

    def last() -> None:
        begun.append(len(begun))
        end.wait()

    with closing(Pool(1)) as pool:
        for number in range(3 * workers.SCANS):
            pool.submit(number, last, scan=True)
        for number in (1, 2):
            wait(lambda: len(begun) >= number * workers.SCANS)  # noqa: B023
            sleep(0.2)  # time for others, which must wait
            assert len(begun) == number * workers.SCANS
            now[0] += workers.STUCK
        end.set()


def test_failing_watch_restarts_after_growing_waits() -> None:
    waits = list[float]()

    class Stop:
        def is_set(self) -> bool:
            return len(waits) == 10

        def wait(self, seconds: float) -> None:
            waits.append(seconds)

    def hints(stop: object) -> Iterator[object]:
        if len(waits) == 8:
            return iter(())
        raise OSError("too many watches")

    workers.follow(lambda outcome: None, "a source", hints, Stop())  # type: ignore[arg-type]
    assert waits == [30, 60, 120, 240, 480, 960, 1920, 3600, 30, 60]
