"""Chroma as an index: the laws, exact vectors, what a request holds, and what search does not reach."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

import numpy as np
import pytest

from ingestor.chroma import index as chroma_index
from ingestor.chroma.index import (
    CLOSER,
    DEEP,
    FEW,
    NEAR,
    NEAREST,
    ChromaIndex,
    WritePace,
    probe,
    unreachable,
)
from ingestor.config.quotas import UNBOUNDED
from ingestor.model import Record, RecordId, Vector, Vectors
from ingestor.ports import BadDocument
from tests.chroma.laws import DIMENSIONS, IndexLaws, many, record, vector
from tests.chroma.opening import chroma_in, opened
from tests.memory_index import MemoryIndex


class TestServed(IndexLaws):
    @pytest.fixture
    def fresh(self, served):
        return lambda: opened(served)


def test_nearest_are_those_of_a_query_and_vectors_those_that_were_written(served):
    index = opened(served)
    records = many(60)
    index.upsert(records)
    asked, where = np.stack([vector(3), vector(8)]), {"n": {"$lt": 30}}
    for chosen in (None, where):
        found = index.query(asked, 9, chosen)
        nearest = index.nearest(asked, 9, chosen)
        assert nearest == [[(hit.id, hit.score) for hit in hits] for hits in found]
        assert [index.nearest(one[np.newaxis], 9, chosen)[0] for one in asked] == nearest
    found = index.vectors([*(one.id for one in records[:5]), "nothing#0", records[0].id])
    assert list(found) == [one.id for one in records[:5]]
    for one in records[:5]:
        np.testing.assert_allclose(found[one.id], one.vector, atol=1e-6)
    assert index.vectors([]) == {}
    with pytest.raises(ValueError, match="refuses"):
        index.nearest(asked, 1, {"n": {"$like": 1}})


def test_record_that_is_deleted_during_a_query_is_left_out(served):
    index = opened(served)
    index.upsert(many(20))
    ask = served.post

    def losing(*args: Any, **others: Any) -> Any:
        answer = ask(*args, **others)
        answer["documents"][1][0] = answer["metadatas"][1][0] = None
        return answer

    asked = np.stack([vector(3), vector(8)])
    first, second = index.query(asked, 5)
    with patch.object(served, "post", losing):
        assert index.query(asked, 5) == [first, second[1:]]


class ManyIds:
    """Chroma's API with so many records, and what it was asked for."""

    def __init__(self, records: int) -> None:
        self.names = [f"{n}#0" for n in range(records)]
        self.asked: list[int] = []

    def post(
        self, uuid: UUID, verb: str, *, limit: int, offset: int, include: list[str]
    ) -> dict[str, list[str]]:
        self.asked.append(limit)
        return {"ids": self.names[offset : offset + limit]}


@pytest.mark.parametrize(
    ("records", "foreign", "requests", "largest"),
    [(0, False, 1, 2000), (5000, False, 4, 5000), (400_000, False, 11, 100_000), (100_000, True, 51, 2000)],
)
def test_ids_are_listed_in_few_requests(records: int, foreign: bool, requests: int, largest: int) -> None:
    """Each costs Chroma a walk over all records, so their number must not grow with them."""
    api = ManyIds(records)
    client: Any = SimpleNamespace(post=api.post, quotas=UNBOUNDED, foreign=foreign)
    assert list(ChromaIndex(client, uuid4()).ids()) == api.names
    assert (len(api.asked), max(api.asked)) == (requests, largest)


def test_patch_logs_no_vector_and_no_text(tmp_path):
    """Chroma's own log of operations, which it purges from time to time, shows what was sent to it."""
    with chroma_in(tmp_path / "db") as client:
        index = opened(client)
        index.upsert([record("a#0", "the text")])
        index.patch([("a#0", {"page": 4})])
        with sqlite3.connect(tmp_path / "db" / "chroma.sqlite3") as database:
            rows = database.execute(
                "SELECT vector, metadata FROM embeddings_queue ORDER BY seq_id"
            ).fetchall()
    database.close()
    (written, _), (patched, metadata) = rows[-2:]
    assert len(written) == 4 * DIMENSIONS
    assert patched is None
    assert "page" in metadata
    assert "the text" not in metadata


@pytest.mark.parametrize(
    ("sizes", "most", "wanted"),
    [
        ([], 3, []),
        ([1] * 7, 3, [3, 3, 1]),
        ([9_000_000] * 5, 500, [2, 2, 1]),
        ([30_000_000, 1, 30_000_000], 500, [1, 1, 1]),
        ([19_999_999, 1, 1], 500, [2, 1]),
    ],
)
def test_batches_keep_both_bounds(sizes, most, wanted):
    batches = list(chroma_index._batches(sizes, lambda size: size, lambda: most))
    assert [len(batch) for batch in batches] == wanted
    assert [size for batch in batches for size in batch] == sizes


def test_requests_get_smaller_where_chroma_is_slow(served):
    index, clock = opened(served), count(0.0, 10.0)
    with (
        patch.object(chroma_index, "monotonic", lambda: next(clock)),
        patch.object(served, "post", wraps=served.post) as post,
    ):
        index.upsert([record(f"a#{n}") for n in range(160)])
    assert [len(call.kwargs["ids"]) for call in post.call_args_list] == [100, 25, 25, 10]
    assert index.count() == 160


@pytest.mark.slow
def test_vectors_over_the_bytes_of_a_request_are_sent_in_several(served):
    index = opened(served)
    texts = [str(n) * 9_000_000 for n in range(5)]
    index.upsert([Record(f"a#{n}", text, {}, vector(n)) for n, text in enumerate(texts)])
    assert [one.text for n in range(5) for one in index.read([f"a#{n}"])] == texts


