"""Public names: ours stay as they are written down, and of other packages no private name is read."""

import ast
import inspect
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import ingestor
from ingestor import Project
from tests.program import modules, nodes

WRITTEN = Path(__file__).with_name("public_api.txt")
RESULTS = ("Answer", "Status", "SyncPlan", "SyncProgress", "SyncReport", "Verification")

# Names with an underscore that code reads all the same, by file.
EXPLAINED = {
    "os._exit": "documented: ends a process without Python's cleaning up",
    "row._mapping": "SQLAlchemy's documented name; the underscore keeps it apart from columns",
    "self._client._server": "chromadb: a public collection loads the model at every write",
    "self._client._server._modify": "chromadb: the same",
    "super()._get_session": "aiobotocore: its session has no public switch for redirects",
    "kind._get_kwargs_from_urls": "fsspec: what `fsspec.core.url_to_fs` does, without making a file system",
    "kind._strip_protocol": "fsspec: the same",
    "system._raise_not_found_for_status": "fsspec's HTTP: there is no public read that ends at a limit",
    "system._call_s3": "s3fs: there is no public read that ends at a limit",
    "ray._private": "Ray prints errors of nodes where our answers go, and has no option against it",
    "system._iterdir": "s3fs: there is no public listing that ends at a limit",
}


def private_reads(tree: ast.Module) -> Iterator[str]:
    """Yield attributes with one leading underscore that no class of the module defines, and such imports."""
    every = nodes(tree)
    own = {node.name for node in every if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    own |= {node.attr for node in every if isinstance(node, ast.Attribute) and _is_own(node)}
    for node in every:
        if isinstance(node, ast.Attribute) and _is_private(node.attr) and node.attr not in own:
            yield ast.unparse(node)
        if isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("ingestor"):
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            yield from filter(_is_private, names)


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _is_own(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def test_no_private_name_of_another_package_is_used() -> None:
    found = {
        f"{path}: {name}"
        for path, tree in modules().items()
        for name in private_reads(tree)
        if name not in EXPLAINED
    }
    assert found == set()


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("api._upsert(x)", ["api._upsert"]),
        ("self._api._session.close()", ["self._api._session"]),
        ("from chromadb._x import y", ["_x"]),
        ("from chromadb import _y", ["_y"]),
        ("self._mine()", []),
        ("class A:\n    def f(self, other):\n        return self._a == other._a", []),
        ("a.__class__", []),
        ("from __future__ import annotations", []),
    ],
)
def test_private_names_are_found(code: str, found: list[str]) -> None:
    assert list(private_reads(ast.parse(code))) == found


def public_api() -> str:
    """Return a line for each public name of the library, with signatures and fields."""
    lines = [name for name in dir(ingestor) if name[0].isupper() and name not in ("Any", "TYPE_CHECKING")]
    for name, method in vars(Project).items():
        if callable(method) and not name.startswith("_"):
            lines.append(f"Project.{name}{inspect.signature(method)}")
    for name in RESULTS:
        keys = ", ".join(field.name for field in fields(getattr(ingestor, name)))
        lines += [f"{name}({keys})"]
    return "\n".join(sorted(lines)) + "\n"


def test_public_names_are_those_written_down() -> None:
    """docs/library.md promises them: a change is listed in the changelog, a removal is deprecated before."""
    assert public_api() == WRITTEN.read_text("utf-8"), f"write the new names into {WRITTEN.name}"


def test_type_checkers_refuse_names_that_are_not_public() -> None:
    tree = ast.parse(Path(ingestor.__file__).read_text("utf-8"))
    assert "__getattr__" not in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
