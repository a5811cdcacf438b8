"""The journal's tables of sources and withdrawals: states of sources, and decisions of people about them.

This module also reads the last listing of a source, and stores the differences of the next listing on disk.

A withdrawal is a document whose records were removed because it became unreadable. The withdrawals of each
source are counted. The count restarts at zero when no document of the source is due. If the count is too high
for ``max_loss``, the records of further unreadable documents are kept until a person accepts the loss.
"""

import json
import logging
import os
import pickle
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from tempfile import TemporaryFile
from typing import NamedTuple
from weakref import finalize

from ingestor.core import decisions
from ingestor.core.decisions import PERIOD, Failure
from ingestor.core.entries import Choices, Entry, Feed, SourceRow
from ingestor.core.events import event
from ingestor.core.listings import Differing
from ingestor.model import CollectionName, DocumentId, SourceName
from ingestor.state.editions import pack_choices
from ingestor.state.journal import Journal, Selecting
from ingestor.state.tables import LIVE, marks

log = logging.getLogger("ingestor")

_MARK = "\n"  # begins a name that is being changed; no name of a source begins with it


def states(journal: Selecting, source: SourceName | None = None) -> dict[SourceName, SourceRow]:
    """Return the stored state of every source that was ever listed, or only of the given source."""
    where, values = ("", ()) if source is None else (" WHERE name = ?", (source,))
    rows = journal.select(
        f"""SELECT name, last_scan, identity, held, sources.accepted, trouble, paused, sources.documents,
                loss, held_root, kept FROM sources LEFT JOIN withdrawals ON source = name{where}""",
        values,
    )
    return {
        name: SourceRow(scan, root, held, bool(accepted), trouble, paused, most, bool(loss), lost, kept)
        for name, scan, root, held, accepted, trouble, paused, most, loss, lost, kept in rows
    }


