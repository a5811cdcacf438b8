"""Laws of the imports beside those of import-linter (pyproject.toml), which `make lint` runs.

Each law, and each contract of import-linter, is shown to catch a breach.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from tests.program import ROOT, modules, nodes

Trees = Mapping[str, ast.Module]  # by dotted module name; a package is the name of its __init__

# Pure by design, whatever their docstrings say: folders and modules. Any other module whose docstring's first
# line says "Pure" is held to it too.
PURE_FOLDERS = ("ingestor.core", "ingestor.segmentation", "ingestor.text")
PURE = {"ingestor.model", "ingestor.ports", "ingestor.units", "ingestor.pipeline.metadata"}
READS_FILES = {
    "ingestor.text.tokens": "the vocabulary of an encoding, on first use",
    "ingestor.text.code_units": "tree-sitter's grammars, on first use",
}

# All that a pure module may import, besides pure modules and the registry (whose types options are made of).
HARMLESS = {
    "abc", "base64", "bisect", "collections", "contextlib", "dataclasses", "datetime", "decimal", "difflib",
    "__future__", "enum", "errno", "fnmatch", "hmac", "array", "zlib",
    "fractions", "functools", "graphlib", "hashlib", "heapq", "html", "itertools", "json", "math", "operator",
    "pathlib", "re", "statistics", "string", "struct", "textwrap", "types", "typing", "unicodedata", "uuid",
    "Stemmer", "idna", "ipaddress", "markupsafe", "numpy", "orjson", "prometheus_client", "protego",
    "pydantic", "pydantic_core", "regex", "sentencex",
    "urllib.parse", "xml", "tomllib", "yaml",
}  # fmt: skip

# Harmless to import, but not to call: files through a Path, the clock through datetime, the machine's ids.
TOUCHING = {
    "absolute", "chmod", "cwd", "exists", "expanduser", "glob", "hardlink_to", "home", "is_dir", "is_file",
    "is_symlink", "iterdir", "lstat", "mkdir", "now", "open", "read_bytes", "read_text", "rename", "resolve",
    "rglob", "rmdir", "stat", "symlink_to", "today", "touch", "unlink", "utcnow", "uuid1", "uuid4",
    "write_bytes", "write_text",
}  # fmt: skip
TOUCHING_BUILTINS = {"open", "print", "input", "exec", "eval", "breakpoint", "__import__"}

EXCUSED = {
    ("ingestor.ports", "threading"): "Event, as the type of the flag that stops a watcher",
    ("ingestor.connectors.shared.keys", "os"): "fsencode and fsdecode: text in, text out",
    ("ingestor.connectors.imap.text", "email.utils"): "dates as mail has them: text in, numbers out",
    ("ingestor.units", "email.utils"): "dates as HTTP has them: text in, numbers out",
    ("ingestor.page.figures", "ingestor.service.situation"): "values alone, of modules that do more",
}

THREADS = {"threading", "_thread", "queue", "concurrent", "multiprocessing", "asyncio"}
MAY_THREAD = {
    "ingestor.engine.workers": "the workers, their inbox, and a Condition: work waits for its turn",
    "ingestor.engine.flight": "a Lock: workers add the sums of their documents to one total",
    "ingestor.engine.embedding": "the queue in which the workers' texts meet, and its thread",
    "ingestor.sandbox.turns": "a Condition: work for readers goes before that of a rebuild",
    "ingestor.ports": "Event, as the type of a watcher's stop flag",
    "ingestor.pipeline.containers": "Locks: an archive is opened once; a listing adds mails meanwhile",
    "ingestor.state.cache": "a Lock: all workers share one connection",
    "ingestor.llm.answers": "Locks: workers that ask the same wait for one answer",
    "ingestor.embedders.sentence_transformers": "a Lock: the model is loaded once, and used by one at a time",
    "ingestor.llm.at_once": "several questions to a server at the same time",
    "ingestor.embedders.openai": "a Lock: these requests share the limits of a minute",
    "ingestor.pipeline.language": "a Lock, and a thread that loads the model in advance",
    "ingestor.sandbox.pool": "a queue: all workers share the processes; and the flag that stops them",
    "ingestor.pipeline.limits": "a Condition: large documents wait for room; and a Lock for the stages",
    "ingestor.sandbox.process": "Event, as the type of that flag",
    "ingestor.nodes.cluster": "Locks: threads share the processes that embed; a Timer ends idle ones",
    "ingestor.nodes.documents": "a Lock: workers note which processes died",
    "ingestor.nodes.fleet": "several processes that embed are asked at the same time",
    "ingestor.chroma.shards": "readers ask all shards at the same time",
    "ingestor.chroma.child": "its own process: a thread for the guard, and one that ends it with its parent",
    "ingestor.chroma.guard": "one event loop for all connections, in that process",
    "ingestor.queries.reading": "a Lock: threads that search take turns",
    "ingestor.project": "a Lock: what searches keep open is opened and closed once",
    "ingestor.cli.log": "a hook that logs what ends a thread",
    "ingestor.connectors.remote.files": "a Lock: most remote file systems serve one caller at a time",
    "ingestor.connectors.imap.session": "a Lock: workers share connections; Timers end slow and idle ones",
    "ingestor.state.journal": "a Lock: threads share its connection",
    "ingestor.lexical.file": "a Lock: threads take a connection each, and put it back",
    "ingestor.service.situation": "a Lock: one scrape gathers, others wait for its figures",
    "ingestor.search.rerankers": "threads that a search can leave",
    "ingestor.page.overview": "a thread that notes the figures of the day",
    "ingestor.http_server.server": "a thread with the event loop of all connections, and its timers",
    "ingestor.http_server.requests": "time limits of that event loop",
    "ingestor.connectors.http.network": "names are resolved by a thread that can be left",
    "ingestor.connectors.folder.watchdog": "watchdog calls back on its own threads",
}

STARTS = {"Popen", "call", "check_call", "check_output", "fork", "posix_spawn", "system", "execv", "execvp"}
MAY_START = {
    "ingestor.confinement.python_child": "Chroma, which ends by itself; others are a BoundChild",
    "ingestor.chroma.child": "a fork that tries whether a namespace is allowed",
    "ingestor.cli.trial": "a shell that removes files after this process",
}

# Costly or far-reaching packages, and the only places that may import them.
CONFINED = {
    "chromadb": ("ingestor.chroma",),
    "httpx": ("ingestor.service.assistants", "ingestor.chroma", "ingestor.llm"),
    "openvino": ("ingestor.embedders",),
    "torch": ("ingestor.embedders",),
    "sentence_transformers": ("ingestor.embedders", "ingestor.search.rerankers"),
    "transformers": ("ingestor.embedders",),
    "uvicorn": ("ingestor.http_server",),
    "starlette": (
        "ingestor.http_server",
        "ingestor.service",
        "ingestor.page",
        "ingestor.service.assistants",
        "ingestor.connectors.push",
    ),
    "jinja2": ("ingestor.page",),
    "prometheus_client": ("ingestor.service",),
    "watchdog": ("ingestor.connectors",),
    "mcp": ("ingestor.service.assistant_tools",),
    "typer": ("ingestor.cli",),
    "rich": ("ingestor.cli", "ingestor.preview"),
    "random": ("ingestor.app.wiring",),
    "pypdfium2": ("ingestor.parsers",),
    "rapidocr": ("ingestor.parsers",),
    "ray": ("ingestor.nodes.cluster",),
}


# --- reading -----------------------------------------------------------------------------------------------


@cache
def _load() -> dict[str, ast.Module]:
    return {_dotted(file): tree for file, tree in modules().items()}


def _dotted(file: Path) -> str:
    parts = file.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def _imports(tree: ast.AST) -> list[ast.Import | ast.ImportFrom]:
    """Every import that is carried out, wherever it stands; those for the type checker alone are not."""
    if isinstance(tree, ast.Import | ast.ImportFrom):
        return [tree]
    if isinstance(tree, ast.expr):
        return []
    checked = isinstance(tree, ast.If) and ast.unparse(tree.test).endswith("TYPE_CHECKING")
    parts = tree.orelse if checked else ast.iter_child_nodes(tree)
    return list(chain.from_iterable(map(_imports, parts)))


def _imported(tree: ast.Module, trees: Trees) -> set[str]:
    """Dotted names of the modules that ``tree`` imports: ``from ingestor.a import b`` is ingestor.a.b."""
    names = set[str]()
    for node in _imports(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        else:
            module = node.module or ""
            inner = {f"{module}.{alias.name}" for alias in node.names}
            names |= {name if name in trees else module for name in inner}
    return names


def _top(module: str) -> str:
    return module.partition(".")[0]


def _within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def _pure(trees: Trees) -> set[str]:
    said = {
        name for name, tree in trees.items() if "Pure" in (ast.get_docstring(tree) or "").partition("\n")[0]
    }
    by_folder = {name for name in trees if _within(name, PURE_FOLDERS)} - READS_FILES.keys()
    return said | by_folder | (PURE & trees.keys())


@cache
def _defined(tree: ast.Module) -> set[str]:
    """The names a module makes itself, not those it imports."""
    names = set[str]()
    for node in nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


# --- the laws: each yields what breaks it ------------------------------------------------------------------


def impure(trees: Trees) -> Iterator[str]:
    """A pure module imports only pure things, and touches nothing."""
    pure = _pure(trees)
    for name in sorted(pure):
        for module in sorted(_imported(trees[name], trees)):
            allowed = (
                module in pure
                or module in READS_FILES
                or module == "ingestor.registry"
                or bool({module, _top(module)} & HARMLESS)
            )
            if not allowed and (name, module) not in EXCUSED:
                yield f"{name} is pure but imports {module}"
        for node in nodes(trees[name]):
            if isinstance(node, ast.Attribute) and node.attr in TOUCHING:
                yield f"{name} is pure but uses .{node.attr} (line {node.lineno})"
            if isinstance(node, ast.Name) and node.id in TOUCHING_BUILTINS:
                yield f"{name} is pure but uses {node.id}() (line {node.lineno})"


def threaded(trees: Trees) -> Iterator[str]:
    """Concurrency stays where it is explained."""
    for name, tree in trees.items():
        for module in sorted(_imported(tree, trees)):
            if _top(module) in THREADS and name not in MAY_THREAD:
                yield f"{name} imports {module}"


def orphaning(trees: Trees) -> Iterator[str]:
    """Processes end with the one that started them: see confinement/bound_child.py."""
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and name not in MAY_START:
                words = ast.unparse(node.func).split(".")
                if (words[-1] in STARTS and words[0] in ("os", "subprocess", "Popen")) or words == [
                    "subprocess",
                    "run",
                ]:
                    yield f"{name} starts a process (line {node.lineno})"


def strayed(trees: Trees) -> Iterator[str]:
    for name, tree in trees.items():
        for module in sorted(_imported(tree, trees)):
            home = CONFINED.get(_top(module))
            if home is not None and not _within(name, home):
                yield f"{name} imports {module}, which belongs to {' and '.join(home)}"


def secondhand(trees: Trees) -> Iterator[str]:
    """A name is imported from where it is made: no wildcards, no re-exports, no code in a package's file."""
    for name, tree in trees.items():
        if "__all__" in _defined(tree):
            yield f"{name} has an __all__"
        for node in _imports(tree):
            for alias in node.names:
                if alias.name == "*" or alias.asname == alias.name:
                    yield f"{name} re-exports (line {node.lineno})"
                elif isinstance(node, ast.ImportFrom) and _borrowed(node.module or "", alias.name, trees):
                    yield f"{name} imports {alias.name} from {node.module}, which does not define it"


