"""Children of Python run code of this program alone, and see no more variables than they need."""

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE

import pytest

import ingestor
import ingestor.connectors
from ingestor.confinement import python_child as python_child_module
from ingestor.confinement.python_child import absolute_paths, python_child
from ingestor.model import Blob
from ingestor.page.changes import planner
from ingestor.registry import Options
from ingestor.sandbox.pool import Isolation
from ingestor.sandbox.process import Limits
from tests.bad_parser import installed
from tests.waiting import wait

ROOTS = [Path(folder) for package in (ingestor, ingestor.connectors) for folder in package.__path__]


def _uses_of_the_interpreter(tree: ast.AST) -> Iterator[int]:
    """Lines that name the interpreter, but for commands of pip that a message tells people to type."""
    shown = {
        id(part)
        for text in ast.walk(tree)
        if isinstance(text, ast.JoinedStr) and " -m pip" in ast.unparse(text)
        for part in ast.walk(text)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr="executable") if id(node) not in shown:
                yield node.lineno
            case ast.ImportFrom(module="sys", names=[ast.alias(name="executable")]):
                yield node.lineno
            case ast.Import(names=[ast.alias(name="multiprocessing")]):
                yield node.lineno


def test_python_is_started_in_one_place_only() -> None:
    found = [
        f"{file.name}:{line}"
        for root in ROOTS
        for file in root.rglob("*.py")
        if re.search("executable|multiprocessing", source := file.read_text("utf-8"))
        for line in _uses_of_the_interpreter(ast.parse(source))
    ]
    assert {place.partition(":")[0] for place in found} == {"python_child.py"}, found


def test_search_path_without_place_is_dropped() -> None:
    kept = {"/a:": "/a", ":/a": "/a", "/a::/b": "/a:/b", "lib:/a": "/a", "": None, ":": None, ".": None}
    for given, expected in kept.items():
        path = {} if expected is None else {"PYTHONPATH": expected}
        assert absolute_paths({"PYTHONPATH": given, "LANG": ""}) == {"LANG": "", **path}, given


def test_child_ignores_modules_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("print('theirs')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", ":")
    for words in (["-c", "import json"], ["-m", "json.tool", "/dev/null"]):
        child = python_child(*words).start(stdout=PIPE, stderr=PIPE)
        assert b"theirs" not in child.communicate()[0]


def test_plan_ignores_modules_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("typer", "ingestor"):
        (tmp_path / f"{module}.py").write_text("import pathlib; pathlib.Path('ran').touch()")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "")
    plans = planner(tmp_path / "config.yaml")
    plans.begin()
    plan = wait(lambda: (found := plans.latest()) and found.text is not None and found, 120)
    plans.close()
    assert "config.yaml" in plan.text, "it is our program that found no config"
    assert not (tmp_path / "ran").exists()


def test_secrets_reach_a_child_only_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "s3cret")
    monkeypatch.setenv("PYTHONSTARTUP", "/theirs.py")
    assert "A_TOKEN" not in python_child().environment
    asked = python_child(secrets=True).environment
    assert asked["A_TOKEN"] == "s3cret"
    assert "PYTHONSTARTUP" not in asked


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="Landlock is Linux's")
def test_parser_cannot_read_the_working_directory_by_an_empty_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "project"
    place.mkdir()
    (place / "journal.sqlite3").write_text("secret")
    (tmp_path / "plugins").mkdir()
    monkeypatch.setenv("PYTHONPATH", f"{installed(tmp_path / 'plugins')}:")
    monkeypatch.setattr(python_child_module, "_PASSED", python_child_module._PASSED | {"PYTHON_TEST_FILE"})
    monkeypatch.setenv("PYTHON_TEST_FILE", str(place / "journal.sqlite3"))
    monkeypatch.chdir(place)
    isolation = Isolation(Limits(processes=1))
    try:
        if "landlock" not in isolation_level(isolation):
            pytest.skip("this kernel has no Landlock")
        said = isolation.parse("bad", Options(), Blob(b"spy", "a")).text
    finally:
        isolation.close()
    assert said.startswith("refused"), said


def isolation_level(isolation: Isolation) -> str:
    """The walls in force, after one document made a process start."""
    isolation.parse("bad", Options(), Blob(b"pid", "a"))
    return isolation.level.partition("; without")[0]
