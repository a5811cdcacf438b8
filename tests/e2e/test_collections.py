"""Collections in Chroma: owners, adoption, deletion, shards, and the metadata keys of their records."""

import re
import shutil
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import chromadb
import pytest
from chromadb.api import ClientAPI

from ingestor.chroma.client import Client
from ingestor.chroma.server import ChromaServer
from ingestor.core.entries import shard_of
from ingestor.core.metadata_keys import LEAN, NEEDED
from ingestor.state import journal
from tests.e2e.in_chroma import everything, in_chroma
from tests.e2e.in_process import Ask, answered
from tests.e2e.project import NAMED_BY_HISTORY, Project, running
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
        assert "Chroma has no collection 'absent'" in ask("collections", "--delete", "absent").err
        for words in (("--delete", "docs", "--not-ours"), ("--not-ours",), ("--adopt", "a", "--delete", "b")):
            assert ask("collections", *words).code == 2

        project.source = {"collection": "mine"}
        project.configure()
        assert ask("sync").code == 0
        assert (inventory(ask)["docs"]["documents"], inventory(ask)["docs"]["in_config"]) == (0, False)
        assert "unused" in ask("collections").out
        assert answered(ask("collections", "--delete", "docs", "--json")) == {"deleted": "docs", "records": 0}
        refused = ask("collections", "--delete", "stranger")
        assert (refused.code, "--delete stranger --not-ours" in refused.err) == (2, True)
        assert set(names(client)) == {"mine", "stranger"}
        assert ask("collections", "--delete", "stranger", "--not-ours").code == 0
        assert set(names(client)) == {"mine"}
        assert answered(ask("sync", "--json"))["documents"]["unchanged"] == 3


@pytest.mark.usefixtures("embedded")
@pytest.mark.slow
def test_documents_of_a_left_source_are_removed_by_apply(project: Project, ask: Ask) -> None:
    write(project, 3)
    one = {"name": "docs", "kind": "folder", "path": "./docs", "collection": "docs"}
    project.settings = {"sources": [one, one | {"name": "more", "collection": "more"}]}
    project.configure()
    assert ask("sync").code == 0
    project.settings = {"sources": [one]}
    project.configure()
    refused = ask("collections", "--delete", "more")
    assert (refused.code, "run `ingestor apply` first" in refused.err) == (2, True)
    ask("apply")
    assert ask("collections", "--delete", "more").code == 0
    assert list(inventory(ask)) == ["docs"]


@pytest.mark.usefixtures("embedded")
@pytest.mark.slow
def test_collection_before_a_swap_is_kept(project: Project, ask: Ask) -> None:
    write(project, 3, "words " * 100)
    ask("sync")
    project.settings = {"chunking": {"strategy": "recursive", "size": 20}, "rechunk": "swap"}
    project.configure()
    assert ask("sync").code == 0
    roles = {found["role"]: name for name, found in inventory(ask).items()}
    assert roles["live"] == "docs"
    kept = ask("collections", "--delete", roles["previous"])
    assert (kept.code, "ingestor rollback" in kept.err) == (2, True)


@pytest.mark.slow
def test_daemon_resumes_when_its_collection_is_adopted(project: Project) -> None:
    write(project, 3)
    project.json("sync")
    shutil.rmtree(project.folder / "state")
    with running(project) as daemon:
        wait(lambda: "collections --adopt docs" in (project.poll("status")["sources"]["docs"]["held"] or ""))
        project.json("collections", "--adopt", "docs")
        wait(lambda: project.settled(3))
        assert daemon.stop() == 0


# --- A collection in shards: written, searched, verified and divided anew, as one ---
TEXT = "# Title {n}\n\n" + "Some words of number {n} here. " * 30 + "\n\n## Fees\n\nA loan costs {n} euros.\n"
QUESTION = "What does a loan of number 7 cost?"
PAGE = Path(__file__).parents[2] / "docs/reading.md"


def divide(project: Project, shards: int, **settings: Any) -> None:
    project.settings = {"collections": {"docs": {"shards": shards}}, **settings}
    project.configure()