class SourceRows:
    """The journal's table of sources. Every method is one transaction."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def note_listing(self, source: SourceName, at: float, documents: int, trouble: str | None = None) -> None:
        """Store that a complete listing was applied to the journal. A hold of the source ends.

        ``at``: POSIX seconds. ``documents``: how many documents the source has now. The largest such number
        is kept, so that a sudden loss is noticed, until ``rest`` is called or a loss is accepted.
        ``trouble``: why some items could not be listed, or None.
        """
        counts = "accepted OR excluded.documents >= coalesce(documents, 0)"
        query = f"""INSERT INTO sources (name, last_scan, documents, most_at, trouble)
                    VALUES (?1, ?2, ?3, ?2, ?4)
                    ON CONFLICT DO UPDATE SET last_scan = excluded.last_scan,
                        documents = iif({counts}, excluded.documents, documents),
                        most_at = iif({counts}, excluded.most_at, most_at), trouble = excluded.trouble,
                        held = NULL, loss = 0, accepted = 0"""
        self._journal.write(query, (source, at, documents, trouble))

    def rest(self, sources: Sequence[SourceName], now: float) -> None:
        """Replace the largest number of documents of each source by the present number, if it is older than
        PERIOD.

        ``sources``: sources that have no due documents. ``now``: POSIX seconds.
        """
        old = f"name IN ({marks(sources)}) AND (most_at <= ? OR most_at > ?)"
        values = (*sources, now - PERIOD, now)
        if not self._journal.select(f"SELECT 1 FROM sources WHERE {old} LIMIT 1", values):
            return
        number = "SELECT COUNT(*) FROM documents WHERE source = name AND wanted_version IS NOT NULL"
        query = f"UPDATE sources SET most_at = ?, documents = ({number} AND {LIVE}) WHERE {old}"
        self._journal.write(query, (now, *values))

    def identify(self, source: SourceName, identity: str) -> None:
        """Store the identity of the file system at a source's root."""
        self._put(source, identity=identity)

    def note_trouble(self, source: SourceName, trouble: str | None) -> None:
        """Store why a source could not be listed; None if the reason of its hold says that."""
        self._put(source, trouble=trouble)

    def hold(self, source: SourceName, reason: str, *, loss: bool = False, root: str | None = None) -> None:
        """Hold a source: none of its documents is changed until the reason no longer exists.

        ``loss``: whether the reason is a loss of documents, which a person may accept. ``root``: identity of
        the root that lacks the documents.
        """
        self._put(source, held=reason, loss=loss, held_root=root, accepted=False)

    def _put(self, source: SourceName, **columns: object) -> None:
        assigned = ", ".join(f"{name} = excluded.{name}" for name in columns)
        query = f"""INSERT INTO sources (name, {", ".join(columns)}) VALUES (?, {marks([*columns])})
                    ON CONFLICT DO UPDATE SET {assigned}"""
        self._journal.write(query, (source, *columns.values()))

    def accept(self, source: SourceName) -> bool:
        """Accept the loss of documents of a held source, so that its next listing is applied.

        Return False if the source is not held for a loss.
        """
        query = "UPDATE sources SET accepted = 1 WHERE name = ? AND held IS NOT NULL AND loss"
        return self._journal.write(query, (source,)) > 0

    def pause(self, source: SourceName, since: float) -> None:
        """Pause a source. ``since``: POSIX seconds."""
        query = """INSERT INTO sources (name, paused) VALUES (?, ?)
                   ON CONFLICT DO UPDATE SET paused = COALESCE(paused, excluded.paused)"""
        self._journal.write(query, (source, since))

    def resume(self, source: SourceName) -> bool:
        """Resume a source. Return whether it was paused."""
        query = "UPDATE sources SET paused = NULL WHERE name = ? AND paused IS NOT NULL"
        return self._journal.write(query, (source,)) > 0

    def of(self, source: SourceName) -> SourceRow:
        """Return the stored state of a source; an empty state if it was never listed."""
        return states(self._journal, source).get(source, SourceRow())

    def keys(self, source: SourceName) -> list[str]:
        """Return the keys of a source's documents in all editions, without repetition."""
        rows = self._journal.select("SELECT DISTINCT key FROM documents WHERE source = ?", (source,))
        return [key for (key,) in rows]

    def places(self) -> list[tuple[SourceName, str | None, CollectionName]]:
        """Return the name, origin and collection of each source that has documents, the last listed source
        first.

        A source that feeds several collections is returned once for each.
        """
        query = """SELECT DISTINCT source, origin, COALESCE(serves, collection)
                   FROM (SELECT DISTINCT source, collection FROM documents)
                   LEFT JOIN sources ON sources.name = source
                   LEFT JOIN collections ON collections.name = collection ORDER BY last_scan DESC, source"""
        return self._journal.select(query)

    def note_origins(self, origins: Mapping[SourceName, str]) -> None:
        """Store the origin of each source, by which it is recognised if it is renamed."""
        query = """INSERT INTO sources (name, origin) VALUES (?, ?) ON CONFLICT DO UPDATE
                   SET origin = excluded.origin WHERE origin IS NOT excluded.origin"""
        with self._journal.transaction() as db:
            db.executemany(query, origins.items())

    def rename(
        self, renames: Mapping[SourceName, SourceName], in_choices: Callable[[Choices], Choices]
    ) -> None:
        """Rename sources in every table of the journal. ``renames``: new names by old ones.

        Two sources can swap names. So each first gets a temporary name that no source has. If a source of the
        new name is paused, the renamed source is paused, too. ``in_choices``: returns the choices of a
        collection with the new names.
        """
        tables = ("documents", "source"), ("sources", "name"), ("withdrawals", "source")
        with self._journal.transaction() as db:
            for old, new in renames.items():
                for table, column in tables:
                    db.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (_MARK + new, old))
            for new in renames.values():
                paused = "COALESCE(paused, (SELECT paused FROM sources WHERE name = ?))"
                db.execute(f"UPDATE sources SET paused = {paused} WHERE name = ?", (new, _MARK + new))
                db.execute("DELETE FROM sources WHERE name = ?", (new,))
                db.execute("DELETE FROM withdrawals WHERE source = ?", (new,))
                for table, column in tables:
                    db.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (new, _MARK + new))
            for name in {*renames, *renames.values()}:
                db.execute("DELETE FROM requests WHERE kind = 'prune' AND subject = ?", (name,))
            rows = db.execute("SELECT name, choices FROM collections WHERE choices NOTNULL").fetchall()
            renamed = [(pack_choices(in_choices(json.loads(choices))), name) for name, choices in rows]
            db.executemany("UPDATE collections SET choices = ? WHERE name = ?", renamed)


