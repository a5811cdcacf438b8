"""The protocol of Chroma as a store of collections, and the properties that a collection stores. Pure.

Each collection stores a generation (a random token) in its own metadata, with the home of the state that
wrote it. Each start of the program and each batch gives the collection a new generation. The journal stores
which generations the collection may have now. If the collection has a different one, a backup of Chroma or of
the journal was restored.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Literal, Protocol

from ingestor.core.entries import ChromaName
from ingestor.model import Fingerprint, ReaderModel
from ingestor.ports import Index


@dataclass(frozen=True, slots=True)
class Model:
    """The properties of an embedder that a collection stores.

    ``reader``: the function by which Chroma's clients embed queries. ``dimensions``: called only if the
    collection must be created. ``known``: whether the embedder is loaded. Only then is ``reader`` compared
    with the stored function.
    """

    recipe: Fingerprint
    reader: ReaderModel | None = None
    dimensions: Callable[[], int] = lambda: 0
    known: bool = True


class Backend(Protocol):
    """A store of collections, as the engine uses Chroma. Names are the names in Chroma."""

    def names(self) -> Mapping[str, str]:
        """Return the name of every collection by its UUID, whoever owns the collection."""

    def rename(self, uuid: str, name: str) -> bool:
        """Rename a collection. Return False if another collection has the name."""

    def evict(self, name: str) -> str:
        """Free a name that another program's collection has: delete that collection if it is empty, else
        rename it.

        Return a phrase for the log: "deleted, since it was empty", or "kept, as" with its new name.
        """

    def open(self, name: ChromaName, model: Model) -> tuple[Index, str]:
        """Return a collection and its UUID; create the collection if it does not exist.

        Raises NeedsHuman if another program wrote it.
        """

    def empty(self, name: ChromaName, most: int) -> bool:
        """Delete at most ``most`` records of a collection, if it exists.

        Return whether more records are left.
        """
        ...

    def delete(self, name: ChromaName) -> None:
        """Delete the collection with its records, if it exists."""

    def delete_empty(self, name: ChromaName) -> None:
        """Delete our collection of this name if it has no records."""

    def reach_problem(self, name: ChromaName) -> str | None:
        """Return why search misses too many of a sample of a collection's records; None if it finds enough of
        them.

        Raises Torn or Gone if the collection cannot be counted, read and searched.
        """

    def trouble(self, name: ChromaName, error: Exception) -> None:
        """Examine the server after a request for a collection failed, and restart the server if it hangs."""


GENERATION, HOME = "ingestor_generation", "ingestor_home"  # keys of a collection's metadata

Verdict = Literal["same", "restored", "elsewhere"]


@dataclass(frozen=True, slots=True)
class Home:
    """The machine and folder of a state. By it a copy of the state is recognised that writes the same
    collection.

    ``machine``: a digest of the machine's id, or "". ``host``: the machine's name, for messages. ``state``:
    the folder of the state. ``chroma``: the data folder of our own Chroma; "" if somebody else runs the
    server.
    """

    machine: str = ""
    host: str = ""
    state: str = ""
    chroma: str = ""

    def __str__(self) -> str:
        return f"{self.state} on {self.host}" if self.host else self.state

    def is_home_of(self, other: "Home") -> bool:
        """Return whether both values are the home of one state, even if the state was moved together with its
        Chroma."""
        # a copy beside the original has the same Chroma; a moved state has the Chroma that moved along
        moved_along = self.chroma != "" and (self.machine, self.chroma) != (other.machine, other.chroma)
        return moved_along or (self.machine, self.state) == (other.machine, other.state)


NOWHERE = Home()


def stamp(generation: str, home: Home) -> dict[str, str]:
    """Return the metadata by which a collection stores a generation and a home."""
    return {GENERATION: generation, HOME: pack(home)}


def pack(home: Home) -> str:
    """Encode a home as JSON, for the metadata of a collection."""
    return json.dumps(asdict(home))


def generation_of(facts: Mapping[str, object]) -> str | None:
    value = facts.get(GENERATION)
    return value if isinstance(value, str) else None


def home_of(facts: Mapping[str, object]) -> Home | None:
    """Return the home that a collection's metadata contains; None if there is none or it is unreadable."""
    try:
        return Home(**json.loads(str(facts.get(HOME))))
    except (ValueError, TypeError):
        return None


def judge(facts: Mapping[str, object], accepted: Collection[str], here: Home) -> Verdict:
    """Return by a collection's metadata whether the journal's records apply to the collection.

    The verdict is "same", "restored" (a backup was restored) or "elsewhere" (another copy of the state wrote
    the collection). ``accepted``: the generations that the journal expects. ``here``: the home of this state.
    A collection without a generation is trusted only if the journal expects none, as after an upgrade.
    """
    generation, home = generation_of(facts), home_of(facts)
    if home is not None and not here.is_home_of(home):
        return "elsewhere"
    if generation is None:
        return "restored" if accepted else "same"
    return "same" if generation in accepted else "restored"
