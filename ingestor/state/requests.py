"""The journal's tables of requests and notices, by which commands and the daemon talk to each other.

A request is made by a command, or by the daemon itself, and stays until it is carried out or taken back. A
notice is what the daemon found, for commands to show. Each has a subject: a collection, an edition or a
source.
"""

from sqlite3 import Connection
from typing import Generic, Literal, TypeVar

from ingestor.state.journal import Journal

Request = Literal[
    "arrange",  # decide again what the config means for the collections, and list all; no subject
    "approved",  # a collection: the choices (policy.named) that a person approved
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
        """Values by subject."""
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
        with self._journal.transaction() as db:
            query = f"DELETE FROM {self.table} WHERE kind = ? AND subject = ? AND value = ?"
            db.execute(query, (kind, subject, value))

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
        """Whether that was requested since it was last taken."""
        asked = self.get("arrange")
        if asked is not None:  # one that is stored after this look stays for the next
            self.take("arrange", "", asked)
        return asked is not None


class Notices(_Mailbox[Notice]):
    """Findings about collections and editions, stored until they are cleared."""

    table = "notices"
