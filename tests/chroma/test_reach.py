"""What is out of search's reach, by an index that finds a record only among enough neighbours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from ingestor.chroma.index import DEEP, FEW, NEAR, NEAREST, unreachable
from ingestor.model import Record, RecordId, Vector, Vectors
from tests.chroma.laws import many, record
from tests.memory_index import MemoryIndex

NEVER = DEEP + 1


@dataclass
class Hiding(MemoryIndex):
    """``depths``: of a record, the fewest neighbours among which it is found."""

    depths: Mapping[RecordId, int] = field(default_factory=dict)
    looked_up: list[RecordId] = field(default_factory=list)

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
