"""Documents of a source that can only be read whole: what a scan gave lies on disk until the next one.

So that ``fetch`` need not ask the source again, and gives exactly what was listed.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from math import isfinite

from ingestor.connectors.programs.scratch import Scratch
from ingestor.model import Blob, Item, Scalar
from ingestor.ports import BadDocument, Stale, Transient


@dataclass(frozen=True, slots=True)
class Given:
    """A document as its source gave it. ``name``: a file's name, for its type."""

    key: str
    data: bytes
    name: str
    uri: str
    metadata: tuple[tuple[str, Scalar], ...] = ()

    @property
    def version(self) -> str:
        """A digest of all that its records show."""
        facts = json.dumps([self.name, self.uri, self.metadata]).encode()
        return blake2b(facts + b"\0" + self.data, digest_size=16).hexdigest()


class Spool:
    """A folder of its own, with a file for each version."""

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size

    @cached_property
    def _scratch(self) -> Scratch:
        return Scratch()

    def keep(self, given: Given) -> Item:
        """The document as it is listed. One that is too large is listed, so that it can be reported.

        Raises Transient where there is no room for it.
        """
        version = given.version
        if len(given.data) <= self._max_size:
            try:
                name = given.name.replace("\0", "").encode("utf-8", "replace")
                self._write(version, name + b"\0" + given.data)
            except OSError as error:
                raise Transient(f"{given.uri} can't be kept for a while ({error.strerror})") from error
        return Item(given.key, version, given.uri, len(given.data), None, given.metadata)

    def _write(self, version: str, content: bytes) -> None:
        """Whole or not at all."""
        file = self._scratch.path / version
        if not file.exists():
            part = file.with_suffix(".part")
            part.write_bytes(content)
            part.replace(file)

    def forget_others(self, versions: Collection[str]) -> None:
        """Call it when a scan came to its end; ``versions``: what it gave."""
        for file in self._scratch.path.iterdir():
            if file.name not in versions:
                file.unlink(missing_ok=True)

    def fetch(self, item: Item) -> Blob:
        """Raises Stale if it was not listed since the program began, or not of late."""
        if item.size is not None and item.size > self._max_size:
            raise BadDocument(f"{item.uri} has {item.size:,} bytes; max_size is {self._max_size:,}: raise it")
        try:
            name, _, data = (self._scratch.path / item.version).read_bytes().partition(b"\0")
        except FileNotFoundError as error:
            raise Stale(f"{item.uri} is to be listed again first") from error
        return Blob(data, name.decode())


def scalar(value: Scalar) -> Scalar:
    """As it can be kept in metadata: no lone surrogates, and only numbers that any database takes."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, float) and not isfinite(value):
        return None
    return str(value) if isinstance(value, int) and abs(value) >= 2**63 else value


def text(given: str) -> str:
    """Without lone surrogates, which are no text."""
    return given.encode("utf-8", "replace").decode()
