"""The real journal, which dies and meets a full disk, and is held to laws in each of its steps."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ingestor.core.document_state import NEXT, Event, State, state_of
from ingestor.core.entries import Entry, Feed, Receipt
from ingestor.model import SourceName
from ingestor.state import reports
from ingestor.state.journal import Journal, JournalReader, entries_of
from ingestor.state.sources import LastListing
from tests.simulation.laws import ASKED, BLAMED, LISTED, READABLE, STATES, THERE, UNWANTED, LawBroken, hold
from tests.simulation.ports.chaos import Chaos
from tests.simulation.ports.files import Files

# What each method of the journal does to a document, as core/document_state.py calls it.
EVENTS: dict[str, set[Event]] = {
    "observe": {"listed", "reverted", "vanished"},
    "relocate": {"vanished"},
    "want_recipe": {"recipe changed", "reverted"},
    "intend": {"intended", "adopted"},
    "settle": {"written", "refused", "skipped"},
    "remove": {"removed"},
    "fail": {"failed"},
    "retry": {"retried"},
    "doubt": {"doubted"},
}


def watched(name: str) -> Callable[..., object]:
    """The journal's method of that name, held to the table of states."""

    def method(self: "CrashingJournal", *args: object, **others: object) -> object:
        before = self.states()
        found = getattr(super(CrashingJournal, self), name)(*args, **others)
        after = self.states()
        arrows = {(s, t) for s, row in NEXT.items() for event, t in row.items() if event in EVENTS[name]}
        moves = {
            key: (before.get(key, "absent"), after.get(key, "absent")) for key in before.keys() | after.keys()
        }
        hold(
            STATES, [(name, key, *move) for key, move in moves.items() if len({*move}) > 1 > (move in arrows)]
        )
        return found

    return method


class PausingReader(JournalReader):
    """Lets all others act before each query."""

    def __init__(self, path: Path, chaos: Chaos) -> None:
        self.chaos = chaos
        super().__init__(path)

    def select(self, query, values=()):  # type: ignore[no-untyped-def]
        self.chaos.pause("journal")
        return super().select(query, values)


