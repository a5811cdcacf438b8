"""The program's modules, parsed once in each process that runs tests of them."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


@cache
def modules() -> dict[Path, ast.Module]:
    """Return the tree of every module, by path below the root."""
    files = sorted((ROOT / "ingestor").rglob("*.py"))
    return {file.relative_to(ROOT): ast.parse(file.read_text("utf-8")) for file in files}


@cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Return all nodes of a tree, which several tests look through."""
    return tuple(ast.walk(tree))
