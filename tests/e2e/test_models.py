"""Models: vectors of a server and of plugins, strategies that ask a language model, and unknown languages."""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib import invalidate_caches
from importlib.util import cache_from_source
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from ingestor import registry
from ingestor.app import parts
from ingestor.chroma.index import ChromaIndex
from ingestor.cli.main import app
from ingestor.config.file import load
from ingestor.embedders.hashing import HashingEmbedder
from ingestor.engine import outcomes
from tests import plain_embedder
from tests.chroma.opening import chroma_in
from tests.chunkers.laws import essay
from tests.e2e.in_process import Answer, Ask, answered
from tests.e2e.project import Project, running
from tests.endpoint import KEY, Endpoint, Reply, embedding, refused, said, serving, vector
from tests.parsers.files import docx
from tests.plain_embedder import vector as plain_vector
from tests.plugins import installed
from tests.serving import free_port
from tests.waiting import wait

DOCUMENTS = 12
EMBEDDED = {"path": "./chroma", "embedded": True}


def write_numbers(project: Project) -> None:
    for n in range(DOCUMENTS):
        (project.docs / f"{n}.txt").write_text(f"Document {n} tells of the number {n * n}.")


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
    write_numbers(project)
    project.settings["chroma"] = EMBEDDED
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
    write_numbers(project)
    project.settings |= {"chroma": EMBEDDED, "embedding": {"kind": "plain"}}
    project.configure()
    return project


def plain_in_chroma(project: Project) -> dict[str, Any]:
    """Return the vector of each text, less the last bit: Chroma scales."""
    return {text: pytest.approx(found.tolist(), abs=1e-6) for text, found in in_chroma(project)[0].items()}


def expected() -> dict[str, list[float]]:
    texts = [f"Document {n} tells of the number {n * n}." for n in range(DOCUMENTS)]
    return {text: plain_vector(text, "sweetnone-that-readers-could-load").tolist() for text in texts}


def test_text_beyond_the_model_fails_its_own_document_alone(plain: Project, ask: Ask) -> None:
    (plain.docs / "bad.txt").write_text("This document is poison.")
    answer = json.loads(ask("sync", "--json").out)
    assert (answer["documents"]["added"], answer["documents"]["quarantined"]) == (DOCUMENTS, 1)
    assert plain_in_chroma(plain) == expected()


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
    assert plain_in_chroma(plain) == expected()


def built() -> list[str]:
    """Embedders that were built since this was asked last, in this process."""
    module: ModuleType = sys.modules["plain_plugin"]
    found = list(module.BUILT)
    module.BUILT.clear()
    return found


