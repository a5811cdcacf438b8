"""Chroma as an index: the laws over HTTP and in this process, whose collections are touched, and errors."""

import shutil
import sqlite3
import subprocess
import sys
from itertools import count
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

import numpy as np
import pytest

from ingestor.chroma import index as chroma_index
from ingestor.chroma.api.arithmetic import as_returned
from ingestor.chroma.api.values import Refused
from ingestor.chroma.client import Unanswered, connect, embedded, translated
from ingestor.chroma.collections import delete_collection, find_collection, open_collection
from ingestor.chroma.index import ChromaIndex
from ingestor.chroma.reach import probe
from ingestor.config.quotas import UNBOUNDED
from ingestor.embedders.rounding import unit
from ingestor.model import ReaderModel, Record
from ingestor.ports import BadDocument, Gone, NeedsHuman, Torn, Transient
from ingestor.registry import find
from tests.chroma.laws import DIMENSIONS, IndexLaws, many, record, vector
from tests.serving import HOST, answering, client_of, free_port, server, silent

_serial = count()


def opened(client, name=None, *, model=None, dimensions=DIMENSIONS, owner="ours"):
    name = name or f"collection-{next(_serial)}"
    return open_collection(client, name, model=model, dimensions=dimensions, owner=owner)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with server(tmp_path_factory.mktemp("chroma")) as started:
        yield started


@pytest.fixture(scope="module")
def served(running):
    with client_of(running) as client:
        yield client


class TestServed(IndexLaws):
    @pytest.fixture
    def fresh(self, served):
        return lambda: opened(served)


@pytest.fixture(scope="module")
def inside(tmp_path_factory):
    with embedded(tmp_path_factory.mktemp("embedded")) as client:
        yield client


class TestEmbedded(IndexLaws):
    @pytest.fixture
    def fresh(self, inside):
        return lambda: opened(inside)


@pytest.mark.parametrize("engine", ["served", "inside"])
def test_the_nearest_are_those_of_a_query_and_vectors_those_that_were_written(engine, request):
    index = opened(request.getfixturevalue(engine))
    records = many(60)
    index.upsert(records)
    asked, where = np.stack([vector(3), vector(8)]), {"n": {"$lt": 30}}
    for chosen in (None, where):
        found = index.query(asked, 9, chosen)
        assert index.nearest(asked, 9, chosen) == [[(hit.id, hit.score) for hit in hits] for hits in found]
        assert [index.nearest(one[np.newaxis], 9, chosen)[0] for one in asked] == index.nearest(
            asked, 9, chosen
        )
    found = index.vectors([*(one.id for one in records[:5]), "nothing#0", records[0].id])
    assert list(found) == [one.id for one in records[:5]]
    for one in records[:5]:
        np.testing.assert_allclose(found[one.id], one.vector, atol=1e-6)
    assert index.vectors([]) == {}
    with pytest.raises(ValueError, match="refuses"):
        index.nearest(asked, 1, {"n": {"$like": 1}})


# --- collections --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["served", "inside"])
@pytest.mark.parametrize("dimensions", [3, 64, 384, 1023])
def test_the_last_bits_of_returned_vectors_are_known(engine, dimensions, request):
    """Search computes with vectors that it did not read from Chroma, and gives the same scores."""
    index = opened(request.getfixturevalue(engine), dimensions=dimensions)
    chance = np.random.default_rng(dimensions)
    rough = chance.normal(size=(300, dimensions)).astype(np.float32)
    exact = np.concatenate([unit(rough), unit(rough * (chance.random(rough.shape) < 0.1)), 7 * rough[:9]])
    records = [Record(f"a#{n}", "text", {}, each) for n, each in enumerate(exact)]
    index.upsert(records)
    found = index.vectors([one.id for one in records])
    returned = np.stack([found[one.id] for one in records])
    assert not np.array_equal(returned, exact)
    np.testing.assert_array_equal(returned, as_returned(exact))


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
    with patch.object(type(served.api), "describe_function") as described:
        opened(served, "changed", model=ReaderModel("huggingface_server", told))
    described.assert_not_called()