def _borrowed(module: str, name: str, trees: Trees) -> bool:
    return module in trees and f"{module}.{name}" not in trees and name not in _defined(trees[module])


def side_doors(trees: Trees, plugins: set[str]) -> Iterator[str]:
    """A kind is found by the registry; only kinds of its own port may import it."""
    for name, tree in trees.items():
        for module in sorted(_imported(tree, trees) & plugins):
            if not _within(name, (".".join(module.split(".")[:2]),)):
                yield f"{name} imports the plugin {module}"


def ambiguous(trees: Trees) -> Iterator[str]:
    """The name of a class says which one is meant, wherever it stands. A private one is that of its file."""
    homes: dict[str, list[str]] = {}
    for module, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(module)
    for name, places in homes.items():
        if len(places) > 1:
            yield f"{name} is a class of {' and of '.join(places)}"


def _plugins() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    groups = project["entry-points"].values()
    return {target.partition(":")[0] for group in groups for target in group.values()}


LAWS = {
    "impure": impure,
    "threaded": threaded,
    "orphaning": orphaning,
    "strayed": strayed,
    "secondhand": secondhand,
    "side_doors": lambda trees: side_doors(trees, _plugins()),
    "ambiguous": ambiguous,
}


@pytest.mark.parametrize("law", LAWS)
def test_code_keeps_its_layers(law: str) -> None:
    assert list(LAWS[law](_load())) == []


