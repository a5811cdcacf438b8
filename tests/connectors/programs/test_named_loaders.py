"""Loaders and readers found by the names of their classes, in packages that look like the real ones."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ingestor.connectors.programs import loading
from ingestor.connectors.programs.loading import Loading
from ingestor.ports import NeedsHuman
from tests.connectors.laws import listed

CATALOG = '{"WikiReader": "llama_index.readers.wiki", "OtherReader": "llama_index.readers.other", "X": "y"}'
CLASS = """
class Document:
    def __init__(self, text, **metadata):
        self.page_content, self.metadata = text, metadata

class {name}:
    def __init__(self, root: str, token: str = ""):
        self.root = root

    def {method}(self):
        return [Document("a text", file_path=self.root + "/a", url="https://a")]
"""
FILES = {
    "langchain_community/document_loaders/__init__.py": CLASS.format(name="WikiLoader", method="lazy_load"),
    "langchain_elsewhere/__init__.py": "import no_such_library",
    "llama_index/core/__init__.py": "",
    "llama_index/core/readers/__init__.py": CLASS.format(name="CoreReader", method="load_data"),
    "llama_index/core/command_line/mappings.json": CATALOG,
    "llama_index/readers/wiki/__init__.py": CLASS.format(name="WikiReader", method="load_data"),
    "llama_index/readers/broken/__init__.py": "raise RuntimeError('never import what is not asked for')",
}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, text in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "llama_index"]:
        del sys.modules[name]


def loader(name: str, **options: Any) -> Loading:
    return loading.build_langchain(loading.LangchainOptions.model_validate({"loader": name, **options}))


def reader(name: str, **options: Any) -> Loading:
    return loading.build_llamahub(loading.LlamahubOptions.model_validate({"reader": name, **options}))


@pytest.mark.usefixtures("installed")
def test_loader_is_located_by_its_name() -> None:
    named = loader("WikiLoader", arguments={"root": "/w"}, secrets={"token": "s3cret"})
    items = listed(named)
    assert items.keys() == {"https://a"}
    assert named.fetch(items["https://a"]).name == "text.txt"
    module = "langchain_community.document_loaders:WikiLoader"
    assert listed(loader(module, arguments={"root": "/w"}, key=["file_path"])).keys() == {"/w/a"}


@pytest.mark.parametrize("name", ["WikiReader", "CoreReader", "llama_index.readers.wiki:WikiReader"])
@pytest.mark.usefixtures("installed")
def test_reader_is_located_by_its_name(name: str) -> None:
    assert listed(reader(name, arguments={"root": "/w"})).keys() == {"/w/a"}


@pytest.mark.parametrize(
    ("connector", "message"),
    [
        (loader("WikyLoader"), "did you mean WikiLoader"),
        (loader("WikiLoader"), "missing a required argument: 'root'; .* may hold: root, token$"),
        (loader("WikiLoader", arguments={"root": "x", "rot": 1}), "unexpected keyword argument 'rot'"),
        (loader("langchain_nowhere.x:Loader"), "does not exist.*pip install langchain-nowhere"),
        (loader("langchain_elsewhere:Loader"), "can't be used.*pip install no_such_library"),
        (reader("OtherReader"), "other:OtherReader does not exist.*install llama-index-readers-other"),
        (reader("llama_index.readers.a_b.c:D"), "pip install llama-index-readers-a-b"),
        (reader("NoReader"), "no installed reader of LlamaIndex is called NoReader: install the package"),
        (reader("X"), "no installed reader of LlamaIndex is called X"),
        (reader("WikiReader", arguments={"root": "/w"}, key=["page"]), "its metadata has file_path, url"),
    ],
)
@pytest.mark.usefixtures("installed")
def test_unusable_loader_needs_a_person(connector: Loading, message: str) -> None:
    with pytest.raises(NeedsHuman, match=message):
        list(connector.scan())


def test_reader_without_llama_index_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_CORE", "no_llama_index.core")
    monkeypatch.setattr(loading, "_READERS", "no_llama_index.readers")
    with pytest.raises(NeedsHuman, match="no installed reader of LlamaIndex is called NotionPageReader"):
        list(reader("NotionPageReader").scan())