def test_writing_and_querying_load_no_model(running):
    code = f"""
import sys
import numpy as np
from ingestor.chroma.client import connect
from ingestor.chroma.collections import open_collection
from ingestor.model import Record
from ingestor.registry import find
plugin = find("embedders", "sentence-transformers")
model = plugin.build(plugin.options()).reader_model()
assert "chromadb" not in sys.modules
with connect({HOST!r}, {running.port}) as client:
    for _ in range(2):
        index = open_collection(client, "light", model=model, dimensions=4, owner="ours")
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
    assert find_collection(served, "again", owner="ours").uuid == first.uuid


def test_finding_makes_nothing(served):
    assert find_collection(served, "not-there", owner="ours") is None
    assert find_collection(served, "not-there", owner="ours") is None


def test_a_collection_with_foreign_records_is_refused_and_untouched(served):
    theirs = served.api.create_collection("foreign")
    ChromaIndex(served, theirs.id).upsert([record("their#0")])
    for attempt in (opened, find_collection, delete_collection):
        with pytest.raises(NeedsHuman, match=r"foreign.*1 records"):
            attempt(served, "foreign", owner="ours")
    assert served.api.get_collection("foreign").id == theirs.id
    assert list(ChromaIndex(served, theirs.id).ids()) == ["their#0"]


def test_a_collection_of_another_state_is_refused_even_if_empty(served):
    theirs = opened(served, "others", owner="theirs")
    for attempt in (opened, find_collection, delete_collection):
        with pytest.raises(NeedsHuman, match="theirs"):
            attempt(served, "others", owner="ours")
    assert served.api.get_collection("others").id == theirs._uuid


def test_an_empty_unmarked_collection_gives_way(served):
    """A reader's get_or_create_collection that came first: its space is wrong, and can't be changed."""
    impostor = served.api.create_collection("impostor")
    assert find_collection(served, "impostor", owner="ours") is None
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
        delete_collection(served, "short-lived", owner="ours")
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


# --- requests -----------------------------------------------------------------------------------------------


class ManyIds:
    """Chroma's API with so many records, and what it was asked for."""

    def __init__(self, records: int) -> None:
        self.names = [f"{n}#0" for n in range(records)]
        self.asked: list[int] = []

    def get(self, uuid: UUID, *, limit: int, offset: int, include: list[str]) -> dict[str, list[str]]:
        self.asked.append(limit)
        return {"ids": self.names[offset : offset + limit]}


@pytest.mark.parametrize(
    ("records", "foreign", "requests", "largest"),
    [(0, False, 1, 2000), (5000, False, 4, 5000), (400_000, False, 11, 100_000), (400_000, True, 201, 2000)],
)
def test_ids_are_listed_in_few_requests(records: int, foreign: bool, requests: int, largest: int) -> None:
    """Each costs Chroma a walk over all records, so their number must not grow with them."""
    api = ManyIds(records)
    client: Any = SimpleNamespace(api=api, quotas=UNBOUNDED, foreign=foreign)
    assert list(ChromaIndex(client, uuid4()).ids()) == api.names
    assert (len(api.asked), max(api.asked)) == (requests, largest)


def test_a_patch_logs_no_vector_and_no_text(tmp_path):
    """Chroma's own log of operations, which it purges from time to time, shows what was sent to it."""
    with embedded(tmp_path) as client:
        index = opened(client)
        index.upsert([record("a#0", "the text")])
        index.patch([("a#0", {"page": 4})])
        with sqlite3.connect(tmp_path / "chroma.sqlite3") as database:
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
        patch.object(served.api, "upsert", wraps=served.api.upsert) as upsert,
    ):
        index.upsert([record(f"a#{n}") for n in range(160)])
    assert [len(call.kwargs["ids"]) for call in upsert.call_args_list] == [100, 25, 25, 10]
    assert index.count() == 160


@pytest.mark.slow
def test_more_bytes_than_a_request_may_have(served):
    index = opened(served)
    texts = [str(n) * 9_000_000 for n in range(5)]
    index.upsert([Record(f"a#{n}", text, {}, vector(n)) for n, text in enumerate(texts)])
    assert [one.text for n in range(5) for one in index.read([f"a#{n}"])] == texts


def test_a_record_that_chroma_can_not_take(served):
    index = opened(served)
    with pytest.raises(BadDocument, match=r"a#0 takes 48 MB"):
        index.upsert([Record("a#0", "\x01" * 8_000_000, {}, vector(0))])
    assert index.count() == 0


@pytest.mark.parametrize(
    "where", [{"$nonsense": 1}, {"a": {"$like": "b"}}, {"a": {"b": {}}}, {"a": 1, "b": 2}]
)
def test_a_filter_that_chroma_refuses(served, where):
    index = opened(served)
    index.upsert([record("a#0")])
    with pytest.raises(ValueError, match="filter"):
        index.query(vector(0)[np.newaxis], 1, where)


# --- errors -------------------------------------------------------------------------------------------------


def test_a_server_that_is_not_there():
    with connect(HOST, free_port()) as client, pytest.raises(Transient, match="can't be reached"):
        opened(client)


