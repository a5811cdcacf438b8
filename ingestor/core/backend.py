"""The protocol of a store of collections, and what a collection stores of its embedder. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ingestor.core.entries import ChromaName
from ingestor.model import Fingerprint, ReaderModel
from ingestor.ports import Index


@dataclass(frozen=True, slots=True)
class Model:
    """The embedder as a collection stores it.

    ``reader``: the function that readers load. ``known``: whether the embedder is there, so that the stored
    function can be judged.
    """

    recipe: Fingerprint
    reader: ReaderModel | None = None
    dimensions: Callable[[], int] = lambda: 0
    known: bool = True


class Backend(Protocol):
    """A store of collections; names are Chroma's."""

    def names(self) -> Mapping[str, str]:
        """Return the name by UUID of all collections, ours or not."""
        ...

    def rename(self, uuid: str, name: str) -> bool:
        """Return False if the name is taken."""
        ...

    def evict(self, name: str) -> str:
        """Free a name: delete the collection that has it if empty, else rename it. Return which."""
        ...

    def open(self, name: ChromaName, model: Model) -> tuple[Index, str]:
        """Return the collection, created if missing, and its UUID. Raises NeedsHuman if it is not ours."""
        ...

    def empty(self, name: ChromaName, most: int) -> bool:
        """Delete at most ``most`` records of the collection, if it exists. Return whether others are left."""
        ...

    def delete(self, name: ChromaName) -> None:
        """Delete the collection with its records, if it exists."""
        ...

    def look(self, name: ChromaName) -> str | None:
        """Return why search misses too many of its records, or None.

        Raises Torn or Gone if it cannot be counted, read and searched.
        """
        ...

    def trouble(self, name: ChromaName, error: Exception) -> None:
        """Called after a failed request; may repair the server."""
        ...
