"""Sums over the documents of a collection that were read so far: the statistic for which others are cut.

A first pass moves the statistic with each document. No document waits for it to settle: each is cut for those
read so far, itself included, and written. When nothing new is left to read, documents whose interval does not
contain the settled value are cut again. Cuts do not change sums, so that happens once.
"""

import numpy as np

from ingestor.core.entries import EditionName, Entry
from ingestor.model import Sums
from ingestor.state.journal import Journal


class Statistics:
    """The journal's sums, and those of new documents that are not settled yet. Any thread."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._unsettled: dict[tuple[EditionName, str], dict[int, Sums]] = {}  # by row

    def others(self, entry: Entry, statistic: str, own: Sums | None = None) -> Sums | None:
        """Return the sums over all documents read but this one; None if there are none.

        ``own``: the sums of this document, which count for the others from now on, until ``forget``.
        """
        of = entry.collection, statistic
        settled = entry.sums if entry.statistic == statistic else None
        total = self._journal.total(*of)
        unsettled = self._unsettled.setdefault(of, {})
        if own is not None and settled is None:
            unsettled[entry.row] = own
        read = [sums for row, sums in list(unsettled.items()) if row != entry.row]
        if settled is not None:
            read.append(-settled)
        if total is not None:
            read.append(total)
        return np.sum(read, axis=0) if read else None

    def forget(self, row: int) -> None:
        """Count the sums of this document no longer: it is settled, or will be prepared again."""
        for unsettled in list(self._unsettled.values()):
            unsettled.pop(row, None)