def test_record_beyond_chromas_size_is_a_bad_document(served):
    index = opened(served)
    with pytest.raises(BadDocument, match=r"a#0 has 48 MB"):
        index.upsert([Record("a#0", "\x01" * 8_000_000, {}, vector(0))])
    assert index.count() == 0


@pytest.mark.parametrize(
    "where", [{"$nonsense": 1}, {"a": {"$like": "b"}}, {"a": {"b": {}}}, {"a": 1, "b": 2}]
)
def test_filter_that_chroma_refuses_raises(served, where):
    index = opened(served)
    index.upsert([record("a#0")])
    with pytest.raises(ValueError, match="filter"):
        index.query(vector(0)[np.newaxis], 1, where)


@pytest.mark.parametrize(
    ("least", "written", "records"),
    [
        (25, [], 100),
        (25, [(100, 0.1)], 166),  # half of the way from 5 ms to 1 ms
        (25, [(100, 0.1), (166, 0.166), (250, 0.25), (333, 0.333)], 400),
        (25, [(100, 0.62)], 80),
        (25, [(100, 4.0)], 25),
        (100, [(100, 4.0)], 100),
        (25, [(100, 4.0), (25, 0.1), (25, 0.1), (25, 0.1)], 58),
        (25, [(1, 3.0)], 100),  # of one record it is the request that takes time
        (25, [(100, 0.0)], 199),
    ],
)
def test_request_of_half_a_second_is_measured(
    least: int, written: list[tuple[int, float]], records: int
) -> None:
    pace = WritePace(least)
    for number, seconds in written:
        pace.wrote(number, seconds)
    assert pace.records == records


# --- the reach of search ------------------------------------------------------------------------------------

NEVER = DEEP + 1


@dataclass
class Hiding(MemoryIndex):
    """An index that hides records from searches.

    ``depths``: by record, the fewest neighbours among which it is found.
    """

    depths: Mapping[RecordId, int] = field(default_factory=dict)
    looked_up: list[RecordId] = field(default_factory=list)
    written: list[RecordId] = field(default_factory=list)

    def upsert(self, records: Sequence[Record]) -> None:
        super().upsert(records)
        self.written += [each.id for each in records]
        self.depths = {id_: depth for id_, depth in self.depths.items() if id_ not in self.written}

    def sample(self, offset: int, size: int) -> list[Record]:
        return [*self.records.values()][offset : offset + size]

    def nearest(
        self, vectors: Vectors | Sequence[Vector], n: int, where: dict[str, object] | None = None
    ) -> list[list[tuple[RecordId, float]]]:
        answers = super().nearest(vectors, len(self.records), where)
        return [[hit for hit in hits if self.depths.get(hit[0], 0) <= n][:n] for hits in answers]

    def read(self, ids: Sequence[RecordId], *, vectors: bool = False) -> list[Record]:
        self.looked_up += ids
        return super().read(ids, vectors=vectors)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("depth", "hidden", "lost"),
    [
        (NEAREST, 300, 0),
        (NEAR, 300, 0),
        (DEEP, FEW, 0),
        (DEEP, FEW + 1, FEW + 1),  # so many are not missed by a whole graph: no deep search follows
        (NEVER, 2, 2),
    ],
)
def test_record_that_a_deeper_search_returns_is_within_reach(depth: int, hidden: int, lost: int) -> None:
    records = many(300)
    depths = dict.fromkeys([one.id for one in records[:hidden]], depth)
    index = Hiding({one.id: one for one in records}, depths=depths)
    assert unreachable(index, records) == [one.id for one in records[:lost]]


def test_texts_of_possible_twins_alone_are_read() -> None:
    """A record with the vector and the text of another one is found by it; with another text it is not."""
    others = many(20, start=50)
    first, twin = record("a#0", "the same", 1), record("a#1", "the same", 1)
    alike = record("a#2", "another text", 1)
    everything = [first, twin, alike, *others]
    index = Hiding({one.id: one for one in everything}, depths={"a#1": NEVER, "a#2": NEVER})
    assert unreachable(index, everything) == ["a#2"]
    assert set(index.looked_up) == {"a#0"}


def test_index_that_answers_nothing_finds_nothing() -> None:
    index = Hiding({one.id: one for one in many(3)}, depths=dict.fromkeys([one.id for one in many(3)], NEVER))
    assert unreachable(index, many(3)) == [one.id for one in many(3)]
    assert unreachable(index, []) == []


@pytest.mark.parametrize(("records", "lost"), [(CLOSER, 1), (300, FEW), (CLOSER + 100, 1)])
def test_few_lost_records_are_written_again(records: int, lost: int) -> None:
    everything = many(records)
    depths = {one.id: NEVER for one in everything[:lost]}
    index = Hiding({one.id: one for one in everything}, depths=depths)
    assert probe(index, 0, restore=True) is None  # type: ignore[arg-type]
    assert index.written == [*depths]
    assert probe(index, 0, restore=True) is None  # type: ignore[arg-type]
    assert index.written == [*depths], "nothing is lost any more"


def test_many_lost_records_are_reported_and_not_written() -> None:
    everything = many(100)
    depths = {one.id: NEVER for one in everything[: FEW + 1]}
    index = Hiding({one.id: one for one in everything}, depths=depths)
    words = f"search does not find {FEW + 1} of 100 records by their own vectors, such as {everything[0].id}"
    assert probe(index, 0, restore=True) == words  # type: ignore[arg-type]
    assert index.written == []
