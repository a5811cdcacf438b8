"""The journal's tables of editions, requests and notices.

An edition is one of the collections in Chroma that serve the same name, one after the other. Roles change in
the journal first, in one transaction. Then the names in Chroma are changed (engine/edition_store.py), after a
crash in between, too.

Commands and the daemon communicate by requests and notices. A command, or the daemon itself, stores a
request. It stays until it is carried out or withdrawn. A notice is a finding of the daemon, for commands to
show. Both have a subject: a collection, an edition or a source.
"""

import json
from collections.abc import Collection
from dataclasses import replace
from itertools import count
from sqlite3 import Connection
from typing import Generic, Literal, NamedTuple, TypeVar

from ingestor.core.entries import Choices, Edition, EditionName, Role, join, separate
from ingestor.model import CollectionName, DocumentId, SourceName
from ingestor.state.journal import Journal, Selecting
from ingestor.state.tables import PENDING

Request = Literal[
    # By kind: the subject, and the meaning of the value.
    "arrange",  # no subject: decide again what the config means for the collections, and list all sources
    "approved",  # a collection: the choices (policy.fingerprint_of) that a person approved
    "refused",  # a collection: the choices that a person rolled back from
    "roll back",  # a collection: the edition that readers shall see again
    "prune",  # a source that left the config: remove its documents
    "rebuild",  # a collection: why all its records must be written into another edition
    "rebuilding",  # a collection: why a rebuild was begun that is not finished
]
Notice = Literal[
    "waits",  # a collection: why its changed config is not applied
    "delayed",  # a collection: why the new edition cannot replace the old one yet
    "reach",  # an edition: why search misses too many of its records
    "rebuilt",  # a collection: POSIX seconds of its last rebuild
    "language",  # a source: how many of its documents have a language that the model does not know
    "tokens",  # a source: how many tokens of its documents the model does not know
]
Kind = TypeVar("Kind", bound=str)


class _Mailbox(Generic[Kind]):
    """A table of texts, each found by its kind and subject.

    Every method except ``write`` is one transaction.
    """

    table: str

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def get(self, kind: Kind, subject: str = "") -> str | None:
        """Return the text of this kind about a subject, or None."""
        query = f"SELECT value FROM {self.table} WHERE kind = ? AND subject = ?"
        return next((str(row[0]) for row in self._journal.select(query, (kind, subject))), None)

    def all(self, kind: Kind) -> dict[str, str]:
        """Return all texts of this kind, by subject."""
        query = f"SELECT subject, value FROM {self.table} WHERE kind = ? ORDER BY subject"
        return dict(self._journal.select(query, (kind,)))

    def put(self, kind: Kind, subject: str, value: str | None) -> None:
        """Store a text of this kind about a subject in place of an earlier one. None or "" removes it."""
        if (value or None) == self.get(kind, subject):
            return
        with self._journal.transaction() as db:
            self.write(db, kind, subject, value)

    def take(self, kind: Kind, subject: str, value: str) -> bool:
        """Remove a text of this kind about a subject. Return whether the subject had exactly this text.

        Another process may have replaced the text since it was read; then the newer one stays.
        """
        query = f"DELETE FROM {self.table} WHERE kind = ? AND subject = ? AND value = ?"
        known = self.get(kind, subject) == value  # a look-up, since a transaction would wait for the disk
        return known and self._journal.write(query, (kind, subject, value)) > 0

    @classmethod
    def write(cls, db: Connection, kind: Kind, subject: str, value: str | None) -> None:
        """Store or remove a text like ``put``, but in an open transaction of the journal."""
        if value:
            db.execute(f"INSERT OR REPLACE INTO {cls.table} VALUES (?, ?, ?)", (kind, subject, value))
        else:
            db.execute(f"DELETE FROM {cls.table} WHERE kind = ? AND subject = ?", (kind, subject))


class Requests(_Mailbox[Request]):
    """Requests that commands store for the daemon."""

    table = "requests"

    def arrange(self) -> None:
        """Request that the running daemon decides again what the config means, and lists all sources."""
        self.put("arrange", "", "now")

    def take_arrange(self) -> bool:
        """Withdraw the request that ``arrange`` stored. Return whether there was one."""
        return self.take("arrange", "", "now")


class Notices(_Mailbox[Notice]):
    """Findings that the daemon stores for commands to show."""

    table = "notices"


def notices(journal: Selecting, kind: Notice) -> dict[str, str]:
    """Return all notices of this kind, by subject."""
    return dict(journal.select("SELECT subject, value FROM notices WHERE kind = ?", (kind,)))


def uuids_of(journal: Journal) -> frozenset[str]:
    """Return the UUIDs of all shards of all editions in Chroma. Any thread may call."""
    return frozenset(uuid for edition in all_editions(journal.reader) for uuid in edition.uuids)


def pack_choices(choices: Choices) -> str:
    """Return choices as JSON. Equal choices give equal text."""
    return json.dumps(choices, sort_keys=True)


