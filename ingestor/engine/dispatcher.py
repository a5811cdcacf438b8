"""Chooses the due documents to begin: enough to keep workers busy, and no more of a kind than its share.

Editions that readers see are served first, as if there were no others; a rebuild takes what they leave.
Small documents are begun ahead, before a worker is free: they are prepared while a batch is written, which
the engine's thread waits for.
"""

from collections import Counter
from collections.abc import Container, Sequence

from ingestor.core.entries import EditionName, Entry, Feed
from ingestor.engine.flight import AT_WORK, Flight, InFlight, Phase, Start
from ingestor.engine.parts import EngineParts
from ingestor.engine.workers import BEGUN, Lane
from ingestor.model import SourceName
from ingestor.state.backlog import Backlog

SMALL = 2**16  # bytes; so all that are begun ahead fit into 26 MB
LARGE = 2 * 10**6  # bytes; such documents are heavy, as are those that exceeded the time of a first attempt
_HEAVY_SHARE = 1 / 2  # of the workers, that may prepare heavy documents
_SOURCE_SHARE = 3 / 4  # of the workers, that one of several sources may occupy: its server may hang


class Dispatcher:
    """Chooses documents to begin. Documents of the editions ``behind`` count as absent."""

    def __init__(self, parts: EngineParts, flight: Flight, backlog: Backlog) -> None:
        self._flight, self._backlog, self._clock = flight, backlog, parts.clock
        self.workers, self._bytes, self._most_ahead = parts.workers, parts.in_flight_bytes, parts.ahead
        self.several = False  # whether there are several sources

    def lane(self, source: SourceName, *, behind: bool) -> Lane:
        most = max(1, int(self.workers * _SOURCE_SHARE)) if self.several else self.workers
        return Lane(source, most, behind)

    def free(self, behind: Container[EditionName] = ()) -> int:
        """Return how many more documents may be begun.

        Prepared documents that wait for others to fill a batch occupy no worker. Documents that wait for a
        process that parses occupy none either, so documents that need no process overtake them.
        """
        at_work = self._at_work(behind)
        waiting = sum(each.phase is Phase.WAITING for each in at_work)
        return min(self.workers + waiting, BEGUN * self.workers) - len(at_work)

    def due(
        self, ready: Sequence[Feed], free: int, full: Sequence[Entry], behind: Container[EditionName] = ()
    ) -> list[Entry]:
        """Choose documents for ``free`` workers. ``full``: documents of full batches, to be written first.

        One of several sources occupies only its share of the workers, and heavy documents only theirs.
        """
        moving = [*(each.entry for each in self._at_work(behind)), *_without(full, behind)]
        room, slow, chosen = self._room(ready, moving), self._flight.slow(), list[Entry]()
        heavy = max(1, int(self.workers * _HEAVY_SHARE)) - sum(_is_heavy(each, slow) for each in moving)
        while (number := free - len(chosen)) > 0:
            fed, before = [feed for feed in ready if room[feed.source] > 0], len(chosen)
            besides = self._flight.rows() | {entry.row for entry in chosen} | (set() if heavy > 0 else slow)
            largest = None if heavy > 0 else LARGE
            due = self._backlog.due(fed, self._clock(), number, besides, largest=largest)
            for entry in due:
                is_heavy = _is_heavy(entry, slow)
                if room[entry.source] > 0 and (heavy > 0 or not is_heavy):
                    room[entry.source] -= 1
                    heavy -= is_heavy
                    chosen.append(entry)
            if len(chosen) - before == len(due) < number:  # nothing else is due
                break
        return self.affordable(chosen, moving)

    def due_ahead(
        self, ready: Sequence[Feed], full: Sequence[Entry], behind: Container[EditionName] = ()
    ) -> list[Entry]:
        """Return small documents that no worker is free for yet; many at once or none."""
        most = self._most_ahead
        at_work = self._flight.documents(*AT_WORK)
        ahead = _without([each.entry for each in at_work if each.start is not Start.ON_WORKER], behind)
        # a batch is written, and one prepared meanwhile
        room = min(most, 2 * most - len(_without(full, behind))) - len(ahead)
        if 2 * room <= most:
            return []
        besides = self._flight.rows() | self._flight.slow()
        due = self._backlog.due(ready, self._clock(), room, besides, largest=SMALL)
        share = _SOURCE_SHARE if self.several else 1
        begun = Counter(entry.source for entry in ahead)
        chosen = list[Entry]()
        for entry in due:
            if size_of(entry) and not entry.attempts and begun[entry.source] < share * most:
                begun[entry.source] += 1
                chosen.append(entry)
        return chosen

    def _at_work(self, behind: Container[EditionName]) -> list[InFlight]:
        """Return documents for which a worker was free."""
        at_work = self._flight.documents(*AT_WORK)
        return [
            each for each in at_work
            if each.start is Start.ON_WORKER and each.entry.collection not in behind
        ]  # fmt: skip

    def _room(self, ready: Sequence[Feed], moving: Sequence[Entry]) -> dict[SourceName, int]:
        """Return how many more documents of each source may be begun.

        The share bounds both the documents that occupy workers and those that wait for a process that parses.
        """
        share = _SOURCE_SHARE if self.several else BEGUN
        waiting = {each.entry.row for each in self._flight.documents(Phase.WAITING)}
        begun = Counter(entry.source for entry in moving)
        occupied = Counter(entry.source for entry in moving if entry.row not in waiting)
        workers, most = max(1, int(self.workers * share)), max(1, int(BEGUN * self.workers * min(1, share)))
        return {name: min(workers - occupied[name], most - begun[name]) for name, _ in ready}

    def affordable(self, entries: Sequence[Entry], moving: Sequence[Entry]) -> list[Entry]:
        """Choose the entries that fit into the bytes in flight; a larger document goes alone."""
        room = self._bytes - sum(map(size_of, moving))
        chosen: list[Entry] = []
        for entry in entries:
            if size_of(entry) <= room or not (chosen or moving):
                chosen.append(entry)
                room -= size_of(entry)
        return chosen


def _without(entries: Sequence[Entry], behind: Container[EditionName]) -> list[Entry]:
    return [entry for entry in entries if entry.collection not in behind]


def _is_heavy(entry: Entry, slow: Container[int]) -> bool:
    return size_of(entry) > LARGE or entry.row in slow


def size_of(entry: Entry) -> int:
    """Return the bytes of a document; 0 if unknown."""
    return (entry.item.size if entry.item else 0) or 0