class CrashingJournal(Journal):
    """Dies before or after a commit, and meets a full disk. Holds the laws about states, listings and
    withdrawals."""

    clock: Callable[[], float] = time.time

    def __init__(
        self, path: Path, chaos: Chaos, places: Mapping[SourceName, Files], gone_since: dict[int, float]
    ) -> None:
        """``gone_since``: when each row vanished; it outlives the process."""
        self.chaos, self.places, self.gone_since = chaos, places, gone_since
        super().__init__(path, synchronous="OFF")
        self.reader.close()
        self.reader = PausingReader(path, chaos)

    want_recipe, intend, remove = map(watched, ("want_recipe", "intend", "remove"))
    fail, retry, doubt = map(watched, ("fail", "retry", "doubt"))
    _observe, _relocate, _settle = map(watched, ("observe", "relocate", "settle"))

    def set_clock(self, clock: Callable[[], float]) -> None:
        """What the journal dates, it dates by this clock."""
        self.clock = clock
        self._db.create_function("julianday", 1, lambda when: clock() / 86400.0 + 2440587.5)

    def _note_gone(self) -> None:
        gone = {row for (row,) in self.select("SELECT id FROM documents WHERE wanted_version IS NULL")}
        for row in self.gone_since.keys() - gone:
            del self.gone_since[row]
        for row in gone - self.gone_since.keys():
            self.gone_since[row] = self.clock()

    def relocate(self, source, collections):  # type: ignore[no-untyped-def]
        self._relocate(source, collections)
        self._note_gone()

    def states(self) -> dict[tuple[str, str, str], State]:
        """By edition, source and key, told by Python; the reports' SQL must tell the same."""
        columns = "wanted_version, wanted_recipe, done_version, done_recipe, attempts, parser, quarantined"
        found: dict[tuple[str, str, str], State] = {}
        for edition, source, key, by_sql, *row in self.select(
            f"SELECT collection, source, key, {reports.STATE}, {columns} FROM documents"
        ):
            state = state_of((row[0], row[1]), (row[2], row[3]), row[4], row[5], quarantined=bool(row[6]))
            hold(STATES, state != by_sql and (key, state, by_sql))
            found[edition, source, key] = state
        return found

    def observe(self, source, collection, changes, remove_at, turns=None):  # type: ignore[no-untyped-def]
        files = self.places.get(source)
        hold(THERE, files and list(filter(files.there_all_the_time, changes.vanished)))
        self._observe(source, collection, changes, remove_at, turns)
        self._note_gone()
        wanted = files.wanted[collection] if files else {}
        wanted.update((item.key, item.version) for item in changes.changed)
        for key in changes.vanished:
            wanted.pop(key, None)

    def settle(self, receipts, renewal=None):  # type: ignore[no-untyped-def]
        hold(UNWANTED, [receipt.row for receipt in receipts if not self._wanted(receipt.row)])
        refused = [receipt for receipt in receipts if receipt.failure is not None]
        for receipt in refused:
            hold(READABLE, not self._could_be_unreadable(receipt) and receipt.failure.reason)
        seen = set(self.select("SELECT name FROM collections WHERE role = 'live'"))  # what readers have
        entries = [entry for r in refused if (entry := self.entry(r.row)) is not None and _was_written(entry)]
        withdrawn = [entry for entry in entries if (entry.edition,) in seen]
        self._settle(receipts, renewal)
        query = "SELECT key FROM documents WHERE quarantined AND wanted_version IS NOT done_version"
        hold(BLAMED, self.select(query))
        for source in {entry.source for entry in withdrawn} & self.places.keys():
            files = self.places[source]
            files.withdrawn |= {entry.row for entry in withdrawn if entry.source == source}
            # later removals make the share larger, and need nobody's consent
            if files.too_many_withdrawn(self.indexed(source)):
                raise LawBroken(ASKED, f"{len(files.withdrawn)} were withdrawn")

    def _wanted(self, row: int) -> bool:
        query = """SELECT 1 FROM documents LEFT JOIN sources ON name = source
                   WHERE id = ? AND wanted_version NOT NULL AND paused IS NULL"""
        return bool(self.select(query, (row,)))

    def _could_be_unreadable(self, receipt: Receipt) -> bool:
        """Whether that version of the document cannot be read, or was made by a source that has left."""
        source = self.select("SELECT source FROM documents WHERE id = ?", (receipt.row,))[0][0]
        return source not in self.places or self.places[source].could_be_unreadable(receipt.version)

    def indexed(self, source: str) -> set[int]:
        """Rows of the documents that the source has and readers, too."""
        query = """SELECT id FROM documents WHERE wanted_version IS NOT NULL AND source = ?
                   AND EXISTS (SELECT 1 FROM records WHERE document = id)
                   AND collection IN (SELECT name FROM collections WHERE role = 'live')"""
        return {row for (row,) in self.select(query, (source,))}

    def check_listed(self) -> None:
        for source, files in self.places.items():
            for collection, wanted in files.wanted.items():
                known = LastListing(self, Feed(SourceName(source), collection)).below("")
                hold(LISTED, wanted != known and (source, collection, wanted.items() ^ known.items()))

    def select(self, query, values=()):  # type: ignore[no-untyped-def]
        self._may_fail()
        return super().select(query, values)

    def entries(self, where, values):  # type: ignore[no-untyped-def]
        self._may_fail()
        return entries_of(super(), where, values)  # type: ignore[arg-type]

    def total(self, collection, statistic):  # type: ignore[no-untyped-def]
        self._may_fail()
        return super().total(collection, statistic)

    def _may_fail(self) -> None:
        """What asks is the program, not a law."""
        if "/tests/" not in sys._getframe(2).f_code.co_filename:
            self.chaos.unreadable()

    @contextmanager
    def transaction(self) -> Iterator[object]:
        with super().transaction() as db:
            yield db
            self.chaos.point("before commit")
            self.chaos.full()
        self._forget_deleted()
        self.chaos.point("after commit")

    def _forget_deleted(self) -> None:
        """Forget the listed versions of deleted editions, before another edition gets the name of one."""
        existing = {str(name) for (name,) in self.select("SELECT name FROM collections")}
        for files in self.places.values():
            for deleted in files.wanted.keys() - existing:
                del files.wanted[deleted]


def _was_written(entry: Entry) -> bool:
    """Return whether readers may have records of a document: a slot of its first write has no text yet."""
    return any(known.text_key for known in entry.records)
