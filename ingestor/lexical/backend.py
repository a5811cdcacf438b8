"""A store of collections with a lexical index each; composed of another store and the lexical file."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from ingestor.core.backend import Backend, Model
from ingestor.core.entries import ChromaName
from ingestor.core.events import event
from ingestor.core.shards import separate
from ingestor.lexical.composed import ComposedIndex
from ingestor.lexical.file import LexicalFile, Unusable
from ingestor.lexical.filling import Filling
from ingestor.lexical.index import LexicalIndex
from ingestor.model import RecordId
from ingestor.ports import Gone, Index, NeedsHuman, Torn, Transient

log = logging.getLogger("ingestor")

LOOK_EVERY = 5.0  # seconds between two looks at the file
_AGAIN = 10.0  # seconds after which a filling that failed is tried again


class LexicalBackend:
    """``clock``: seconds that only grow. All methods belong to the thread that writes."""

    def __init__(self, inner: Backend, file: LexicalFile, clock: Callable[[], float]) -> None:
        self._inner, self._file, self._clock = inner, file, clock
        self._opened: dict[str, tuple[Index, LexicalIndex]] = {}  # by UUID
        self._fillings: dict[str, Filling] = {}
        self._not_before, self._looked = 0.0, clock()
        self._sweeping = True  # collections may have been deleted while this did not run
        self._complained = ""

    def open(self, name: ChromaName, model: Model) -> tuple[Index, str]:
        dense, uuid = self._inner.open(name, model)
        lexical = LexicalIndex(self._file, uuid)
        self._opened[uuid] = dense, lexical
        self._fillings[uuid] = Filling(dense, lexical)
        return ComposedIndex(dense, lexical, self._lost), uuid

    def delete(self, name: ChromaName) -> None:
        self._inner.delete(name)
        self._sweeping = True

    def look(self, name: ChromaName) -> str | None:
        return self._inner.look(name)

    def trouble(self, name: ChromaName, error: Exception) -> None:
        self._inner.trouble(name, error)

    def names(self) -> Mapping[str, str]:
        return self._inner.names()

    def rename(self, uuid: str, name: str) -> bool:
        return self._inner.rename(uuid, name)

    def evict(self, name: str) -> str:
        self._sweeping = True
        return self._inner.evict(name)

    def mend(self, uuid: str, ids: Sequence[RecordId]) -> None:
        """Mark the lexical index as incomplete, and discard it if any words differ.

        ``ids``: records whose words differ. All words are indexed again if there are any.
        """
        with suppress(Unusable):  # the file is made again
            if ids:
                self._file.discard(uuid)
            LexicalIndex(self._file, uuid).set_complete(False)

    def refill(self, uuid: str) -> None:
        """Index all words again from the records that the collection holds."""
        self._inner.refill(uuid)
        with suppress(Unusable):  # the file is made again
            self._file.discard(uuid)
        if uuid in self._opened:
            self._fillings[uuid] = Filling(*self._opened[uuid])

    @property
    def complete(self) -> bool:
        """Whether every open collection has its lexical index."""
        return not (self._fillings or self._sweeping)

    def due(self) -> bool:
        """Whether ``work`` should be called again at once."""
        return not self.complete and self._clock() >= self._not_before

    def work(self) -> None:
        """Bring lexical indexes in step for a moment, and look after the file at times.

        Errors are logged, and the work is tried again.
        """
        now = self._clock()
        if now < self._not_before or (self.complete and now < self._looked + LOOK_EVERY):
            return
        try:
            self._look_after_file(now)
            self._sweep()
            self._fill()
        except Unusable:
            self._lost()
        except (Transient, Gone, Torn, NeedsHuman) as error:  # the writer deals with what ails Chroma
            log.debug("lexical index: %s; will retry", error, extra=event("words_failed"))
            self._not_before = self._clock() + _AGAIN
        except Exception as error:
            if repr(error) != self._complained:  # once, not at every attempt
                log.exception("lexical index: unexpected error; will retry", extra=event("words_failed"))
            self._complained, self._not_before = repr(error), self._clock() + _AGAIN

    def _look_after_file(self, now: float) -> None:
        """Notice that it was damaged or deleted, even while nothing is written."""
        if now >= self._looked + LOOK_EVERY:
            self._looked = now
            self._file.examine()

    def _sweep(self) -> None:
        """Forget collections that Chroma no longer has."""
        if self._sweeping:
            there = self._inner.names().keys()
            for uuid in {each for each in self._file.uuids() if not there >= set(separate(each))}:
                self._file.discard(uuid)
                self._opened.pop(uuid, None)
                self._fillings.pop(uuid, None)
            self._sweeping = False

    def _fill(self) -> None:
        for uuid, filling in list(self._fillings.items())[:1]:
            try:
                filling.step()
            except (Gone, Torn):
                del self._fillings[uuid]  # it will be opened again
                raise
            except Exception:
                self._fillings[uuid] = self._fillings.pop(uuid)  # others take their turn
                raise
            if filling.done:
                del self._fillings[uuid]

    def _lost(self) -> None:
        """The file is empty: fill every collection that is open."""
        self._fillings = {uuid: Filling(*both) for uuid, both in self._opened.items()}
