"""The collections that are open, and what the journal must know of each.

A collection is known by its UUID: if another one answers to the name, nothing that the journal says of the
old one holds for it, and every document is written anew (from the vector cache). A collection holds vectors
of one embedder only, ever.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from ingestor.journal import Journal
from ingestor.metadata import KEYS
from ingestor.model import CollectionName, Fingerprint
from ingestor.ports import Index
from ingestor.prepare import Prepared

log = logging.getLogger("ingestor")


class Backend(Protocol):
    """Where collections live."""

    def open(self, name: CollectionName) -> tuple[Index, str]:
        """The collection, made if need be, and its UUID. NeedsHuman if it is someone else's."""
        ...

    def delete(self, name: CollectionName) -> None:
        """With all that is in it; harmless if there is none."""
        ...

    def trouble(self, name: CollectionName, error: Exception) -> None:
        """Is told of requests that failed for now; may mend what it can, or call the collection torn."""
        ...


class Shelf:
    """Opens collections once, and keeps the journal true about them."""

    def __init__(self, journal: Journal, backend: Backend, embedder: Fingerprint) -> None:
        self._journal, self._backend, self._embedder = journal, backend, embedder
        self._open: dict[CollectionName, Index] = {}

    def open(self, name: CollectionName) -> Index:
        """Raises Transient when the server is away, NeedsHuman when the collection is not ours."""
        if name not in self._open:
            self._open[name] = self._opened(name)
        return self._open[name]

    def check(self, name: CollectionName) -> None:
        """Raises Torn or Gone where the collection no longer is what it was."""
        self.open(name).count()

    def extra_keys(self, name: CollectionName, batch: Sequence[Prepared]) -> frozenset[str]:
        """Metadata keys beside the standard ones that were ever written there, these included."""
        row = self._journal.collection(name)
        metas = [record.metadata for p in batch for record in p.records] + [
            m for p in batch for _, m in p.patches
        ]
        keys = row.extra_keys.union(*(meta.keys() for meta in metas)) - KEYS
        if keys != row.extra_keys:
            self._journal.note_collection(name, replace(row, extra_keys=keys))
        return keys

    def failed(self, name: CollectionName, error: Exception) -> None:
        """The handle may be stale: open it anew next time."""
        self._open.pop(name, None)
        self._backend.trouble(name, error)

    def discard(self, name: CollectionName, *, torn: bool) -> None:
        """Forget the collection; a torn one is deleted, so that a whole one takes its place."""
        self._open.pop(name, None)
        if torn:
            self._backend.delete(name)

    def _opened(self, name: CollectionName) -> Index:
        row = self._journal.collection(name)
        if row.embedder not in (None, self._embedder):
            log.warning("collection %s: the embedder changed, so it is written anew", name)
            self._journal.doubt(name)
            self._backend.delete(name)
        index, uuid = self._backend.open(name)
        if row.uuid not in (None, uuid):
            self._journal.doubt(name)
        if (row.uuid, row.embedder) != (uuid, self._embedder):
            self._journal.note_collection(name, replace(row, uuid=uuid, embedder=self._embedder))
        return index
