"""Documents of a source that can only be read as a whole, kept on disk from one scan to the next.

So ``fetch`` returns exactly the listed content without running the source again. They lie in a temporary
folder, which belongs to the process that holds its lock; the lock ends with the process. The next run removes
folders that a killed run left behind.
"""

import fcntl
import json
import os
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir, mkdtemp
from weakref import finalize

from ingestor.model import Blob, Item, Scalar
from ingestor.ports import BadDocument, Stale, Transient

_PREFIX = "ingestor-scratch-"
_YOUNG = 60.0  # seconds: a younger folder without a lock may just be in the making


class Scratch:
    """Folder ``path`` for this user only. It is removed with this object, by ``remove()``, or at exit."""

    def __init__(self) -> None:
        _sweep()
        self.path = Path(mkdtemp(prefix=_PREFIX))
        lock = os.open(self.path, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        self.remove = finalize(self, _remove, self.path, lock)


def _remove(path: Path, lock: int) -> None:
    rmtree(path, ignore_errors=True)
    os.close(lock)


def _sweep() -> None:
    for path in Path(gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # it is locked, gone, or another user's
            if time.time() - path.stat().st_mtime > _YOUNG:
                lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    rmtree(path, ignore_errors=True)
                finally:
                    os.close(lock)


@dataclass(frozen=True, slots=True)
class Given:
    """A document of a source. ``name``: a file name, for its format."""

    key: str
    data: bytes
    name: str
    uri: str
    metadata: tuple[tuple[str, Scalar], ...] = ()

    @property
    def version(self) -> str:
        """A digest of all fields that records in Chroma show."""
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
        """Keep a document, and return its item. One that is too large is listed too, so that it is reported.

        Raises Transient if the disk is full.
        """
        version = given.version
        if len(given.data) <= self._max_size:
            try:
                name = given.name.replace("\0", "").encode("utf-8", "replace")
                self._write(version, name + b"\0" + given.data)
            except OSError as error:
                raise Transient(f"{given.uri} can't be kept on disk: {error.strerror}") from error
        return Item(given.key, version, given.uri, len(given.data), None, given.metadata)

    def _write(self, version: str, content: bytes) -> None:
        """Write the file atomically."""
        file = self._scratch.path / version
        if not file.exists():
            part = file.with_suffix(".part")
            part.write_bytes(content)
            part.replace(file)

    def forget_others(self, versions: Collection[str]) -> None:
        """Remove the files of other versions, after a whole scan."""
        for file in self._scratch.path.iterdir():
            if file.name not in versions:
                file.unlink(missing_ok=True)

    def fetch(self, item: Item) -> Blob:
        """Raises Stale if the item was not in the last listing of this run."""
        if item.size is not None and item.size > self._max_size:
            raise BadDocument(f"{item.uri} has {item.size:,} bytes; max_size is {self._max_size:,}: raise it")
        try:
            name, _, data = (self._scratch.path / item.version).read_bytes().partition(b"\0")
        except FileNotFoundError as error:
            raise Stale(f"{item.uri} must be listed again first") from error
        return Blob(data, name.decode())
