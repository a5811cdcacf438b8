"""A changed config, through the whole program and a real Chroma: chunking, engine, languages, sections."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ingestor.embedders import engines, sentence_transformers
from tests.e2e.in_chroma import in_chroma
from tests.e2e.in_process import Ask, answered
from tests.e2e.project import Daemon, Project, running
from tests.waiting import wait

READER = Path(__file__).with_name("reader.py")
DOCUMENTS = 8


@contextmanager
def reading(project: Project, into: Path) -> Iterator[None]:
    """A reader process beside the daemon; what it saw is in the file afterwards."""
    with into.open("wb") as stream:
        reader = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(READER), str(project.port)],
            stdin=subprocess.PIPE, stdout=stream, cwd=project.folder,
        )  # fmt: skip
        try:
            yield
        finally:
            assert reader.stdin is not None
            reader.stdin.close()
            reader.wait(60)


def seen(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


def write_documents(project: Project, random: Random, names: range) -> None:
    for number in names:
        paragraphs = [" ".join(random.choices(WORDS, k=30)) + "." for _ in range(8)]
        (project.docs / f"{number}.md").write_text(f"# Number {number}\n\n" + "\n\n".join(paragraphs))


WORDS = [f"{a}{b}" for a in ("river", "stone", "paper", "engine", "cloud") for b in ("", "s", "like", "less")]


def reconfigure(project: Project, **settings: Any) -> None:
    project.settings.update(settings)
    project.configure()


def in_step(project: Project, size: int) -> bool:
    """Whether the running daemon rests, with documents cut at this size."""
    found = project.poll("status")["collections"]["docs"]
    shown = project.poll("show", "0.md")["chunks"]
    sizes = [chunk["metadata"]["token_count"] for chunk in shown]
    return (
        bool(project.settled(DOCUMENTS) and not found["built"] and found["healthy"] and max(sizes) <= size)
        and max(sizes) > size / 2
    )


# test_search.py asks at the service port during a swap, and tests/simulation holds what readers see
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["swap", "in_place"])
def test_changed_config_is_reloaded_while_running(project: Project, mode: str, tmp_path: Path) -> None:
    write_documents(project, Random(1), range(DOCUMENTS))
    reconfigure(project, rechunk=mode)
    with running(project) as daemon:
        wait(lambda: project.settled(DOCUMENTS), 200)
        with reading(project, tmp_path / "seen"):
            for size in (30, 90):
                reconfigure(project, chunking={"strategy": "recursive", "size": size})
                wait(lambda size=size: in_step(project, size), 200)
            wait(lambda: len(seen(tmp_path / "seen")) > 20)  # a reader is slow where the machine is busy
        answers = seen(tmp_path / "seen")
        assert daemon.stop() == 0
    by_name = [answer for answer in answers if answer["by"] == "name"]
    assert len(by_name) > 5
    assert all(answer["documents"] == DOCUMENTS and answer["hits"] for answer in by_name)
    if mode == "swap":
        assert {len(answer["recipes"]) for answer in by_name} == {1}
        by_handle = {len(answer["recipes"]) for answer in answers if answer["by"] == "handle"}
        assert by_handle <= {0, 1}, "the collection before the previous one is emptied, then deleted"
    assert project.essence() == project.fresh().essence()


@pytest.mark.slow
def test_another_embedder_never_mixes_and_changing_back_embeds_nothing(
    project: Project, tmp_path: Path
) -> None:
    write_documents(project, Random(2), range(DOCUMENTS))
    with running(project) as daemon:
        wait(lambda: project.settled(DOCUMENTS), 200)
        with reading(project, tmp_path / "seen"):
            reconfigure(project, embedding={"kind": "hashing", "dimensions": 32})
            wait(lambda: dimensions(tmp_path / "seen") == 32, 200)
        answers = [answer for answer in seen(tmp_path / "seen") if answer["by"] != "error"]
        assert {len(answer["recipes"]) for answer in answers} == {1}
        assert daemon.stop() == 0
    assert project.essence() == project.fresh().essence()
    reconfigure(project, embedding={"kind": "hashing", "dimensions": 64})
    assert project.json("sync")["embedded"]["texts"] == 0
    assert project.json("verify")["checked"] == len(project.records())


def dimensions(path: Path) -> int:
    by_name = [answer for answer in seen(path) if answer["by"] == "name"]
    return int(by_name[-1]["dimensions"]) if by_name else 0


# test_looking.py rolls back and forth by default
@pytest.mark.slow
@pytest.mark.usefixtures("embedded")
def test_rolling_back_gives_readers_what_they_had_and_apply_continues(project: Project) -> None:
    write_documents(project, Random(3), range(DOCUMENTS))
    reconfigure(project, rechunk="swap")
    project.json("sync")
    before = project.essence()
    assert project.call("rollback").returncode == 2
    reconfigure(project, chunking={"strategy": "recursive", "size": 30})
    assert project.json("sync")["documents"]["rebuilt"] == DOCUMENTS
    after = project.essence()
    assert project.json("rollback") == {"rolled_back": "docs"}
    assert project.essence() == before
    (project.docs / "0.md").unlink()  # the old recipe goes on, and the new one stays refused
    assert project.json("sync")["documents"]["removed"] == 1
    assert 0 < project.essence().total() < before.total()
    assert "was undone by `ingestor rollback`" in project.json("status")["collections"]["docs"]["waits"]
    write_documents(project, Random(3), range(1))
    project.json("apply", code=None)
    assert project.essence() == after


@pytest.mark.usefixtures("embedded")
@pytest.mark.slow
def test_config_that_was_rolled_back_is_followed_after_another_one(project: Project) -> None:
    write_documents(project, Random(5), range(2))
    reconfigure(project, rechunk="swap")
    project.json("sync")
    reconfigure(project, chunking={"strategy": "recursive", "size": 30})
    project.json("sync")
    after = project.essence()
    project.json("rollback")
    reconfigure(project, chunking={"strategy": "recursive", "size": 80})
    assert project.json("sync")["documents"]["rebuilt"] == 2
    reconfigure(project, chunking={"strategy": "recursive", "size": 30})
    assert project.json("sync")["documents"]["rebuilt"] == 2
    assert project.essence() == after


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_readers_through_ten_changes_edits_and_kills(project: Project, tmp_path: Path) -> None:
    """What they see is whole: one embedder, one recipe, every document; but for the gap of the renames."""
    random = Random(7)
    write_documents(project, random, range(DOCUMENTS))
    reconfigure(project, rechunk="swap")
    daemon = project.start()
    wait(lambda: project.settled(DOCUMENTS))
    into = tmp_path / "seen"
    with reading(project, into):
        for change in range(10):
            size = (30, 60, 90)[change % 3]
            embedding = {"kind": "hashing", "dimensions": (64, 32)[change // 2 % 2]}
            reconfigure(project, chunking={"strategy": "recursive", "size": size}, embedding=embedding)
            write_documents(project, random, range(1, 4))
            daemon = _kill_now_and_then(project, daemon, random)
            wait(lambda size=size: in_step(project, size), 180)
    daemon.stop()
    answers = seen(into)
    looked = [answer for answer in answers if answer["by"] != "error"]
    assert len(looked) > 100
    assert all(len(answer["recipes"]) == 1 and answer["documents"] == DOCUMENTS for answer in looked)
    gaps = [answer for answer in answers if "does not exist" in answer.get("error", "")]
    print(f"{len(looked)} answers, {len(gaps)} in the gap between two renames")
    assert project.essence() == project.fresh().essence()


def _kill_now_and_then(project: Project, daemon: Daemon, random: Random) -> Daemon:
    for _ in range(random.randrange(3)):
        wait_for = random.random() * 3
        try:
            daemon.process.wait(wait_for)
        except subprocess.TimeoutExpired:
            daemon.kill()
        daemon = project.start()
    return daemon


# --- The engine that embeds: without torch, after an upgrade, on another machine ---
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


def recipes(project: Project) -> list[str]:
    with sqlite3.connect(project.folder / "state" / "journal.sqlite3") as journal:
        found = journal.execute("SELECT embedder FROM collections WHERE role = 'live'").fetchall()
    journal.close()
    return [recipe for (recipe,) in found]


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


# tests/embedders/test_embedder_recipes.py holds that a chosen engine is taken, and tests/rechunk the swap
@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("played", [True, False])
def test_chosen_engine_is_announced_and_goes_by_swap(
    small: Project, ask: Ask, monkeypatch: pytest.MonkeyPatch, played: bool
) -> None:
    """``played``: torch's part is played by OpenVINO, for torch takes long to load."""
    if played:
        monkeypatch.setattr(sentence_transformers, "_torch", sentence_transformers._openvino)
    small.settings["embedding"] = {"engine": "torch", "precision": "float32", "threads": 1}
    small.configure()
    answered(ask("sync", "--json"))
    made = recipes(small)
    small.settings["embedding"] = {"engine": "openvino", "precision": "float32", "threads": 1}
    small.configure()
    assert "engine" in ask("plan").out
    assert answered(ask("sync", "--json"))["embedded"]["texts"] == 3
    assert recipes(small) != made


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["precision", "openvino"])
def test_another_machine_embeds_nothing_again_unasked(
    small: Project, ask: Ask, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    if missing == "precision" and not (engines.multiplies_bfloat16() or engines.multiplies_int8()):
        pytest.skip("this processor has float32 alone")
    answered(ask("sync", "--json"))
    made = recipes(small)
    if missing == "precision":
        monkeypatch.setattr(engines, "multiplies_bfloat16", lambda: False)
        monkeypatch.setattr(engines, "multiplies_int8", lambda: False)
    else:
        monkeypatch.setattr(engines, "is_installed", lambda *packages: "openvino" not in packages)
    assert "this machine computes other vectors" in ask("plan").out
    assert answered(ask("sync", "--json"))["embedded"]["texts"] == 0
    assert recipes(small) == made
    answered(ask("apply", "--json"))
    assert recipes(small) != made


# --- Filters that records did not have before: the language and sections of a text, types by name ---
TEXT = """\
.. _start:

Start
=====

It begins here.

.. setting:: DEBUG

DEBUG
=====

It is off.
"""
DECLARATION = (Path(__file__).parents[1] / "declaration.txt").read_text("utf-8")
GERMAN = DECLARATION.partition("\nde ")[2].partition("\n")[0]
OLDER = """
import sys
from ingestor.pipeline import language, metadata
metadata.rules, metadata._headings = lambda *_: "", lambda *_: None
language.rules, language.identified = lambda: "", lambda document: document
del sys.argv[0]
from ingestor.cli.main import main
main()
"""


@pytest.mark.slow
def test_records_made_before_a_filter_are_patched_and_embed_nothing(project: Project) -> None:
    project.settings["chunking"] = {"strategy": "changepoint"}
    project.configure()
    (project.docs / "a.rst").write_text(TEXT, "utf-8")
    (project.docs / "b.txt").write_text(GERMAN, "utf-8")

    project.under = (sys.executable, "-c", OLDER)
    made = project.json("sync")["records"]["added"]
    assert not any(meta.keys() & {"headings", "language"} for _, _, meta, _ in project.records())

    project.under = ()
    patched = project.json("sync")
    assert patched["records"] == {"added": 0, "replaced": 0, "patched": made, "dropped": 0}
    assert patched["embedded"]["texts"] == 0
    headings = (
        "result = collection.get(where={'headings': {'$contains': 'DEBUG'}})['metadatas'][0]['headings']"
    )
    assert in_chroma(project.folder / "chroma", "docs", headings) == ["Start", "DEBUG"]
    german = "result = collection.get(where={'language': 'de'})['documents']"
    assert " ".join(in_chroma(project.folder / "chroma", "docs", german)).split() == GERMAN.split()
    assert project.json("verify")["wrong_metadata"] == 0

    (project.docs / "a.rst").write_text("It begins here.\n", "utf-8")
    project.json("sync")
    assert not any("headings" in meta for _, _, meta, _ in project.records())


@pytest.mark.slow
def test_another_type_reads_what_is_called_so_again(project: Project) -> None:
    project.settings |= {"chunking": {"strategy": "structure"}, "rechunk": "in_place"}
    project.configure()
    for name in ("a.txt", "b.inc", "c.md"):
        (project.docs / name).write_text("Title\n=====\n\nIt is plain.\n", "utf-8")
    assert project.json("sync")["documents"]["added"] == 3
    before = {meta["file_name"]: meta["content_type"] for _, _, meta, _ in project.records()}
    assert before == {"a.txt": "text/plain", "b.inc": "text/plain", "c.md": "text/markdown"}

    project.settings["parsing"] = {"types": {"*.txt": "rst", "*.inc": "text/x-go"}}
    project.configure()
    assert project.json("plan")["documents"]["changed"] == 3
    done = project.json("sync")
    assert done["embedded"]["texts"] == 0
    after = {
        meta["file_name"]: (meta["content_type"], meta.get("headings")) for _, _, meta, _ in project.records()
    }
    assert after == {
        "a.txt": ("text/x-rst", ["Title"]),
        "b.inc": ("text/x-go", None),
        "c.md": ("text/markdown", ["Title"]),
    }
