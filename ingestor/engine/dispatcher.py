"""Which due documents are begun: enough to keep the workers busy, and no more of a kind than its share.

Editions that readers see are served first, as if there were no others; a rebuild takes what they leave.
Small documents are begun ahead, before a worker is free: they are prepared while a batch is written, which
the engine's thread waits for.
"""

from collections import Counter
from collections.abc import Callable, Container, Sequence

from ingestor.core.entries import EditionName, Entry, Feed
from ingestor.engine.flight import AT_WORK, Flight, InFlight, Phase, Start
from ingestor.engine.workers import BEGUN, Lane
from ingestor.engine.writer import BATCH
from ingestor.model import SourceName
from ingestor.state.queries.backlog import Backlog

AHEAD = BATCH  # small documents, of one record each often, begun before a worker is free for them
SMALL = 2**16  # bytes; so all that are begun ahead fit into 26 MB
IN_FLIGHT_BYTES = 128 * 10**6  # of documents being prepared; a larger one is prepared alone
LARGE = 2 * 10**6  # bytes; such documents are heavy, as are those that exceeded the time of a first attempt
_HEAVY_SHARE = 1 / 2  # of the workers, that may prepare heavy documents
_SOURCE_SHARE = 3 / 4  # of the workers, that one of several sources may occupy: its server may hang


class Dispatcher:
    """Chooses documents to begin. In each method ``behind`` names editions whose documents count as absent.

    ``clock``: POSIX seconds. ``ahead``: most documents that are begun before a worker is free.
    """

    def __init__(
        self,
        flight: Flight,
        backlog: Backlog,
        clock: Callable[[], float],
        workers: int,
        in_flight_bytes: int = IN_FLIGHT_BYTES,
        ahead: int = AHEAD,
    ) -> None:
        self._flight, self._backlog, self._clock = flight, backlog, clock
        self.workers, self._bytes, self._most_ahead = workers, in_flight_bytes, ahead
        self.several = False  # whether there are several sources

    def lane(self, source: SourceName, *, behind: bool) -> Lane:
        most = max(1, int(self.workers * _SOURCE_SHARE)) if self.several else self.workers
        return Lane(source, most, behind)

    def free(self, behind: Container[EditionName] = ()) -> int:
        """Return how many more documents may be begun.

        Prepared documents that wait for others to fill a batch occupy no worker; nor do those that wait for a
        process that parses, so that documents that need none overtake them.
        """
        at_work = self._at_work(behind)
        waiting = sum(each.phase is Phase.WAITING for each in at_work)
        return min(self.workers + waiting, BEGUN * self.workers) - len(at_work)

    def due(
        self,
        ready: Sequence[Feed],
        free: int,
        full: Sequence[Entry],
        behind: Container[EditionName] = (),
    ) -> list[Entry]:
        """Choose documents for ``free`` workers. ``full``: documents of full batches, to be written first."""
        moving = [*(each.entry for each in self._at_work(behind)), *_without(full, behind)]
        return self.affordable(self._fair(ready, free, moving), moving)

    def due_ahead(
        self, ready: Sequence[Feed], full: Sequence[Entry], behind: Container[EditionName] = ()
    ) -> list[Entry]:
        """Small documents that no worker is free for yet; many at once or none."""
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
        """Documents for which a worker was free."""
        at_work = self._flight.documents(*AT_WORK)
        return [
            each for each in at_work
            if each.start is Start.ON_WORKER and each.entry.collection not in behind
        ]  # fmt: skip

    def _fair(self, ready: Sequence[Feed], free: int, moving: Sequence[Entry]) -> list[Entry]:
        """Due documents for ``free`` workers. One of several sources occupies only its share of them."""
        chosen: list[Entry] = []
        while len(chosen) < free:
            room = self._room(ready, chosen, moving)
            fed = [feed for feed in ready if room[feed[0]] > 0]
            due = self._due(fed, free - len(chosen), chosen, moving)
            before = len(chosen)
            for entry in due:
                if room[entry.source] > 0:
                    room[entry.source] -= 1
                    chosen.append(entry)
            if len(chosen) - before == len(due):
                break
        return chosen

    def _due(
        self, ready: Sequence[Feed], number: int, chosen: Sequence[Entry], moving: Sequence[Entry]
    ) -> list[Entry]:
        """Due documents besides the ``chosen``. Heavy ones occupy only some of the workers."""
        now, known = self._clock(), self._flight.rows() | {entry.row for entry in chosen}
        due = self._backlog.due(ready, now, number, known)
        slow = self._flight.slow()
        heavy_due = [entry.row for entry in due if size_of(entry) > LARGE or entry.row in slow]
        if not heavy_due:
            return due
        heavy = sum(size_of(entry) > LARGE or entry.row in slow for entry in (*moving, *chosen))
        room = max(1, int(self.workers * _HEAVY_SHARE)) - heavy
        beyond = set(heavy_due[max(0, room) :])
        if not beyond:
            return due
        light = [entry for entry in due if entry.row not in beyond]
        besides = known | slow | {entry.row for entry in due}
        return light + self._backlog.due(ready, now, len(beyond), besides, largest=LARGE)

    def _room(
        self, ready: Sequence[Feed], chosen: Sequence[Entry], moving: Sequence[Entry]
    ) -> dict[SourceName, int]:
        """How many more documents of each source may be begun.

        The share bounds both the documents that occupy workers and those that wait for a process that parses.
        """
        share = _SOURCE_SHARE if self.several else BEGUN
        waiting = {each.entry.row for each in self._flight.documents(Phase.WAITING)}
        occupying = [entry for entry in moving if entry.row not in waiting]
        begun = Counter(entry.source for entry in (*moving, *chosen))
        occupied = Counter(entry.source for entry in (*occupying, *chosen))
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


def size_of(entry: Entry) -> int:
    """Return the bytes of a document; 0 if unknown."""
    return (entry.item.size if entry.item else 0) or 0
