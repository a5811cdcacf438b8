"""What holds after every death of the process: law 2, whatever is in the index is in the journal."""

from hashlib import blake2b
from pathlib import Path

from ingestor.state.editions import Editions
from ingestor.state.journal import Journal
from tests.simulation.laws import IN_PLACE, KNOWN_WORDS, SUPERSET, hold
from tests.simulation.lexical import records_of
from tests.simulation.ports.collections import Shelves


def place(id_: str, shards: int) -> int:
    """The shard of a record, as docs/reading.md tells readers."""
    return int.from_bytes(blake2b(id_.split("#")[0].encode(), digest_size=8).digest(), "big") % shards


def check_durable(folder: Path, shelves: Shelves, words: Path) -> None:
    """``folder``: that of the journal. ``words``: the lexical index."""
    journal = Journal(folder / "journal.sqlite3", synchronous="OFF")
    names = shelves.names()
    for edition in Editions(journal).all():
        known = {f"{e.document_id}#{k.slot}" for e in journal.of_collection(edition.name) for k in e.known}
        for number, (uuid, _) in enumerate(edition.places):
            there = {record.id for record in shelves.records(names.get(uuid, ""))}
            hold(SUPERSET, there - known)
            hold(IN_PLACE, {id_ for id_ in there if place(id_, edition.shards) != number})
        if all(uuid in names for uuid, _ in edition.places):
            hold(KNOWN_WORDS, records_of(words, edition.uuid or "").keys() - known)
    journal.close()
