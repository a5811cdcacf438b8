"""Search on the command line and at the service port, while documents change; recipes of docs/filters.md."""

import json
import re
import shutil
import threading
from collections import Counter
from copy import deepcopy
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from ingestor.service.client import DaemonClient
from tests.e2e.in_process import Ask, answered
from tests.e2e.project import Daemon, Project, in_chroma, running
from tests.serving import free_port
from tests.waiting import wait

pytestmark = pytest.mark.timeout(900)
PAGE = """# Pumps

## Faults

The fault ERR_4711 means that the pump is blocked.

Then it must be opened.

## Repair

Pumps were opened with a key of § 12.
"""


def test_words_are_found_beside_a_daemon(project: Project, daemon: Daemon, ask: Ask) -> None:
    (project.docs / "pumps.md").write_text(PAGE)
    for n in range(5):
        (project.docs / f"other{n}.md").write_text(f"# Other {n}\n\nNothing of interest is in number {n}.\n")
    wait(lambda: project.settled(6))
    wait(lambda: project.poll("query", "ERR_4711")["mode"] == "hybrid")
    for mode in ("hybrid", "lexical"):
        found = project.poll("query", "ERR_4711", "--mode", mode, "-n", "1")
        assert (found["mode"], found["fallback"]) == (mode, None)
        assert "ERR_4711" in found["hits"][0]["document"]
        assert found["hits"][0]["ranks"]["lexical"] == 1
    whole = project.poll("query", "err 4711", "-n", "1", "--expand", "document")["passages"]
    assert [(one["text"], one["start"], one["end"]) for one in whole] == [
        (PAGE.strip(), 0, len(PAGE.strip()))
    ]
    assert whole[0]["source"].endswith("pumps.md")
    assert whole[0]["lines"][0] == 1
    only = '{"file_name": "other3.md"}'
    hits = project.poll("query", "blocked pump number", "--where", only, "--mode", "lexical")["hits"]
    assert {hit["metadata"]["file_name"] for hit in hits} == {"other3.md"}
    assert project.poll("query", "pump", "--budget", "1")["passages"] == []
    shown = ask("query", "blocked", "--mode", "lexical", "--expand", "document").out
    assert "pumps.md:1-" in shown and "§ 12" in shown


# --- Search at the service port of a real daemon ---


def make_served(folder: Path, **http: Any) -> Project:
    found = Project(folder / "project", {"http": {"port": free_port(), **http}})
    for name in ("harbour", "bridge", "library"):
        (found.docs / f"{name}.md").write_text(f"# The {name}\n\nAll that is known about the {name}.\n")
    return found


def search(of: Project, query: str, **more: Any) -> httpx.Response:
    address = f"http://127.0.0.1:{of.settings['http']['port']}/search"
    return httpx.post(address, json={"query": query, **more}, timeout=60, trust_env=False)


def test_questions_are_answered_while_it_ingests_and_swaps(tmp_path: Path) -> None:
    here = make_served(tmp_path)
    with running(here) as daemon:
        wait(lambda: here.settled(3) and search(here, "bridge").json()["mode"] == "hybrid")
        first = search(here, "bridge", n=1, expand="document").json()
        assert first["passages"][0]["text"].endswith("All that is known about the bridge.")
        own = here.poll("query", "bridge", "-n", "1", "--expand", "document")
        assert {**own, "seconds": 0} == {**first, "seconds": 0}
        ended, seen = threading.Event(), Counter[Any]()

        def ask() -> None:
            while not ended.is_set():
                said = search(here, "bridge", n=1)
                hits = said.json().get("hits") or [{"metadata": {"recipe": said.text}}]
                seen[said.status_code, hits[0]["metadata"]["recipe"]] += 1

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            for n in range(20):
                (here.docs / f"new{n}.md").write_text(f"Number {n} is new.\n")
            wait(lambda: here.settled(23))
            here.settings["chunking"] = {"strategy": "recursive", "size": 30}
            here.settings["embedding"] = {"kind": "hashing", "dimensions": 96}
            here.configure()
            wait(lambda: len({recipe for _, recipe in seen}) > 1)
            wait(lambda: here.settled(23))
        finally:
            ended.set()
            asking.join()
        assert {status for status, _ in seen} == {200}, seen
        assert len(seen) == 2, seen
        assert daemon.stop() == 0, daemon.said()
    assert "Traceback" not in daemon.said()


def test_command_uses_the_daemon_if_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = make_served(tmp_path, token="file:" + str(tmp_path / "token"))
    (tmp_path / "token").write_text("t0ken-of-the-port")
    asked: list[Any] = []
    of_client = DaemonClient.search
    monkeypatch.setattr(DaemonClient, "search", lambda self, q: asked.append(of_client(self, q)) or asked[-1])
    with running(here) as daemon:
        wait(lambda: here.settled(3))
        assert here.poll("query", "harbour", "-n", "1")["hits"][0]["document"].strip()
        assert asked[-1] is not None, "the daemon answered"
        other = make_served(tmp_path / "other", token="file:" + str(tmp_path / "token"))
        other.settings["http"]["port"] = here.settings["http"]["port"]
        other.configure()
        with running(other):
            wait(lambda: other.settled(3))
            found = other.poll("query", "harbour", "-n", "1")["hits"]
        assert asked[-1] is None, "a daemon of another project does not answer"
        assert str(other.docs) in found[0]["metadata"]["source"]
        bad = here.call("query", "harbour", "--where", '{"a": {"$like": "b"}}')
        assert (bad.returncode, "$like" in bad.stderr) == (2, True), bad.stderr
        assert daemon.stop() == 0
    asked.clear()
    assert here.poll("query", "harbour", "-n", "1")["hits"]
    assert asked == []


