"""What every index must do. A test module gives the fixture ``fresh``, which makes empty indexes, and a
subclass of ``IndexLaws``."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from ingestor.model import Record
from ingestor.ports import Index
from tests.examples import examples

DIMENSIONS = 8

Fresh = Callable[[], Index]


def vector(seed: int) -> np.ndarray:
    drawn = np.random.default_rng(seed).standard_normal(DIMENSIONS)
    return (drawn / np.linalg.norm(drawn)).astype(np.float32)


def record(name: str, text: str = "text", seed: int = 0, **metadata) -> Record:
    return Record(name, text, metadata, vector(seed))


def many(count: int, start: int = 0) -> list[Record]:
    return [record(f"doc{n // 7}#{n % 7}", f"text {n}", n, n=n) for n in range(start, start + count)]


def contents(index: Index) -> dict[str, tuple[str, dict, np.ndarray]]:
    found = index.read(list(index.ids()), vectors=True)
    return {one.id: (one.text, dict(one.metadata), one.vector) for one in found}


def same(found: dict, wanted: dict) -> None:
    assert found.keys() == wanted.keys()
    for name, (text, metadata, vector_) in wanted.items():
        assert found[name][0] == text
        assert found[name][1] == metadata
        assert all(type(found[name][1][key]) is type(value) for key, value in metadata.items())
        assert found[name][2].dtype == np.float32
        # Chroma normalises what it is given once more, which may move the last bit.
        np.testing.assert_allclose(found[name][2], vector_, rtol=0, atol=2e-7)


TEXTS = (
    "",
    " \n\t",
    "日本語 \U0001f469\u200d\U0001f467 e\u0301 \u202ertl\u202c",
    "\x00\x01\x1f\x7f\u2028\ufeff",
    'quotes " and \\ slashes',
    "long " * 100_000,
)
# Not a law: of integers, Chroma compares with the whole part only (2.5 as 2).
FILTERS = (
    ({"kind": "a"}, "ac"),
    ({"kind": {"$ne": "a"}}, "bde"),
    ({"page": {"$gt": 1}}, "bc"),
    ({"page": {"$gte": 1}}, "abc"),
    ({"page": {"$lt": 3.0}}, "ab"),
    ({"page": {"$lte": 2}}, "ab"),
    ({"page": {"$in": [1, 3]}}, "ac"),
    ({"page": {"$nin": [1, 3]}}, "bde"),
    ({"page": 2.0}, "b"),
    ({"draft": True}, "d"),
    ({"kind": "1"}, "e"),
    ({"$and": [{"kind": "a"}, {"page": {"$gt": 1}}]}, "c"),
    ({"$or": [{"kind": "b"}, {"page": 1}]}, "ab"),
    ({"kind": "absent"}, ""),
    ({}, "abcde"),
    (None, "abcde"),
)


class IndexLaws:
    @pytest.fixture
    def index(self, fresh: Fresh) -> Index:
        return fresh()

    def test_new_index_is_empty(self, index):
        assert index.count() == 0
        assert list(index.ids()) == []
        assert index.read(["a#0"]) == []
        assert index.query(vector(0)[np.newaxis], 3) == [[]]

    def test_records_are_read_back_as_upserted(self, index):
        metadata = {"source": "a/b.md", "page": 0, "score": 0.1, "whole": 1.0, "draft": False}
        metadata["least"] = -(2**63)
        index.upsert([record("a#0", "some text", 1, **metadata), record("b#0", "other", 2)])
        same(contents(index), {"a#0": ("some text", metadata, vector(1)), "b#0": ("other", {}, vector(2))})
        assert index.count() == 2

    def test_upserting_twice_is_upserting_once(self, index):
        for _ in range(2):
            index.upsert([record("a#0", "text", 1, page=3)])
        same(contents(index), {"a#0": ("text", {"page": 3}, vector(1))})

    def test_upsert_replaces_text_and_vector_in_place(self, index):
        index.upsert([record("a#0", "old", 1), record("a#1", "stays", 2)])
        index.upsert([record("a#0", "new", 3)])
        same(contents(index), {"a#0": ("new", {}, vector(3)), "a#1": ("stays", {}, vector(2))})
        assert index.count() == 2
        assert index.query(vector(3)[np.newaxis], 1)[0][0].text == "new"

    def test_metadata_is_merged_and_none_removes(self, index):
        index.upsert([record("a#0", page=1, title="T", author=None)])
        assert contents(index)["a#0"][1] == {"page": 1, "title": "T"}
        index.upsert([record("a#0", page=None, language="en")])
        assert contents(index)["a#0"][1] == {"title": "T", "language": "en"}
        index.patch([("a#0", {"title": None, "language": None, "never": None})])
        assert contents(index)["a#0"][1] == {}

    def test_lists_of_strings_are_values_like_others(self, index):
        index.upsert([record("a#0", seed=1, headings=["A", "Ä b", ""]), record("b#0", seed=2, headings="A")])
        index.patch([("b#0", {"headings": ["B", "B"]})])
        assert [meta["headings"] for _, meta, _ in contents(index).values()] == [["A", "Ä b", ""], ["B", "B"]]
        (hits,) = index.query(vector(0)[np.newaxis], 9, {"headings": {"$contains": "A"}})
        assert [hit.id for hit in hits] == ["a#0"]
        index.patch([("a#0", {"headings": None})])
        assert contents(index)["a#0"][1] == {}
        index.upsert([record("b#0", seed=2, headings=None)])
        assert contents(index)["b#0"][1] == {}

    def test_patch_changes_metadata_only(self, index):
        index.upsert([record("a#0", "text", 1, page=1, title="T"), record("b#0", "text", 2, page=1)])
        index.patch([("a#0", {"page": 2}), ("b#0", {"page": None, "title": "B"})])
        first, second = ("text", {"page": 2, "title": "T"}, vector(1)), ("text", {"title": "B"}, vector(2))
        same(contents(index), {"a#0": first, "b#0": second})

    def test_patch_of_nothing_known_makes_nothing(self, index):
        index.patch([("a#0", {"page": 2})])
        assert contents(index) == {}
        index.upsert([record("a#0", "text", 1)])
        assert contents(index)["a#0"][1] == {}

    def test_dropping_is_idempotent_and_spares_the_others(self, index):
        index.upsert([record("a#0", seed=1), record("b#0", seed=2)])
        for _ in range(2):
            index.drop(["a#0", "never#0"])
        assert list(index.ids()) == ["b#0"]
        index.upsert([record("a#0", "again", 3)])
        same(contents(index), {"a#0": ("again", {}, vector(3)), "b#0": ("text", {}, vector(2))})

    def test_empty_calls_change_nothing(self, index):
        index.upsert([])
        index.patch([])
        index.drop([])
        assert index.read([]) == []
        assert index.count() == 0

    def test_reading_takes_each_id_once_and_vectors_on_demand(self, index):
        index.upsert([record("a#0", seed=1)])
        (found,) = index.read(["a#0", "never#0", "a#0"])
        assert found.id == "a#0"
        assert len(found.vector) == 0

    def test_records_over_the_limit_of_a_request_are_sent_in_several(self, index):
        records = many(2100)
        index.upsert(records)
        names = [one.id for one in records]
        assert index.count() == 2100
        assert sorted(index.ids()) == sorted(names)
        assert {one.id for one in index.read(names)} == set(names)
        index.patch([(name, {"n": -1}) for name in names[:400]])
        index.drop(names[300:])
        assert sorted(index.ids()) == sorted(names[:300])
        assert {one.metadata["n"] for one in index.read(names)} == {-1}

    def test_every_record_is_found_by_its_own_vector(self, index):
        records = many(300)
        index.upsert(records)
        hits = index.query(np.stack([one.vector for one in records]), 3)
        assert [found[0].id for found in hits] == [one.id for one in records]
        assert all(len(found) == 3 for found in hits)
        for found, one in zip(hits, records, strict=True):
            assert found[0].score == pytest.approx(1, abs=1e-5)
            assert found[0].text == one.text
            assert found[0].metadata == one.metadata
            assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
        nearest = index.nearest(np.stack([one.vector for one in records]), 3)
        assert nearest == [[(hit.id, hit.score) for hit in found] for found in hits]

    def test_score_is_the_cosine(self, index):
        index.upsert([record("a#0", seed=1), record("b#0", seed=2)])
        (hits,) = index.query(vector(3)[np.newaxis], 5)
        wanted = {"a#0": vector(1) @ vector(3), "b#0": vector(2) @ vector(3)}
        assert {hit.id: hit.score for hit in hits} == pytest.approx(wanted, abs=1e-5)

    def test_filters_select_the_same_records_as_chroma(self, index):
        index.upsert(
            [
                record("a", seed=1, kind="a", page=1),
                record("b", seed=2, kind="b", page=2),
                record("c", seed=3, kind="a", page=3),
                record("d", seed=4, draft=True),
                record("e", seed=5, kind="1"),
            ]
        )
        for where, wanted in FILTERS:
            (hits,) = index.query(vector(0)[np.newaxis], 9, where)
            assert "".join(sorted(hit.id for hit in hits)) == wanted, where

    def test_text_of_any_characters_is_stored_unchanged(self, index):
        for text in TEXTS:
            index.upsert([Record("id ü/%#?&#0", text, {"key ü.$#": text[:1000]}, vector(1))])
            same(contents(index), {"id ü/%#?&#0": (text, {"key ü.$#": text[:1000]}, vector(1))})

    def test_vectors_that_are_not_finite_are_refused(self, index):
        with pytest.raises(ValueError, match="a#0"):
            index.upsert([record("b#0"), Record("a#0", "text", {}, vector(1) * np.float32("nan"))])
        assert index.count() == 0

    def test_indexes_are_apart(self, fresh):
        one, other = fresh(), fresh()
        one.upsert([record("a#0")])
        assert other.count() == 0

    def test_store_after_any_sequence_equals_a_dictionary(self, fresh):
        run_state_machine_as_test(
            lambda: _Machine(fresh()), settings=examples(16, stateful_step_count=12, deadline=None)
        )


# Over HTTP Chroma keeps 15 digits of a float, not its last bit.
_floats = st.floats(-1, 1).map(lambda value: round(value, 9))
_names = st.sampled_from(["a#0", "a#1", "b#0", "c#0"])
_metadata = st.dictionaries(
    st.sampled_from(["page", "title", "draft"]),
    st.none() | st.integers(-9, 9) | st.sampled_from(["x", "ü", ""]) | st.booleans() | _floats,
)


class _Machine(RuleBasedStateMachine):
    """The index beside a plain dictionary."""

    def __init__(self, index: Index) -> None:
        super().__init__()
        self.index, self.model = index, {}

    @rule(rows=st.dictionaries(_names, st.tuples(st.text(max_size=5), st.integers(0, 5), _metadata)))
    def upsert(self, rows):
        records = [Record(name, text, meta, vector(seed)) for name, (text, seed, meta) in rows.items()]
        self.index.upsert(records)
        for one in records:
            before = self.model[one.id][1] if one.id in self.model else {}
            self.model[one.id] = (one.text, _merged(before, one.metadata), one.vector)

    @rule(rows=st.dictionaries(_names, _metadata))
    def patch(self, rows):
        self.index.patch(list(rows.items()))
        for name in rows.keys() & self.model.keys():
            text, before, vector_ = self.model[name]
            self.model[name] = (text, _merged(before, rows[name]), vector_)

    @rule(names=st.lists(_names))
    def drop(self, names):
        self.index.drop(names)
        for name in names:
            self.model.pop(name, None)

    @invariant()
    def agrees(self):
        same(contents(self.index), self.model)
        assert self.index.count() == len(self.model)
        if not self.model:
            return
        vectors = np.stack([vector_ for _, _, vector_ in self.model.values()])
        for name, hits in zip(self.model, self.index.query(vectors, len(self.model)), strict=True):
            assert {hit.id for hit in hits} == self.model.keys()
            assert name in {hit.id for hit in hits if hit.score > 1 - 1e-5}


def _merged(before: dict, changes: dict) -> dict:
    return {key: value for key, value in {**before, **changes}.items() if value is not None}