class Withdrawal(NamedTuple):
    """The withdrawals of a source since it last had no due document.

    ``documents``: how many documents were withdrawn. ``indexed``: how many had records before the first
    withdrawal. ``kept``: why the records of further unreadable documents are kept, or None. ``accepted``:
    whether a person accepted the loss.
    """

    documents: int = 0
    indexed: int = 0
    kept: str | None = None
    accepted: int = 0


class Withdrawals:
    """Counts withdrawals, and stops them when a person must decide.

    How many documents had records before the first withdrawal is stored. It cannot be counted later, since
    withdrawn documents may be back in the index.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        # Counted documents. A document whose write fails is judged again, and must not count twice.
        self._counted: set[tuple[SourceName, DocumentId]] = set()

    def of(self, source: SourceName) -> Withdrawal:
        """Return the withdrawals of a source since it last had no due document."""
        query = "SELECT documents, indexed, kept, accepted FROM withdrawals WHERE source = ?"
        return next((Withdrawal(*row) for row in self._journal.select(query, (source,))), Withdrawal())

    def accept(self, source: SourceName) -> bool:
        """Accept that many unreadable documents leave the index, and have these documents retried now.

        The records of these documents are still in the index; the retry deletes them.

        Return False if no records of the source are kept.
        """
        with self._journal.transaction() as db:
            query = "UPDATE withdrawals SET accepted = 1, kept = NULL WHERE source = ? AND kept IS NOT NULL"
            if not db.execute(query, (source,)).rowcount:
                return False
            retry = "UPDATE documents SET retry_at = 0 WHERE source = ? AND attempts > 0 AND NOT quarantined"
            db.execute(retry, (source,))
        return True

    def settle(self, sources: Sequence[SourceName]) -> None:
        """Restart the counts of these sources, which have no due documents.

        While records of a source are kept and the loss is not accepted, its count stays until none of its
        documents waits for a retry.
        """
        if not self._journal.select("SELECT 1 FROM withdrawals LIMIT 1"):
            return
        query = f"""DELETE FROM withdrawals WHERE source IN ({marks(sources)}) AND (
                        accepted OR kept IS NULL OR NOT EXISTS (
                            SELECT 1 FROM documents WHERE documents.source = withdrawals.source
                                AND attempts > 0 AND NOT quarantined))"""
        self._journal.write(query, sources)
        left = {source for (source,) in self._journal.select("SELECT source FROM withdrawals")}
        self._counted = {document for document in self._counted if document[0] in left}

    def passes(self, entry: Entry, failure: Failure, max_loss: float) -> bool:
        """Return whether the records of an unreadable document may be removed.

        If so, count it as withdrawn.
        """
        document, row = (entry.source, entry.document_id), self.of(entry.source)
        if not entry.records or document in self._counted or row.accepted:
            return True
        indexed = row.indexed or self._count_indexed(entry.feed)
        kept = decisions.withdrawal(failure, row.documents, indexed, max_loss)
        if kept is None:
            query = """INSERT INTO withdrawals (source, documents, indexed) VALUES (?, 1, ?)
                       ON CONFLICT DO UPDATE SET documents = documents + 1, indexed = excluded.indexed"""
            self._journal.write(query, (entry.source, indexed))
            self._counted.add(document)
            return True
        if row.kept is None:
            reason = f"{kept}; their records are kept; if that is right, run: ingestor accept {entry.source}"
            about = event("source_held", source=entry.source, reason=reason)
            log.error("source %s: %s", entry.source, reason, extra=about)
            query = """INSERT INTO withdrawals (source, kept) VALUES (?, ?)
                       ON CONFLICT DO UPDATE SET kept = excluded.kept"""
            self._journal.write(query, (entry.source, reason))
        return False

    def _count_indexed(self, feed: Feed) -> int:
        """Count the documents of a feed that have records in the index."""
        query = """SELECT COUNT(*) FROM documents WHERE source = ? AND collection = ?
                   AND wanted_version IS NOT NULL AND EXISTS (SELECT 1 FROM records WHERE document = id)"""
        return int(self._journal.select(query, feed)[0][0])


_PAGE = 1000  # keys that one query reads
_OF = "FROM documents WHERE source = ? AND collection = ? AND wanted_version IS NOT NULL"
# Keys below a folder, as a range of the index: "0" follows "/" in UTF-8.
_BELOW = "key > ? || '/' AND key < ? || '0'"


class LastListing:
    """The documents that the last listing of a feed left in the journal, as ``KnownVersions``.

    Any thread may call. Keys are read in pages, since a query that stays open would keep SQLite from
    shortening its log.
    """

    def __init__(self, journal: Journal, feed: Feed) -> None:
        self._read, self._feed = journal.reader.select, feed

    def of(self, keys: Sequence[str]) -> Mapping[str, str]:
        query = f"SELECT key, wanted_version {_OF} AND key IN ({marks(keys)})"
        return dict(self._read(query, (*self._feed, *keys)))

    def below(self, under: str) -> Mapping[str, str]:
        if under == "":
            return dict(self._read(f"SELECT key, wanted_version {_OF}", self._feed))
        query = f"SELECT key, wanted_version {_OF} AND (key = ? OR {_BELOW})"
        return dict(self._read(query, (*self._feed, under, under, under)))

    def keys(self, under: Sequence[str]) -> Iterator[str]:
        for top in under:
            yield from self.of([top])
            below, values = ("", ()) if top == "" else (f"AND {_BELOW}", (top, top))
            query, last = f"SELECT key {_OF} {below} AND key > ? ORDER BY key LIMIT {_PAGE}", ""
            while page := self._read(query, (*self._feed, *values, last)):
                yield from (key for (key,) in page)
                last = page[-1][0]

    def count(self) -> int:
        return int(self._read(f"SELECT COUNT(*) {_OF}", self._feed)[0][0])


class PageStore:
    """Pages of items that differ from the journal, in a temporary file; implements ``DifferingPages``.

    One thread adds pages, and any thread reads them. Only this process can write the file, so the pickles in
    it are trusted. The file is deleted with the last reference to the object. Methods raise OSError if the
    disk is full.
    """

    def __init__(self) -> None:
        self._file = TemporaryFile(buffering=0)  # noqa: SIM115 - as long as this
        finalize(self, self._file.close)
        self._ends = [0]  # positions in the file, in bytes, at which pages end

    def append(self, page: list[Differing]) -> None:
        packed = memoryview(zlib.compress(pickle.dumps(page), 1))
        # The end of the last page, which may not be the end of the file: a page that did not fit may follow.
        end = self._ends[-1]
        while packed:
            written = os.pwrite(self._file.fileno(), packed, end)
            packed, end = packed[written:], end + written
        self._ends.append(end)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, number: int) -> list[Differing]:
        if not 0 <= number < len(self):
            raise IndexError(number)
        start, end = self._ends[number : number + 2]
        packed = os.pread(self._file.fileno(), end - start, start)
        page: list[Differing] = pickle.loads(zlib.decompress(packed))  # noqa: S301 - it is ours
        return page
