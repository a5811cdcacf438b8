"""Embedders of other people, installed as plugins: through the real program, into a real Chroma."""

import json
import sys
from collections.abc import Iterator
from importlib import invalidate_caches
from importlib.util import cache_from_source
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ingestor import registry
from ingestor.chroma.client import embedded
from ingestor.chroma.index import ChromaIndex
from tests import plain_embedder
from tests.e2e.in_process import Answer, Ask
from tests.e2e.project import Project, free_port
from tests.plain_embedder import vector
from tests.plugins import installed

DOCUMENTS = 12


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the plugin is installed."""
    source = Path(plain_embedder.__file__).read_text()
    monkeypatch.syspath_prepend(installed(tmp_path / "plugins", "embedders", "plain", "plain_plugin", source))
    load_again()
    yield tmp_path / "plugins"
    monkeypatch.undo()
    load_again()


def load_again() -> None:
    """Plugins are found and loaded when they are needed next.

    Compiled code would be taken for that of a source of the same size, written in the same second.
    """
    known = sys.modules.pop("plain_plugin", None)
    if known is not None and known.__file__ is not None:
        Path(cache_from_source(known.__file__)).unlink(missing_ok=True)
    invalidate_caches()
    for function in (registry.find, registry.kinds, registry.all_entries):
        function.cache_clear()


@pytest.fixture
def plain(project: Project, plugins: Path) -> Project:
    assert plugins.exists()
    for n in range(DOCUMENTS):
        (project.docs / f"{n}.txt").write_text(f"Document {n} tells of the number {n * n}.")
    project.settings["chroma"] = {"path": "./chroma", "embedded": True}
    return embedding(project)


def embedding(project: Project, **options: object) -> Project:
    project.settings["embedding"] = {"kind": "plain", **options}
    project.configure()
    return project


def texts_embedded(answer: Answer) -> int:
    assert answer.code == 0, answer.err
    return int(json.loads(answer.out)["embedded"]["texts"])


def in_chroma(project: Project) -> tuple[dict[str, Any], Any]:
    """Vector by text of every record, less the last bit (Chroma scales), and what readers are to load."""
    with embedded(project.folder / "chroma") as client:
        collection = client.api.get_collection("docs")
        index = ChromaIndex(client, collection.id)
        records = index.read(list(index.ids()), vectors=True)
        told = collection.configuration_json["embedding_function"]
    assert len(records) == DOCUMENTS
    return {record.text: pytest.approx(record.vector.tolist(), abs=1e-6) for record in records}, told


def expected(project: Project, flavour: str) -> dict[str, list[float]]:
    texts = [file.read_text() for file in project.docs.iterdir()]
    return {text: vector(text, f"{flavour}none-that-readers-could-load").tolist() for text in texts}


def test_a_changed_option_embeds_everything_again_and_nothing_mixes(plain: Project, ask: Ask) -> None:
    assert texts_embedded(ask("sync", "--json")) == DOCUMENTS
    vectors, told = in_chroma(plain)
    assert vectors == expected(plain, "sweet")
    assert told["type"] == "legacy", "its option `model` names nothing that readers could load"
    embedding(plain, flavour="sour")
    assert texts_embedded(ask("sync", "--json")) == DOCUMENTS, "the cache answers for another model"
    assert in_chroma(plain)[0] == expected(plain, "sour")


@pytest.mark.slow
def test_options_for_speed_and_ways_back_embed_nothing(plain: Project, ask: Ask) -> None:
    for flavour, threads, texts in [
        ("sweet", 1, DOCUMENTS),
        ("sour", 1, DOCUMENTS),
        ("sour", 8, 0),
        ("sweet", 8, 0),
    ]:
        embedding(plain, flavour=flavour, threads=threads)
        assert texts_embedded(ask("sync", "--json")) == texts
        assert in_chroma(plain)[0] == expected(plain, flavour)


def test_a_text_that_the_model_can_not_take_costs_its_own_document_alone(plain: Project, ask: Ask) -> None:
    (plain.docs / "bad.txt").write_text("This document is poison.")
    answer = json.loads(ask("sync", "--json").out)
    assert (answer["documents"]["added"], answer["documents"]["quarantined"]) == (DOCUMENTS, 1)
    assert in_chroma(plain)[0] == {
        text: vector for text, vector in expected(plain, "sweet").items() if "poison" not in text
    }


def test_readers_keep_what_can_not_be_made_any_more_until_another_is_complete(
    plain: Project, ask: Ask, plugins: Path
) -> None:
    assert ask("sync").code == 0
    source = Path(plain_embedder.__file__).read_text()
    source = source.replace("version=1", "version=2").replace('"poison" in', '"number" in')
    (plugins / "plain_plugin.py").write_text(source)
    load_again()
    answer = ask("sync", "--json")
    assert json.loads(answer.out)["documents"]["quarantined"] == DOCUMENTS
    assert in_chroma(plain)[0] == expected(plain, "sweet")


def built() -> list[str]:
    """Embedders that were built since this was asked last, in this process."""
    module: ModuleType = sys.modules["plain_plugin"]
    found = list(module.BUILT)
    module.BUILT.clear()
    return found


def test_a_question_finds_what_is_wrong_before_it_loads_the_model(plain: Project, ask: Ask) -> None:
    assert ask("sync").code == 0
    assert built()

    def refused(*words: str) -> Answer:
        answer = ask("query", "number", *words)
        assert answer.code != 0
        assert built() == [], "the model was wanted for nothing"
        return answer

    assert "there is no collection 'dcos'" in refused("--collection", "dcos").err
    assert "unknown operator '$almost'" in refused("--where", '{"page": {"$almost": 3}}').err
    assert ask("query", "number", "--where", '{"page": {"$eq": 3}}').code == 0
    assert built()
    with embedded(plain.folder / "chroma") as client:
        client.api.delete_collection("docs")
    assert "gone from Chroma" in refused().err
    plain.settings["chroma"] = {"host": "127.0.0.1", "port": free_port()}
    plain.configure()
    assert "can't be reached" in refused().err
