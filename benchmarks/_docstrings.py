"""Writes prose that every installation has: the docstrings of Python's library and numpy, as reST files."""

import ast
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import numpy as np

_LEFT_OUT = {"site-packages", "test", "tests", "idle_test", "lib2to3", "ensurepip", "__pycache__"}
_HEADINGS = {ast.Module: "=", ast.ClassDef: "-", ast.FunctionDef: "~", ast.AsyncFunctionDef: "~"}


def write(folder: Path, characters: int) -> int:
    """Write a file for each module until the files have so many characters. Return the number of files."""
    folder.mkdir(parents=True)
    files = written = 0
    for name, text in _documents():
        if written >= characters:
            break
        (folder / f"{name}.rst").write_text(text[: characters - written], "utf-8")
        files, written = files + 1, written + len(text)
    return files


def _documents() -> Iterator[tuple[str, str]]:
    for package in (Path(sysconfig.get_path("stdlib")), Path(np.__file__).parent):
        for path in sorted(package.rglob("*.py")):
            inside = path.relative_to(package)
            if not _LEFT_OUT.intersection(inside.parts) and (text := _documented(path)):
                yield ".".join((package.name, *inside.with_suffix("").parts)), text


def _documented(path: Path) -> str:
    """Return all docstrings of a module, each under the name of its class or function."""
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError:
        return ""
    return "\n".join(
        f"{name}\n{_HEADINGS[type(node)] * len(name)}\n\n{docstring}\n"
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and (docstring := ast.get_docstring(node))
        for name in [getattr(node, "name", path.stem)]
    )
