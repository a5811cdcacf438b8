"""The laws of what prepares documents, held by a direct call and by processes that are objects."""

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event

import pytest

from ingestor.core.entries import Feed
from ingestor.nodes.crew import Crew, Hand
from ingestor.nodes.deaths import Cause, Death, describe, judge
from ingestor.nodes.preparing import OnNodes, Setup
from ingestor.pipeline.prepare import Job, Preparing, Tools, prepare
from ingestor.ports import NeedsHuman, Transient
from tests.nodes import shop
from tests.nodes.laws import PreparingLaws, ProcessLaws, nobody, outcomes, pooled
from tests.waiting import wait


class TestHere(PreparingLaws):
    @pytest.fixture
    def preparing(self) -> Preparing:
        return prepare


class TestObjects(ProcessLaws):
    @pytest.fixture
    def on_nodes(self) -> Iterator[OnNodes]:
        found = made(shop.LocalHand)
        yield found
        found.stop()

    @pytest.fixture
    def fresh(self, on_nodes: OnNodes) -> OnNodes:
        return on_nodes


def made(hire: Callable[[], Hand], most: int = 3, in_flight: int = 10**6, idle: float = 60.0) -> OnNodes:
    return OnNodes(Crew(hire, most, idle=idle), by_strategy, in_flight)


def by_strategy(feed: Feed, tools: Tools) -> Setup:
    return shop.setup(tools.strategy)


def causes(*names: Cause) -> list[Death]:
    return [Death("n", name) for name in names]


@pytest.mark.parametrize(
    ("deaths", "verdict"),
    [
        (causes("crash"), "again"),
        (causes("crash", "crash"), "quarantine"),
        (causes("node"), "again"),
        (causes("node", "node", "node"), "later"),
        (causes("crash", "node", "node", "node"), "later"),
        (causes("node", "node", "node", "node"), "again"),
        (causes("node", "crash", "node", "crash"), "quarantine"),
        (causes("memory"), "later"),
        (causes("memory", "memory", "memory", "memory"), "quarantine"),
    ],
)
def test_the_verdict_on_a_document(deaths: list[Death], verdict: str) -> None:
    assert judge(deaths) == verdict


def test_deaths_are_told_with_their_nodes() -> None:
    assert describe([Death("a", "crash", "status 3"), Death("b", "node")]) == "a: status 3; b"
    assert describe([Death("a", "crash", "status 3")] * 2) == "a: status 3, 2 times"


def test_a_lost_node_is_no_fault_of_the_document() -> None:
    on_nodes = made(lambda: shop.LocalHand("lost", "node"), most=1)
    tools = shop.tools("sentence", shop.Texts({"a.txt": "exit:"}))
    with pytest.raises(Transient, match="the processes that prepared the document ended"):
        on_nodes(Job(shop.entry("a.txt")), tools, nobody)
    assert on_nodes.lost == 3
    on_nodes.stop()


def test_hand_avoids_the_node_of_a_death() -> None:
    bad, good = shop.LocalHand("bad"), shop.LocalHand("good")
    crew = Crew(iter([bad, good]).__next__, 2)
    with crew.hand() as first:
        assert first is bad
        with crew.hand() as second:
            assert second is good
    with crew.hand(avoid=frozenset({"bad"})) as found:
        assert found is good
    crew.stop()


def test_documents_of_a_rebuild_get_a_process_after_all_others() -> None:
    crew, order = Crew(shop.LocalHand, 1), list[str]()

    def work(name: str, behind: bool) -> None:
        with crew.hand(behind=behind):
            order.append(name)

    with ThreadPoolExecutor(2) as threads:
        with crew.hand():
            rebuilt = threads.submit(work, "rebuilt", True)
            wait(lambda: crew._waiting == 1)
            edited = threads.submit(work, "edited", False)
            wait(lambda: crew._waiting == 2)
        rebuilt.result(60), edited.result(60)
    assert order == ["edited", "rebuilt"]
    crew.stop()


def test_the_bytes_on_their_way_are_bounded() -> None:
    most, now, texts = [0], [0], shop.Texts({f"{n}.txt": shop.TEXT + f" {n}" for n in range(12)})
    size = max(len(text) for text in texts.texts.values())

    class Counted(shop.LocalHand):
        def call(self, method: str, *arguments: object) -> bytes:
            if method == "begin":
                now[0] += 1
                most[0] = max(most[0], now[0])
                Event().wait(0.02)
                now[0] -= 1
            return super().call(method, *arguments)

    for bound, at_once in ((2 * size + 1, 2), (10**6, 6)):
        most[0] = 0
        on_nodes = made(Counted, most=6, in_flight=bound)
        tools = shop.tools("recursive", texts)
        with pooled() as pool:
            for number, key in enumerate(texts.texts):
                job = Job(shop.entry(key, number))
                pool.submit(key, partial(on_nodes, job, tools, nobody))
            assert len(outcomes(pool, 12)) == 12
        on_nodes.stop()
        assert most[0] <= at_once
    assert most[0] > 2, "without the bound more are under way"


def test_log_lines_of_a_process_are_logged_here(caplog: pytest.LogCaptureFixture) -> None:
    on_nodes = made(shop.LocalHand)
    tools = shop.tools("sentence", shop.Texts({"a.txt": shop.TEXT}))
    with caplog.at_level(logging.INFO):
        on_nodes(Job(shop.entry("a.txt")), tools, nobody)
        assert "a word of the parser" not in caplog.text
        tools.reader.fetch.__self__.texts["a.txt"] = "say:"  # type: ignore[attr-defined]
        on_nodes(Job(shop.entry("a.txt")), tools, nobody)
    assert caplog.text.count("a word of the parser") == 2, "once by the object itself, once by the head"
    on_nodes.stop()


def test_a_process_without_work_is_dismissed() -> None:
    hands = list[shop.LocalHand]()

    def hire() -> shop.LocalHand:
        hands.append(shop.LocalHand())
        return hands[-1]

    crew = Crew(hire, 2, idle=0.05)
    with crew.hand():
        pass
    wait(lambda: not crew.size)
    assert hands[0].dead
    with crew.hand() as again:
        assert again is not hands[0]
    crew.stop()


@pytest.mark.parametrize("error", [NeedsHuman("node a has no plugin `wiki`"), Transient("no room")])
def test_without_any_process_the_reason_is_told(error: Exception) -> None:
    def hire() -> Hand:
        raise error

    tools = shop.tools("sentence", shop.Texts({"a.txt": shop.TEXT}))
    on_nodes = made(hire)
    with pytest.raises(type(error), match=str(error)):
        on_nodes(Job(shop.entry("a.txt")), tools, nobody)
    on_nodes.stop()
