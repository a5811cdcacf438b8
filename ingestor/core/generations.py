"""The properties that a collection in Chroma stores: its embedder, its generation and its home. Pure.

Each collection stores a generation (a random token) in its own metadata, with the home of the state that
wrote it. Each start of the program and each batch gives the collection a new generation. The journal stores
which generations the collection may have now. If the collection has a different one, a backup of Chroma or of
the journal was restored.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from ingestor.model import Fingerprint, ReaderModel


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
