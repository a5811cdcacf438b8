"""Every record is found by its own vector: after config changes, and after Chroma lost the way to some."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingestor.chroma import backend
from ingestor.chroma.index import ChromaIndex
from ingestor.embedders.hashing import HashingEmbedder
from tests.e2e.in_process import Ask
from tests.e2e.project import Project
from tests.e2e.test_sync import long_document
from tests.e2e.test_vectors import harmed

SAMPLES = Path(__file__).parents[2] / "documents"


def lose(project: Project, every: int) -> None:
    """Nothing finds every so many records by their vectors: these are nothing but zeros."""
    harmed(project, lambda vectors: [v if n % every else np.zeros_like(v) for n, v in enumerate(vectors)])


def uuid(project: Project) -> str:
    """Of the collection that readers see."""
    with closing(sqlite3.connect(project.folder / "state" / "journal.sqlite3")) as db:
        [(found,)] = db.execute("SELECT uuid FROM collections WHERE role = 'live'")
    return str(found)


def write(project: Project) -> None:
    for n in range(2):
        (project.docs / f"{n}.txt").write_text(long_document(800, n))


def clean(ask: Ask) -> bool:
    return ask("verify", "--json").code == 0


def status(ask: Ask) -> Any:
    return json.loads(ask("status", "--json").out)["collections"]["docs"]


def reconfigure(project: Project, chunking: dict[str, Any]) -> None:
    project.settings["chunking"] = chunking
    project.configure()


@pytest.mark.slow
def test_a_collection_that_search_misses_records_of_is_rebuilt_once_a_day(
    project: Project, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(3):
        (project.docs / f"{n}.txt").write_text(long_document(30, n))
    ask("sync")
    records, lost, looked = status(ask)["records"], set[str](), backend.probe
    monkeypatch.setattr(HashingEmbedder, "embed", lambda *_: pytest.fail("the cache has every vector"))

    def probe(index: ChromaIndex, turn: int) -> str | None:
        return looked(index, turn) or ("3 of 30 records are not found" if index.uuid in lost else None)

    monkeypatch.setattr(backend, "probe", probe)
    lost.add(uuid(project))
    assert status(ask)["reason"] == "3 of 30 records are not found"
    assert json.loads(ask("sync", "--json").out)["documents"]["rebuilt"] == 3
    assert (status(ask)["healthy"], status(ask)["records"]) == (True, records)
    assert clean(ask)

    lost.add(uuid(project))
    assert json.loads(ask("sync", "--json").out)["documents"]["rebuilt"] == 0
    assert status(ask)["healthy"] is False


@pytest.mark.slow
def test_few_records_out_of_reach_are_for_repair_alone(project: Project, ask: Ask) -> None:
    write(project)
    ask("sync")
    assert status(ask)["records"] > 500
    lose(project, 1000)
    assert json.loads(ask("sync", "--json").out)["documents"]["rebuilt"] == 0
    assert ask("verify", "--repair").code == 0
    assert clean(ask)


@pytest.mark.parametrize("sizes", [(60, 30), pytest.param((60, 40, 70, 30), marks=pytest.mark.slow)])
def test_nothing_is_out_of_reach_after_config_changes(
    project: Project, ask: Ask, sizes: tuple[int, ...]
) -> None:
    for n in range(3):
        (project.docs / f"{n}.txt").write_text(long_document(150, n))
    for size in sizes:
        reconfigure(project, {"strategy": "recursive", "size": size})
        assert ask("sync").code == 0
        assert clean(ask)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_samples_under_the_real_model_through_four_strategies(project: Project, ask: Ask) -> None:
    """In place 0 to 4 of 179 records were lost, others at each start of Chroma; each command starts one."""
    project.settings["embedding"] = {}
    project.source["path"] = str(SAMPLES)
    for chunking in (
        {"strategy": "changepoint"},
        {"strategy": "recursive", "size": 200},
        {"strategy": "recursive", "size": 120},
        {"strategy": "structure"},
    ):
        reconfigure(project, chunking)
        assert ask("sync").code == 0
        for _ in range(3):
            assert clean(ask)
