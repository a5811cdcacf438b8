"""What most commands import and load: a server that tests fork has it once (tests/e2e/forked.py)."""

import gc
from importlib import import_module
from pkgutil import walk_packages

import chromadb  # noqa: F401

import ingestor.app
import ingestor.cli
from ingestor.pipeline.language import language_of
from ingestor.registry import find, kinds
from ingestor.text.tokens import Tokens

for package in (ingestor.app, ingestor.cli):
    for module in walk_packages(package.__path__, f"{package.__name__}."):
        import_module(module.name)
for kind in kinds("parsers"):
    find("parsers", kind)
for group, kind in (("connectors", "folder"), ("chunkers", "recursive"), ("embedders", "hashing")):
    find(group, kind)  # type: ignore[arg-type]
Tokens().count("a word")
language_of("A sentence that is long enough for its language to be told.")
gc.collect()
gc.freeze()  # a forked process that looks for garbage would copy all this memory
