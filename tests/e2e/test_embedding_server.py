"""Vectors from a server with OpenAI's API, and from embedders that are installed as plugins."""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import invalidate_caches
from importlib.util import cache_from_source
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from ingestor import registry
from ingestor.app import daemon
from ingestor.chroma.index import ChromaIndex
from tests import plain_embedder
from tests.chroma.opening import chroma_in
from tests.e2e.in_process import Answer, Ask, answered
from tests.e2e.project import Project
from tests.endpoint import KEY, Endpoint, Reply, embedding, refused, serving, vector
from tests.endpoint import embedded as reply
from tests.plain_embedder import vector as plain_vector
from tests.plugins import installed
from tests.serving import free_port

DOCUMENTS = 12


@pytest.fixture
def mood() -> dict[str, Callable[[dict[str, Any]], Reply]]:
    """How the server answers now."""
    return {"answer": embedding}


@pytest.fixture
def server(mood: dict[str, Callable[[dict[str, Any]], Reply]]) -> Iterator[Endpoint]:
    with serving(lambda body: mood["answer"](body)) as endpoint:
        yield endpoint


@pytest.fixture
def remote(project: Project, server: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("EMBEDDING_KEY", KEY)
    for n in range(DOCUMENTS):
        (project.docs / f"{n}.txt").write_text(f"Document {n} tells of the number {n * n}.")
    project.settings["chroma"] = {"path": "./chroma", "embedded": True}
    return to(project, server.base_url)


def to(project: Project, base_url: str, **more: object) -> Project:
    project.settings["embedding"] = {
        "kind": "openai", "base_url": base_url, "model": "tiny", "api_key": "${EMBEDDING_KEY}", "price": 1000,
        "retries": 0, **more,
    }  # fmt: skip
    project.configure()
    return project


def documents_sent(server: Endpoint) -> Counter[str]:
    """How often each text was sent, since the last look; the harmless word is none."""
    sent = Counter(text for body in server.bodies for text in body["input"] if text != "word")
    server.bodies.clear()
    return sent


def in_chroma(project: Project) -> tuple[dict[str, Any], Any]:
    with chroma_in(project.folder / "chroma") as client:
        collection = client.get_collection("docs")
        index = ChromaIndex(client, collection.id)
        records = index.read(list(index.ids()), vectors=True)
        told = collection.configuration_json["embedding_function"]
    return {record.text: record.vector for record in records}, told


def test_every_text_is_sent_once_at_its_price_and_the_key_is_kept_nowhere(
    remote: Project, server: Endpoint, ask: Ask
) -> None:
    plan = answered(ask("plan", "--json"))
    assert not documents_sent(server)
    assert plan["embed"]["texts"] == DOCUMENTS
    assert plan["cost"] == pytest.approx(plan["embed"]["tokens"] / 1000)
    done = ask("sync")
    assert set(documents_sent(server).values()) == {1}
    printed = re.search(r"12 texts, (\d+) tokens, cost (0\.\d+)", done.out)
    assert printed is not None
    tokens = int(printed[1])  # with the word that shows which model answers, once a request
    assert DOCUMENTS < tokens <= 2 * DOCUMENTS
    assert float(printed[2]) == pytest.approx(tokens / 1000)
    vectors, told = in_chroma(remote)
    assert len(vectors) == DOCUMENTS
    for text, found in vectors.items():
        exact = np.array(vector(text)) / np.linalg.norm(vector(text))
        assert found == pytest.approx(exact, abs=1e-3)
    assert told in (None, {"type": "legacy"}), "readers would load a function that needs our key"
    looked = ask("status", "--json")
    status = json.loads(looked.out)
    assert (status["embedded_tokens"], status["embedding_cost"]) == (tokens, pytest.approx(tokens / 1000))
    again = answered(ask("sync", "--json"))
    assert again["embedded"] == {"texts": 0, "tokens": 0, "cost": 0}
    assert not documents_sent(server)
    assert not [answer for answer in (done, looked) if KEY in answer.out + answer.err]
    files = [file for file in remote.folder.rglob("*") if file.is_file()]
    assert len(files) > DOCUMENTS
    assert not [file for file in files if KEY.encode() in file.read_bytes()]


def test_verify_and_looking_need_no_server_and_a_question_is_embedded_by_it(
    remote: Project, server: Endpoint, mood: dict[str, Any], ask: Ask
) -> None:
    to(remote, server.base_url, query_prompt="query: ")
    ask("sync")
    text = "Document 3 tells of the number 9."
    server.bodies.clear()
    assert ask("query", text).code == 0
    assert [body["input"] for body in server.bodies] == [[f"query: {text}"]]
    mood["answer"] = lambda body: refused(503, "away")
    server.bodies.clear()
    assert [ask(*words).code for words in (["verify"], ["ls"], ["show", "0.txt"], ["status"])] == [0] * 4
    assert not server.bodies


def test_model_at_another_address_embeds_only_new_texts(remote: Project, server: Endpoint, ask: Ask) -> None:
    ask("sync")
    documents_sent(server)
    with serving(embedding) as other:
        to(remote, other.base_url, batch_texts=2, concurrency=2)
        (remote.docs / "new.txt").write_text("Something new.")
        assert answered(ask("sync", "--json"))["embedded"]["texts"] == 1
        assert documents_sent(other) == {"Something new.": 1}
    assert not documents_sent(server)


def test_another_model_behind_the_same_name_is_noticed_before_it_mixes(
    remote: Project, server: Endpoint, mood: dict[str, Any], ask: Ask
) -> None:
    ask("sync")
    before = in_chroma(remote)[0].keys()
    documents_sent(server)
    mood["answer"] = lambda body: reply([vector(f"other {text}") for text in body["input"]])
    (remote.docs / "new.txt").write_text("Something new.")
    held = json.loads(ask("sync", "--json").out)["held"]
    assert "it runs another model" in held["docs"]
    assert documents_sent(server).keys() <= {"Something new."}, "the batch that showed it"
    assert in_chroma(remote)[0].keys() == before


def test_server_that_is_away_loses_nothing(
    remote: Project, mood: dict[str, Any], ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "PATIENCE", 1.0)
    ask("sync")
    mood["answer"] = lambda body: refused(503, "away")
    for n in range(3):
        (remote.docs / f"{n}.txt").write_text(f"Changed {n}.")
    result = json.loads(ask("sync", "--json").out)
    assert result["documents"]["failed"] + result["documents"]["due"] == 3, result
    assert result["documents"]["quarantined"] == 0
    assert len(in_chroma(remote)[0]) == DOCUMENTS
    mood["answer"] = embedding
    assert json.loads(ask("sync", "--json").out)["documents"]["changed"] == 3


def test_server_that_refuses_every_text_empties_nothing(
    remote: Project, mood: dict[str, Any], ask: Ask
) -> None:
    ask("sync")
    mood["answer"] = lambda body: refused(400, "unknown field")
    (remote.docs / "0.txt").write_text("Changed.")
    result = json.loads(ask("sync", "--json").out)
    assert "unknown field" in result["held"]["docs"]
    assert len(in_chroma(remote)[0]) == DOCUMENTS
    mood["answer"] = embedding
    assert answered(ask("sync", "--json"))["documents"]["changed"] == 1


# --- Embedders of other people, installed as plugins: through the real program, into a real Chroma ---


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
    return plain_embedding(project)


def plain_embedding(project: Project, **options: object) -> Project:
    project.settings["embedding"] = {"kind": "plain", **options}
    project.configure()
    return project


def plain_in_chroma(project: Project) -> tuple[dict[str, Any], Any]:
    """Vector by text of every record, less the last bit (Chroma scales), and what readers are to load."""
    with chroma_in(project.folder / "chroma") as client:
        collection = client.get_collection("docs")
        index = ChromaIndex(client, collection.id)
        records = index.read(list(index.ids()), vectors=True)
        told = collection.configuration_json["embedding_function"]
    assert len(records) == DOCUMENTS
    return {record.text: pytest.approx(record.vector.tolist(), abs=1e-6) for record in records}, told


def expected(project: Project, flavour: str) -> dict[str, list[float]]:
    texts = [file.read_text() for file in project.docs.iterdir()]
    return {text: plain_vector(text, f"{flavour}none-that-readers-could-load").tolist() for text in texts}


def test_text_beyond_the_model_fails_its_own_document_alone(plain: Project, ask: Ask) -> None:
    (plain.docs / "bad.txt").write_text("This document is poison.")
    answer = json.loads(ask("sync", "--json").out)
    assert (answer["documents"]["added"], answer["documents"]["quarantined"]) == (DOCUMENTS, 1)
    assert plain_in_chroma(plain)[0] == {
        text: plain_vector for text, plain_vector in expected(plain, "sweet").items() if "poison" not in text
    }


def test_readers_keep_what_cannot_be_made_any_more_until_another_is_complete(
    plain: Project, ask: Ask, plugins: Path
) -> None:
    assert ask("sync").code == 0
    source = Path(plain_embedder.__file__).read_text()
    source = source.replace("version=1", "version=2").replace('"poison" in', '"number" in')
    (plugins / "plain_plugin.py").write_text(source)
    load_again()
    answer = ask("sync", "--json")
    assert json.loads(answer.out)["documents"]["quarantined"] == DOCUMENTS
    assert plain_in_chroma(plain)[0] == expected(plain, "sweet")


def built() -> list[str]:
    """Embedders that were built since this was asked last, in this process."""
    module: ModuleType = sys.modules["plain_plugin"]
    found = list(module.BUILT)
    module.BUILT.clear()
    return found


def test_question_finds_what_is_wrong_before_it_loads_the_model(plain: Project, ask: Ask) -> None:
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
    with chroma_in(plain.folder / "chroma") as client:
        client.delete_collection("docs")
    assert "gone from Chroma" in refused().err
    plain.settings["chroma"] = {"host": "127.0.0.1", "port": free_port()}
    plain.configure()
    assert "can't be reached" in refused().err
