"""The journal's tables of editions, requests and notices.

An edition is one of the collections in Chroma that serve one name in turn. Roles change here first, in one
transaction; names in Chroma follow (engine/edition_store.py), also after a crash between the two.

By requests and notices commands and the daemon talk to each other. A request is made by a command, or by the
daemon itself, and stays until it is carried out or taken back. A notice is what the daemon found, for
commands to show. Each has a subject: a collection, an edition or a source.
"""

import json
import re
from collections.abc import Collection, Sequence
from sqlite3 import Connection
from typing import Generic, Literal, TypeVar

from ingestor.core.entries import Choices, Edition, EditionName, Renewal, Role, join, separate
from ingestor.model import CollectionName, DocumentId, SourceName
from ingestor.state.journal import Journal, Selecting
from ingestor.state.tables import PENDING, marks, write_renewal

Request = Literal[
    "arrange",  # decide again what the config means for the collections, and list all; no subject
    "approved",  # a collection: the choices (policy.fingerprint_of) that a person approved
    "refused",  # a collection: the choices that a person rolled back from
    "roll back",  # a collection: the edition to return to
    "prune",  # a source that left the config: remove its documents
    "rebuild",  # a collection: why all its records must be written into another edition
    "rebuilding",  # a collection: why its edition in building was begun; see "rebuild"
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
    """Values by kind and subject. Every method but ``write`` is one transaction."""

    table: str

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def get(self, kind: Kind, subject: str = "") -> str | None:
        query = f"SELECT value FROM {self.table} WHERE kind = ? AND subject = ?"
        return next((str(row[0]) for row in self._journal.select(query, (kind, subject))), None)

    def all(self, kind: Kind) -> dict[str, str]:
        """Return values by subject."""
        query = f"SELECT subject, value FROM {self.table} WHERE kind = ? ORDER BY subject"
        return dict(self._journal.select(query, (kind,)))

    def put(self, kind: Kind, subject: str, value: str | None) -> None:
        """Store a value in place of an earlier one. None or "" removes it."""
        if (value or None) == self.get(kind, subject):
            return
        with self._journal.transaction() as db:
            self.write(db, kind, subject, value)

    def take(self, kind: Kind, subject: str, value: str) -> None:
        """Remove this value, unless another one was stored meanwhile."""
        query = f"DELETE FROM {self.table} WHERE kind = ? AND subject = ? AND value = ?"
        self._journal.write(query, (kind, subject, value))

    @classmethod
    def write(cls, db: Connection, kind: Kind, subject: str, value: str | None) -> None:
        """Store or clear a value like ``put``, inside an open transaction of the journal."""
        if value:
            db.execute(f"INSERT OR REPLACE INTO {cls.table} VALUES (?, ?, ?)", (kind, subject, value))
        else:
            db.execute(f"DELETE FROM {cls.table} WHERE kind = ? AND subject = ?", (kind, subject))


class Requests(_Mailbox[Request]):
    """Pending requests, each removed when taken."""

    table = "requests"

    def arrange(self) -> None:
        """Have a running daemon decide again what the config means, and list all sources."""
        self.put("arrange", "", "now")

    def take_arrange(self) -> bool:
        """Return whether it was requested since it was last taken."""
        asked = self.get("arrange")
        if asked is not None:  # one that is stored after this look stays for the next
            self.take("arrange", "", asked)
        return asked is not None


class Notices(_Mailbox[Notice]):
    """Findings about collections and editions, stored until they are cleared."""

    table = "notices"


def notices(journal: Selecting, kind: Notice) -> dict[str, str]:
    """Return the notices of a kind by their subject."""
    return dict(journal.select("SELECT subject, value FROM notices WHERE kind = ?", (kind,)))


def uuids_of(journal: Journal) -> frozenset[str]:
    """Return the UUIDs in Chroma of all editions' collections and shards. Any thread."""
    rows = journal.read("SELECT uuid FROM collections")
    return frozenset(part for (uuid,) in rows for part in separate(uuid))


def pack_choices(choices: Choices) -> str:
    return json.dumps(choices, sort_keys=True)


def all_editions(journal: Selecting) -> list[Edition]:
    """Return every edition, by name."""
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
    """Return the editions that readers see and that exist in Chroma, by the name that readers use."""
    live = (edition for edition in all_editions(journal) if edition.role == "live" and edition.uuids)
    return {str(edition.serves): edition for edition in sorted(live, key=lambda edition: edition.serves)}


class Editions:
    """The table of editions. Every method is one transaction, and raises sqlite3.Error."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def all(self) -> list[Edition]:
        return all_editions(self._journal)

    def of(self, serves: CollectionName, *roles: Role) -> list[Edition]:
        return [
            edition
            for edition in self.all()
            if edition.serves == serves and (not roles or edition.role in roles)
        ]

    def of_name(self, name: EditionName) -> Edition:
        return next(
            (edition for edition in self.all() if edition.name == name), Edition(name, CollectionName(name))
        )

    def documents(self, name: EditionName) -> list[tuple[int, DocumentId]]:
        """Return row and id of every document."""
        return self._journal.select("SELECT id, document_id FROM documents WHERE collection = ?", (name,))

    def has_documents(self, name: EditionName) -> bool:
        return bool(self._journal.select("SELECT 1 FROM documents WHERE collection = ? LIMIT 1", (name,)))

    def live(self, serves: CollectionName) -> Edition:
        """Return the edition that readers see, or will see first."""
        return next(iter(self.of(serves, "live")), Edition(EditionName(serves), serves))

    def build(
        self, serves: CollectionName, choices: Choices, now: float, others: Collection[str] = ()
    ) -> Edition:
        """Add an edition in building, under a name that is not in ``others``."""
        taken = {edition.name for edition in self.all()} | set(others)
        taken |= {shard.group(1) for name in taken if (shard := re.fullmatch(r"(.+--\d+)-\d+-of-\d+", name))}
        number = next(n for n in range(2, len(taken) + 3) if f"{serves}--{n}" not in taken)
        made = Edition(EditionName(f"{serves}--{number}"), serves, "staging", choices, now)
        self._journal.write(
            "INSERT INTO collections (name, serves, role, choices, since) VALUES (?, ?, ?, ?, ?)",
            (made.name, made.serves, made.role, pack_choices(choices), made.since),
        )
        return made

    def choose(self, name: EditionName, serves: CollectionName, choices: Choices) -> None:
        """Set what its documents are made by."""
        self._journal.write(
            """INSERT INTO collections (name, serves, choices) VALUES (?, ?, ?)
               ON CONFLICT DO UPDATE SET choices = excluded.choices""",
            (name, serves, pack_choices(choices)),
        )

    def become(
        self, now: float, *roles: tuple[EditionName, Role], rebuilt: CollectionName | None = None
    ) -> None:
        """Change all these roles in one transaction; it ends the rebuild that is under way of ``rebuilt``."""
        with self._journal.transaction() as db:
            db.executemany(
                "UPDATE collections SET role = ?, since = ? WHERE name = ?",
                [(role, now, name) for name, role in roles],
            )
            if rebuilt is not None and Requests(self._journal).get("rebuilding", rebuilt):
                Notices.write(db, "rebuilt", rebuilt, str(now))
                Requests.write(db, "rebuilding", rebuilt, None)

    def forget(self, name: EditionName) -> None:
        """Forget an edition that was deleted in Chroma."""
        with self._journal.transaction() as db:
            mine = "(SELECT id FROM documents WHERE collection = ?)"
            db.execute(f"DELETE FROM records WHERE document IN {mine}", (name,))
            for table in ("documents", "statistics"):
                db.execute(f"DELETE FROM {table} WHERE collection = ?", (name,))
            db.execute("DELETE FROM collections WHERE name = ?", (name,))

    def note(self, edition: Edition) -> None:
        """Store what is known of an edition's collections in Chroma."""
        keys, generations = json.dumps(sorted(edition.extra_keys)), " ".join(edition.generations)
        self._journal.write(
            """INSERT INTO collections (name, serves, uuid, embedder, extra_keys, generations)
               VALUES (?, ?, ?, ?, ?, ?)
               ON CONFLICT DO UPDATE SET uuid = excluded.uuid, embedder = excluded.embedder,
                   extra_keys = excluded.extra_keys, generations = excluded.generations""",
            (edition.name, edition.serves, join(edition.uuids) or None, edition.embedder, keys, generations),
        )

    def renew(self, renewal: Renewal) -> None:
        """Note the generations that a collection may have from now on."""
        with self._journal.transaction() as db:
            write_renewal(db, renewal)

    def obstacle(self, building: EditionName, live: EditionName) -> str | None:
        """Return why one edition cannot replace the other yet: readers would miss documents or see old ones.

        None: nothing is in the way; "": it is unfinished. A document that failed five times is in the way
        only if readers have records of it.
        """
        untried = f"""
            SELECT 1 FROM documents WHERE {PENDING} AND NOT quarantined AND +collection = ? AND attempts = 0
            LIMIT 1"""
        due = f"""
            SELECT new.key, new.attempts, new.reason
            FROM (SELECT * FROM documents WHERE {PENDING} AND NOT quarantined AND +collection = ?) AS new
            WHERE new.attempts < 5 OR EXISTS (
                    SELECT 1 FROM documents AS old JOIN records ON records.document = old.id
                    WHERE old.collection = ? AND old.source = new.source AND old.key = new.key)
            ORDER BY new.attempts LIMIT 1"""
        missing = """
            SELECT DISTINCT old.source FROM documents AS old
            WHERE old.collection = ? AND old.wanted_version IS NOT NULL AND NOT EXISTS (
                    SELECT 1 FROM documents AS new WHERE new.source = old.source AND new.key = old.key
                        AND new.collection = ? AND new.wanted_version IS NOT NULL)"""
        select = self._journal.select
        if select(untried, (building,)):
            return ""
        for key, _, reason in select(due, (building, live)):
            return f"{key}: {reason}; it is tried again"
        for (source,) in select(f"{missing} ORDER BY old.source", (live, building)):
            return f"documents of {source} are missing; if that source left the config, run: ingestor apply"
        return None

    def losses(self, building: EditionName, live: EditionName) -> list[tuple[SourceName, int, int, str]]:
        """Count the documents of ``live`` that are quarantined in ``building``.

        Returns source, their number, the number of all, and an example.
        """
        had = "EXISTS (SELECT 1 FROM records WHERE records.document = old.id)"
        lost = f"""
            SELECT new.source, COUNT(*), MIN(new.key || ': ' || new.reason)
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

    def records_of(self, name: EditionName, sources: Sequence[str]) -> int:
        """Count the records of these sources."""
        query = f"""SELECT COUNT(*) FROM records JOIN documents ON id = document
                    WHERE collection = ? AND source IN ({marks(sources)})"""
        return int(self._journal.select(query, (name, *sources))[0][0])

    def bytes_of(self, name: EditionName, sources: Sequence[str]) -> int:
        """Sum the bytes of the documents of these sources."""
        query = f"SELECT SUM(size) FROM documents WHERE collection = ? AND source IN ({marks(sources)})"
        return int(self._journal.select(query, (name, *sources))[0][0] or 0)
