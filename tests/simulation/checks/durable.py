"""What holds after every death of the process: law 2, whatever is in the index is in the journal.

Generations are those that the journal expects after every step, too.

A restored collection may hold anything until it is compared with the journal.
"""

from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

from ingestor.core.entries import Edition
from ingestor.core.generations import NOWHERE, generation_of, home_of, judge
from ingestor.state.editions import Editions
from ingestor.state.journal import Journal
from tests.simulation.laws import IN_PLACE, KNOWN_WORDS, STAMPED, SUPERSET, hold
from tests.simulation.lexical import records_of
from tests.simulation.ports.collections import Shelves
from tests.state.journals import of_collection


def place(id_: str, shards: int) -> int:
    """The shard of a record, as docs/reading.md tells readers."""
    return int.from_bytes(blake2b(id_.split("#")[0].encode(), digest_size=8).digest(), "big") % shards


def is_bare(shelves: Shelves, edition: Edition) -> bool:
    """Whether the collection has no generation yet: the process died when it was made."""
    return generation_of(_facts(shelves, edition)) is None


def _facts(shelves: Shelves, edition: Edition) -> Mapping[str, object]:
    uuid, _ = edition.in_chroma[0]
    return shelves.collections[shelves._names()[uuid]][0].inner.facts()


def in_step(journal: Journal, shelves: Shelves, edition: Edition) -> bool:
    """Whether journal and collection say that they are of the same moment; True if there is no collection."""
    if edition.in_chroma[0][0] not in shelves._names():
        return True
    facts = _facts(shelves, edition)
    return judge(facts, edition.generations, home_of(facts) or NOWHERE) == "same"


def check_stamped(journal: Journal, shelves: Shelves) -> None:
    """Hold the program never to compare a collection with the journal because of its own writes."""
    if shelves.restored:
        return
    for edition in Editions(journal).all():
        stamped = in_step(journal, shelves, edition) or is_bare(shelves, edition)
        hold(STAMPED, not stamped and edition.name)


def check_durable(folder: Path, shelves: Shelves, words: Path) -> None:
    """``folder``: that of the journal. ``words``: the lexical index."""
    journal = Journal(folder / "journal.sqlite3", synchronous="OFF")
    names = shelves.names()
    check_stamped(journal, shelves)
    for edition in Editions(journal).all():
        known = {f"{e.document_id}#{k.slot}" for e in of_collection(journal, edition.name) for k in e.records}
        comparable = in_step(journal, shelves, edition)
        for number, (uuid, _) in enumerate(edition.in_chroma):
            there = {record.id for record in shelves.records(names.get(uuid, ""))}
            hold(SUPERSET, comparable and there - known)
            hold(IN_PLACE, {id_ for id_ in there if place(id_, edition.shards) != number})
        if comparable and all(uuid in names for uuid, _ in edition.in_chroma):
            hold(KNOWN_WORDS, records_of(words, edition.uuids).keys() - known)
    journal.close()
