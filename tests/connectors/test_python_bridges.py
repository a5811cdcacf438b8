"""Loaders of LangChain and readers of LlamaIndex, as they are; these run where the packages are installed."""

from pathlib import Path

import pytest

from connectors.python import PythonOptions, build
from tests.connectors.laws import listed

pytestmark = pytest.mark.slow


def test_a_loader_of_langchain(tmp_path: Path) -> None:
    pytest.importorskip("langchain_community")
    table = tmp_path / "people.csv"
    table.write_text("name,town\nAda,London\nEmmy,Erlangen\n")
    loader = "langchain_community.document_loaders:CSVLoader"
    options = {"call": loader, "arguments": {"file_path": str(table)}, "ending": ".txt"}
    connector = build(PythonOptions.model_validate(options))
    first = listed(connector)
    assert first.keys() == {str(table), f"{table}#2"}
    assert dict(first[f"{table}#2"].extra) == {"row": 1, "source": str(table)}
    assert connector.fetch(first[f"{table}#2"]).data == b"name: Emmy\ntown: Erlangen"
    table.write_text("name,town\nAda,Turin\nEmmy,Erlangen\n")
    second = listed(connector)
    assert [first[key] == second[key] for key in first] == [False, True]


def test_a_reader_of_llama_index(tmp_path: Path) -> None:
    pytest.importorskip("llama_index.core")
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text(f"# {name}\n")
    reader = "llama_index.core:SimpleDirectoryReader"
    options = {"call": reader, "arguments": {"input_dir": str(tmp_path)}, "key": ["file_path"]}
    connector = build(PythonOptions.model_validate(options))
    first = listed(connector)
    assert first.keys() == {str(tmp_path / "a.md"), str(tmp_path / "b.md")}
    assert connector.fetch(first[str(tmp_path / "a.md")]).data.strip() == b"# a.md"
    (tmp_path / "b.md").unlink()
    assert listed(connector) == {key: item for key, item in first.items() if key.endswith("a.md")}
