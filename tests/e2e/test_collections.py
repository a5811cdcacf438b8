"""Collections in Chroma: owners, adoption, deletion, shards, and the metadata keys of their records."""

import re
import shutil
from pathlib import Path
from random import Random
from typing import Any

import chromadb
import pytest
from chromadb.api import ClientAPI

from ingestor.chroma.client import Client
from ingestor.chroma.server import ChromaServer
from ingestor.core.entries import shard_of
from ingestor.state import journal
from tests.e2e.in_process import Ask, answered
from tests.e2e.project import Project, everything, in_chroma, running
from tests.serving import HOST, client_of, shared_server
from tests.waiting import wait

NONE_EMBEDDED = {"texts": 0, "tokens": 0, "cost": 0}


def write(project: Project, documents: int, words: str = "words") -> None:
    for number in range(documents):
        (project.docs / f"{number}.txt").write_text(f"some {words} {number}\n")


def share(project: Project, chroma: ChromaServer) -> None:
    project.settings["chroma"] = {"host": HOST, "port": chroma.port}
    project.configure()


def inventory(ask: Ask) -> dict[str, dict[str, object]]:
    return {found["name"]: found for found in answered(ask("collections", "--json"))}


def names(client: Client) -> dict[str, str]:
    return {name: uuid for uuid, name in client.names().items()}


@pytest.mark.usefixtures("embedded")
def test_lost_state_needs_a_person_before_it_embeds_and_can_adopt(project: Project, ask: Ask) -> None:
    write(project, 20)
    assert ask("sync").code == 0
    mine = inventory(ask)["docs"]
    assert mine == {
        "name": "docs", "owner": "this ingestor", "role": "live", "in_config": True, "documents": 20,
        "records": 20, "strategies": ["recursive"], "model": "hashing", "dimensions": 64, "trouble": None,
        "elsewhere": None,
    } | {key: mine[key] for key in ("state", "uuid")}  # fmt: skip
    shutil.rmtree(project.folder / "state")
    assert "ingestor collections --adopt docs" in answered(ask("plan", "--json"), 4)["unusable"]["docs"]
    assert not (project.folder / "state").exists()
    assert inventory(ask)["docs"]["owner"] == "another ingestor"
    held = answered(ask("sync", "--json"), 4)
    assert "'docs' was written by another ingestor" in held["held"]["docs"]
    assert "ingestor collections --adopt docs" in held["held"]["docs"]
    assert held["embedded"] == NONE_EMBEDDED
    assert len(project.records()) == 20

    assert ask("collections", "--adopt", "other").code == 2
    adopted = ask("collections", "--adopt", "docs")
    assert (adopted.code, "with 20 records; it is written again by: " in adopted.out) == (0, True)
    assert ask("collections", "--adopt", "docs").code == 2  # there is none now
    assert answered(ask("sync", "--json"))["documents"]["added"] == 20
    assert "already belongs to this ingestor" in ask("collections", "--adopt", "docs").err
    assert answered(ask("verify", "--json"))["checked"] == 20


@pytest.mark.usefixtures("embedded")
def test_collections_that_a_lost_or_older_state_does_not_know_leave(project: Project, ask: Ask) -> None:
    project.settings["rechunk"] = {"mode": "swap"}
    write(project, 20)
    assert ask("sync").code == 0
    shutil.copytree(project.folder / "state", project.folder / "backup")
    project.settings["collections"] = {"docs": {"shards": 2}}
    project.configure()
    assert ask("sync").code == 0
    assert inventory(ask).keys() == {"docs--1", "docs-0-of-2", "docs-1-of-2"}

    shutil.rmtree(project.folder / "state")
    shutil.copytree(project.folder / "backup", project.folder / "state")
    assert answered(ask("sync", "--json"))["embedded"] == NONE_EMBEDDED
    assert inventory(ask).keys() == {"docs--1", "docs-0-of-2", "docs-1-of-2"}

    shutil.rmtree(project.folder / "state")
    shutil.copytree(project.folder / "backup", project.folder / "state")
    del project.settings["collections"]
    project.configure()
    assert answered(ask("sync", "--json"))["documents"]["unchanged"] == 20
    assert inventory(ask).keys() == {"docs"}
    assert answered(ask("verify", "--json"))["checked"] == 20

    project.settings["collections"] = {"docs": {"shards": 2}}
    project.configure()
    assert ask("sync").code == 0
    shutil.rmtree(project.folder / "state")
    del project.settings["collections"]
    project.configure()
    assert "--adopt docs-0-of-2" in answered(ask("sync", "--json"), 4)["held"]["docs"]
    adopted = ask("collections", "--adopt", "docs-0-of-2")
    assert (adopted.code, "with 40 records" in adopted.out) == (0, True)
    assert inventory(ask) == {}
    assert answered(ask("sync", "--json"))["documents"]["added"] == 20
    assert inventory(ask).keys() == {"docs"}


