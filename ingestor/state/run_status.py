"""The progress of a running program, for other processes: a small file in the state folder.

It is for display only; the journal decides. Only the lock tells whether a program runs.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ingestor.state.file_permissions import read_own, write_own


@dataclass(frozen=True, slots=True)
class RunningListing:
    """A running listing of a source. ``since``: POSIX seconds; ``at``: key of the last item."""

    since: float
    seen: int  # items so far
    at: str


@dataclass(frozen=True, slots=True)
class Live:
    """Progress; times are POSIX seconds."""

    started: float = 0.0
    at: float = 0.0
    pid: int = 0
    in_flight: dict[str, int] = field(default_factory=dict)  # documents by source
    waiting: int = 0  # documents due or in flight
    tally: dict[str, int] = field(default_factory=dict)
    texts: int = 0  # embedded since the start, without cached ones
    texts_stepped: int = 0  # texts, those of the round under way included
    texts_left: int = 0  # of documents that were read: not embedded yet
    loading: bool = False  # a model, into memory
    tokens: int = 0
    embedding_seconds: float = 0.0
    embedding_cost: float = 0.0  # where the config has a price
    chroma: str = ""  # the address at which it listens
    listing: dict[str, RunningListing] = field(default_factory=dict)  # by source
    no_service: str = ""  # why there is no service port although the config wants one
    guard: str = ""  # how Chroma's port is guarded; "" where no server of ours runs
    config_error: str = ""  # why a changed config file was refused
    restart_pending: bool = False  # the config file takes effect at a restart
    state_error: str = ""  # why the state folder cannot be written
    unwritable: dict[str, str] = field(default_factory=dict)  # collections whose writes fail, with the reason
    isolation: str = ""  # how parsers are confined; "" before the first was started


def write(state: Path, live: Live) -> None:
    """Replace the file atomically. Raises OSError."""
    write_own(state / "live.json", json.dumps(asdict(live)))


def read(state: Path) -> Live:
    """The last written status; an empty one if the file is missing or damaged."""
    try:
        said = json.loads(read_own(state / "live.json"))
        listing = {name: RunningListing(**one) for name, one in said.pop("listing", {}).items()}
        return Live(**said, listing=listing)
    except (OSError, ValueError, TypeError, AttributeError):
        return Live()
