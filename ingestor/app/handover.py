"""A source that is called otherwise in the config keeps its documents: they are handed over in the journal.

Nothing is listed, read, embedded or written for that; no record names its source. Everything that the journal
keeps under the old name goes along: how the source stands, and what its documents are made by.
"""

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from ingestor.app.renames import Place, Renames, find_renames, in_choices, origin
from ingestor.config.models import Config
from ingestor.model import CollectionName, SourceName
from ingestor.rechunk import policy
from ingestor.rechunk.recipes import Choices, packed, unpacked
from ingestor.state.cache.parses import Parses
from ingestor.state.journal import Journal

log = logging.getLogger("ingestor")

_MARK = "\n"  # before a name that is being changed; no source can be called so


def renamed(config: Config, journal: Journal) -> Renames:
    """The new names of sources by their old ones, of those whose documents are not handed over yet."""
    return find_renames(config.sources, _noted(journal))


def settle_names(
    config: Config, journal: Journal, parses: Parses, wanted: Callable[[CollectionName], Choices]
) -> None:
    """Documents belong to the names in the config from now on. ``wanted``: what a collection is made by."""
    renames = renamed(config, journal)
    for serves in config.collections if renames else ():
        keep_answers(journal, serves, wanted(serves), renames)  # first: they are found by the old names
    hand_over(journal, renames, parses)
    note_origins(config, journal)


def note_origins(config: Config, journal: Journal) -> None:
    """Where each source's documents come from, so that it is known again under another name."""
    with journal.transaction() as db:
        db.executemany(
            """INSERT INTO sources (name, origin) VALUES (?, ?)
               ON CONFLICT DO UPDATE SET origin = excluded.origin WHERE origin IS NOT excluded.origin""",
            [(source.name, origin(source)) for source in config.sources],
        )


def hand_over(journal: Journal, renames: Renames, parses: Parses) -> None:
    """Durable when it returns, all or nothing. What documents were parsed to goes along in the cache."""
    if renames:
        _rename(journal, renames)
    for old, new in renames.items():
        rows = journal.select("SELECT DISTINCT key FROM documents WHERE source = ?", (new,))
        log.info("source %s is called %s now: its %d documents are handed over", old, new, len(rows))
        parses.rename(old, new, [key for (key,) in rows])


def keep_answers(journal: Journal, serves: CollectionName, wanted: Choices, renames: Renames) -> None:
    """What somebody approved or rolled back stays so: it was named by its sources' old names."""
    before = policy.named(in_choices(wanted, {new: old for old, new in renames.items()}))
    for key in (f"approved:{serves}", f"refused:{serves}"):
        if journal.get(key) == before:
            journal.set(key, policy.named(wanted))


@contextmanager
def rehearsed(config: Config, journal: Journal) -> Iterator[Journal]:
    """The journal as it will be after the handover, for commands that only look."""
    renames = renamed(config, journal)
    if not renames:
        yield journal
        return
    with TemporaryDirectory(prefix="ingestor-") as folder:
        copy = journal.copied(Path(folder) / "journal.sqlite3")
        try:
            _rename(copy, renames)
            yield copy
        finally:
            copy.close()


def _rename(journal: Journal, renames: Renames) -> None:
    """In two steps, for sources can change names with each other."""
    with journal.transaction() as db:
        for old, new in renames.items():
            db.execute("UPDATE documents SET source = ? WHERE source = ?", (_MARK + new, old))
            db.execute("UPDATE sources SET name = ? WHERE name = ?", (_MARK + new, old))
            db.execute("UPDATE withdrawals SET source = ? WHERE source = ?", (_MARK + new, old))
        for new in renames.values():
            _take_name(db, new)
        for name in {*renames, *renames.values()}:
            db.execute("DELETE FROM state WHERE key = ?", (f"prune:{name}",))
        _rename_in_choices(db, renames)


def _noted(journal: Journal) -> dict[SourceName, Place]:
    """Sources that have documents, those that were listed last first."""
    rows = journal.select(
        """SELECT DISTINCT source, origin, COALESCE(serves, collection), last_scan
           FROM (SELECT DISTINCT source, collection FROM documents)
           LEFT JOIN sources ON sources.name = source LEFT JOIN collections ON collections.name = collection
           ORDER BY last_scan DESC, source"""
    )
    return {
        name: Place(place, frozenset(serves for other, _, serves, _ in rows if other == name))
        for name, place, _, _ in rows
    }


def _take_name(db: sqlite3.Connection, name: SourceName) -> None:
    """A pause that was asked for under the new name holds."""
    db.execute(
        """UPDATE sources SET paused = COALESCE(paused, (SELECT paused FROM sources WHERE name = ?))
           WHERE name = ?""",
        (name, _MARK + name),
    )
    db.execute("DELETE FROM sources WHERE name = ?", (name,))
    db.execute("DELETE FROM withdrawals WHERE source = ?", (name,))
    db.execute("UPDATE sources SET name = ? WHERE name = ?", (name, _MARK + name))
    db.execute("UPDATE withdrawals SET source = ? WHERE source = ?", (name, _MARK + name))
    db.execute("UPDATE documents SET source = ? WHERE source = ?", (name, _MARK + name))


def _rename_in_choices(db: sqlite3.Connection, renames: Renames) -> None:
    rows = db.execute("SELECT name, choices FROM collections WHERE choices IS NOT NULL").fetchall()
    changed = [(packed(in_choices(unpacked(choices), renames)), name) for name, choices in rows]
    db.executemany("UPDATE collections SET choices = ? WHERE name = ?", changed)