def test_a_server_that_does_not_answer():
    with silent() as port, connect(HOST, port, timeout=0.2) as client, pytest.raises(Unanswered):
        opened(client)


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (200, b"<html>welcome</html>", NeedsHuman),
        (401, b"who are you", NeedsHuman),
        (403, b'{"error": "AuthError", "message": "no"}', NeedsHuman),
        (429, b"later", Transient),
        (500, b'{"error": "InternalError", "message": "database is locked"}', Transient),
        (502, b"<html>bad gateway</html>", Transient),
        (500, b'{"error": "InternalError", "message": "Error in compaction: Failed to apply logs to the hnsw '
              b'segment writer"}', Torn),
        (500, b'{"error": "InternalError", "message": "Internal error: Error finding id"}', Torn),
    ],
)  # fmt: skip
def test_what_answers_mean(status, body, error):
    with (
        answering(status, body) as (port, _),
        connect(HOST, port) as client,
        pytest.raises(error) as raised,
    ):
        find_collection(client, "any", owner="ours")
    assert type(raised.value) is error


def test_the_token_is_sent():
    with (
        answering(500, b"") as (port, seen),
        connect(HOST, port, token="secret") as client,
        pytest.raises(Transient),
    ):
        find_collection(client, "any", owner="ours")
    assert seen[0]["authorization"] == "Bearer secret"
    assert seen[0]["x-chroma-token"] == "secret"


def test_this_machine_is_not_asked_for_through_a_proxy(running, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", f"http://{HOST}:{free_port()}")
    monkeypatch.setenv("http_proxy", f"http://{HOST}:{free_port()}")
    with connect(HOST, running.port) as client:
        assert opened(client).count() == 0


# --- health -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("records", [0, 1, 2, 30])
def test_a_whole_collection_is_well(served, records):
    index = opened(served)
    index.upsert(many(records))
    assert probe(index) is None


def test_a_vector_that_finds_nothing_is_noticed(served):
    index = opened(served)
    index.upsert([*many(9), Record("zero#0", "text", {}, np.zeros(DIMENSIONS, dtype=np.float32))])
    assert "zero#0" in probe(index)


@pytest.fixture(scope="module")
def two_collections(tmp_path_factory):
    """A folder of a server that has stopped, with the collections ``whole`` and ``torn``."""
    folder = tmp_path_factory.mktemp("two")
    with server(folder) as running, client_of(running) as client:
        opened(client, "whole").upsert(many(10))
        opened(client, "torn").upsert(many(1200))
    return folder / "db"


@pytest.mark.parametrize("damage", ["cut the map", "cut the links", "lose the vectors", "lose all"])
def test_a_torn_collection_is_noticed_and_can_be_made_anew(tmp_path, two_collections, damage):
    """Torn as kill -9 or a full disk tears it: files that are cut off or not there."""
    shutil.copytree(two_collections, tmp_path / "db")
    records = many(1200)
    _tear(tmp_path / "db", damage)
    with server(tmp_path) as running, client_of(running) as client:
        index = opened(client, "torn")
        with pytest.raises(Torn):
            _use(index, records)
        assert probe(opened(client, "whole")) is None
        if damage == "cut the links":  # which only writers follow
            assert probe(index) is None
        else:
            with pytest.raises(Torn):
                probe(index)
        delete_collection(client, "torn", owner="ours")
        anew = opened(client, "torn")
        anew.upsert(records)
        assert probe(anew) is None
        assert anew.count() == 1200


def _use(index, records):
    index.read([one.id for one in records], vectors=True)
    index.upsert(records)


def _tear(path, damage):
    segment = max(path.glob("*/length.bin"), key=lambda file: file.stat().st_size).parent  # of most records
    if damage == "cut the map":
        data = (segment / "index_metadata.pickle").read_bytes()
        (segment / "index_metadata.pickle").write_bytes(data[: len(data) // 2])
    elif damage == "cut the links":
        (segment / "link_lists.bin").write_bytes(b"")
    elif damage == "lose the vectors":
        (segment / "data_level0.bin").unlink()
    else:
        for file in segment.iterdir():
            file.unlink()


def test_a_server_too_old_for_lists_is_told() -> None:
    """As Chroma 1.4.1 answers."""
    said = (
        "metadatas[0].headings: data did not match any variant of untagged enum UpdateMetadataValue at line 1"
    )
    with pytest.raises(NeedsHuman, match=r"older than 1\.5 .*: upgrade it"), translated():
        raise Refused(f"Failed to deserialize the JSON body into the target type: {said}", "", 422)
