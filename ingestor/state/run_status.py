"""Small files in the state folder for other processes: the progress of a running program, results of checks.

They are for display only; the journal decides. Only the lock tells whether a program runs.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ingestor.core.fingerprint import text_digest
from ingestor.model import Item
from ingestor.state.files import read_own, write_own


@dataclass(slots=True)
class RunningListing:
    """A running listing of a source, written by its worker and read by any thread.

    ``since``: POSIX seconds; ``at``: key of the last item.
    """

    since: float
    seen: int = 0  # items so far
    at: str = ""

    def note(self, item: Item) -> None:
        self.seen, self.at = self.seen + 1, item.key


@dataclass(frozen=True, slots=True)
class Live:
    """Progress; times are POSIX seconds."""

    started: float = 0.0
    at: float = 0.0
    pid: int = 0
    in_flight: dict[str, int] = field(default_factory=dict)  # documents by source
    waiting: int = 0  # documents due or in flight
    bytes_waiting: int = 0  # of these documents, as they are listed
    bytes_in_flight: int = 0
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
    """Return the last written status; an empty one if the file is missing or damaged."""
    try:
        stored = json.loads(read_own(state / "live.json"))
        listing = {name: RunningListing(**one) for name, one in stored.pop("listing", {}).items()}
        return Live(**stored, listing=listing)
    except (OSError, ValueError, TypeError, AttributeError):
        return Live()


@dataclass(frozen=True, slots=True)
class SyncProgress:
    """Progress of work from rest to rest.

    ``texts`` were embedded in ``seconds``; ``left`` are those of documents that were read.

    ``begun`` documents are being prepared.
    """

    done: int = 0  # documents
    waiting: int = 0  # documents, those that were begun included
    texts: int = 0
    seconds: float = 0.0
    listing: Mapping[str, RunningListing] = field(default_factory=dict)  # by source
    left: int = 0
    begun: int = 0
    loading: bool = False  # a model, into memory
    at: float = 0.0  # POSIX seconds
    records: int = 0  # added
    bytes_known: int = 0  # of documents done, begun and waiting, as they are listed
    bytes_read: int = 0  # of documents done and begun
    loaded: float = 0.0  # seconds of ``seconds`` before the model could embed

    @property
    def texts_expected(self) -> float:
        """Return texts of all documents: those of unread ones are estimated from the others.

        Listed bytes decide, since large documents are read last, or numbers if no size is listed.
        """
        read, known = self.bytes_read, self.bytes_known
        if not read:
            read, known = self.done + self.begun, self.done + self.waiting
        return (self.texts + self.left) * max(1.0, known / read if read else 1.0)

    @property
    def share(self) -> float:
        """Return how much is done, from 0 to 1: of texts, or of documents where no text waits."""
        if not self.waiting:
            return 1.0
        documents = self.done / (self.done + self.waiting)
        embedded = self.texts / self.texts_expected if self.texts else documents
        return min(embedded, documents) if self.done and not self.left else embedded

    @property
    def rate(self) -> float | None:
        """Return texts embedded a second; None while that is unknown, or no text waits."""
        waits, worked = self.left or not self.waiting, self.seconds - self.loaded
        return self.texts / worked if self.texts and waits and worked >= 1 else None

    @property
    def seconds_left(self) -> float | None:
        worked = self.seconds - self.loaded
        if self.waiting and 0 < self.share < 1 and worked >= 1:
            return worked / self.share - worked
        return None


@dataclass(slots=True)
class Meter:
    """Splits progress into stretches of work, and passes each reading to ``show``."""

    show: Callable[[SyncProgress], None]
    _rest: Live = field(default_factory=Live)
    _begun: float | None = None  # POSIX seconds
    _bytes: int = 0  # most that waited at once
    _loaded: float = 0.0  # POSIX seconds of the last reading before the model could embed

    def __call__(self, live: Live) -> None:
        self._begun = live.at if self._begun is None else self._begun
        self._bytes = max(self._bytes, live.bytes_waiting)
        texts = live.texts_stepped - self._rest.texts_stepped
        self._loaded = live.at if live.loading and not texts else max(self._loaded, self._begun)
        self.show(
            SyncProgress(
                _count_done(live) - _count_done(self._rest),
                live.waiting,
                texts=texts,
                seconds=live.at - self._begun,
                listing=live.listing,
                left=live.texts_left,
                begun=sum(live.in_flight.values()),
                loading=live.loading,
                at=live.at,
                records=live.tally.get("records_added", 0) - self._rest.tally.get("records_added", 0),
                bytes_known=self._bytes,
                bytes_read=self._bytes - max(0, live.bytes_waiting - live.bytes_in_flight),
                loaded=self._loaded - self._begun,
            )
        )
        if not live.waiting:
            self._rest, self._begun, self._bytes = live, None, 0


def _count_done(live: Live) -> int:
    return sum(live.tally.get(kind, 0) for kind in ("added", "changed", "moved", "rebuilt", "removed"))


CHECK_PREFIX = "check-"  # of the files' names


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The last result of an ``evaluate --check``, known by its collection and the file of its questions.

    ``recall`` and ``fell``: from 0 to 1; ``at``: POSIX seconds.
    """

    collection: str
    questions: str
    recall: float
    fell: float
    passed: bool
    at: float


def write_check(state: Path, result: CheckResult) -> None:
    """Store a result atomically, in place of an earlier one of the same check. Raises OSError."""
    name = f"{CHECK_PREFIX}{text_digest(json.dumps([result.collection, result.questions]))[:16]}.json"
    write_own(state / name, json.dumps(asdict(result)))


def read_checks(state: Path) -> list[CheckResult]:
    """Return the results of all checks, skipping damaged files."""
    checks = list[CheckResult]()
    for file in state.glob(f"{CHECK_PREFIX}*.json"):
        with suppress(OSError, ValueError, TypeError, KeyError):
            row = json.loads(read_own(file))
            check = CheckResult(
                str(row["collection"]), str(row["questions"]), float(row["recall"]), float(row["fell"]),
                bool(row["passed"]), float(row["at"]),
            )  # fmt: skip
            checks.append(check)
    return sorted(checks, key=lambda each: (each.collection, each.questions))
