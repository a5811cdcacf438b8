"""The protocol of a store of collections, and what a collection stores: its embedder, its generation. Pure.

Each collection keeps a generation in its own metadata, with the home of the state that wrote it. Each start
and each batch renews the generation. The journal keeps the generations that the collection may have now. A
collection with another one is older or newer than the journal: one of the two was restored from a backup.
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
    """The embedder as a collection stores it.

    ``reader``: the function that readers load. ``known``: whether the embedder is loaded; only then can the
    stored function be checked.
    """

    recipe: Fingerprint
    reader: ReaderModel | None = None
    dimensions: Callable[[], int] = lambda: 0
    known: bool = True


class Backend(Protocol):
    """A store of collections; names are Chroma's."""

    def names(self) -> Mapping[str, str]:
        """Return the name by UUID of all collections, ours or not."""

    def rename(self, uuid: str, name: str) -> bool:
        """Rename a collection. Return False if the name is taken."""

    def evict(self, name: str) -> str:
        """Free a name: delete the collection that has the name if it is empty, else rename it.

        Return which.
        """

    def open(self, name: ChromaName, model: Model) -> tuple[Index, str]:
        """Return the collection, created if missing, and its UUID. Raises NeedsHuman if it is not ours."""

    def empty(self, name: ChromaName, most: int) -> bool:
        """Delete at most ``most`` records of the collection, if it exists. Return whether others are left."""
        ...

    def delete(self, name: ChromaName) -> None:
        """Delete the collection with its records, if it exists."""

    def look(self, name: ChromaName) -> str | None:
        """Return why search misses too many records of a collection, or None.

        Raises Torn or Gone if the collection cannot be counted, read and searched.
        """

    def trouble(self, name: ChromaName, error: Exception) -> None:
        """React to a failed request; may repair the server."""


GENERATION, HOME = "ingestor_generation", "ingestor_home"  # keys of a collection's metadata

Verdict = Literal["same", "restored", "elsewhere"]


@dataclass(frozen=True, slots=True)
class Home:
    """Place of a state. ``machine``: a digest of the machine's id, or ""; ``host``: its name, for messages.

    ``chroma``: the folder of a Chroma of our own; "" if a server runs elsewhere.
    """

    machine: str = ""
    host: str = ""
    state: str = ""
    chroma: str = ""

    def __str__(self) -> str:
        return f"{self.state} on {self.host}" if self.host else self.state

    def is_home_of(self, other: "Home") -> bool:
        """Return whether both are one state, also after the state was moved together with its Chroma."""
        moved_along = self.chroma != "" and (self.machine, self.chroma) != (other.machine, other.chroma)
        return moved_along or (self.machine, self.state) == (other.machine, other.state)


NOWHERE = Home()


def stamp(generation: str, home: Home) -> dict[str, str]:
    """Return a collection's metadata for a generation and a home."""
    return {GENERATION: generation, HOME: pack(home)}


def pack(home: Home) -> str:
    """Encode a home as a value of metadata."""
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
    """Compare a collection's metadata with the journal. ``accepted``: the generations that the journal knows.

    A collection without a generation is trusted only if the journal knows none, as after an upgrade.
    """
    generation, home = generation_of(facts), home_of(facts)
    if home is not None and not here.is_home_of(home):
        return "elsewhere"
    if generation is None:
        return "restored" if accepted else "same"
    return "same" if generation in accepted else "restored"