def test_every_module_is_read() -> None:
    assert PURE | {"ingestor", "ingestor.connectors.folder.connector"} <= _load().keys()


def test_exceptions_of_the_layer_check_are_still_needed() -> None:
    trees = _load()
    assert [key for key in EXCUSED if key[1] not in _imported(trees[key[0]], trees)] == []
    assert [name for name in MAY_THREAD if not THREADS & set(map(_top, _imported(trees[name], trees)))] == []


BREACHES = [
    ("impure", {"ingestor.core.slots": "import os"}),
    ("impure", {"ingestor.core.slots": "def f():\n    import sqlite3"}),
    ("impure", {"ingestor.core.slots": "from pathlib import Path\nPath('x').write_text('y')"}),
    ("impure", {"ingestor.core.slots": "open('x')"}),
    ("impure", {"ingestor.core.decisions": "from datetime import datetime\ndatetime.now()"}),
    (
        "impure",
        {
            "ingestor.core.decisions": "from ingestor.state.journal import Journal",
            "ingestor.state.journal": "class Journal: ...",
        },
    ),
    ("impure", {"ingestor.new": '"""Says that it is so. Pure."""\nimport socket'}),
    ("impure", {"ingestor.ports": "import queue"}),
    ("threaded", {"ingestor.engine.loop": "from threading import Lock"}),
    ("orphaning", {"ingestor.sandbox.process": "subprocess.run(['true'])"}),
    ("orphaning", {"ingestor.page.changes": "child = Popen(['true'])"}),
    ("threaded", {"ingestor.connectors.folder.connector": "import concurrent.futures"}),
    ("strayed", {"ingestor.engine.loop": "import chromadb"}),
    ("strayed", {"ingestor.embedders_of_mine": "def load():\n    import torch"}),
    ("secondhand", {"ingestor.engine.loop": "from os.path import *"}),
    ("secondhand", {"ingestor.engine.loop": "from json import dumps as dumps"}),
    ("secondhand", {"ingestor.engine.loop": "__all__ = ['x']"}),
    ("secondhand", {"ingestor.a": "from ingestor.b import x", "ingestor.b": "from ingestor.c import x"}),
    ("side_doors", {"ingestor.engine.loop": "from ingestor.chunkers.windows import FIXED"}),
    ("ambiguous", {"ingestor.a": "class Reader: ...", "ingestor.b": "class Reader: ..."}),
]