def shards(project: Project, number: int) -> list[list[Any]]:
    names = [f"docs-{n}-of-{number}" for n in range(number)]
    return [everything(project.folder / "chroma", name) for name in names]


def essence(records: list[Any]) -> Counter[Any]:
    return Counter(
        (text, tuple(vector), *sorted((k, str(v)) for k, v in meta.items() if k not in NAMED_BY_HISTORY))
        for _, text, meta, vector in records
    )


def found(ask: Ask, *words: str) -> list[Any]:
    hits = answered(ask("query", QUESTION, "--json", "-n", "8", *words))["hits"]
    return [(hit["metadata"]["path"], hit["document"], round(hit["score"], 6)) for hit in hits]


@pytest.fixture
def divided(project: Project, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Twelve documents in three shards. Their ids decide where each is; by chance a shard would have none."""
    chance = Random(1)
    monkeypatch.setattr(journal, "token_hex", lambda size: chance.randbytes(size).hex())
    for n in range(12):
        (project.docs / f"{n}.md").write_text(TEXT.format(n=n))
    divide(project, 3)
    assert ask("sync").code == 0
    return project


@pytest.mark.slow
def test_shards_hold_what_one_collection_would(divided: Project, ask: Ask) -> None:
    parts = shards(divided, 3)
    assert all(parts)
    for number, part in enumerate(parts):
        assert {shard_of(id_, 3) for id_, *_ in part} == {number}
    by_mode = {mode: found(ask, "--mode", mode) for mode in ("hybrid", "dense", "lexical")}
    around = answered(ask("query", QUESTION, "--json", "--expand", "document"))["passages"]
    assert "Everything is in order" in ask("verify").out
    status = answered(ask("status", "--json"))["collections"]
    assert (status["docs"]["records"], status["docs"]["shards"]) == (sum(map(len, parts)), 3)
    listed = answered(ask("collections", "--json"))
    assert [one["name"] for one in listed] == ["docs-0-of-3", "docs-1-of-3", "docs-2-of-3"]
    assert sum(one["documents"] for one in listed) == 12
    assert {one["role"] for one in listed} == {"live"}
    assert len(answered(ask("show", "7.md", "--json"))["chunks"]) > 1

    whole = Project(divided.folder / "whole", {}, {"path": str(divided.docs)})
    whole.json("sync")
    assert essence([record for part in parts for record in part]) == essence(whole.records())
    divided.folder = whole.folder
    for mode, hits in by_mode.items():
        assert [hit[2] for hit in found(ask, "--mode", mode)] == [hit[2] for hit in hits], mode
    again = answered(ask("query", QUESTION, "--json", "--expand", "document"))["passages"]
    assert [one["text"] for one in again] == [one["text"] for one in around]


@pytest.mark.slow
def test_another_number_of_shards_is_a_switch(divided: Project, ask: Ask) -> None:
    before = essence([record for part in shards(divided, 3) for record in part])
    divide(divided, 2, rechunk="in_place")
    assert "shards: 3 -> 2" in ask("plan").out
    done = answered(ask("sync", "--json"))
    assert done["embedded"]["texts"] == 0
    assert essence([record for part in shards(divided, 2) for record in part]) == before
    assert "Everything is in order" in ask("verify").out
    names = {one["name"]: one["role"] for one in answered(ask("collections", "--json"))}
    assert names == {f"docs-{n}-of-2": "live" for n in range(2)} | {
        f"docs--1-{n}-of-3": "previous" for n in range(3)
    }
    assert ask("rollback", "docs").code == 0
    assert essence([record for part in shards(divided, 3) for record in part]) == before
    divide(divided, 1)
    assert ask("sync").code == 0
    assert essence(divided.records()) == before
    assert "Everything is in order" in ask("verify").out


@pytest.mark.slow
def test_records_in_a_wrong_shard_are_found_and_removed(divided: Project, ask: Ask) -> None:
    strays = everything(divided.folder / "chroma", "docs-0-of-3")[:2]
    ids, texts, metadata, vectors = (list(column) for column in zip(*strays, strict=True))
    put = f"collection.add(ids={ids}, documents={texts}, metadatas={metadata}, embeddings={vectors})"
    in_chroma(divided.folder / "chroma", "docs-1-of-3", put)
    assert answered(ask("verify", "--json"), 4)["orphaned"] == 2
    assert ask("verify", "--repair").code == 0
    assert not {id_ for id_, *_ in shards(divided, 3)[1]} & set(ids)
    assert {id_ for id_, *_ in shards(divided, 3)[0]} >= set(ids)


def connected(port: int) -> ClientAPI | None:
    try:
        return chromadb.HttpClient(port=port)
    except ValueError:  # it does not listen yet
        return None


def test_readers_find_what_search_finds(divided: Project, ask: Ask) -> None:
    """By the code of docs/reading.md, from our server."""
    code = re.search(r"```python\n(import re\n.*?)\n\n\nfor distance", PAGE.read_text(), re.DOTALL)
    assert code is not None
    names: dict[str, Any] = {}
    exec(code[1], names)
    daemon = divided.start()
    try:
        client = wait(lambda: connected(divided.port))
        parts = names["shards"](client, "docs")
        assert [part.name for part in parts] == [f"docs-{n}-of-3" for n in range(3)]
        wanted = parts[0].get(limit=1, include=["embeddings"])
        hits = names["search"](client, "docs", query_embeddings=wanted["embeddings"])
        assert hits[0][1] == wanted["ids"][0]
        assert len(hits) == 5
        assert [hit[0] for hit in hits] == sorted(hit[0] for hit in hits)
        with pytest.raises(LookupError):
            names["shards"](client, "other")
    finally:
        daemon.stop()


# --- The metadata keys that records carry ---
PROFILED = (
    "# Title {n}\n\n" + "Some words of number {n} here. " * 60 + "\n\n## Fees\n\nA loan costs {n} euros.\n"
)


@pytest.fixture
def profiled(embedded: Project, ask: Ask) -> Project:
    """Three documents of several chunks, with all keys."""
    for n in range(3):
        (embedded.docs / f"{n}.md").write_text(PROFILED.format(n=n))
    assert ask("sync").code == 0
    return embedded


def keys(project: Project) -> set[str]:
    return {key for _, _, metadata, _ in project.records() for key in metadata}


@pytest.mark.slow
def test_changed_profile_is_announced_and_writes_metadata_alone(profiled: Project, ask: Ask) -> None:
    count = len(profiled.records())
    assert {"file_size", "recipe", "relationships"} <= keys(profiled)
    profiled.settings |= {"metadata": {"docs": "lean"}}
    profiled.configure()
    said = ask("plan").out
    assert "collection docs's metadata is written in place, and nothing is embedded:" in said
    assert '  metadata: "full" -> "lean"' in said
    planned = answered(ask("plan", "--json"))
    assert (planned["records"]["patched"], planned["embed"]["texts"]) == (count, 0)
    [change] = planned["changes"]
    assert (change["metadata"]["after"], change["swap"], change["waits"]) == ('"lean"', False, None)
    done = answered(ask("sync", "--json"))
    assert done["records"] == {"added": 0, "replaced": 0, "patched": count, "dropped": 0}
    assert keys(profiled) <= LEAN
    assert answered(ask("verify", "--json"))["checked"] == count
    assert answered(ask("plan", "--json"))["changes"] == []
    assert profiled.essence() == profiled.fresh("lean").essence()

    profiled.settings |= {"metadata": ["file_name"], "rechunk": {"approve": "above 1 chunks"}}
    profiled.configure()
    assert answered(ask("sync", "--json"))["records"]["patched"] == count, "metadata needs no approval"
    assert {"file_name", "source"} <= keys(profiled) <= NEEDED | {"file_name"}
    profiled.settings = {}
    profiled.configure()
    assert ask("sync").code == 0
    assert profiled.essence() == profiled.fresh("full").essence()
    assert "Everything is in order" in ask("verify").out