def all_editions(journal: Selecting) -> list[Edition]:
    """Return every edition, ordered by name."""
    columns = "name, coalesce(serves, name), role, choices, since, embedder, uuid, extra_keys, generations"
    query = f"SELECT {columns} FROM collections ORDER BY name"
    return [
        Edition(
            name, serves, role, choices and json.loads(choices), since, embedder, separate(uuid),
            frozenset(json.loads(keys)), tuple(generations.split()),
        )
        for name, serves, role, choices, since, embedder, uuid, keys, generations in journal.select(query)
    ]  # fmt: skip


def searchable(journal: Selecting) -> dict[str, Edition]:
    """Return the editions that readers can search, by the name that readers use.

    These are the live editions that were created in Chroma.
    """
    live = [edition for edition in all_editions(journal) if edition.role == "live" and edition.uuids]
    return {str(edition.serves): edition for edition in sorted(live, key=lambda edition: edition.serves)}


class Size(NamedTuple):
    """The size of a source in an edition. ``listed``: bytes of its documents by the listing."""

    records: int
    listed: int


class Editions:
    """The table of editions. Every method is one transaction, and raises sqlite3.Error."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def all(self) -> list[Edition]:
        return all_editions(self._journal)

    def of(self, serves: CollectionName, *roles: Role) -> list[Edition]:
        """Return a collection's editions that have one of these roles; all its editions without a role."""
        editions = (edition for edition in self.all() if edition.serves == serves)
        return [edition for edition in editions if not roles or edition.role in roles]

    def of_name(self, name: EditionName) -> Edition:
        """Return the edition with this name.

        If the journal has none, return a new one, without storing it.
        """
        named = (edition for edition in self.all() if edition.name == name)
        return next(named, Edition(name, CollectionName(name)))

    def documents(self, name: EditionName) -> list[tuple[int, DocumentId]]:
        """Return the journal's row and the id of each document of an edition."""
        return self._journal.select("SELECT id, document_id FROM documents WHERE collection = ?", (name,))

    def has_documents(self, name: EditionName) -> bool:
        return bool(self._journal.select("SELECT 1 FROM documents WHERE collection = ? LIMIT 1", (name,)))

    def live(self, serves: CollectionName) -> Edition:
        """Return the live edition of a collection.

        If there is none yet, return the one that will be created.
        """
        return next(iter(self.of(serves, "live")), Edition(EditionName(serves), serves))

    def replacement(self, serves: CollectionName) -> Edition | None:
        """Return the edition that is built to replace the live one, or None."""
        return next(iter(self.of(serves, "staging")), None)

    def build(
        self, serves: CollectionName, choices: Choices, now: float, others: Collection[str] = ()
    ) -> Edition:
        """Add a new edition that is to replace the live one, and return it.

        ``now``: POSIX seconds. ``others``: names that collections in Chroma already have; the new edition
        gets another one.
        """
        made = Edition(self._free_name(serves, others), serves, "staging", choices, now)
        query = "INSERT INTO collections (name, serves, role, choices, since) VALUES (?, ?, ?, ?, ?)"
        self._journal.write(query, (made.name, serves, made.role, pack_choices(choices), now))
        return made

    def leave(self, serves: CollectionName, uuid: str, others: Collection[str]) -> None:
        """Add an edition that is to be deleted, for a collection in Chroma that was in no edition.

        ``others``: as in ``build``.
        """
        query = "INSERT INTO collections (name, serves, role, uuid) VALUES (?, ?, 'deleted', ?)"
        self._journal.write(query, (self._free_name(serves, others), serves, uuid))

    def _free_name(self, serves: CollectionName, others: Collection[str]) -> EditionName:
        taken = {*others, *(edition.name for edition in self.all())}
        names = (EditionName(f"{serves}--{number}") for number in count(2))
        # also "docs--2-1-of-4" takes "docs--2": the other shards of that edition may be gone
        return next(name for name in names if not any(f"{each}-".startswith(f"{name}-") for each in taken))

    def choose(self, name: EditionName, serves: CollectionName, choices: Choices) -> None:
        """Store the choices by which an edition's documents are prepared."""
        query = """INSERT INTO collections (name, serves, choices) VALUES (?, ?, ?)
                   ON CONFLICT DO UPDATE SET choices = excluded.choices"""
        self._journal.write(query, (name, serves, pack_choices(choices)))

    def become(
        self, now: float, *roles: tuple[EditionName, Role], rebuilt: CollectionName | None = None
    ) -> None:
        """Change the roles of editions in one transaction. ``roles``: pairs of an edition and its new role.

        ``now``: POSIX seconds. ``rebuilt``: a collection whose requested rebuild is completed by this change,
        if there is such a request.
        """
        with self._journal.transaction() as db:
            query = "UPDATE collections SET role = ?, since = ? WHERE name = ?"
            db.executemany(query, [(role, now, name) for name, role in roles])
            if rebuilt is not None and Requests(self._journal).get("rebuilding", rebuilt):
                Notices.write(db, "rebuilt", rebuilt, str(now))
                Requests.write(db, "rebuilding", rebuilt, None)

    def forget(self, name: EditionName) -> None:
        """Remove an edition with its documents and records from the journal, once it is deleted in Chroma."""
        with self._journal.transaction() as db:
            mine = "(SELECT id FROM documents WHERE collection = ?)"
            db.execute(f"DELETE FROM records WHERE document IN {mine}", (name,))
            for table in ("documents", "statistics"):
                db.execute(f"DELETE FROM {table} WHERE collection = ?", (name,))
            db.execute("DELETE FROM collections WHERE name = ?", (name,))

    def note(self, edition: Edition) -> None:
        """Store the facts about an edition's collections: UUIDs, embedder, metadata keys and generations."""
        keys, generations = json.dumps(sorted(edition.extra_keys)), " ".join(edition.generations)
        query = """INSERT INTO collections (name, serves, uuid, embedder, extra_keys, generations)
                   VALUES (?, ?, ?, ?, ?, ?)
                   ON CONFLICT DO UPDATE SET uuid = excluded.uuid, embedder = excluded.embedder,
                       extra_keys = excluded.extra_keys, generations = excluded.generations"""
        uuids = join(edition.uuids) or None
        values = edition.name, edition.serves, uuids, edition.embedder, keys, generations
        self._journal.write(query, values)

    def note_keys(self, name: EditionName, keys: set[str]) -> frozenset[str]:
        """Store that records of an edition may have these metadata keys; return all keys stored so far.

        A later write must name every such key that a record lacks, since Chroma merges metadata.
        """
        known = self.of_name(name)
        if not keys <= known.extra_keys:
            self.note(replace(known, extra_keys=known.extra_keys | keys))
        return known.extra_keys | keys

    def obstacle(self, building: EditionName, live: EditionName) -> str | None:
        """Return why a staging edition cannot replace the live one yet; None if it can.

        If it did, readers would miss documents or see old ones. "" means that some documents have not been
        tried yet. A document that failed five times delays the replacement only if readers see records of it
        now.
        """
        pending = f"SELECT * FROM documents WHERE {PENDING} AND NOT quarantined AND +collection = ?"
        due = f"""SELECT new.key, new.reason FROM ({pending}) AS new
            WHERE new.attempts < 5 OR EXISTS (
                    SELECT 1 FROM documents AS old JOIN records ON records.document = old.id
                    WHERE old.collection = ? AND old.source = new.source AND old.key = new.key)
            ORDER BY new.attempts LIMIT 1"""
        missing = """SELECT DISTINCT old.source FROM documents AS old
            WHERE old.collection = ? AND old.wanted_version IS NOT NULL AND NOT EXISTS (
                    SELECT 1 FROM documents AS new WHERE new.source = old.source AND new.key = old.key
                        AND new.collection = ? AND new.wanted_version IS NOT NULL) ORDER BY old.source"""
        select = self._journal.select
        if select(f"{pending} AND attempts = 0 LIMIT 1", (building,)):
            return ""
        for key, reason in select(due, (building, live)):
            return f"{key}: {reason}; the document is retried"
        for (source,) in select(missing, (live, building)):
            return f"documents of {source} are missing; if that source left the config, run: ingestor apply"
        return None

    def losses(self, building: EditionName, live: EditionName) -> list[tuple[SourceName, int, int, str]]:
        """Count documents that readers see in the live edition, but that are quarantined in the staging
        edition.

        Return tuples of a source, the number of these documents, the number of all its documents with records
        in the live edition, and an example.
        """
        had = "EXISTS (SELECT 1 FROM records WHERE records.document = old.id)"
        lost = f"""SELECT new.source, COUNT(*), MIN(new.key || ': ' || new.reason)
            FROM documents AS new JOIN documents AS old
                ON old.collection = ? AND old.source = new.source AND old.key = new.key AND {had}
            WHERE new.collection = ? AND new.quarantined AND new.wanted_version IS NOT NULL
            GROUP BY new.source"""
        of = f"SELECT COUNT(*) FROM documents AS old WHERE collection = ? AND source = ? AND {had}"
        select = self._journal.select
        return [
            (source, count, int(select(of, (live, source))[0][0]), example or "")
            for source, count, example in select(lost, (live, building))
        ]

    def sizes_of(self, name: EditionName) -> dict[str, Size]:
        """Return how large the sources of an edition are, by source."""
        query = """SELECT source, SUM((SELECT COUNT(*) FROM records WHERE document = id)), SUM(size)
                   FROM documents WHERE collection = ? GROUP BY source"""
        rows = self._journal.select(query, (name,))
        return {source: Size(records, listed or 0) for source, records, listed in rows}