KEPT = [
    ("impure", {"ingestor.ports": "from threading import Event"}),
    (
        "impure",
        {"ingestor.core.slots": "import re\nfrom ingestor.model import Item", "ingestor.model": "Item = 1"},
    ),
    ("impure", {"ingestor.new": '"""Not said to be so.\n\nPure nonsense."""\nimport socket'}),
    ("threaded", {"ingestor.engine.workers": "import queue"}),
    ("strayed", {"ingestor.chroma.index": "import chromadb"}),
    ("secondhand", {"ingestor.a": "from ingestor import b\nfrom ingestor.b import x", "ingestor.b": "x = 1"}),
    ("side_doors", {"ingestor.chunkers.windows": "from ingestor.chunkers.recursive import cut"}),
    ("ambiguous", {"ingestor.a": "class _Reader: ...", "ingestor.b": "class _Reader: ..."}),
]  # fmt: skip


@pytest.mark.parametrize(("law", "sources"), BREACHES)
def test_layer_check_reports_a_breach(law: str, sources: dict[str, str]) -> None:
    assert list(LAWS[law]({name: ast.parse(text) for name, text in sources.items()}))


@pytest.mark.parametrize(("law", "sources"), KEPT)
def test_allowed_requests_pass(law: str, sources: dict[str, str]) -> None:
    assert list(LAWS[law]({name: ast.parse(text) for name, text in sources.items()})) == []


