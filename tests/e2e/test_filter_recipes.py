"""docs/filters.md: each recipe finds in a real collection what the page says; changed keys embed nothing."""

import json
import re
import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.in_chroma import in_chroma
from tests.e2e.in_process import Ask, answered
from tests.e2e.project import Project

pytestmark = pytest.mark.usefixtures("embedded")
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/filters.md").read_text("utf-8")
RECIPES = re.findall(r"```json\n(.*?)\n```\n\nFinds (.*?)\.\n", PAGE, re.DOTALL)
CONFIG, SIDECAR = (yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))


@pytest.fixture
def samples(project: Project) -> Project:
    """The samples, with the config and the sidecar of the page."""
    shutil.copytree(ROOT / "documents", project.docs, dirs_exist_ok=True)
    (project.docs / "kitchen/bread.md.meta.yaml").write_text(yaml.safe_dump(SIDECAR), "utf-8")
    project.source = deepcopy(CONFIG["sources"][0]) | {"path": "./docs", "settle": "0s"}
    project.configure()
    return project


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
    assert len(RECIPES) == PAGE.count("```json") == 13
    expected = [set(re.findall("`([^`]+)`", named)) for _, named in RECIPES]
    assert paths(samples, [where for where, _ in RECIPES]) == expected
    for (where, _), documents in list(zip(RECIPES, expected, strict=True))[::7]:
        hits = answered(ask("query", "a question", "--where", where, "-n", "100", "--json"))["hits"]
        assert {hit["metadata"]["path"] for hit in hits} == documents, where


def change_keys(project: Project) -> None:
    own: dict[str, Any] = project.source["metadata"]
    own["values"] = {"team": "archive"}
    own["paths"] = {"*.txt": {"plain": True}}
    own["front_matter"] = {"version": "number"}
    project.configure()


def change_sidecars(project: Project) -> None:
    (project.docs / "kitchen/bread.md.meta.yaml").unlink()
    (project.docs / "kitchen/nihoncha.md.meta.yaml").write_text("servings: 2.5\n")


def test_changed_keys_are_patched_without_embedding(samples: Project, ask: Ask) -> None:
    for folder in ("cooperative", "growing", "history"):
        shutil.rmtree(samples.docs / folder)
    samples.settings["chunking"] = {"strategy": "recursive"}  # whose records are written once
    samples.configure()
    assert ask("sync").code == 0
    for change in (change_keys, change_sidecars):
        change(samples)
        done = answered(ask("sync", "--json"))
        assert done["records"]["patched"] > 0, change
        assert {**done["records"], "patched": 0} == {"added": 0, "replaced": 0, "patched": 0, "dropped": 0}
        assert done["embedded"]["texts"] == 0, change
    assert samples.essence() == samples.fresh("anew").essence()


@pytest.mark.slow
def test_field_of_another_type_is_omitted_and_named(samples: Project, ask: Ask) -> None:
    samples.source["metadata"]["front_matter"] = {"chair": "number"}
    samples.configure()
    assert ask("sync").code == 0
    assert not any("chair" in metadata for _, _, metadata, _ in samples.records())
    assert "front matter: chair is no number: Wilhelmina Achterberg" in ask("status", "-v").out


def test_documents_are_listed_by_part_of_the_key_pattern_state_and_collection(
    samples: Project, ask: Ask
) -> None:
    for folder in ("cooperative", "growing", "history", "operations"):
        shutil.rmtree(samples.docs / folder)
    (samples.docs / "kitchen/photo.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    ask("sync")

    def keys(*words: str) -> list[str]:
        return [one["document"] for one in answered(ask("ls", "--json", *words))]

    assert keys("bread") == ["kitchen/bread.md"]
    assert keys("kitchen/*.txt", "--collection", "docs") == ["kitchen/sourdough-notes.txt"]
    assert keys("--state", "unsupported") == ["kitchen/photo.png"]
    assert keys("--state", "due") == []
    assert ask("ls", "no such").err == "there are no such documents\n"
    wrong = ask("ls", "--collection", "doc")
    assert wrong.code == 2 and "no collection 'doc'; known: docs" in wrong.err


@pytest.mark.slow
def test_configured_keys_are_in_lean_records(samples: Project, ask: Ask) -> None:
    samples.settings["metadata"] = "lean"
    samples.configure()
    assert ask("sync").code == 0
    assert len(paths(samples, ['{"level": 3}'])[0]) == 3
    where = '{"$and": [{"level": 3}, {"folders": {"$contains": "operations"}}]}'
    refused = ask("query", "words", "--where", where)
    assert refused.code == 2
    assert "names 'folders', which `metadata: lean` of the config leaves out of records" in refused.err
