"""A renamed source keeps its documents: they are handed over to the new name in the journal.

Nothing is embedded for that: the next pass writes the new name into the metadata (``source_name``). All rows
of the journal under the old name go along: the state of the source, and what its documents are made by.
"""

import logging
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ingestor.config.models import Config, SourceConfig
from ingestor.core.events import event
from ingestor.core.fingerprint import plugin_fingerprint
from ingestor.model import CollectionName, Fingerprint, SourceName
from ingestor.ports import NeedsHuman
from ingestor.rechunk import policy
from ingestor.rechunk.recipes import Choices, packed, unpacked
from ingestor.state.cache import Parses
from ingestor.state.files import full_disk
from ingestor.state.journal import Journal
from ingestor.state.requests import Request, Requests
from ingestor.units import counted

log = logging.getLogger("ingestor")

Renames = Mapping[SourceName, SourceName]  # the new name by the old one


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """Where a source's documents are: by this a renamed source is found.

    ``origin``: a fingerprint of its connector and the connector's options, without secrets and tuning; None
    if it was never stored.
    """

    origin: str | None
    collections: frozenset[CollectionName]


def origin(source: SourceConfig) -> Fingerprint:
    return plugin_fingerprint(source.connector.plugin, source.connector.options)


def find_renames(sources: Collection[SourceConfig], noted: Mapping[SourceName, SourcePlace]) -> Renames:
    """New source names by old ones.

    ``noted``: sources that have documents; of several at one place the first counts. A new name is free if no
    documents are under it, or if these are handed over themselves: two sources can swap names.
    """
    origins = {source.name: origin(source) for source in sources}
    left = {old: place for old, place in noted.items() if place.origin not in (None, origins.get(old))}
    found: dict[SourceName, SourceName] = {}
    for source in sources:
        new, place = source.name, origins[source.name]
        if new in noted and new not in left:
            continue
        olds = (
            old for old, was in left.items() if was.origin == place and source.collection in was.collections
        )
        if (old := next((old for old in olds if old not in found), None)) is not None:
            found[old] = new
    while taken := [old for old, new in found.items() if new in noted and new not in found]:
        for old in taken:
            del found[old]
    return found


def in_choices(choices: Choices, renames: Renames) -> Choices:
    """The choices of a collection with the new names of its sources."""
    sources = choices["sources"]
    kept = {name: made for name, made in sources.items() if name not in renames}
    return {
        **choices,
        "sources": {**kept, **{new: sources[old] for old, new in renames.items() if old in sources}},
    }


_MARK = "\n"  # before a name that is being changed; no source name begins with it


def renamed(config: Config, journal: Journal) -> Renames:
    """New source names by old ones, for sources whose documents are not handed over yet."""
    return find_renames(config.sources, _noted(journal))


def gone_sources(config: Config, journal: Journal) -> list[SourceName]:
    """Sources with documents in the journal that left the config, renamed ones not included."""
    staying = {source.name for source in config.sources} | renamed(config, journal).keys()
    return [name for name in journal.sources() if name not in staying]


def leaving(config: Config, journal: Journal) -> list[SourceName]:
    """Sources that left the config and whose documents are removed now."""
    gone = gone_sources(config, journal)
    return [name for name in gone if config.prune or Requests(journal).get("prune", name)]


def settle_names(
    config: Config, journal: Journal, parses: Parses, wanted: Callable[[CollectionName], Choices]
) -> None:
    """Hand over documents of renamed sources. ``wanted``: the config's choices for a collection."""
    renames = renamed(config, journal)
    for serves in config.collections if renames else ():
        keep_answers(journal, serves, wanted(serves), renames)  # first: they are stored under the old names
    hand_over(journal, renames, parses)
    note_origins(config, journal)


def note_origins(config: Config, journal: Journal) -> None:
    """Store the origin of each source, by which it is recognised under another name."""
    with journal.transaction() as db:
        db.executemany(
            """INSERT INTO sources (name, origin) VALUES (?, ?)
               ON CONFLICT DO UPDATE SET origin = excluded.origin WHERE origin IS NOT excluded.origin""",
            [(source.name, origin(source)) for source in config.sources],
        )


def hand_over(journal: Journal, renames: Renames, parses: Parses) -> None:
    """Hand over, durably and all or nothing. Cached parsed documents go along."""
    if renames:
        _rename(journal, renames)
    for old, new in renames.items():
        rows = journal.select("SELECT DISTINCT key FROM documents WHERE source = ?", (new,))
        log.info(
            "source %s was renamed to %s and keeps its %s",
            old,
            new,
            counted(len(rows), "document"),
            extra=event("source_renamed", source=new, former=old, documents=len(rows)),
        )
        parses.rename(old, new, [key for (key,) in rows])


def keep_answers(journal: Journal, serves: CollectionName, wanted: Choices, renames: Renames) -> None:
    """Keep approvals and refusals, which are stored as fingerprints that contain source names."""
    before = policy.named(in_choices(wanted, {new: old for old, new in renames.items()}))
    answers: tuple[Request, ...] = ("approved", "refused")
    for kind in answers:
        if Requests(journal).get(kind, serves) == before:
            Requests(journal).put(kind, serves, policy.named(wanted))


@contextmanager
def rehearsed(config: Config, journal: Journal) -> Iterator[Journal]:
    """Copy the journal, and hand over renamed sources there. Raises NeedsHuman if the disk is full."""
    with TemporaryDirectory(prefix="ingestor-") as folder:
        try:
            with closing(journal.copied(Path(folder) / "journal.sqlite3")) as copy:
                if renames := renamed(config, copy):
                    _rename(copy, renames)
                yield copy
        except sqlite3.OperationalError as error:
            if (full := full_disk(Path(folder))) is None:
                raise
            raise NeedsHuman(f"{full} by TMPDIR, for a copy of the journal") from error


def _rename(journal: Journal, renames: Renames) -> None:
    """In two steps, since two sources can swap names."""
    with journal.transaction() as db:
        for old, new in renames.items():
            db.execute("UPDATE documents SET source = ? WHERE source = ?", (_MARK + new, old))
            db.execute("UPDATE sources SET name = ? WHERE name = ?", (_MARK + new, old))
            db.execute("UPDATE withdrawals SET source = ? WHERE source = ?", (_MARK + new, old))
        for new in renames.values():
            _take_name(db, new)
        for name in {*renames, *renames.values()}:
            db.execute("DELETE FROM requests WHERE kind = 'prune' AND subject = ?", (name,))
        _rename_in_choices(db, renames)


def _noted(journal: Journal) -> dict[SourceName, SourcePlace]:
    """Sources that have documents, the last listed first."""
    rows = journal.select(
        """SELECT DISTINCT source, origin, COALESCE(serves, collection), last_scan
           FROM (SELECT DISTINCT source, collection FROM documents)
           LEFT JOIN sources ON sources.name = source LEFT JOIN collections ON collections.name = collection
           ORDER BY last_scan DESC, source"""
    )
    return {
        name: SourcePlace(place, frozenset(serves for other, _, serves, _ in rows if other == name))
        for name, place, _, _ in rows
    }


def _take_name(db: sqlite3.Connection, name: SourceName) -> None:
    """Give a row its new name. A pause under the new name stays."""
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
