"""Which collections are opened, made, refused and deleted, and what they tell readers."""

import subprocess
import sys
from unittest.mock import patch
from uuid import UUID

import numpy as np
import pytest

from ingestor.chroma.collections import OWNER, Ownership, changed_settings, delete_collection, find_collection
from ingestor.chroma.index import ChromaIndex
from ingestor.chroma.reach import probe
from ingestor.model import ReaderModel
from ingestor.ports import Gone, NeedsHuman
from ingestor.registry import find
from tests.chroma.laws import DIMENSIONS, record, vector
from tests.chroma.opening import opened
from tests.serving import HOST


def test_a_collection_tells_readers_how_to_embed(served):
    plugin = find("embedders", "sentence-transformers")
    opened(served, "told", model=plugin.build(plugin.options()).reader_model())
    configuration = served.api.get_collection("told").configuration_json
    assert configuration["hnsw"]["space"] == "cosine"
    assert configuration["embedding_function"] == {
        "type": "known",
        "name": "sentence_transformer",
        "config": {
            "model_name": "all-MiniLM-L6-v2", "device": "cpu", "normalize_embeddings": True, "kwargs": {},
        },
    }  # fmt: skip


def test_readers_may_be_told_of_any_function_of_chroma_s(served):
    told = {"url": "http://127.0.0.1:1", "model_name": "bge-m3", "timeout": 60}
    opened(served, "told-ollama", model=ReaderModel("ollama", told))
    kept = served.api.get_collection("told-ollama").configuration_json["embedding_function"]
    assert kept == {"type": "known", "name": "ollama", "config": told}
    with pytest.raises(
        NeedsHuman, match=r"'my-own' for readers, which is not one of Chroma's.*ollama.*reader_model"
    ):
        opened(served, "told-nonsense", model=ReaderModel("my-own", {}))


def test_a_collection_changes_over_to_another_function_and_keeps_its_records(served):
    first = opened(served, "changed", model=ReaderModel("ollama", {"url": "http://a", "model_name": "m"}))
    first.upsert([record("a#0")])
    before = served.api.get_collection("changed").configuration_json["hnsw"]
    told = {"url": "http://127.0.0.1:8001/embed/abc", "api_key_env_var": None}
    again = opened(served, "changed", model=ReaderModel("huggingface_server", told))
    kept = served.api.get_collection("changed").configuration_json
    assert kept["embedding_function"] == {"type": "known", "name": "huggingface_server", "config": told}
    assert (kept["hnsw"], again.uuid, again.count()) == (before, first.uuid, 1)
    with patch.object(type(served.api), "reconfigure") as described:
        opened(served, "changed", model=ReaderModel("huggingface_server", told))
    described.assert_not_called()


