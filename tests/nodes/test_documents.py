"""The laws of what prepares documents, held by a direct call and by processes that are threads."""

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Event, Semaphore

import pytest

from ingestor.core.entries import Feed
from ingestor.nodes.deaths import Cause, ProcessLost, repeat_if_lost
from ingestor.nodes.documents import Nodes, OnNodes
from ingestor.nodes.setup import Setup
from ingestor.pipeline.prepare import Job, Preparing, Tools, prepare
from ingestor.ports import BadDocument, NeedsHuman, Transient
from tests.nodes import shop
from tests.nodes.laws import PreparingLaws, ProcessLaws, nobody, outcomes, pooled
from tests.waiting import LONG, wait


class TestHere(PreparingLaws):
    @pytest.fixture
    def preparing(self) -> Preparing:
        return prepare


class TestObjects(ProcessLaws):
    @pytest.fixture
    def on_nodes(self) -> Iterator[OnNodes]:
        found = on_nodes_of(shop.LocalNodes())
        yield found
        found.stop()

    @pytest.fixture
    def fresh(self, on_nodes: OnNodes) -> OnNodes:
        return on_nodes


def on_nodes_of(nodes: Nodes, most: int = 3, in_flight: int = 10**6) -> OnNodes:
    return OnNodes(nodes, by_strategy, most, in_flight)


def by_strategy(feed: Feed, tools: Tools) -> Setup:
    return shop.setup(tools.describing.strategy)


@pytest.mark.parametrize(
    ("causes", "error"),
    [
        ("crash", None),
        ("crash crash", BadDocument),
        ("node node", None),
        ("node start node", Transient),
        ("crash node node", None),
        ("node crash node crash", BadDocument),
        ("crash node node node", Transient),
        ("memory", Transient),
    ],
)
def test_work_outlives_some_losses(causes: str, error: type[Exception] | None) -> None:
    losses = [ProcessLost(cause, "gone", "a") for cause in causes.split()]  # type: ignore[arg-type]
    left = list(losses)

    def work(again: bool) -> str:
        assert again == (len(left) < len(losses))
        if left:
            raise left.pop(0)
        return "done"

    if error is None:
        assert repeat_if_lost(work) == "done"
    else:
        with pytest.raises(error, match="a: gone"):
            repeat_if_lost(work)


@pytest.mark.parametrize("cause", ["node", "start"])
def test_document_whose_nodes_are_lost_is_tried_three_times_and_not_blamed(cause: Cause) -> None:
    nodes = shop.LocalNodes("lost", cause)
    on_nodes = on_nodes_of(nodes, most=1)
    tools = shop.tools("sentence", shop.Texts({"a.txt": "exit:"}))
    with pytest.raises(Transient, match="processes on nodes ended"):
        on_nodes(Job(shop.entry("a.txt")), tools, nobody)
    assert on_nodes.lost == 3
    assert nodes.again == [False, True, True]


def test_document_of_a_rebuild_gets_a_process_after_all_others() -> None:
    """The only process is taken until both wait."""
    tools, order = shop.tools("sentence", shop.Texts({"a.txt": shop.TEXT, "b.txt": shop.TEXT})), list[str]()
    waiting, free = Semaphore(0), Event()

    class Ordered(shop.LocalNodes):
        def work(self, setup: Setup, task: bytes, *, again: bool) -> shop.LocalDocument:
            order.append("rebuilt" if b"b.txt" in task else "edited")
            assert free.wait(LONG)
            return super().work(setup, task, again=again)

    @contextmanager
    def resting() -> Iterator[None]:
        waiting.release()
        yield

    behind = threading.local()
    on_nodes = OnNodes(Ordered(), by_strategy, 1, 10**6, resting, lambda: getattr(behind, "yes", False))

    def work(key: str) -> None:
        behind.yes = key == "b.txt"
        on_nodes(Job(shop.entry(key)), tools, nobody)

    with ThreadPoolExecutor(3) as threads:
        results = [threads.submit(work, "a.txt")]
        wait(lambda: order == ["edited"])
        for key in ("b.txt", "a.txt"):
            results.append(threads.submit(work, key))
            for _ in range(2):  # for its bytes, and for its turn
                assert waiting.acquire(timeout=LONG)
        Event().wait(0.2)
        free.set()
        for result in results:
            result.result(LONG)
    assert order == ["edited", "edited", "rebuilt"]


def test_bytes_in_flight_are_bounded() -> None:
    most, now, texts = [0], [0], shop.Texts({f"{n}.txt": shop.TEXT + f" {n}" for n in range(12)})
    size = max(len(text) for text in texts.texts.values())
    three, unbounded = Event(), Event()

    class Counted(shop.LocalNodes):
        def work(self, setup: Setup, task: bytes, *, again: bool) -> shop.LocalDocument:
            now[0] += 1
            most[0] = max(most[0], now[0])
            if now[0] > 2:
                three.set()
            (three if unbounded.is_set() else Event()).wait(60 if unbounded.is_set() else 0.02)
            now[0] -= 1
            return super().work(setup, task, again=again)

    for bound, at_once in ((2 * size + 1, 2), (10**6, 6)):
        most[0] = 0
        if at_once > 2:
            unbounded.set()
        on_nodes = on_nodes_of(Counted(), most=6, in_flight=bound)
        tools = shop.tools("recursive", texts)
        with pooled() as pool:
            for number, key in enumerate(texts.texts):
                job = Job(shop.entry(key, number))
                pool.submit(key, partial(on_nodes, job, tools, nobody))
            assert len(outcomes(pool, 12)) == 12
        assert most[0] <= at_once
    assert most[0] > 2, "without the bound more are under way"


def test_log_lines_of_a_process_are_logged_here(caplog: pytest.LogCaptureFixture) -> None:
    on_nodes = on_nodes_of(shop.LocalNodes())
    tools = shop.tools("sentence", shop.Texts({"a.txt": shop.TEXT}))
    with caplog.at_level(logging.INFO):
        on_nodes(Job(shop.entry("a.txt")), tools, nobody)
        assert "a word of the parser" not in caplog.text
        tools.reader.fetch.__self__.texts["a.txt"] = "say:"  # type: ignore[attr-defined]
        on_nodes(Job(shop.entry("a.txt")), tools, nobody)
    assert caplog.text.count("a word of the parser") == 2, "once by the process itself, once by the daemon"


@pytest.mark.parametrize(("refusals", "error"), [(1, NeedsHuman), (3, NeedsHuman)])
def test_document_that_no_node_fits_gets_the_reason(refusals: int, error: type[Exception]) -> None:
    nodes = shop.LocalNodes(refusals=refusals)
    tools = shop.tools("sentence", shop.Texts({"a.txt": shop.TEXT}))
    with pytest.raises(error, match="node here: no plugin `wiki`"):
        on_nodes_of(nodes)(Job(shop.entry("a.txt")), tools, nobody)
    assert len(nodes.again) == refusals
