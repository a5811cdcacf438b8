"""Real prose that everybody has: the documentation inside Python's library and numpy, as reST files."""

import ast
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import numpy as np

_LEFT_OUT = {"site-packages", "test", "tests", "idle_test", "lib2to3", "ensurepip", "__pycache__"}
_HEADINGS = {ast.Module: "=", ast.ClassDef: "-", ast.FunctionDef: "~", ast.AsyncFunctionDef: "~"}


def write(folder: Path, characters: int) -> int:
    """A file a module, until they have so many characters. Returns how many files; always the same ones."""
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
    """All docstrings of a module, each under the name of what it describes."""
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError:
        return ""
    return "\n".join(
        f"{name}\n{_HEADINGS[type(node)] * len(name)}\n\n{said}\n"
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and (said := ast.get_docstring(node))
        for name in [getattr(node, "name", path.stem)]
    )
