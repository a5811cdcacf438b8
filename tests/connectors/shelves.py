"""A folder that code lists."""

from pathlib import Path

from ingestor.connectors.programs.python import PythonOptions, build
from tests.connectors.on_disk import OnDisk


class ShelfWorld(OnDisk):
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
