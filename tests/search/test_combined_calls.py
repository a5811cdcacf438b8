"""Calls made together: everyone gets the answer to what they asked, and its error if it has one."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event, Semaphore
from typing import Any

import numpy as np
import pytest

from ingestor.embedders.hashing import PLUGIN
from ingestor.model import Hit, Record, RecordId, Vectors
from ingestor.ports import Gone
from ingestor.search.combined_calls import CombinedCalls
from ingestor.search.shared_store import shared_stores
from tests.search.test_search import Store
from tests.waiting import wait

EMBEDDER = PLUGIN.build(PLUGIN.options(dimensions=32))


class Work:
    """Doubles numbers. The first ``held`` calls are held up until ``go``; ``bad`` numbers raise."""

    def __init__(self, bad: Sequence[int] = (), held: int = 1) -> None:
        self.calls, self.bad, self._held = list[list[int]](), bad, held
        self.begun, self.go = Semaphore(0), Event()

    def __call__(self, numbers: Sequence[int]) -> list[int]:
        self.calls.append(list(numbers))
        if len(self.calls) <= self._held:
            self.begun.release()
            assert self.go.wait(30)
        if set(numbers) & set(self.bad):
            raise ValueError(f"bad among {sorted(numbers)}")
        return [2 * number for number in numbers]


def asked(work: Work, numbers: Sequence[int], most: int, kinds: int = 1) -> list[Future[int]]:
    """The first of each kind alone, and the others while these are at work."""
    together = CombinedCalls(work, most)
    with ThreadPoolExecutor(len(numbers)) as pool:
        found = []
        for at, number in enumerate(numbers):
            found.append(pool.submit(together.ask, number % kinds, number))
            if at < kinds:
                assert work.begun.acquire(timeout=30)
            wait(lambda expected=at + 1 - kinds: _waiting(together) >= expected, every=0.001)
        work.go.set()
    assert together._waiting == {}
    return found


def _waiting(together: CombinedCalls[int, int]) -> int:
    return sum(map(len, together._waiting.values()))


def test_those_who_wait_are_asked_for_at_once() -> None:
    work = Work()
    assert [one.result() for one in asked(work, range(7), most=4)] == [0, 2, 4, 6, 8, 10, 12]
    assert work.calls == [[0], [1, 2, 3, 4], [5, 6]]


def test_only_those_of_one_kind_are_asked_for_together() -> None:
    work = Work(held=2)
    assert [one.result() for one in asked(work, range(7), most=9, kinds=2)] == [0, 2, 4, 6, 8, 10, 12]
    assert work.calls[:2] == [[0], [1]]
    assert sorted(work.calls[2:]) == [[2, 4, 6], [3, 5]]


def test_a_slow_call_holds_up_its_kind_alone() -> None:
    work = Work()
    together = CombinedCalls(work, 9)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(together.ask, "a slow filter", 1)
        assert work.begun.acquire(timeout=30)
        assert together.ask("none", 2) == 4
        assert not slow.done()
        work.go.set()


def test_an_error_is_that_of_all_who_asked_together_and_of_nobody_else() -> None:
    work = Work(bad=[2])
    first, second, third, last = asked(work, [1, 2, 3, 4], most=2)
    assert (first.result(), last.result()) == (2, 8)
    for one in (second, third):
        with pytest.raises(ValueError, match="bad among"):
            one.result()


class OneByOne(Store):
    """Chroma searches for each vector by itself; the last bits of a product of matrices depend on all."""

    def query(self, vectors: Vectors, n: int, where: dict[str, object] | None = None) -> list[list[Hit]]:
        return [super(OneByOne, self).query(vector[np.newaxis], n, where)[0] for vector in vectors]


def test_a_shared_store_answers_as_the_store_itself() -> None:
    texts = [f"record number {n}" for n in range(60)]
    vectors = EMBEDDER.embed(texts)
    store = OneByOne()
    store.upsert(
        [
            Record(RecordId(f"d#{n}"), text, {"n": n, "even": n % 2 == 0}, vectors[n])
            for n, text in enumerate(texts)
        ]
    )
    shared = shared_stores(lambda uuid: store)("uuid")
    assert shared_stores(lambda uuid: store)("uuid") is not shared
    filters: list[dict[str, object] | None] = [None, {"even": True}]

    def one(n: int) -> list[Any]:
        ids = [RecordId(f"d#{n}"), RecordId("nothing#0"), RecordId(f"d#{(7 * n) % 60}")]
        where = filters[n % 2]
        return [
            shared.nearest(vectors[n][np.newaxis], 3 + n % 3, where)
            == store.nearest(vectors[n][np.newaxis], 3 + n % 3, where),
            shared.query(vectors[n : n + 2], 4, where) == store.query(vectors[n : n + 2], 4, where),
            [record.id for record in shared.read(ids)] == list(dict.fromkeys(ids[::2])),
            list(shared.vectors(ids)) == list(dict.fromkeys(ids[::2])),
            shared.vectors([]) == {},
            shared.matching(ids, {"even": True}) == store.matching(ids, {"even": True}),
        ]

    with ThreadPoolExecutor(8) as pool:
        assert all(all(answers) for answers in pool.map(one, range(58)))


def test_a_collection_that_is_gone_is_gone_for_all_who_ask() -> None:
    def gone(uuid: str) -> Store:
        raise Gone(f"no collection {uuid}")

    shared = shared_stores(gone)("uuid")
    for _ in range(2):
        with pytest.raises(Gone):
            shared.read([RecordId("a#0")])
