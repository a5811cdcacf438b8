"""Changes of documents, sources and configs, with time and reason, newest first.

Triggers of the journal (schema.py) write a row in the transaction of each change, and keep the last 20,000.
"""

import json
from dataclasses import dataclass
from typing import Literal

from ingestor.state.journal import Journal, Selecting

What = Literal[
    "added", "changed", "rewritten", "moved", "removed", "failed", "quarantined",
    "held", "released", "config", "switched", "refused",
]  # fmt: skip
FEW = 50


@dataclass(frozen=True, slots=True)
class Event:
    """A change. ``at``: POSIX seconds.

    ``rewritten``: the content of the document is the same. ``config``: the records of a collection follow
    another config in place; ``switched``: readers see another collection; ``refused``: a config file was.
    ``before``, ``after``: packed choices of a collection, see rechunk/recipes.py.
    """

    at: float
    what: What
    source: str | None = None
    document: str | None = None
    document_id: str | None = None
    collection: str | None = None
    why: str | None = None
    before: str | None = None
    after: str | None = None


def happened(
    journal: Selecting, source: str | None = None, document_id: str | None = None, n: int = FEW
) -> list[Event]:
    """Return the last events, newest first, of a source or of a document, or all."""
    wanted = {"source": source, "document_id": document_id}
    where = " AND ".join(f"history.{key} = ?" for key, value in wanted.items() if value is not None) or "1"
    rows = journal.select(
        f"""SELECT at, what, source, document, document_id, coalesce(serves, collection), why
            FROM history LEFT JOIN collections ON name = collection
            WHERE {where} ORDER BY history.id DESC LIMIT ?""",
        (*filter(None, wanted.values()), n),
    )
    return [_event(*row) for row in rows]


def _event(at: float, what: What, *facts: str | None) -> Event:
    source, document, document_id, collection, why = facts
    if what not in ("config", "switched"):
        return Event(at, what, source, document, document_id, collection, why)
    before, after, *rebuilt = json.loads(why or "[null, null]")
    reason = next(iter(rebuilt), None)
    return Event(at, what, collection=collection, why=reason, before=before, after=after)


def id_of(journal: Selecting, document: str) -> str | None:
    """Return the id of the document that last had this key or has this id; None if nothing happened to it."""
    query = "SELECT document_id FROM history WHERE document = ?1 OR document_id = ?1 ORDER BY id DESC LIMIT 1"
    return next((id_ for (id_,) in journal.select(query, (document,))), None)


def note_refused(journal: Journal, why: str) -> None:
    """Note that a changed config file was refused."""
    with journal.transaction() as db:
        db.execute("INSERT INTO history (what, why) VALUES ('refused', ?)", (why,))