BROKEN = [
    ("chunkers/windows.py", "ingestor.engine.loop", "floors"),
    ("state/journal.py", "ingestor.app.wiring", "floors"),
    ("state/journal.py", "ingestor.search.search", "rooms"),
    ("core/decisions.py", "ingestor.config.models", "rooms"),
    ("core/decisions.py", "ingestor.chunkers.llm", "floors"),
    ("text/spans.py", "ingestor.text.limits", "folders"),
    ("parsers/data/csv.py", "ingestor.core.decisions", "plugins"),
    ("connectors/git/connector.py", "ingestor.core.slots", "connectors"),
    ("core/slots.py", "sqlite3", "pure"),
]


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the program that imports may be added to."""
    root = tmp_path
    shutil.copytree(ROOT / "ingestor", root / "ingestor", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the program at ``root``."""
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    environment = os.environ | {"PYTHONPATH": str(root)}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)


def test_contracts_are_kept(house: Path) -> None:
    ran = lint(house)
    assert ran.returncode == 0, ran.stdout
    assert "0 broken" in ran.stdout


def test_each_broken_contract_is_reported_with_its_import(house: Path) -> None:
    for file, imported, _ in BROKEN:
        with (house / "ingestor" / file).open("a", encoding="utf-8") as module:
            module.write(f"\nimport {imported}\n")
    ran = lint(house)
    assert ran.returncode == 1, ran.stdout
    written = tomllib.loads((house / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    names = {contract["id"]: contract["name"] for contract in written}
    assert {contract for _, _, contract in BROKEN} == names.keys()
    _, *headed = re.split(r"^(.+)\n-+\n", ran.stdout.partition("Broken contracts")[2], flags=re.MULTILINE)
    reports = dict(zip(headed[::2], headed[1::2], strict=True))
    for file, imported, contract in BROKEN:
        importer = _dotted(Path("ingestor", file))
        if contract == "folders":  # names both from the folder that they stand in
            importer, imported = (f".{each.rpartition('.')[2]}" for each in (importer, imported))
        assert f"{importer} -> {imported}" in reports[names[contract]], (file, ran.stdout)


MOST_FILES = 20  # larger folders are hard to survey


def test_no_folder_is_crowded() -> None:
    counts = Counter(file.parent for file in (ROOT / "ingestor").rglob("*.py") if file.name != "__init__.py")
    assert {str(folder): count for folder, count in counts.items() if count > MOST_FILES} == {}


def test_every_folder_is_on_the_map() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    folders = [path.name for path in (ROOT / "ingestor").iterdir() if (path / "__init__.py").exists()]
    assert [name for name in folders if f"  {name} " not in page] == []


def test_tests_of_each_change_exist() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    rows = [
        row.split("|")
        for row in page.partition("| You changed | Run |")[2].partition("\n\n")[0].splitlines()[2:]
    ]
    run = {name for row in rows for name in re.findall("`([^`]+)`", row[2]) if name != "make test-all"}
    assert [
        name for name in sorted(run) for path in name.split() if not (ROOT / "tests" / path).exists()
    ] == []
    named = {name for row in rows for name in re.findall(r"`(\w+)`|an? (\w+)", row[1])}
    changed = {quoted or f"{plugin}s" for quoted, plugin in named}
    folders = {path.name for path in (ROOT / "ingestor").iterdir() if (path / "__init__.py").exists()}
    assert folders - changed == set()


SQL = re.compile(
    r"\s*(SELECT\b.*\bFROM|INSERT (INTO|OR)|UPDATE \w+ SET|DELETE FROM|WITH \w+ AS|PRAGMA \w)", re.DOTALL
)
OWN_SQL = ("ingestor.state", "ingestor.lexical", "ingestor.connectors", "ingestor.chroma.folder")


def sql_outside(trees: Trees) -> list[str]:
    """Return the modules with SQL whose database belongs to another module."""
    return sorted(
        name
        for name, tree in trees.items()
        if not any(name == own or name.startswith(f"{own}.") for own in OWN_SQL)
        and any(
            isinstance(node, ast.Constant) and isinstance(node.value, str) and SQL.match(node.value)
            for node in nodes(tree)
        )
    )


def test_sql_of_the_journal_is_written_in_its_folder_alone() -> None:
    assert sql_outside(_load()) == []


def test_sql_of_another_folder_is_found() -> None:
    query = ast.parse('journal.select("SELECT uuid FROM collections")')
    found = sql_outside({"ingestor.page.site": query, "ingestor.state.tables": query})
    assert found == ["ingestor.page.site"]
