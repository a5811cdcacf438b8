"""A collection in shards: written, searched, verified and divided anew, as one."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import chromadb
import pytest
from chromadb.api import ClientAPI

from ingestor.core.shards import shard_of
from tests.e2e.in_chroma import everything, in_chroma
from tests.e2e.in_process import Ask, answered
from tests.e2e.project import NAMED_BY_HISTORY, Project
from tests.waiting import wait

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
def synced(project: Project, ask: Ask) -> Project:
    """Twelve documents in three shards."""
    for n in range(12):
        (project.docs / f"{n}.md").write_text(TEXT.format(n=n))
    divide(project, 3)
    assert ask("sync").code == 0
    return project


def test_shards_hold_what_one_collection_would(synced: Project, ask: Ask) -> None:
    parts = shards(synced, 3)
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

    whole = Project(synced.folder / "whole", {}, {"path": str(synced.docs)})
    whole.json("sync")
    assert essence([record for part in parts for record in part]) == essence(whole.records())
    synced.folder = whole.folder
    for mode, hits in by_mode.items():
        assert [hit[2] for hit in found(ask, "--mode", mode)] == [hit[2] for hit in hits], mode
    again = answered(ask("query", QUESTION, "--json", "--expand", "document"))["passages"]
    assert [one["text"] for one in again] == [one["text"] for one in around]


def test_a_renamed_document_stays_in_its_shard(synced: Project, ask: Ask) -> None:
    before = [{id_ for id_, *_ in part} for part in shards(synced, 3)]
    (synced.docs / "3.md").rename(synced.docs / "renamed.md")
    done = answered(ask("sync", "--json"))
    assert (done["embedded"]["texts"], done["documents"]["moved"]) == (0, 1)
    assert [{id_ for id_, *_ in part} for part in shards(synced, 3)] == before


@pytest.mark.slow
def test_another_number_of_shards_is_a_switch(synced: Project, ask: Ask) -> None:
    before = essence([record for part in shards(synced, 3) for record in part])
    divide(synced, 2, rechunk="in_place")
    assert "shards: 3 -> 2" in ask("plan").out
    done = answered(ask("sync", "--json"))
    assert done["embedded"]["texts"] == 0
    assert essence([record for part in shards(synced, 2) for record in part]) == before
    assert "Everything is in order" in ask("verify").out
    names = {one["name"]: one["role"] for one in answered(ask("collections", "--json"))}
    assert names == {f"docs-{n}-of-2": "live" for n in range(2)} | {
        f"docs--1-{n}-of-3": "previous" for n in range(3)
    }
    assert ask("rollback", "docs").code == 0
    assert essence([record for part in shards(synced, 3) for record in part]) == before
    divide(synced, 1)
    assert ask("sync").code == 0
    assert essence(synced.records()) == before
    assert "Everything is in order" in ask("verify").out


def test_records_in_a_wrong_shard_are_found_and_removed(synced: Project, ask: Ask) -> None:
    strays = everything(synced.folder / "chroma", "docs-0-of-3")[:2]
    ids, texts, metadata, vectors = (list(column) for column in zip(*strays, strict=True))
    put = f"collection.add(ids={ids}, documents={texts}, metadatas={metadata}, embeddings={vectors})"
    in_chroma(synced.folder / "chroma", "docs-1-of-3", put)
    assert answered(ask("verify", "--json"), 4)["orphaned"] == 2
    assert ask("verify", "--repair").code == 0
    assert not {id_ for id_, *_ in shards(synced, 3)[1]} & set(ids)
    assert {id_ for id_, *_ in shards(synced, 3)[0]} >= set(ids)


def connected(port: int) -> ClientAPI | None:
    try:
        return chromadb.HttpClient(port=port)
    except ValueError:  # it does not listen yet
        return None


def test_readers_find_what_search_finds(synced: Project, ask: Ask) -> None:
    """By the code of docs/reading.md, from our server."""
    code = re.search(r"```python\n(import re\n.*?)\n\n\nfor distance", PAGE.read_text(), re.DOTALL)
    assert code is not None
    names: dict[str, Any] = {}
    exec(code[1], names)
    daemon = synced.start()
    try:
        client = wait(lambda: connected(synced.port))
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
