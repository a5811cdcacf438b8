"""What most commands import and load: a server that tests fork has it once (tests/e2e/forked.py)."""

import asyncio  # noqa: F401
import gc
from importlib import import_module
from pkgutil import walk_packages

import chromadb_rust_bindings  # type: ignore[import-untyped]  # noqa: F401

import ingestor.app
import ingestor.chroma.guard
import ingestor.cli
import ingestor.page
import ingestor.queries
import ingestor.service
from ingestor.pipeline.language import language_of
from ingestor.registry import find, kinds
from ingestor.text.tokens import Tokens

# What the libraries import when they are first used.
_LATER = (
    "anyio._backends._asyncio encodings.idna encodings.utf_8_sig httpcore typer._adapters "
    "typer._click.decorators uvicorn.lifespan.on uvicorn.loops.asyncio"
)

for package in (ingestor.app, ingestor.cli, ingestor.page, ingestor.queries, ingestor.service):
    for module in walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.endswith(
            "assistant_tools"
        ):  # MCP's SDK takes a second, and few tests have assistants
            import_module(module.name)
for name in _LATER.split():
    import_module(name)
for kind in kinds("parsers"):
    find("parsers", kind)
for group, kind in (("connectors", "folder"), ("chunkers", "recursive"), ("embedders", "hashing")):
    find(group, kind)  # type: ignore[arg-type]
Tokens().count("a word")
language_of("A sentence that is long enough for its language to be told.")
gc.collect()
gc.freeze()  # a forked process that looks for garbage would copy all this memory