# --- docs/filters.md: each recipe finds what the page promises; changed keys embed nothing ---


ROOT = Path(__file__).parents[2]
FILTERS = (ROOT / "docs/filters.md").read_text("utf-8")
RECIPES = re.findall(r"```json\n(.*?)\n```\n\nFinds (.*?)\.\n", FILTERS, re.DOTALL)
CONFIG, SIDECAR = (yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", FILTERS, re.DOTALL))


@pytest.fixture
def samples(embedded: Project) -> Project:
    """Return the samples, with the config and the sidecar of the page."""
    shutil.copytree(ROOT / "documents", embedded.docs, dirs_exist_ok=True)
    (embedded.docs / "kitchen/bread.md.meta.yaml").write_text(yaml.safe_dump(SIDECAR), "utf-8")
    embedded.source = deepcopy(CONFIG["sources"][0]) | {"path": "./docs", "settle": "0s"}
    embedded.configure()
    return embedded


def paths(project: Project, wheres: list[str]) -> list[set[str]]:
    """Read the paths of the records that each filter chooses, as a reader with nothing but chromadb does."""
    chosen = in_chroma(
        project.folder / "chroma",
        "docs",
        f"result = [[each['path'] for each in collection.get(where=where)['metadatas']]\n"
        f"          for where in {[json.loads(where) for where in wheres]!r}]",
    )
    return [set(each) for each in chosen]


def test_each_recipe_of_the_page_returns_its_documents(samples: Project, ask: Ask) -> None:
    assert ask("sync").code == 0
    assert len(RECIPES) == FILTERS.count("```json") == 13
    expected = [set(re.findall("`([^`]+)`", named)) for _, named in RECIPES]
    assert paths(samples, [where for where, _ in RECIPES]) == expected
    for (where, _), documents in list(zip(RECIPES, expected, strict=True))[::7]:
        hits = answered(ask("query", "a question", "--where", where, "-n", "100", "--json"))["hits"]
        assert {hit["metadata"]["path"] for hit in hits} == documents, where


def change_keys(project: Project) -> None:
    own: dict[str, Any] = project.source["metadata"]
    own["values"] = {"team": "archive"}
    own["paths"] = {"*.txt": {"plain": True}}
    own["front_matter"] = {"version": "number", "severity": "number"}
    project.configure()


def change_sidecars(project: Project) -> None:
    (project.docs / "kitchen/bread.md.meta.yaml").unlink()
    (project.docs / "kitchen/nihoncha.md.meta.yaml").write_text("servings: 2.5\n")


def leave_keys_out(project: Project) -> None:
    project.settings["metadata"] = "lean"
    project.configure()


def test_changed_keys_are_patched_without_embedding(samples: Project, ask: Ask) -> None:
    for folder in ("cooperative", "growing", "history"):
        shutil.rmtree(samples.docs / folder)
    samples.settings["chunking"] = {"strategy": "recursive"}  # whose records are written once
    samples.configure()
    assert ask("sync").code == 0
    for change in (change_keys, change_sidecars, leave_keys_out):
        change(samples)
        done = answered(ask("sync", "--json"))
        assert done["records"]["patched"] > 0, change
        assert {**done["records"], "patched": 0} == {"added": 0, "replaced": 0, "patched": 0, "dropped": 0}
        assert done["embedded"]["texts"] == 0, change
    assert samples.essence() == samples.fresh("anew").essence()
    assert "front matter: severity is no number: page during the day" in ask("status", "-v").out
    assert paths(samples, ['{"plain": true}']) == [{"kitchen/sourdough-notes.txt", "operations/time.txt"}]
    refused = ask("query", "words", "--where", '{"folders": {"$contains": "operations"}}')
    assert refused.code == 2
    assert "names 'folders', which `metadata: lean` of the config leaves out of records" in refused.err


def test_documents_are_listed_by_part_of_the_key_pattern_state_and_collection(
    embedded: Project, ask: Ask
) -> None:
    (embedded.docs / "kitchen").mkdir()
    for name, content in (
        ("bread.md", b"Bread."),
        ("notes.txt", b"Sour."),
        ("photo.png", b"\x89PNG\r\n\x1a\n"),
    ):
        (embedded.docs / "kitchen" / name).write_bytes(content)
    ask("sync")

    def keys(*words: str) -> list[str]:
        return [one["document"] for one in answered(ask("ls", "--json", *words))]

    assert keys("bread") == ["kitchen/bread.md"]
    assert keys("kitchen/*.txt", "--collection", "docs") == ["kitchen/notes.txt"]
    assert keys("--state", "unsupported") == ["kitchen/photo.png"]
    assert keys("--state", "due") == []
    assert ask("ls", "no such").err == "there are no such documents\n"
    wrong = ask("ls", "--collection", "doc")
    assert wrong.code == 2 and "no collection 'doc'; known: docs" in wrong.err
