"""Renaming collections of a real Chroma."""

import pytest
from chromadb.utils.embedding_functions import known_embedding_functions

from ingestor.chroma.backend import OUR_FUNCTIONS
from ingestor.chroma.client import Client
from ingestor.chroma.index import ChromaIndex
from ingestor.core.entries import ChromaName
from ingestor.ports import Transient
from tests.chroma.laws import many, record
from tests.chroma.opening import catalog, opened


def test_open_collection_stays_readable_after_a_rename(served: Client) -> None:
    index = opened(served, "first")
    index.upsert(many(3))
    assert catalog(served).rename(index.uuid, "first--1")
    assert served.names()[index.uuid] == "first--1"
    assert index.count() == 3
    again = opened(served, "first")
    assert (again.uuid != index.uuid, again.count()) == (True, 0)


def test_foreign_name_is_not_adopted(served: Client) -> None:
    one, other = opened(served, "one"), opened(served, "other")
    assert not catalog(served).rename(one.uuid, "other")
    assert {served.names()[one.uuid], served.names()[other.uuid]} == {"one", "other"}
    assert catalog(served).rename(one.uuid, "one")  # its own


def test_foreign_collection_is_deleted_if_empty_and_else_renamed(served: Client) -> None:
    served.create_collection("impostor")
    assert "empty" in catalog(served).evict("impostor")
    assert "impostor" not in served.names().values()
    full = opened(served, "impostor")
    full.upsert(many(2))
    aside = catalog(served).evict("impostor").removeprefix("kept, as ")
    assert served.names()[full.uuid] == aside
    assert full.count() == 2


def test_records_of_ours_leave_no_lists_to_others_when_their_collection_is_deleted(served: Client) -> None:
    """Chroma 1.5 gives the lists of a deleted collection to new records that take the same rows."""
    old = opened(served, "old")
    old.upsert([record(f"{n}#0", people=["Ada", f"guest {n}"]) for n in range(5)])
    catalog(served).delete(ChromaName("old"))
    new = opened(served, "new")
    new.upsert([record(f"{n}#0", topic="rain") for n in range(5)])
    assert [dict(each.metadata) for each in new.read([*new.ids()])] == [{"topic": "rain"}] * 5


def test_collection_is_emptied_by_and_by_while_others_are_written(served: Client) -> None:
    opened(served, "old").upsert(many(5))
    collections, left = catalog(served), []
    while collections.empty(ChromaName("old"), 2):
        left.append(collections.find(ChromaName("old")).count())  # type: ignore[union-attr]
    assert left == [3, 1]
    assert not collections.empty(ChromaName("old"), 2)
    assert not collections.empty(ChromaName("missing"), 2)


def test_collection_whose_records_end_the_server_is_deleted_with_them_next_time(
    served: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(served, "torn").upsert(many(3))
    collections, drops = catalog(served), []

    def end_the_server(*others: object) -> None:
        drops.append(others)
        raise Transient("Chroma does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(ChromaIndex, "drop", end_the_server)
        patch.setattr(served, "delete_collection", end_the_server)
        with pytest.raises(Transient):
            collections.delete(ChromaName("torn"))
    collections.delete(ChromaName("torn"))
    assert "torn" not in served.names().values()
    assert len(drops) == 2, "its records once, and the collection once"


def test_new_record_takes_no_list_of_ours_that_a_stranger_left(served: Client) -> None:
    stranger = opened(served, "stranger")
    stranger.upsert([record(f"{n}#0", folders=["a"], headings=["b"]) for n in range(5)])
    served.delete_collection("stranger")
    index = opened(served, "heir")
    index.upsert([record(f"{n}#0", folders=["c"]) if n else record("0#0") for n in range(5)])
    metadata = [dict(each.metadata) for each in index.read([f"{n}#0" for n in range(5)])]
    assert metadata == [{}, *[{"folders": ["c"]}] * 4]


def test_functions_that_we_name_for_readers_are_known_to_chroma() -> None:
    assert set(known_embedding_functions) >= OUR_FUNCTIONS
