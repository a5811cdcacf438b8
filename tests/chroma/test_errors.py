"""What Chroma's errors mean, and that a torn collection is noticed."""

import os
import re
import resource
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import numpy as np
import pytest

from ingestor.chroma import server as chroma_server
from ingestor.chroma.client import Client, Full, Refused, Unanswered, port_error
from ingestor.chroma.index import ChromaIndex, probe
from ingestor.config.quotas import UNBOUNDED
from ingestor.model import Record
from ingestor.ports import NeedsHuman, Torn, Transient
from tests.chroma.laws import DIMENSIONS, many
from tests.chroma.opening import catalog, opened
from tests.serving import HOST, answering, client_of, server, silent


def test_server_that_does_not_answer_is_reported_with_a_remedy():
    lost = pytest.raises(Unanswered, match="--rebuild")
    with silent() as port, Client(HOST, port, timeout=0.2) as client, lost:
        opened(client)


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (200, b"<html>welcome</html>", NeedsHuman),
        (404, b"<!DOCTYPE HTML>\n<p>Nothing matches the given URI.</p>", NeedsHuman),
        (405, b'{"detail": "Method Not Allowed"}', NeedsHuman),
        (401, b"who are you", NeedsHuman),
        (403, b'{"error": "AuthError", "message": "no"}', NeedsHuman),
        (429, b"later", Transient),
        (500, b'{"error": "InternalError", "message": "database is locked"}', Transient),
        (502, b"<html>\n<p>bad gateway</p>\n</html>", Transient),
        (500, b'{"error": "InternalError", "message": "Error in compaction: Failed to apply logs to the hnsw '
              b'segment writer"}', Torn),
        (500, b'{"error": "InternalError", "message": "Internal error: Error finding id"}', Torn),
    ],
)  # fmt: skip
def test_answers_raise_the_error_that_they_mean(status, body, error):
    with answering(status, body) as (port, _), Client(HOST, port) as client, pytest.raises(error) as raised:
        catalog(client).find("any")
    assert type(raised.value) is error
    assert "\n" not in str(raised.value)


def test_vector_with_nan_means_a_damaged_file():
    """Chroma writes NaN as null: it returned random memory after its file length.bin was cut in half."""
    answer = {"ids": ["a", "b"], "documents": ["", ""], "embeddings": [[0.5, 0.5], [None, 1.0]]}
    client = SimpleNamespace(foreign=False, quotas=UNBOUNDED, post=lambda *asked, **wanted: answer)
    index = ChromaIndex(client, uuid4())
    for read in (lambda: index.sample(0, 2), lambda: index.vectors(["a", "b"])):
        with pytest.raises(Torn, match="record b"):
            read()


@pytest.mark.parametrize("records", [0, 1, 2, 30])
def test_healthy_collection_has_no_trouble(served, records):
    index = opened(served)
    index.upsert(many(records))
    assert probe(index) is None


def test_vector_that_finds_nothing_is_noticed(served):
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


RARER = ("cut the links", "cut the map", "lose all")


@pytest.mark.parametrize(
    "damage", ["lose the vectors", *(pytest.param(name, marks=pytest.mark.slow) for name in RARER)]
)
def test_torn_collection_is_noticed_and_can_be_rebuilt(tmp_path, two_collections, damage):
    """Torn as kill -9 or a full disk tears it: files that are cut off or not there."""
    shutil.copytree(two_collections, tmp_path / "db")
    records = many(1200)
    _tear(tmp_path / "db", damage)
    with server(tmp_path) as running, client_of(running) as client:
        index = opened(client, "torn")
        with pytest.raises(Torn):
            index.read([one.id for one in records], vectors=True) and index.upsert(records)
        assert probe(opened(client, "whole")) is None
        if damage == "cut the links":  # which only writers follow
            assert probe(index) is None
        else:
            with pytest.raises(Torn):
                probe(index)
        catalog(client).delete("torn")
        anew = opened(client, "torn")
        anew.upsert(records)
        assert probe(anew) is None
        assert anew.count() == 1200


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux bounds files of another process")
def test_links_cut_in_half_do_not_fill_the_disk(tmp_path, two_collections, monkeypatch):
    shutil.copytree(two_collections, tmp_path / "db")
    monkeypatch.setattr(chroma_server, "_SMALL_FILE", 2**22)
    bound = 4 * 2**22
    _tear(tmp_path / "db", "cut half of the links")
    with server(tmp_path) as running, client_of(running) as client:
        assert resource.prlimit(running.pid, resource.RLIMIT_FSIZE)[0] == bound
        [ignored] = re.findall(r"SigIgn:\s*(\w+)", Path(f"/proc/{running.pid}/status").read_text())
        assert not int(ignored, 16) & 1 << signal.SIGXFSZ - 1
        with suppress(Transient, Torn):  # Chroma reads random memory, so it may crash before the limit
            opened(client, "torn").upsert(many(1200, start=1200))
    [*links] = (tmp_path / "db").glob("*/link_lists.bin")
    assert max(file.stat().st_size for file in links) <= bound


def _tear(path, damage):
    segment = max(path.glob("*/length.bin"), key=lambda file: file.stat().st_size).parent  # of most records
    if damage == "cut the map":
        data = (segment / "index_metadata.pickle").read_bytes()
        (segment / "index_metadata.pickle").write_bytes(data[: len(data) // 2])
    elif damage == "cut the links":
        (segment / "link_lists.bin").write_bytes(b"")
    elif damage == "cut half of the links":
        os.truncate(segment / "link_lists.bin", (segment / "link_lists.bin").stat().st_size // 2 + 7)
    elif damage == "lose the vectors":
        (segment / "data_level0.bin").unlink()
    else:
        for file in segment.iterdir():
            file.unlink()


def test_server_too_old_for_lists_is_reported() -> None:
    """As Chroma 1.4.1 answers."""
    said = "metadatas[0].headings: data did not match any variant of untagged enum UpdateMetadataValue"
    meaning = port_error(
        Refused(f"Failed to deserialize the JSON body into the target type: {said}", "", 422)
    )
    assert type(meaning) is NeedsHuman
    assert re.search(r"older than 1\.5 .*: upgrade Chroma", str(meaning))


@pytest.mark.parametrize(
    ("text", "error", "remedy"),
    [
        ("Failed to pull logs from the log store", NeedsHuman, "verify --repair --rebuild"),
        ("database disk image is malformed", NeedsHuman, "verify --repair --rebuild"),
        ("Failed to apply logs to the metadata segment", Full, "if it has room, the database is damaged"),
        ("Nothing found on disk", Torn, "Nothing found on disk"),
        ("Error loading hnsw index: hnsw segment reader", Torn, "hnsw segment"),
        ("a refusal of a later Chroma", Transient, "if this repeats, .*: ingestor verify --repair --rebuild"),
    ],
)
def test_damage_is_named_with_its_remedy(text: str, error: type[Exception], remedy: str) -> None:
    meaning = port_error(Refused(f"Error executing plan: Internal error: {text}", "InternalError", 500))
    assert type(meaning) is error
    assert re.search(remedy, str(meaning))
