"""Code that gives documents, as a user would write it, and in the shapes of LangChain and LlamaIndex."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from connectors.python import Python, PythonOptions


def files_below(folder: str) -> Iterator[dict[str, Any]]:
    root = Path(folder)
    if not root.is_dir():
        raise OSError("the shelf is not there")
    for path in sorted(root.rglob("*")):
        if path.is_file():
            yield {"key": path.relative_to(root).as_posix(), "data": path.read_bytes(), "uri": str(path)}


def given(documents: list[Any], fail: str = "", secret: str = "") -> Iterator[Any]:
    yield from documents
    if fail:
        raise RuntimeError(fail)


@dataclass
class LoadedDocument:
    page_content: str
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class ReadDocument:
    text: str
    metadata: dict[str, Any]
    id_: str = "random"

    def get_content(self) -> str:
        return self.text


class Loader:
    def __init__(self, texts: list[str]) -> None:
        self.texts = texts

    def lazy_load(self) -> Iterator[LoadedDocument]:
        for number, text in enumerate(self.texts):
            yield LoadedDocument(text, {"source": "book.pdf", "page": number})


class Reader:
    def load_data(self, names: list[str]) -> list[ReadDocument]:
        return [ReadDocument(f"on {name}", {"url": f"https://{name}"}) for name in names]


class ShelfWorld:
    """The ``World`` of the connector laws."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True)
        self.source: dict[str, object] = {
            "call": "tests.connectors.shelves:files_below",
            "arguments": {"folder": str(root)},
            "folder": Path(__file__).parents[2],
        }
        self.connector = Python(PythonOptions.model_validate(self.source))

    def put(self, key: str, data: bytes) -> None:
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def delete(self, key: str) -> None:
        (self.root / key).unlink()

    def move(self, old: str, new: str) -> None:
        (self.root / new).parent.mkdir(parents=True, exist_ok=True)
        (self.root / old).rename(self.root / new)

    def fail(self) -> None:
        self.root.rename(self.root.with_name("aside"))
