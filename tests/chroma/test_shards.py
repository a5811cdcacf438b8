"""What readers ask of a collection in shards."""

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Barrier, BrokenBarrierError
from typing import Any

import numpy as np
import pytest

from ingestor.chroma.shards import SearchedShards
from ingestor.core.entries import shard_of
from ingestor.model import RecordId
from ingestor.ports import Torn
from tests.waiting import wait

TOGETHER = 60.0  # seconds in which all shards must have been asked


@dataclass
class Shard:
    """Answers once all others were asked, too."""

    near: list[tuple[RecordId, float]]
    asked: Barrier
    error: Exception | None = field(default=None)

    def nearest(self, vectors: Any, n: int, where: object) -> list[list[tuple[RecordId, float]]]:
        self.asked.wait(TOGETHER)
        if self.error is not None:
            raise self.error
        return [self.near[:n] for _ in vectors]

    def filter_ids(self, ids: Sequence[RecordId], where: object) -> set[RecordId]:
        self.asked.wait(TOGETHER)
        return set(ids)


def sharded(*near: list[tuple[str, float]]) -> tuple[SearchedShards, list[Any]]:
    asked = Barrier(len(near))
    shards: list[Any] = [Shard([(RecordId(id_), score) for id_, score in one], asked) for one in near]
    return SearchedShards(shards), shards


def test_shards_are_searched_in_parallel_and_the_best_hits_are_kept() -> None:
    store, _ = sharded([("b", 0.9), ("e", 0.1)], [("c", 0.5), ("d", 0.5)], [("a", 0.9)])
    [found] = store.nearest(np.ones((1, 2), np.float32), 4)
    assert found == [("a", 0.9), ("b", 0.9), ("c", 0.5), ("d", 0.5)]


def test_error_is_that_of_the_first_shard_that_fails() -> None:
    store, shards = sharded([("a", 0.9)], [("b", 0.9)], [("c", 0.9)])
    shards[1].error, shards[2].error = Torn("the second"), Torn("the third")
    with pytest.raises(Torn, match="the second") as raised:
        store.nearest(np.ones((1, 2), np.float32), 1)
    assert raised.value.shard == 1


def test_questions_about_records_go_to_their_shards_at_the_same_time() -> None:
    store, shards = sharded([], [])
    ids = [RecordId(f"{number}#0") for number in range(20)]
    assert {shard_of(id_, 2) for id_ in ids} == {0, 1}
    assert store.filter_ids(ids, {}) == set(ids)
    shards[0].asked.abort()  # one shard alone is asked at once, on the thread of the reader
    with pytest.raises(BrokenBarrierError):
        store.filter_ids([id_ for id_ in ids if shard_of(id_, 2) == 1], {})


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_fork_has_threads_of_its_own() -> None:
    store, _ = sharded([("a", 0.9)], [("b", 0.8)])
    assert store.nearest(np.ones((1, 2), np.float32), 1) == [[("a", 0.9)]]
    child = os.fork()
    if not child:
        os._exit(store.nearest(np.ones((1, 2), np.float32), 1) != [[("a", 0.9)]])
    try:
        _, status = wait(lambda: (ended := os.waitpid(child, os.WNOHANG)) != (0, 0) and ended)
    except AssertionError:
        os.kill(child, signal.SIGKILL)
        raise
    assert os.waitstatus_to_exitcode(status) == 0
