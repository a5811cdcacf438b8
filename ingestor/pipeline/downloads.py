"""Mails that a listing read, kept on disk until they are prepared, so that no mail is downloaded twice.

Only the most recent ones are kept, and any may be missing: then it is downloaded again.
"""

import os
from collections import OrderedDict
from contextlib import suppress
from tempfile import TemporaryFile
from threading import Lock
from typing import BinaryIO, NamedTuple
from weakref import finalize

from ingestor.model import Blob, Item

_MOST = 64  # blobs; each has an open file
_MOST_BYTES = 256 * 2**20


class _Kept(NamedTuple):
    file: BinaryIO
    size: int
    blob: Blob  # without its bytes


class Downloads:
    """The most recent blobs by key and version of their items."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()
        self._lock = Lock()
        finalize(self, _close, self._kept)

    def find(self, item: Item) -> Blob | None:
        with self._lock:
            kept = self._kept.get((item.key, item.version))
            if kept is None:
                return None
            data = os.pread(kept.file.fileno(), kept.size, 0)
        return Blob(data, kept.blob.name, kept.blob.content_type, kept.blob.told)

    def keep(self, item: Item, blob: Blob) -> None:
        """Without room on the disk nothing is kept."""
        with suppress(OSError), self._lock:
            file = TemporaryFile()  # noqa: SIM115 - closed when it is dropped
            file.write(blob.data)
            file.flush()
            empty = Blob(b"", blob.name, blob.content_type, blob.told)
            self._drop((item.key, item.version))
            self._kept[item.key, item.version] = _Kept(file, len(blob.data), empty)
            while len(self._kept) > _MOST or sum(kept.size for kept in self._kept.values()) > _MOST_BYTES:
                self._drop(next(iter(self._kept)))

    def _drop(self, at: tuple[str, str]) -> None:
        if (kept := self._kept.pop(at, None)) is not None:
            kept.file.close()


def _close(kept: OrderedDict[tuple[str, str], _Kept]) -> None:
    for one in kept.values():
        one.file.close()