def test_only_what_is_ours_and_unused_is_deleted(project: Project, ask: Ask, tmp_path: Path) -> None:
    write(project, 3)
    with shared_server(tmp_path / "shared") as shared, client_of(shared) as client:
        share(project, shared)
        assert ask("collections", "--json").out.strip() == "[]"
        stranger = client.create_collection("stranger")
        rows = {"ids": ["a"], "embeddings": [[1.0]], "metadatas": [{"by": "them"}], "documents": ["text"]}
        client.post(stranger.id, "upsert", **rows)
        ask("sync")
        told = ask("collections").out
        assert [row.split()[0] for row in told.splitlines()] == ["collection", "docs", "stranger"]
        live = ask("collections", "--delete", "docs")
        assert (live.code, "what readers see" in live.err) == (2, True)
        assert "there is no collection 'absent'; known: docs" in ask("collections", "--delete", "absent").err
        for words in (("--delete", "docs", "--not-ours"), ("--not-ours",), ("--adopt", "a", "--delete", "b")):
            assert ask("collections", *words).code == 2

        project.source = {"name": "mine", "collection": "mine"}
        project.configure()
        refused = ask("collections", "--delete", "docs")
        assert (refused.code, "run `ingestor apply` first" in refused.err) == (2, True), refused
        assert ask("apply").code == 0
        assert (inventory(ask)["docs"]["documents"], inventory(ask)["docs"]["in_config"]) == (0, False)
        assert "unused" in ask("collections").out
        assert answered(ask("collections", "--delete", "docs", "--json")) == {"deleted": "docs", "records": 0}
        refused = ask("collections", "--delete", "stranger")
        assert (refused.code, "--delete stranger --not-ours" in refused.err) == (2, True)
        assert set(names(client)) == {"mine", "stranger"}
        assert ask("collections", "--delete", "stranger", "--not-ours").code == 0
        assert set(names(client)) == {"mine"}
        assert answered(ask("sync", "--json"))["documents"]["unchanged"] == 3


# --- A collection in shards is verified, listed and read as one; tests/simulation/test_shards.py has more ---
PAGE = Path(__file__).parents[2] / "docs/reading.md"


def connected(port: int) -> ClientAPI | None:
    try:
        return chromadb.HttpClient(port=port)
    except ValueError:  # it does not listen yet
        return None


def test_collection_in_shards_is_verified_and_readers_find_what_search_finds(
    project: Project, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the code of docs/reading.md, from our server."""
    chance = Random(1)  # ids decide where each document is; by chance a shard would have none
    monkeypatch.setattr(journal, "token_hex", lambda size: chance.randbytes(size).hex())
    write(project, 12)
    project.settings = {"collections": {"docs": {"shards": 3}}}
    project.configure()
    assert ask("sync").code == 0
    names, chroma = [f"docs-{n}-of-3" for n in range(3)], project.folder / "chroma"
    shards = [everything(chroma, name) for name in names]
    for number, part in enumerate(shards):
        assert {shard_of(id_, 3) for id_, *_ in part} == {number}
    status = answered(ask("status", "--json"))["collections"]["docs"]
    assert (status["records"], status["shards"]) == (12, 3)
    listed = answered(ask("collections", "--json"))
    assert [(one["name"], one["role"]) for one in listed] == [(name, "live") for name in names]
    assert sum(one["documents"] for one in listed) == 12

    ids, texts, metadata, vectors = (list(column) for column in zip(*shards[0][:2], strict=True))
    put = f"collection.add(ids={ids}, documents={texts}, metadatas={metadata}, embeddings={vectors})"
    in_chroma(chroma, names[1], put)
    assert answered(ask("verify", "--json"), 4)["orphaned"] == 2
    assert ask("verify", "--repair").code == 0
    assert [everything(chroma, name) for name in names] == shards

    code = re.search(r"```python\n(import re\n.*?)\n\n\nfor distance", PAGE.read_text(), re.DOTALL)
    assert code is not None
    example: dict[str, Any] = {}
    exec(code[1], example)
    with running(project) as daemon:
        client = wait(lambda: connected(project.port))
        parts = example["shards"](client, "docs")
        assert [part.name for part in parts] == names
        wanted = parts[0].get(limit=1, include=["embeddings"])
        hits = example["search"](client, "docs", query_embeddings=wanted["embeddings"])
        assert (hits[0][1], len(hits)) == (wanted["ids"][0], 5)
        assert [hit[0] for hit in hits] == sorted(hit[0] for hit in hits)
        with pytest.raises(LookupError):
            example["shards"](client, "other")
        daemon.stop()