def test_writing_and_querying_load_no_model(open_server):
    code = f"""
import sys
import numpy as np
from ingestor.chroma.client import connect
from ingestor.chroma.collections import Ownership, open_collection
from ingestor.model import Record
from ingestor.registry import find
plugin = find("embedders", "sentence-transformers")
model = plugin.build(plugin.options()).reader_model()
assert "chromadb" not in sys.modules
with connect({HOST!r}, {open_server.port}, token={open_server.secret!r}) as client:
    for _ in range(2):
        index = open_collection(client, "light", model=model, dimensions=4, owner=Ownership("ours"))
        index.upsert([Record("a#0", "text", {{"k": 1}}, np.eye(4, dtype=np.float32)[0])])
        index.patch([("a#0", {{"k": 2}})])
        assert index.query(np.eye(4, dtype=np.float32)[:1], 1)[0][0].metadata == {{"k": 2}}
assert not {{"torch", "sentence_transformers", "onnxruntime"}} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_opening_again_gives_the_same_collection(served):
    first = opened(served, "again")
    first.upsert([record("a#0")])
    second = opened(served, "again")
    assert second.uuid == first.uuid
    assert second.count() == 1
    assert find_collection(served, "again", owner=Ownership("ours")).uuid == first.uuid


def test_finding_makes_nothing(served):
    assert find_collection(served, "not-there", owner=Ownership("ours")) is None
    assert find_collection(served, "not-there", owner=Ownership("ours")) is None


def test_a_collection_with_foreign_records_is_refused_and_untouched(served):
    theirs = served.api.create_collection("foreign")
    ChromaIndex(served, theirs.id).upsert([record("their#0")])
    for attempt in (opened, find_collection, delete_collection):
        with pytest.raises(NeedsHuman, match=r"foreign.*1 record "):
            attempt(served, "foreign", owner=Ownership("ours"))
    assert served.api.get_collection("foreign").id == theirs.id
    assert list(ChromaIndex(served, theirs.id).ids()) == ["their#0"]


def test_a_collection_of_another_state_is_refused_even_if_empty(served):
    theirs = opened(served, "others", owner=Ownership("theirs"))
    for attempt in (opened, find_collection, delete_collection):
        with pytest.raises(NeedsHuman, match="theirs"):
            attempt(served, "others", owner=Ownership("ours"))
    assert served.api.get_collection("others").id == theirs._uuid


def test_an_empty_unmarked_collection_gives_way(served):
    """A reader's get_or_create_collection that came first: its space is wrong, and can't be changed."""
    impostor = served.api.create_collection("impostor")
    assert find_collection(served, "impostor", owner=Ownership("ours")) is None
    index = opened(served, "impostor")
    assert index.uuid != str(impostor.id)
    assert served.api.get_collection("impostor").configuration_json["hnsw"]["space"] == "cosine"


def test_vectors_of_another_length_are_refused(served):
    opened(served, "long", dimensions=4)
    index = opened(served, "long", dimensions=DIMENSIONS)  # nothing in it yet
    index.upsert([record("a#0")])
    with pytest.raises(NeedsHuman, match=f"{DIMENSIONS} dimensions.*makes 4"):
        opened(served, "long", dimensions=4)
    assert index.count() == 1


def test_a_name_that_chroma_refuses(served):
    with pytest.raises(NeedsHuman, match="'a'"):
        opened(served, "a")


def test_deleting_is_harmless_where_nothing_is(served):
    index = opened(served, "short-lived")
    for _ in range(2):
        delete_collection(served, "short-lived", owner=Ownership("ours"))
    assert opened(served, "short-lived").uuid != index.uuid


@pytest.mark.parametrize("replaced", [False, True])
def test_a_collection_that_was_deleted_is_gone(served, replaced):
    name = f"gone-{replaced}"
    index = opened(served, name)
    index.upsert([record("a#0")])
    served.api.delete_collection(name)
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


@pytest.mark.parametrize("way", ["served", "inside"])
def test_settings_that_a_stranger_changed_are_named_and_restored(request, way):
    client = request.getfixturevalue(way)
    index = opened(client, "settings", model=MODEL)
    index.upsert([record("a#0")])
    before = client.api.get_collection("settings").configuration_json
    assert changed_settings(client, "settings", MODEL, known=True) == []
    strange = STRANGE if way == "served" else {"hnsw": STRANGE["hnsw"]}
    client.api.reconfigure(UUID(index.uuid), strange)
    told = changed_settings(client, "settings", MODEL, known=True, restore=True)
    assert {"ef_search is 1, not 400", "sync_threshold is 9, not 1000"} <= set(told)
    assert len(told) == (4 if way == "served" else 3)
    assert client.api.get_collection("settings").configuration_json == before
    assert changed_settings(client, "settings", MODEL, known=True) == []
    client.api.reconfigure(UUID(index.uuid), strange)
    opened(client, "settings", model=MODEL)
    assert client.api.get_collection("settings").configuration_json == before
    assert [one.id for one in index.read(["a#0"])] == ["a#0"]


def test_a_function_is_judged_only_where_the_embedder_is_known(served):
    index = opened(served, "unknown", model=None)
    served.api.reconfigure(UUID(index.uuid), {"embedding_function": STRANGE["embedding_function"]})
    assert changed_settings(served, "unknown", None, known=False, restore=True) == []
    (told,) = changed_settings(served, "unknown", None, known=True, restore=True)
    assert told == "readers embed by ollama http://evil.example, not a function of their own"
    assert changed_settings(served, "unknown", None, known=True) == []


def test_the_graph_of_an_earlier_version_keeps_its_neighbours(served):
    """It cannot be widened in place; only how deep it is searched is judged."""
    earlier = {"space": "cosine", "ef_construction": 100, "max_neighbors": 32, "ef_search": 100}
    made = served.api.create_collection("earlier", {"hnsw": earlier}, {OWNER: "ours"})
    assert changed_settings(served, "earlier", None, known=True) == []
    served.api.reconfigure(made.id, {"hnsw": {"ef_search": 1}})
    assert changed_settings(served, "earlier", None, known=True, restore=True) == ["ef_search is 1, not 100"]
    assert served.api.get_collection("earlier").configuration_json["hnsw"]["max_neighbors"] == 32
