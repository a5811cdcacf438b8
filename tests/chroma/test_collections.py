"""Collections of a real Chroma: opened, refused, renamed, emptied and deleted; what they name for readers."""

import subprocess
import sys
from unittest.mock import patch
from uuid import UUID

import numpy as np
import pytest
from chromadb.utils.embedding_functions import known_embedding_functions

from ingestor.chroma.backend import OWNER, Ownership
from ingestor.chroma.index import ChromaIndex, probe
from ingestor.core.entries import ChromaName, Edition, EditionName
from ingestor.core.generations import Home, stamp
from ingestor.model import CollectionName, ReaderModel
from ingestor.ports import Gone, NeedsHuman, Transient
from ingestor.registry import find
from tests.chroma.laws import DIMENSIONS, many, record, vector
from tests.chroma.opening import catalog, embedder, opened
from tests.serving import HOST


def test_collection_names_its_embedding_function(served):
    plugin = find("embedders", "sentence-transformers")
    opened(served, "told", model=plugin.build(plugin.options()).reader_model())
    configuration = served.get_collection("told").configuration_json
    assert configuration["hnsw"]["space"] == "cosine"
    assert configuration["embedding_function"] == {
        "type": "known",
        "name": "sentence_transformer",
        "config": {
            "model_name": "all-MiniLM-L6-v2", "device": "cpu", "normalize_embeddings": True, "kwargs": {},
        },
    }  # fmt: skip


def test_readers_get_any_embedding_function_of_chroma(served):
    told = {"url": "http://127.0.0.1:1", "model_name": "bge-m3", "timeout": 60}
    opened(served, "told-ollama", model=ReaderModel("ollama", told))
    kept = served.get_collection("told-ollama").configuration_json["embedding_function"]
    assert kept == {"type": "known", "name": "ollama", "config": told}


def test_collection_changes_over_to_another_function_and_keeps_its_records(served):
    first = opened(served, "changed", model=ReaderModel("ollama", {"url": "http://a", "model_name": "m"}))
    first.upsert([record("a#0")])
    before = served.get_collection("changed").configuration_json["hnsw"]
    told = {"url": "http://127.0.0.1:8001/embed/abc", "api_key_env_var": None}
    again = opened(served, "changed", model=ReaderModel("huggingface_server", told))
    kept = served.get_collection("changed").configuration_json
    assert kept["embedding_function"] == {"type": "known", "name": "huggingface_server", "config": told}
    assert (kept["hnsw"], again.uuid, again.count()) == (before, first.uuid, 1)
    with patch.object(type(served), "change_collection") as described:
        opened(served, "changed", model=ReaderModel("huggingface_server", told))
    described.assert_not_called()


