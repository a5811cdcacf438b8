"""Code and a loader of LangChain that list what a test changes."""

import csv
from pathlib import Path
from typing import Any

from ingestor.connectors.programs import loading
from ingestor.connectors.programs.loading import PythonOptions, build_python
from ingestor.ports import Connector
from tests.connectors.folders import OnDisk


class PageWorld:
    """The ``World`` of the connector laws, but for bytes that are no text: rows of a file."""

    def __init__(self, connector: Connector, file: Path, source: dict[str, Any]) -> None:
        self._file, self._pages = file, dict[str, str]()
        self.source, self.connector = source, connector
        file.parent.mkdir(parents=True, exist_ok=True)
        self._write()

    def _write(self) -> None:
        with self._file.open("w") as file:
            writer = csv.DictWriter(file, ["path", "body"])
            writer.writeheader()
            writer.writerows({"path": key, "body": body} for key, body in self._pages.items())

    def put(self, key: str, data: bytes) -> None:
        self._pages[key] = data.decode()
        self._write()

    def delete(self, key: str) -> None:
        del self._pages[key]
        self._write()

    def move(self, old: str, new: str) -> None:
        self._pages[new] = self._pages.pop(old)
        self._write()

    def fail(self) -> None:
        self._file.unlink()


def table_world(folder: Path) -> PageWorld:
    """By a loader of LangChain, which must be installed."""
    file = folder / "pages.csv"
    arguments = {"file_path": str(file), "source_column": "path", "content_columns": ["body"]}
    source = {"loader": "CSVLoader", "arguments": arguments}
    return PageWorld(loading.build_langchain(loading.LangchainOptions.model_validate(source)), file, source)


class ShelfWorld(OnDisk):
    """The ``World`` of the connector laws, as a folder that code lists."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True)
        self.source: dict[str, object] = {
            "call": "tests.connectors.loaders:files_below",
            "arguments": {"folder": str(root)},
            "folder": Path(__file__).parents[2],
        }
        self.connector = build_python(PythonOptions.model_validate(self.source))
