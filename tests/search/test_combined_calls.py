"""Calls made together: everyone gets the answer to what they asked, and its error if it has one."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import Any

import numpy as np
import pytest

from ingestor.embedders.hashing import PLUGIN
from ingestor.model import Hit, Record, RecordId, Vectors
from ingestor.ports import Gone
from ingestor.search.combined_calls import CombinedCalls
from ingestor.search.shared_store import shared_stores
from tests.search.test_search import Store

EMBEDDER = PLUGIN.build(PLUGIN.options(dimensions=32))


class Work:
    """Doubles numbers. The first call is held up until ``go``; ``bad`` numbers raise."""

    def __init__(self, bad: Sequence[int] = ()) -> None:
        self.calls, self.bad = list[list[int]](), bad
        self.begun, self.go = Event(), Event()

    def __call__(self, numbers: Sequence[int]) -> list[int]:
        self.calls.append(list(numbers))
        if len(self.calls) == 1:
            self.begun.set()
            assert self.go.wait(30)
        if set(numbers) & set(self.bad):
            raise ValueError(f"bad among {sorted(numbers)}")
        return [2 * number for number in numbers]


def asked(work: Work, numbers: Sequence[int], most: int, kinds: int = 1) -> list[Future[int]]:
    """The first alone, and the others while it is at work."""
    together = CombinedCalls(work, most)
    with ThreadPoolExecutor(len(numbers)) as pool:
        found = [pool.submit(together.ask, numbers[0] % kinds, numbers[0])]
        assert work.begun.wait(30)
        for at, number in enumerate(numbers[1:], 1):
            found.append(pool.submit(together.ask, number % kinds, number))
            while len(together._waiting) < at:
                pass
        work.go.set()
    return found


def test_those_who_wait_are_asked_for_at_once() -> None:
    work = Work()
    assert [one.result() for one in asked(work, range(7), most=4)] == [0, 2, 4, 6, 8, 10, 12]
    assert work.calls == [[0], [1, 2, 3, 4], [5, 6]]


def test_only_those_of_one_kind_are_asked_for_together() -> None:
    work = Work()
    assert [one.result() for one in asked(work, range(7), most=9, kinds=2)] == [0, 2, 4, 6, 8, 10, 12]
    assert work.calls == [[0], [1, 3, 5], [2, 4, 6]]


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
