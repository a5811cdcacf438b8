"""Docstrings and commit subjects keep CONTRIBUTING's rules of prose."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FRAGMENT = re.compile(r"(Of|Those|Less|As|That|What|For|Its|One|None|Nothing)\b")
STORY = re.compile(r"(Say|Tell|Let)\b")
FIRST_COMMIT = "38c7d152"  # subjects after it keep the rules

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def opens_badly(node: Documented) -> bool:
    """Return whether a docstring opens with a fragment or with a parameter."""
    words = ast.get_docstring(node) or ""
    if FRAGMENT.match(words):
        return True
    if isinstance(node, ast.Module | ast.ClassDef):
        return False
    given = node.args
    names = {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
    quoted = re.match(r"``(\w+)``", words)
    return quoted is not None and quoted[1] in names


def openings(path: Path) -> Iterator[str]:
    """Yield the place of every docstring that opens badly."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, Documented) and opens_badly(node):
            yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"


def test_docstrings_open_with_a_verb_or_a_noun() -> None:
    paths = [path for top in ("ingestor", "connectors") for path in sorted((ROOT / top).rglob("*.py"))]
    places = [place for path in paths if "ingestor/connectors" not in str(path) for place in openings(path)]
    assert places == []


@pytest.mark.parametrize(
    ("source", "bad"),
    [
        ('def f():\n    """Of a document, the key."""', True),
        ('def f(key):\n    """``key``: of the document."""', True),
        ('def f():\n    """``None`` ends the listing."""', False),
        ('class A:\n    """That which waits."""', True),
        ('"""Nothing is lost."""', True),
        ('def f():\n    """Offer a place."""', False),
        ('async def f():\n    """Return the key."""', False),
        ("def f(): ...", False),
    ],
)
def test_opening_of_a_docstring_is_judged(source: str, bad: bool) -> None:
    (node,) = [each for each in ast.walk(ast.parse(source)) if isinstance(each, Documented)][-1:]
    assert opens_badly(node) is bad


def test_commit_subjects_name_a_component_or_a_deed() -> None:
    log = subprocess.run(
        ["git", "log", "--format=%h %s", f"{FIRST_COMMIT}..HEAD"], cwd=ROOT, capture_output=True, text=True
    )
    if log.returncode:
        pytest.skip("this copy has no history")
    assert [line for line in log.stdout.splitlines() if STORY.match(line.partition(" ")[2])] == []