def test_question_finds_what_is_wrong_before_it_loads_the_model(
    plain: Project, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingestor.chroma.client.BROKEN", 0)  # retries
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


# --- Strategies that ask a language model: each question is sent once, and no file has the key ---


def split(body: dict[str, Any]) -> Reply:
    pieces = body["messages"][1]["content"].count("<start_chunk_")
    return said(f"split_after: {min(3, pieces)}")


def asking(project: Project, base_url: str, **more: Any) -> dict[str, Any]:
    chunking = {
        "strategy": "llm", "base_url": base_url, "model": "tiny", "api_key": "${MODEL_KEY}", "window": 200,
        "retries": 0, "prompt_price": 1.0, **more,
    }  # fmt: skip
    project.settings["chunking"] = chunking
    project.configure()
    return chunking


@pytest.fixture
def essays(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("MODEL_KEY", KEY)
    for number in range(2):
        (project.docs / f"{number}.txt").write_text(essay(8, 100 * number))
    return project


@pytest.mark.slow
@pytest.mark.usefixtures("essays")
def test_answered_questions_are_not_sent_again(project: Project) -> None:
    with serving(split) as endpoint:
        asking(project, endpoint.base_url)
        plan = project.json("plan")
        assert endpoint.calls == 0
        assert plan["ask"]["calls"] >= 2
        assert plan["ask"]["cost"] == pytest.approx(plan["ask"]["prompt_tokens"] / 1e6, abs=1e-6)
        assert plan["embed"]["exact"] is False
        first = project.json("sync")
        asked = {"calls": endpoint.calls, "prompt_tokens": 10 * endpoint.calls}
        assert first["asked"].items() >= {**asked, "completion_tokens": 2 * endpoint.calls}.items()
        found = {(meta["strategy"], meta.get("fallback")) for _, _, meta, _ in project.records()}
        assert found == {("llm", None)}
        before = endpoint.calls
        assert project.json("plan")["ask"]["calls"] == 0
        assert project.json("sync")["asked"]["calls"] == 0
        asking(project, endpoint.base_url, min_tokens=20)  # other chunks of the same answers
        assert project.json("sync")["documents"]["rebuilt"] == 2
        assert endpoint.calls == before
        document = project.docs / "1.txt"
        document.write_text(document.read_text().replace("In case 103", "It is new that in case 103", 1))
        assert 1 <= project.json("sync")["asked"]["calls"] <= 4


@pytest.mark.slow
@pytest.mark.usefixtures("essays")
def test_second_look_sends_no_request_with_a_cache(project: Project) -> None:
    def look(name: str, *options: str) -> int:
        before = endpoint.calls
        found = project.json("chunk", str(project.docs / name), *options)
        assert found["chunks"]
        assert "fallback" not in found["chunks"][0]["metadata"]
        return endpoint.calls - before

    with serving(split) as endpoint:
        chunking = asking(project, endpoint.base_url)
        assert look("0.txt") == look("0.txt") > 1, "nowhere to keep answers"
        assert not (project.folder / "state").exists()
        project.json("sync")
        assert look("0.txt") == 0
        (project.docs / "new.txt").write_text(essay(8, 700))
        assert look("new.txt") > 1
        asked = endpoint.calls
        project.json("sync")
        assert endpoint.calls == asked, "what was looked at is known"
        project.settings["chunking"] = {"strategy": "auto", "prose": chunking}
        project.configure()
        assert look("new.txt", "--option", "short_tokens=10") == 0


@pytest.mark.usefixtures("essays")
def test_key_may_stand_in_a_file_also_within_auto(project: Project, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    pick = {"strategy": "llm", "model": "tiny", "window": 200, "api_key": f"file:{tmp_path / 'key'}"}
    with serving(split) as endpoint:
        project.settings["chunking"] = {"strategy": "auto", "prose": {**pick, "base_url": endpoint.base_url}}
        project.configure()
        project.json("sync")
        assert {headers["authorization"] for headers in endpoint.headers} == {f"Bearer {KEY}"}
    files = [path for path in project.folder.rglob("*") if path.is_file()]
    assert any(path.name == "journal.sqlite3" for path in files)
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []


@pytest.mark.slow
@pytest.mark.usefixtures("essays")
def test_daemon_waiting_for_a_model_ends_at_a_signal(project: Project) -> None:
    with serving(lambda body: refused(429, "slow down", retry_after="25")) as endpoint:
        asking(project, endpoint.base_url, retries=9)
        with running(project) as daemon:
            wait(lambda: endpoint.calls > 0)
            assert daemon.stop() == 0


# --- Documents in languages that the model does not know: sync, status and init report them ---
GERMAN = (
    "Der Hafen liegt im Norden der Stadt, und die Boote liegen dort den ganzen Winter sicher vor dem Sturm. "
    "Wer einen Liegeplatz sucht, fragt im Büro nach, das jeden Morgen um sieben geöffnet wird. Nummer {n}."
)


def write_german(folder: Path) -> None:
    for number in range(4):
        (folder / f"{number}.txt").write_text(GERMAN.format(n=number))


@pytest.mark.usefixtures("embedded")
def test_sync_warns_once_and_status_keeps_the_count_until_the_model_changes(
    project: Project, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "is_english", lambda model: True)
    write_german(project.docs)
    first = ask("sync")
    assert first.code == 0
    assert len(re.findall("3 of 3 documents are in a language that", first.err)) == 1
    (source,) = answered(ask("status", "--json"))["sources"].values()
    assert source["language"].startswith("4 of 4 documents are in a language that")
    assert "4 of 4 documents are in a language" in " ".join(ask("status").out.split())
    (project.docs / "new.txt").write_text(GERMAN.format(n=9))
    assert "a language that" not in ask("sync").err
    monkeypatch.setattr(outcomes, "is_english", lambda model: False)
    (project.docs / "newer.txt").write_text(GERMAN.format(n=10))
    assert ask("sync").code == 0
    (source,) = answered(ask("status", "--json"))["sources"].values()
    assert source["language"] is None


@pytest.mark.usefixtures("embedded")
def test_sync_warns_once_of_tokens_that_model_does_not_know(
    project: Project, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count_unknown(self: HashingEmbedder, texts: Sequence[str]) -> tuple[int, int]:
        words = [word for text in texts for word in text.split()]
        return sum("ä" in word or "ü" in word for word in words), len(words)

    monkeypatch.setattr(HashingEmbedder, "count_unknown", count_unknown, raising=False)
    monkeypatch.setattr(parts, "Vocabulary", HashingEmbedder)  # Python keeps which classes meet a protocol
    for number in range(20):
        text = "Die Bücher und die Gänge müssen über Nacht geprüft werden. " * 3
        (project.docs / f"{number}.txt").write_text(f"{text} {number}")
    first = ask("sync")
    assert len(re.findall("sampled tokens .* are unknown to", " ".join(first.err.split()))) == 1
    (source,) = answered(ask("status", "--json"))["sources"].values()
    assert re.match(r"\d+ of \d[\d,]* sampled tokens \(\d\d %\) are unknown to", source["tokens"])
    assert "sampled tokens" in " ".join(ask("status").out.split())
    (project.docs / "new.txt").write_text("Die Bücher müssen über Nacht geprüft werden. " * 30)
    assert "sampled tokens" not in ask("sync").err
    monkeypatch.undo()
    (project.docs / "newer.txt").write_text("Another text.")
    assert ask("sync").code == 0
    (source,) = answered(ask("status", "--json"))["sources"].values()
    assert source["tokens"] is None


def test_init_proposes_a_multilingual_model_for_folders_in_german(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("deutsch", "english", "berichte"):
        (tmp_path / name).mkdir()
    write_german(tmp_path / "deutsch")
    for number in range(3):
        report = "Der Hafen liegt im Norden der Stadt, und die Boote fahren jeden Morgen hinaus. " * 3
        body = f"<w:p><w:r><w:t>{report}</w:t></w:r></w:p>"
        (tmp_path / "berichte" / f"{number}.docx").write_bytes(docx(body))
    (tmp_path / "english" / "a.txt").write_text("The harbour is in the north of the town. " * 10)
    made = CliRunner().invoke(app, ["init", str(tmp_path / "deutsch")])
    assert "4 of 4 documents are in a language that all-MiniLM-L6-v2 does not know (de)" in made.stderr
    config = Path("config.yaml").read_text()
    assert load(Path("config.yaml"), {}).embedding.options.model == "all-MiniLM-L6-v2"  # type: ignore[attr-defined]
    assert "# model: intfloat/multilingual-e5-small" in config
    assert "\n  model: all-MiniLM-L6-v2" in config
    Path("config.yaml").unlink()
    assert "3 of 3 documents are" in CliRunner().invoke(app, ["init", str(tmp_path / "berichte")]).stderr
    Path("config.yaml").unlink()
    assert CliRunner().invoke(app, ["init", str(tmp_path / "english")]).stderr == ""
    assert "multilingual" not in Path("config.yaml").read_text()


# --- The packaged model without torch ---
FORBIDDEN = """
import sys
class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in (
            *("torch", "transformers", "sentence_transformers"), "kubernetes", "onnxruntime"
        ):
            raise ModuleNotFoundError(f"{name} is forbidden")
sys.meta_path.insert(0, Forbidden())
"""


@pytest.fixture
def small(project: Project) -> Project:
    project.settings |= {"embedding": {"threads": 1}, "chroma": {"path": "./chroma", "embedded": True}}
    project.configure()
    for n, text in enumerate(["The mill grinds flour.", "Ships sail at dawn.", "Bread needs yeast."]):
        (project.docs / f"{n}.txt").write_text(text)
    return project


@pytest.mark.slow
def test_sync_and_a_query_need_nothing_that_the_slim_image_lacks(small: Project, tmp_path: Path) -> None:
    forbidding = tmp_path / "forbidding"
    forbidding.mkdir()
    (forbidding / "sitecustomize.py").write_text(FORBIDDEN)
    env = {"PYTHONPATH": str(forbidding)}
    done = small.call("sync", "--json", env=env)
    assert json.loads(done.stdout)["documents"]["added"] == 3, done.stderr
    done = small.call("query", "--json", "making bread", env=env)
    assert "yeast" in done.stdout.splitlines()[0][:600], done.stderr
