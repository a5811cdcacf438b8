"""The protocol of what holds collections, and what a collection must know of its embedder. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ingestor.model import CollectionName, Fingerprint, ReaderModel
from ingestor.ports import Index


class Registrar(Protocol):
    """Who may rename collections."""

    def names(self) -> Mapping[str, str]:
        """Name by UUID of all collections, whoever's they are."""
        ...

    def rename(self, uuid: str, name: str) -> bool:
        """False if something else bears that name."""
        ...

    def evict(self, name: str) -> str:
        """Free a name that is not ours: what bears it is deleted if empty, else renamed. Returns which."""
        ...


@dataclass(frozen=True, slots=True)
class Model:
    """What a collection must know of the embedder that fills it. ``reader``: what readers load."""

    recipe: Fingerprint
    reader: ReaderModel | None = None
    dimensions: Callable[[], int] = lambda: 0


class Backend(Registrar, Protocol):
    """Where collections live; their names here are Chroma's."""

    def open(self, name: CollectionName, model: Model) -> tuple[Index, str]:
        """The collection, made if need be, and its UUID. NeedsHuman if it is someone else's."""
        ...

    def delete(self, name: CollectionName) -> None:
        """With all that is in it; harmless if there is none."""
        ...

    def look(self, name: CollectionName) -> str | None:
        """Why a search misses too many of its records, or None.

        Raises Torn or Gone where what is in it can't be counted, read and searched.
        """
        ...

    def trouble(self, name: CollectionName, error: Exception) -> None:
        """Is told of requests that failed for now; may mend what it can, or call the collection torn."""
        ...
