"""Which due documents are begun: enough to keep the workers busy, and no more of a kind than its share.

Editions that readers see are served first, as if there were no others; a rebuild takes what they leave.
Small documents are begun ahead, before a worker is free: they are prepared while a batch is written, which
the engine's thread waits for.
"""

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence

from ingestor.core.entries import EditionName, Entry, Feed
from ingestor.engine.outbox import BATCH
from ingestor.engine.workers.outcomes import BEGUN
from ingestor.engine.workers.work_queue import Lane
from ingestor.model import SourceName
from ingestor.state.queries.backlog import Backlog

AHEAD = BATCH  # small documents, of one record each often, begun before a worker is free for them
SMALL = 2**16  # bytes; so all that are begun ahead fit into 26 MB
IN_FLIGHT_BYTES = 128 * 10**6  # of documents being prepared; a larger one is prepared alone
LARGE = 2 * 10**6  # bytes; such documents are heavy
_HEAVY_SHARE = 1 / 2  # of the workers, that may prepare heavy documents
_SOURCE_SHARE = 3 / 4  # of the workers, that one of several sources may occupy: its server may hang


class InFlight:
    """Documents that are prepared or wait to be written, by row."""

    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        self.under_way: dict[int, Entry] = {}  # those whose outcome has not come yet
        self.ahead: set[int] = set()  # those of them that were begun before a worker was free

    def begin(self, entry: Entry, *, ahead: bool) -> None:
        self.entries[entry.row] = self.under_way[entry.row] = entry
        if ahead:
            self.ahead.add(entry.row)

    def returned(self, entry: Entry) -> None:
        """Record that a worker has returned this document."""
        self.under_way.pop(entry.row, None)
        self.ahead.discard(entry.row)

    def landed(self, entry: Entry) -> None:
        """It is settled, or due again."""
        self.entries.pop(entry.row, None)

    def preparing(self, edition: EditionName) -> bool:
        """Whether a document of this edition is on a worker, or begun ahead."""
        return any(entry.collection == edition for entry in self.under_way.values())

    def editions(self) -> set[EditionName]:
        return {entry.collection for entry in self.entries.values()}


class Dispatcher:
    """Chooses documents to begin. In each method ``behind`` names editions whose documents count as absent.

    ``clock``: POSIX seconds. ``idle``: rows of documents that wait for a process that parses.
    """

    def __init__(
        self,
        flight: InFlight,
        backlog: Backlog,
        idle: Callable[[], set[int]],
        clock: Callable[[], float],
        workers: int,
        in_flight_bytes: int = IN_FLIGHT_BYTES,
        ahead: int = AHEAD,
    ) -> None:
        self._flight, self._backlog, self._idle, self._clock = flight, backlog, idle, clock
        self.workers, self._bytes, self._most_ahead = workers, in_flight_bytes, ahead
        self.slow: set[int] = set()  # rows of documents that exceeded the time of a first attempt
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
        idle = len(self._idle() & at_work.keys())
        return min(self.workers + idle, BEGUN * self.workers) - len(at_work)

    def due(
        self,
        ready: Sequence[Feed],
        free: int,
        full: Mapping[int, Entry],
        behind: Container[EditionName] = (),
    ) -> list[Entry]:
        """Choose documents for ``free`` workers. ``full``: documents of full batches, to be written first."""
        moving = {**self._at_work(behind), **_but(full, behind)}
        return self.affordable(self.fair(ready, free, moving), moving)

    def due_ahead(
        self, ready: Sequence[Feed], full: Mapping[int, Entry], behind: Container[EditionName] = ()
    ) -> list[Entry]:
        """Small documents that no worker is free for yet; many at once or none."""
        most = self._most_ahead
        ahead = _but({row: self._flight.under_way[row] for row in self._flight.ahead}, behind)
        # a batch is written, and one prepared meanwhile
        room = min(most, 2 * most - len(_but(full, behind))) - len(ahead)
        if 2 * room <= most:
            return []
        but = {*self._flight.entries, *self.slow}
        due = self._backlog.due(ready, self._clock(), room, but, largest=SMALL)
        share = _SOURCE_SHARE if self.several else 1
        begun = Counter(entry.source for entry in ahead.values())
        chosen = list[Entry]()
        for entry in due:
            if _size(entry) and not entry.attempts and begun[entry.source] < share * most:
                begun[entry.source] += 1
                chosen.append(entry)
        return chosen

    def _at_work(self, behind: Container[EditionName]) -> dict[int, Entry]:
        """Documents on workers, by row."""
        under_way, ahead = self._flight.under_way, self._flight.ahead
        return _but({row: entry for row, entry in under_way.items() if row not in ahead}, behind)

    def fair(self, ready: Sequence[Feed], free: int, moving: Mapping[int, Entry]) -> list[Entry]:
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
        self, ready: Sequence[Feed], number: int, chosen: Sequence[Entry], moving: Mapping[int, Entry]
    ) -> list[Entry]:
        """Due documents besides the ``chosen``. Heavy ones occupy only some of the workers."""
        now, known = self._clock(), self._flight.entries | {entry.row: entry for entry in chosen}
        due = self._backlog.due(ready, now, number, known)
        if not any(map(self._heavy, due)):
            return due
        heavy = sum(map(self._heavy, (*moving.values(), *chosen)))
        room = max(1, int(self.workers * _HEAVY_SHARE)) - heavy
        beyond = {entry.row for entry in list(filter(self._heavy, due))[max(0, room) :]}
        if not beyond:
            return due
        light = [entry for entry in due if entry.row not in beyond]
        but = {*known, *self.slow, *(entry.row for entry in due)}
        return light + self._backlog.due(ready, now, len(beyond), but, largest=LARGE)

    def _room(
        self, ready: Sequence[Feed], chosen: Sequence[Entry], moving: Mapping[int, Entry]
    ) -> dict[SourceName, int]:
        """How many more documents of each source may be begun.

        The share bounds both the documents that occupy workers and those that wait for a process that parses.
        """
        share = _SOURCE_SHARE if self.several else BEGUN
        idle = self._idle()
        occupying = [entry for row, entry in moving.items() if row not in idle]
        begun = Counter(entry.source for entry in (*moving.values(), *chosen))
        occupied = Counter(entry.source for entry in (*occupying, *chosen))
        workers, most = max(1, int(self.workers * share)), max(1, int(BEGUN * self.workers * min(1, share)))
        return {name: min(workers - occupied[name], most - begun[name]) for name, _ in ready}

    def _heavy(self, entry: Entry) -> bool:
        """Whether it may take long: it is large, or exceeded the time of a first attempt."""
        return _size(entry) > LARGE or entry.row in self.slow

    def affordable(self, entries: Sequence[Entry], moving: Mapping[int, Entry]) -> list[Entry]:
        """Choose the entries that fit into the bytes in flight; a larger document goes alone."""
        room = self._bytes - sum(map(_size, moving.values()))
        chosen: list[Entry] = []
        for entry in entries:
            if _size(entry) <= room or not (chosen or moving):
                chosen.append(entry)
                room -= _size(entry)
        return chosen


def _but(entries: Mapping[int, Entry], behind: Container[EditionName]) -> dict[int, Entry]:
    return {row: entry for row, entry in entries.items() if entry.collection not in behind}


def _size(entry: Entry) -> int:
    return (entry.item.size if entry.item else 0) or 0
