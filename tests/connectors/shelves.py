"""A folder that code lists."""

from pathlib import Path

from ingestor.connectors.programs.loading import PythonOptions, build_python
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
        self.connector = build_python(PythonOptions.model_validate(self.source))
