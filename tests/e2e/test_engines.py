"""The engine that embeds: without torch, after an upgrade from torch, and after a move to another machine."""

import json
import sqlite3
from pathlib import Path

import pytest

from ingestor.embedders import engines, hardware, sentence_transformers
from tests.e2e.in_process import Ask, answered
from tests.e2e.project import Project

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


def test_a_sync_and_a_query_need_nothing_that_the_slim_image_lacks(small: Project, tmp_path: Path) -> None:
    forbidding = tmp_path / "forbidding"
    forbidding.mkdir()
    (forbidding / "sitecustomize.py").write_text(FORBIDDEN)
    env = {"PYTHONPATH": str(forbidding)}
    done = small.call("sync", "--json", env=env)
    assert json.loads(done.stdout)["documents"]["added"] == 3, done.stderr
    done = small.call("query", "--json", "making bread", env=env)
    assert "yeast" in done.stdout.splitlines()[0][:600], done.stderr


@pytest.mark.slow
@pytest.mark.torch
def test_an_upgrade_keeps_the_engine_of_a_collection(small: Project, ask: Ask) -> None:
    small.settings["embedding"] = {"engine": "torch", "precision": "float32", "threads": 1}
    small.configure()
    answered(ask("sync", "--json"))
    made = recipes(small)
    small.settings["embedding"] = {"threads": 1}
    small.configure()
    assert answered(ask("plan", "--json"))["embed"]["texts"] == 0
    (small.docs / "3.txt").write_text("Bees make honey.")
    assert answered(ask("sync", "--json"))["embedded"]["texts"] == 1
    assert recipes(small) == made


@pytest.mark.torch
@pytest.mark.parametrize("played", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_chosen_engine_is_announced_and_goes_by_swap(
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
    if missing == "precision" and not (hardware.multiplies_bfloat16() or hardware.multiplies_int8()):
        pytest.skip("this processor has float32 alone")
    answered(ask("sync", "--json"))
    made = recipes(small)
    if missing == "precision":
        monkeypatch.setattr(engines, "multiplies_bfloat16", lambda: False)
        monkeypatch.setattr(engines, "multiplies_int8", lambda: False)
    else:
        monkeypatch.setattr(engines, "installed", lambda *packages: "openvino" not in packages)
    assert "this machine computes other vectors" in ask("plan").out
    assert answered(ask("sync", "--json"))["embedded"]["texts"] == 0
    assert recipes(small) == made
    answered(ask("apply", "--json"))
    assert recipes(small) != made
