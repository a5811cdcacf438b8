"""The protocol of Chroma as a store of collections, and the properties that a collection stores. Pure.

Each collection stores a generation (a random token) in its own metadata, with the home of the state that
wrote it. Each start and each batch gives the collection a new generation. The journal stores the generations
that the collection may have now. If a collection has another one, a backup of Chroma or of the journal was
restored.
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

    ``reader``: the function by which Chroma's clients embed questions. ``dimensions``: called only if the
    collection must be created. ``known``: whether the embedder is loaded; only then is ``reader`` compared.
    """

    recipe: Fingerprint
    reader: ReaderModel | None = None
    dimensions: Callable[[], int] = lambda: 0
    known: bool = True


class Backend(Protocol):
    """A store of collections. Names are those in Chroma."""

    def names(self) -> Mapping[str, str]:
        """Return the names of all collections by UUID, ours or not."""

    def rename(self, uuid: str, name: str) -> bool:
        """Rename a collection. Return False if another collection has the name."""

    def evict(self, name: str) -> str:
        """Free a name: delete its collection if that is empty, else rename it.

        Return a phrase for the log: "deleted, for it was empty", or "kept, as" with its new name.
        """

    def open(self, name: ChromaName, model: Model) -> tuple[Index, str]:
        """Return the collection, created if missing, and its UUID. Raises NeedsHuman if it is not ours."""

    def empty(self, name: ChromaName, most: int) -> bool:
        """Delete at most ``most`` records of the collection, if it exists. Return whether others are left."""
        ...

    def delete(self, name: ChromaName) -> None:
        """Delete the collection with its records, if it exists."""

    def reach_problem(self, name: ChromaName) -> str | None:
        """Return why search misses too many records of a collection, by a sample, or None.

        Raises Torn or Gone if the collection cannot be counted, read and searched.
        """

    def trouble(self, name: ChromaName, error: Exception) -> None:
        """Examine the server after a failed request, and restart it if it hangs."""


GENERATION, HOME = "ingestor_generation", "ingestor_home"  # keys of a collection's metadata

Verdict = Literal["same", "restored", "elsewhere"]


@dataclass(frozen=True, slots=True)
class Home:
    """Where a state is. By it a copy of the state is recognised that writes the same collection.

    ``machine``: a digest of the machine's id, or "". ``host``: the machine's name, for messages. ``state``:
    the folder of the state. ``chroma``: the folder of a Chroma of our own; "" if others run the server.
    """

    machine: str = ""
    host: str = ""
    state: str = ""
    chroma: str = ""

    def __str__(self) -> str:
        return f"{self.state} on {self.host}" if self.host else self.state

    def is_home_of(self, other: "Home") -> bool:
        """Return whether both are one state, also after the state was moved together with its Chroma."""
        # a copy beside the original has the same Chroma; a moved state has the Chroma that moved along
        moved_along = self.chroma != "" and (self.machine, self.chroma) != (other.machine, other.chroma)
        return moved_along or (self.machine, self.state) == (other.machine, other.state)


NOWHERE = Home()


def stamp(generation: str, home: Home) -> dict[str, str]:
    """Return a collection's metadata for a generation and a home."""
    return {GENERATION: generation, HOME: pack(home)}


def pack(home: Home) -> str:
    """Encode a home as JSON, for a collection's metadata."""
    return json.dumps(asdict(home))


def generation_of(facts: Mapping[str, object]) -> str | None:
    value = facts.get(GENERATION)
    return value if isinstance(value, str) else None


def home_of(facts: Mapping[str, object]) -> Home | None:
    """Return the home in a collection's metadata; None if missing or unreadable."""
    try:
        return Home(**json.loads(str(facts.get(HOME))))
    except (ValueError, TypeError):
        return None


def judge(facts: Mapping[str, object], accepted: Collection[str], here: Home) -> Verdict:
    """Judge by a collection's metadata whether the journal's records apply to the collection.

    ``accepted``: the generations that the journal expects. ``here``: the home of this state. A collection
    without a generation is trusted only if the journal expects none, as after an upgrade.
    """
    generation, home = generation_of(facts), home_of(facts)
    if home is not None and not here.is_home_of(home):
        return "elsewhere"
    if generation is None:
        return "restored" if accepted else "same"
    return "same" if generation in accepted else "restored"
