"""Any LlamaIndex reader, by the name of its class.

``reader: NotionPageReader`` is looked up in the installed ``llama_index.readers``; a class of another package
is named as ``package.module:Class``. The rest is as with ``python``: the reader runs in a process of
its own, once in a scan, and a document's version is a digest of all its fields.
"""

import importlib
import json
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from ingestor.connectors.programs.loading import (
    Arguments,
    Ending,
    EntryPoint,
    Folder,
    Key,
    Load,
    Loading,
    MaxSize,
    Secrets,
    Timeout,
    named,
)
from ingestor.ports import NeedsHuman
from ingestor.registry import Options, Plugin

_READERS, _CORE = "llama_index.readers", "llama_index.core"
_CATALOG = "command_line/mappings.json"  # of llama-index-core: class -> module, installed or not


def _reader(name: str) -> str:
    named(name if ":" in name else f"{_CORE}:{name}")
    return name


class LlamahubOptions(Options):
    reader: Annotated[str, AfterValidator(_reader)] = Field(
        description="class of the reader: `NotionPageReader`, or `package.module:Class`"
    )
    arguments: Arguments
    secrets: Secrets
    load: Load
    folder: Folder
    key: Key = Field(default=["file_path", "url", "source", "page_id", "id"])
    ending: Ending = Field(default=".txt")
    timeout: Timeout
    max_size: MaxSize


def build(options: LlamahubOptions) -> Loading:
    return Loading(options, lambda: _call(options))


def _call(options: LlamahubOptions) -> EntryPoint:
    """Raises NeedsHuman if the module of the class cannot be found."""
    module, colon, name = options.reader.rpartition(":")
    importlib.invalidate_caches()
    module = module if colon else next(_modules_of(name), "")
    if not module:
        pip = f"{sys.executable} -m pip install llama-index-readers-…"
        raise NeedsHuman(
            f"no installed reader of LlamaIndex is called {name}: install its package (LlamaHub "
            f"has its name: {pip}), or correct `reader`"
        )
    return EntryPoint(f"{module}:{name}", _package(module), options.load)


def _modules_of(name: str) -> Iterator[str]:
    """Modules with that class, best first. None is imported, because some take seconds."""
    word = re.compile(rf"\b{name}\b")
    for module, file in _installed():
        if file.is_file() and word.search(file.read_text("utf-8", "replace")):
            yield module
    for core in _folders(_CORE):
        if (core / _CATALOG).is_file():
            known = json.loads((core / _CATALOG).read_bytes()).get(name, "")
            yield from [known] if known.startswith(f"{_READERS}.") else []


def _installed() -> Iterator[tuple[str, Path]]:
    """Modules of installed readers, each with the file that lists its classes."""
    for folder in _folders(_READERS):
        for file in sorted(folder.glob("*/__init__.py")):
            yield f"{_READERS}.{file.parent.name}", file
    for core in _folders(_CORE):
        yield f"{_CORE}.readers", core / "readers/__init__.py"
        yield _CORE, core / "__init__.py"


def _folders(package: str) -> list[Path]:
    try:
        spec = find_spec(package)
    except ModuleNotFoundError:  # nor is what it lies in
        return []
    return [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]


def _package(module: str) -> str:
    parts = module.split(".")
    return "-".join(parts[: 3 if module.startswith("llama_index.") else 1]).replace("_", "-")


PLUGIN = Plugin(kind="llamahub", version=1, options=LlamahubOptions, build=build)