@pytest.mark.slow  # tests/test_layers.py has where these packages may be imported
def test_writing_and_querying_load_no_model(open_server):
    code = f"""
import sys
import numpy as np
from ingestor.chroma.client import Client
from ingestor.model import Record
from ingestor.registry import find
from tests.chroma.opening import opened
plugin = find("embedders", "sentence-transformers")
model = plugin.build(plugin.options()).reader_model()
assert "chromadb" not in sys.modules
with Client({HOST!r}, {open_server.port}, token={open_server.secret!r}) as client:
    for _ in range(2):
        index = opened(client, "light", model=model, dimensions=4)
        index.upsert([Record("a#0", "text", {{"k": 1}}, np.eye(4, dtype=np.float32)[0])])
        index.patch([("a#0", {{"k": 2}})])
        assert index.query(np.eye(4, dtype=np.float32)[:1], 1)[0][0].metadata == {{"k": 2}}
assert not {{"torch", "sentence_transformers", "onnxruntime"}} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_collection_opened_again_is_the_same_and_a_look_up_creates_none(served):
    for _ in range(2):
        assert catalog(served).find("again") is None
    first = opened(served, "again")
    first.upsert([record("a#0")])
    second = opened(served, "again")
    assert (second.uuid, second.count()) == (first.uuid, 1)
    assert catalog(served).find("again").uuid == first.uuid


def test_collection_with_foreign_records_is_refused_and_untouched(served):
    theirs = served.create_collection("foreign")
    ChromaIndex(served, theirs.id).upsert([record("their#0")])
    ours = catalog(served)
    for attempt in (lambda name: opened(served, name), ours.find):
        with pytest.raises(NeedsHuman, match=r"foreign.*1 record "):
            attempt("foreign")
    ours.delete("foreign")
    assert served.get_collection("foreign").id == theirs.id
    assert list(ChromaIndex(served, theirs.id).ids()) == ["their#0"]


def test_collection_of_another_state_is_refused_even_if_empty(served):
    theirs = opened(served, "others", owner=Ownership("theirs"))
    ours = catalog(served)
    for attempt in (lambda name: opened(served, name), ours.find):
        with pytest.raises(NeedsHuman, match="theirs"):
            attempt("others")
    ours.delete("others")
    assert str(served.get_collection("others").id) == theirs.uuid


def test_empty_unmarked_collection_gives_way(served):
    """A reader's get_or_create_collection that came first: its space is wrong, and can't be changed."""
    impostor = served.create_collection("impostor")
    assert catalog(served).find("impostor") is None
    index = opened(served, "impostor")
    assert index.uuid != str(impostor.id)
    assert served.get_collection("impostor").configuration_json["hnsw"]["space"] == "cosine"


def test_vectors_of_another_length_are_refused(served):
    opened(served, "long", dimensions=4)
    index = opened(served, "long", dimensions=DIMENSIONS)  # nothing in it yet
    index.upsert([record("a#0")])
    with pytest.raises(NeedsHuman, match=f"{DIMENSIONS} dimensions.*returns 4"):
        opened(served, "long", dimensions=4)
    assert index.count() == 1


def test_name_that_chroma_refuses_needs_a_person(served):
    with pytest.raises(NeedsHuman, match="'a'"):
        opened(served, "a")


def test_delete_of_missing_collection_does_nothing(served):
    index = opened(served, "short-lived")
    for _ in range(2):
        catalog(served).delete("short-lived")
    assert opened(served, "short-lived").uuid != index.uuid


@pytest.mark.parametrize("replaced", [False, True])
def test_collection_that_was_deleted_is_gone(served, replaced):
    name = f"gone-{replaced}"
    index = opened(served, name)
    index.upsert([record("a#0")])
    served.delete_collection(name)
    if replaced:
        opened(served, name)
    for use in (
        index.count,
        lambda: index.read(["a#0"]),
        lambda: list(index.ids()),
        lambda: index.upsert([record("a#0")]),
        lambda: index.patch([("a#0", {"k": 1})]),
        lambda: index.drop(["a#0"]),
        lambda: index.query(vector(0)[np.newaxis], 1),
        lambda: probe(index),
    ):
        with pytest.raises(Gone):
            use()


STRANGE = {
    "embedding_function": {"type": "known", "name": "ollama", "config": {"url": "http://evil.example"}},
    "hnsw": {"ef_search": 1, "max_neighbors": 2, "sync_threshold": 9},
}
MODEL = ReaderModel("huggingface_server", {"url": "http://127.0.0.1:8001/embed/abc", "api_key_env_var": None})


def changed(client, name, model, *, known=True, restore=False):
    """Settings that somebody else changed."""
    edition = Edition(EditionName(name), CollectionName(name))
    found = catalog(client).list_changed_settings(edition, embedder(model, known=known), restore=restore)
    return [each.removeprefix(f"{name}: ") for each in found]


def test_settings_that_a_stranger_changed_are_named_and_restored(served):
    client = served
    index = opened(client, "settings", model=MODEL)
    index.upsert([record("a#0")])
    before = client.get_collection("settings").configuration_json
    assert changed(client, "settings", MODEL) == []
    client.change_collection(UUID(index.uuid), "configuration", STRANGE)
    told = changed(client, "settings", MODEL, restore=True)
    assert {"ef_search is 1, not 400", "sync_threshold is 9, not 1000"} <= set(told)
    assert len(told) == 4
    assert client.get_collection("settings").configuration_json == before
    assert changed(client, "settings", MODEL) == []
    client.change_collection(UUID(index.uuid), "configuration", STRANGE)
    opened(client, "settings", model=MODEL)
    assert client.get_collection("settings").configuration_json == before
    assert [one.id for one in index.read(["a#0"])] == ["a#0"]


def test_function_is_judged_only_where_the_embedder_is_known(served):
    index = opened(served, "unknown", model=None)
    strange = {"embedding_function": STRANGE["embedding_function"]}
    served.change_collection(UUID(index.uuid), "configuration", strange)
    assert changed(served, "unknown", None, known=False, restore=True) == []
    (told,) = changed(served, "unknown", None, restore=True)
    assert told == "readers embed by ollama http://evil.example, not a function of their own"
    assert changed(served, "unknown", None) == []


def test_graph_of_an_earlier_version_keeps_its_neighbours(served):
    """It cannot be widened in place; only how deep it is searched is judged."""
    earlier = {"space": "cosine", "ef_construction": 100, "max_neighbors": 32, "ef_search": 100}
    made = served.create_collection("earlier", {"hnsw": earlier}, {OWNER: "ours"})
    assert changed(served, "earlier", None) == []
    served.change_collection(made.id, "configuration", {"hnsw": {"ef_search": 1}})
    assert changed(served, "earlier", None, restore=True) == ["ef_search is 1, not 100"]
    assert served.get_collection("earlier").configuration_json["hnsw"]["max_neighbors"] == 32


# --- names and deletion -------------------------------------------------------------------------------------


def test_open_collection_stays_readable_after_a_rename(served):
    index = opened(served, "first")
    index.upsert(many(3))
    assert catalog(served).rename(index.uuid, "first--1")
    assert served.names()[index.uuid] == "first--1"
    assert index.count() == 3
    again = opened(served, "first")
    assert (again.uuid != index.uuid, again.count()) == (True, 0)


def test_foreign_name_is_not_adopted(served):
    one, other = opened(served, "one"), opened(served, "other")
    assert not catalog(served).rename(one.uuid, "other")
    assert {served.names()[one.uuid], served.names()[other.uuid]} == {"one", "other"}
    assert catalog(served).rename(one.uuid, "one")  # its own


def test_foreign_collection_is_deleted_if_empty_and_else_renamed(served):
    served.create_collection("squatter")
    assert "empty" in catalog(served).evict("squatter")
    assert "squatter" not in served.names().values()
    full = opened(served, "squatter")
    full.upsert(many(2))
    aside = catalog(served).evict("squatter").removeprefix("kept, as ")
    assert served.names()[full.uuid] == aside
    assert full.count() == 2


def test_collections_of_this_state_and_home_are_listed(served):
    here, elsewhere = Home(host="here", state="/a"), Home(host="there", state="/b")
    for name, home in (("left-here", here), ("left-there", elsewhere), ("left-new", None)):
        index = opened(served, name)
        if home is not None:
            index.note(stamp("generation", home))
    served.create_collection("left-foreign", {}, {OWNER: "another state"})
    served.create_collection("left-unmarked")
    listed = catalog(served).own_names(here).values()
    assert {name for name in listed if name.startswith("left-")} == {"left-here", "left-new"}


@pytest.mark.parametrize(("theirs", "ours"), [("mixed-0-of-2", "mixed"), ("mingled", "mingled-1-of-3")])
def test_name_that_readers_confuse_with_anothers_collection_is_refused(served, theirs, ours):
    served.create_collection(theirs, {}, {OWNER: "another state"})
    with pytest.raises(NeedsHuman, match=f"--adopt {theirs}$"):
        opened(served, ours)


def test_records_of_ours_leave_no_lists_to_others_when_their_collection_is_deleted(served):
    """Chroma 1.5 gives the lists of a deleted collection to new records that take the same rows."""
    old = opened(served, "old")
    old.upsert([record(f"{n}#0", people=["Ada", f"guest {n}"]) for n in range(5)])
    catalog(served).delete(ChromaName("old"))
    new = opened(served, "new")
    new.upsert([record(f"{n}#0", topic="rain") for n in range(5)])
    assert [dict(each.metadata) for each in new.read([*new.ids()])] == [{"topic": "rain"}] * 5


def test_collection_is_emptied_by_and_by_while_others_are_written(served):
    opened(served, "old").upsert(many(5))
    collections, left = catalog(served), []
    while collections.empty(ChromaName("old"), 2):
        left.append(collections.find(ChromaName("old")).count())  # type: ignore[union-attr]
    assert left == [3, 1]
    assert not collections.empty(ChromaName("old"), 2)
    assert not collections.empty(ChromaName("missing"), 2)


def test_collection_whose_records_end_the_server_is_deleted_with_them_next_time(served, monkeypatch):
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


def test_new_record_takes_no_list_of_ours_that_a_stranger_left(served):
    stranger = opened(served, "stranger")
    stranger.upsert([record(f"{n}#0", folders=["a"], headings=["b"]) for n in range(5)])
    served.delete_collection("stranger")
    index = opened(served, "heir")
    index.upsert([record(f"{n}#0", folders=["c"]) if n else record("0#0") for n in range(5)])
    metadata = [dict(each.metadata) for each in index.read([f"{n}#0" for n in range(5)])]
    assert metadata == [{}, *[{"folders": ["c"]}] * 4]


def test_functions_that_we_name_for_readers_are_known_to_chroma() -> None:
    assert set(known_embedding_functions) >= {"sentence_transformer", "huggingface_server"}
