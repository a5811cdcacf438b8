"""Fills the lexical index of each open collection from its records, a slice at a time.

Nothing is embedded. Only the writing thread calls these methods.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from itertools import islice

from ingestor.core.events import event
from ingestor.core.listings import KeySet
from ingestor.lexical.file import LexicalFile, Unusable, Uuids
from ingestor.lexical.index import LexicalIndex
from ingestor.model import RecordId
from ingestor.ports import Gone, Index, NeedsHuman, Torn, Transient
from ingestor.units import quantity

log = logging.getLogger("ingestor")

LOOK_EVERY = 5.0  # seconds between two checks of the file
_AGAIN = 10.0  # seconds after which a failed filling is retried
_SLICE = 250  # records


class Filling:
    """Fills one lexical index. Call ``step`` until ``done``, and between any two writes."""

    def __init__(self, dense: Index, lexical: LexicalIndex) -> None:
        self._dense, self._lexical = dense, lexical
        self._ids: Iterator[RecordId] | None = None
        self._seen = KeySet()
        self._moved = 0
        self.done = False

    def step(self) -> None:
        """Index a slice of records. Raises the errors of both indexes; the next step then starts over."""
        ids, self._ids = self._ids, None
        if ids is None:
            self._begin()
        elif page := list(islice(ids, _SLICE)):
            self._seen.update(page)
            if absent := self._lexical.absent(page):
                self._lexical.upsert(self._dense.read(absent), whole=True)
                self._moved += len(absent)
            self._ids = ids
        else:
            self._finish()

    def _begin(self) -> None:
        if self._lexical.complete and self._lexical.count() == self._dense.count():
            self.done = True
            return
        self._lexical.set_complete(False)
        self._ids, self._seen, self._moved = self._dense.ids(), KeySet(), 0

    def _finish(self) -> None:
        """Drop surplus words and mark the index complete, unless records changed meanwhile."""
        unseen = [RecordId(id_) for id_ in self._seen.absent(self._lexical.ids())]
        surplus = set(unseen) - {record.id for record in self._dense.read(unseen)}
        self._lexical.drop(sorted(surplus))
        if self._lexical.count() == self._dense.count():
            self._lexical.set_complete(True)
            self.done = True
            if self._moved or surplus:
                log.info(
                    "lexical index complete: %s",
                    quantity(self._lexical.count(), "record"),
                    extra=event("words_complete"),
                )
        elif not (self._moved or surplus):
            raise Transient("Chroma lists fewer records of a collection than it counts")


class Upkeep:
    """Fills the lexical indexes of all open collections, and forgets those of deleted ones.

    ``present``: UUIDs of all collections in Chroma. ``clock``: seconds that only grow.
    """

    def __init__(
        self, file: LexicalFile, present: Callable[[], Collection[str]], clock: Callable[[], float]
    ) -> None:
        self._file, self._present, self._clock = file, present, clock
        self._opened: dict[Uuids, tuple[Index, LexicalIndex]] = {}
        self._fillings: dict[Uuids, Filling] = {}
        self._renewals = file.renewals
        self._not_before, self._looked = 0.0, clock()
        self.sweeping = True  # whether collections may have been deleted
        self._complained = ""

    def open(self, dense: Index, uuids: Uuids) -> LexicalIndex:
        """Return the lexical index of a collection, and start filling it."""
        lexical = LexicalIndex(self._file, uuids)
        self._opened[uuids] = dense, lexical
        self._fillings[uuids] = Filling(dense, lexical)
        return lexical

    def mend(self, uuids: Uuids, ids: Sequence[RecordId]) -> None:
        """Mark the lexical index as incomplete, and discard it if any words differ.

        ``ids``: records whose words differ. If there are any, all words are indexed again.
        """
        with suppress(Unusable):  # the file is made again
            if ids:
                self._file.discard(uuids)
            LexicalIndex(self._file, uuids).set_complete(False)

    def refill(self, uuids: Uuids) -> None:
        """Index all words again from the records that the collection holds."""
        with suppress(Unusable):  # the file is made again
            self._file.discard(uuids)
        self._fillings[uuids] = Filling(*self._opened[uuids])

    @property
    def complete(self) -> bool:
        """Return whether every open collection has its lexical index."""
        return not (self._fillings or self.sweeping or self._renewals != self._file.renewals)

    def due(self) -> bool:
        """Return whether ``work`` should be called again at once."""
        return not self.complete and self._clock() >= self._not_before

    def work(self) -> None:
        """Fill lexical indexes for a moment, and examine the file at intervals.

        Errors are logged, and the work is retried.
        """
        now = self._clock()
        if now < self._not_before or (self.complete and now < self._looked + LOOK_EVERY):
            return
        try:
            if now >= self._looked + LOOK_EVERY:  # also while nothing is written
                self._looked = now
                self._file.examine()
            self._refill_renewed()
            self._sweep()
            self._fill()
        except Unusable:
            pass  # the file is empty now; the next call notices that
        except (Transient, Gone, Torn, NeedsHuman) as error:  # the writer handles Chroma's errors
            log.debug("lexical index: %s; will retry", error, extra=event("words_failed"))
            self._not_before = self._clock() + _AGAIN
        except Exception as error:
            if repr(error) != self._complained:  # once, not at every attempt
                log.exception("lexical index: unexpected error; will retry", extra=event("words_failed"))
            self._complained, self._not_before = repr(error), self._clock() + _AGAIN

    def _refill_renewed(self) -> None:
        """Fill every open collection again if the file was rebuilt."""
        if self._renewals != self._file.renewals:
            self._renewals = self._file.renewals
            self._fillings = {uuids: Filling(*both) for uuids, both in self._opened.items()}

    def _sweep(self) -> None:
        """Forget collections that Chroma no longer has."""
        if self.sweeping:
            present = set(self._present())
            for uuids in {each for each in self._file.collections() if not present >= set(each)}:
                self._file.discard(uuids)
                self._opened.pop(uuids, None)
                self._fillings.pop(uuids, None)
            self.sweeping = False

    def _fill(self) -> None:
        for uuids, filling in list(self._fillings.items())[:1]:
            del self._fillings[uuids]
            try:
                filling.step()
            except (Gone, Torn):  # the collection will be opened again
                raise
            except Exception:
                self._fillings[uuids] = filling  # last: others take their turn
                raise
            if not filling.done:
                self._fillings = {uuids: filling, **self._fillings}
