"""A folder that a program lists, speaking Singer or Airbyte."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ingestor.connectors.programs import airbyte, singer
from ingestor.connectors.programs.records import Records
from ingestor.model import Blob, Item
from tests.connectors.on_disk import OnDisk

TAP = Path(__file__).with_name("tap.py")
STREAM = "files"


def options_of(root: Path, **changed: Any) -> dict[str, Any]:
    """As a config has them."""
    return {
        "command": [sys.executable, "-I", "-S", str(TAP)],
        "settings": {"root": str(root)},
        "streams": [STREAM],
        "text": "{content}",
        "file_name": "{path}",
        "metadata": ["size"],
        **changed,
    }


def made(kind: str, options: dict[str, Any]) -> Records:
    if kind == "singer":
        return singer.build(singer.SingerOptions.model_validate(options))
    return airbyte.build(airbyte.AirbyteOptions.model_validate(options))


class OneStream:
    """The records of the one stream by their own keys."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def scan(self) -> Iterator[Item]:
        for item in self._records.scan():
            yield replace(item, key=item.key.removeprefix(f"{STREAM}/"))

    def fetch(self, item: Item) -> Blob:
        return self._records.fetch(item)


class TapWorld(OnDisk):
    """The ``World`` of the connector laws."""

    def __init__(self, kind: str, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True)
        self.source = options_of(root)
        self.connector = OneStream(made(kind, self.source))
