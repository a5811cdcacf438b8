"""A folder that code lists."""

from pathlib import Path

from connectors.python import PythonOptions, build


class ShelfWorld:
    """The ``World`` of the connector laws."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True)
        self.source: dict[str, object] = {
            "call": "tests.connectors.loaders:files_below",
            "arguments": {"folder": str(root)},
            "folder": Path(__file__).parents[2],
        }
        self.connector = build(PythonOptions.model_validate(self.source))

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
