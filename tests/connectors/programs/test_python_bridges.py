"""Loaders of LangChain and readers of LlamaIndex, as they are; these run where the packages are installed."""

from pathlib import Path
from typing import Any

import pytest

from ingestor.connectors.programs import loading
from ingestor.connectors.programs.loading import Loading
from ingestor.ports import Transient
from tests.connectors.laws import listed

pytestmark = pytest.mark.slow


def loader(name: str, **options: Any) -> Loading:
    pytest.importorskip("langchain_community")
    return loading.build_langchain(loading.LangchainOptions.model_validate({"loader": name, **options}))


def reader(name: str, **options: Any) -> Loading:
    pytest.importorskip("llama_index.core")
    return loading.build_llamahub(loading.LlamahubOptions.model_validate({"reader": name, **options}))


def test_langchain_loader_is_listed_and_fetched(tmp_path: Path) -> None:
    table = tmp_path / "people.csv"
    table.write_text("name,town\nAda,London\nEmmy,Erlangen\n")
    connector = loader("CSVLoader", arguments={"file_path": str(table)})
    first = listed(connector)
    assert first.keys() == {str(table), f"{table}#2"}
    assert dict(first[f"{table}#2"].extra) == {"row": 1, "source": str(table)}
    blob = connector.fetch(first[f"{table}#2"])
    assert (blob.data, blob.name) == (b"name: Emmy\ntown: Erlangen", "text.txt")
    table.write_text("name,town\nAda,Turin\nEmmy,Erlangen\n")
    second = listed(connector)
    assert [first[key] == second[key] for key in first] == [False, True]
    table.unlink()
    with pytest.raises(Transient, match="Error loading"):
        list(connector.scan())


def test_llama_index_reader_is_listed_and_fetched(tmp_path: Path) -> None:
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text(f"# {name}\n")
    connector = reader("SimpleDirectoryReader", arguments={"input_dir": str(tmp_path)})
    first = listed(connector)
    assert first.keys() == {str(tmp_path / "a.md"), str(tmp_path / "b.md")}
    assert connector.fetch(first[str(tmp_path / "a.md")]).data.strip() == b"# a.md"
    (tmp_path / "b.md").unlink()
    assert listed(connector) == {key: item for key, item in first.items() if key.endswith("a.md")}


def test_reader_from_its_own_package_is_listed_and_fetched(tmp_path: Path) -> None:
    pytest.importorskip("llama_index.readers.obsidian")
    (tmp_path / "river.md").write_text("A river. See [[house]].")
    (tmp_path / "house.md").write_text("A house.")
    connector = reader("ObsidianReader", arguments={"input_dir": str(tmp_path)}, key=["note_name"])
    items = listed(connector)
    assert items.keys() == {"river", "house"}
    assert dict(items["river"].extra)["file_name"] == "river.md"
    assert b"A river" in connector.fetch(items["river"]).data
