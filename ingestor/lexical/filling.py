"""Brings one lexical index in step with its collection, a slice at a time, without embedding."""

import logging
from collections.abc import Iterator
from itertools import islice

from ingestor.core.events import event
from ingestor.core.listings.key_set import KeySet
from ingestor.lexical.composed import as_kept
from ingestor.lexical.index import LexicalIndex
from ingestor.model import RecordId
from ingestor.ports import Index, Transient
from ingestor.units import counted

log = logging.getLogger("ingestor")

_SLICE = 250  # records


class Filling:
    """Call ``step`` until ``done``, and between any two writes of the same thread."""

    def __init__(self, dense: Index, lexical: LexicalIndex) -> None:
        self._dense, self._lexical = dense, lexical
        self._ids: Iterator[RecordId] | None = None
        self._seen = KeySet()
        self._moved = 0
        self.done = False

    def step(self) -> None:
        """Raises what both indexes raise; the next step then begins a new round."""
        try:
            self._step()
        except BaseException:
            self._ids = None
            raise

    def _step(self) -> None:
        if self._ids is None:
            self._begin()
        elif page := list(islice(self._ids, _SLICE)):
            self._add(page)
        else:
            self._finish()

    def _begin(self) -> None:
        if self._lexical.complete and self._lexical.count() == self._dense.count():
            self.done = True
            return
        self._lexical.set_complete(False)
        self._ids, self._seen, self._moved = self._dense.ids(), KeySet(), 0

    def _add(self, page: list[RecordId]) -> None:
        self._seen.update(page)
        absent = self._lexical.absent(page)
        if absent:
            self._lexical.upsert(list(map(as_kept, self._dense.read(absent))))
            self._moved += len(absent)

    def _finish(self) -> None:
        """Records that were written meanwhile are unseen, and deletions can hide others from a listing."""
        self._ids = None
        unseen = [RecordId(id_) for id_ in self._seen.absent(self._lexical.ids())]
        surplus = set(unseen) - {record.id for record in self._dense.read(unseen)}
        self._lexical.drop(sorted(surplus))
        if self._lexical.count() == self._dense.count():
            self._lexical.set_complete(True)
            self.done = True
            if self._moved or surplus:
                log.info(
                    "lexical index complete: %s",
                    counted(self._lexical.count(), "record"),
                    extra=event("words_complete"),
                )
        elif not (self._moved or surplus):
            raise Transient("a collection does not list as many records as it counts")
