"""Which due documents are begun: enough to keep the workers busy, and no more of a kind than its share.

Small documents are begun ahead, before a worker is free: they are prepared while a batch is written, which
the engine's thread waits for.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

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
        self._in_edition = Counter[EditionName]()

    def begin(self, entry: Entry, *, ahead: bool) -> None:
        if entry.row not in self.entries:
            self._in_edition[entry.collection] += 1
        self.entries[entry.row] = self.under_way[entry.row] = entry
        if ahead:
            self.ahead.add(entry.row)

    def returned(self, entry: Entry) -> None:
        """Its outcome came."""
        self.under_way.pop(entry.row, None)
        self.ahead.discard(entry.row)

    def landed(self, entry: Entry) -> None:
        """It is settled, or due again."""
        begun = self.entries.pop(entry.row, None)
        if begun is not None:
            self._in_edition[begun.collection] -= 1

    def number(self, edition: EditionName | None = None) -> int:
        """Of this edition or of all."""
        return len(self.entries) if edition is None else self._in_edition[edition]

    def editions(self) -> set[EditionName]:
        return {edition for edition, number in self._in_edition.items() if number}


class Dispatcher:
    """``clock``: POSIX seconds. ``idle``: rows of documents that wait for a process that parses."""

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

    def lane(self, source: SourceName) -> Lane:
        return Lane(source, max(1, int(self.workers * _SOURCE_SHARE)) if self.several else self.workers)

    def free(self, preparing: int) -> int:
        """How many more may be begun, of ``preparing`` on workers.

        Prepared documents that wait for others to fill a batch occupy no worker; nor do those that wait for a
        process that parses, so that documents that need none overtake them.
        """
        idle = len(self._idle() - self._flight.ahead)
        return min(self.workers + idle, BEGUN * self.workers) - (preparing - len(self._flight.ahead))

    def due(self, ready: Sequence[Feed], free: int, full: Mapping[int, Entry]) -> list[Entry]:
        """``full``: documents of full batches: they are written before more begin."""
        under_way, ahead = self._flight.under_way, self._flight.ahead
        moving = {**{row: entry for row, entry in under_way.items() if row not in ahead}, **full}
        return self._affordable(self.fair(ready, free, moving), moving)

    def due_ahead(self, ready: Sequence[Feed], full: Mapping[int, Entry]) -> list[Entry]:
        """Small documents that no worker is free for yet; many at once or none."""
        most, begun_ahead = self._most_ahead, len(self._flight.ahead)
        room = min(most, 2 * most - len(full)) - begun_ahead  # a batch is written, and one prepared meanwhile
        if 2 * room <= most:
            return []
        but = {*self._flight.entries, *self.slow}
        due = self._backlog.due(ready, self._clock(), room, but, largest=SMALL)
        share = _SOURCE_SHARE if self.several else 1
        begun = Counter(self._flight.entries[row].source for row in self._flight.ahead)
        chosen = list[Entry]()
        for entry in due:
            if _size(entry) and not entry.attempts and begun[entry.source] < share * most:
                begun[entry.source] += 1
                chosen.append(entry)
        return chosen

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

    def _affordable(self, entries: Sequence[Entry], moving: Mapping[int, Entry]) -> list[Entry]:
        """As many as fit into the bytes in flight; a larger document goes alone."""
        room = self._bytes - sum(map(_size, moving.values()))
        chosen: list[Entry] = []
        for entry in entries:
            if _size(entry) <= room or not (chosen or moving):
                chosen.append(entry)
                room -= _size(entry)
        return chosen


def _size(entry: Entry) -> int:
    return (entry.item.size if entry.item else 0) or 0
