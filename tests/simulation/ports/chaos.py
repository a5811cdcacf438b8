"""What strikes the simulated world: deaths of the process, and errors of every kind."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from ingestor.ports import Transient

LONGEST_OUTAGE = 12  # requests


class Crash(BaseException):
    """The process died here."""


@dataclass
class Chaos:
    """Decides at every point whether the process dies or an error strikes, and counts."""

    random: Random
    crash_rate: float = 0.0
    error_rate: float = 0.0
    crashes: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    outages: float = 0.0  # how likely a request to Chroma is the first of some that it does not answer
    away: int = 0  # requests that it does not answer: it comes back between any two
    outage: Random = field(default_factory=lambda: Random(0))

    read_rate: float = 0.0
    reads: Random = field(default_factory=lambda: Random(0))
    reading: bool = False  # the program reads the journal, not those who hold it to laws

    died: str = ""  # where the process died in another thread than the program's own
    turn: int = 0  # documents that workers took up: what befalls a text is drawn anew for each
    fates: dict[object, Exception | Crash | None] = field(default_factory=dict)

    beside: Callable[[str], None] = lambda name: None
    asked: Callable[[], None] = lambda: None  # readers ask before and after every write of Chroma

    def pause(self, name: str) -> None:
        """In a listing that goes on in steps: all others act now. Elsewhere nothing."""
        self.beside(name)

    def point(self, name: str, share: float = 1.0) -> None:
        if self.random.random() < self.crash_rate * share:
            self.crashes[name] += 1
            raise Crash(name)

    def fault(self, name: str, share: float = 1.0) -> None:
        """Half of the errors are of a kind that no port names."""
        if self.random.random() < self.error_rate * share:
            self.faults[name] += 1
            error = self.random.choice((Transient, RuntimeError))
            raise error(f"injected at {name}")

    def fate(self, name: str, of: object) -> None:
        """As ``point`` and ``fault``, but the same for whoever asks again in this turn: in other threads the
        number of attempts is left to chance."""
        if of not in self.fates:
            self.fates[of] = None
            try:
                self.point(name)
                self.fault(name)
            except Crash as crash:
                self.died, self.fates[of] = name, crash
            except Exception as error:  # noqa: BLE001 - whatever was injected
                self.fates[of] = error
        if (error := self.fates[of]) is not None:
            raise error

    def remembers(self, of: str) -> bool:
        """Whether a cache has it still, in this turn."""
        return self.turn % 2 == 0 or int(of[:8], 16) % 2 == 0

    def take_turn(self) -> None:
        self.turn += 1
        self.fates.clear()

    def die(self) -> None:
        """In the program's own thread."""
        died, self.died = self.died, ""
        if died:
            raise Crash(died)

    def request(self, name: str) -> None:
        """As ``fault``, of a request to Chroma, which at times is away for a while."""
        if self.error_rate and not self.away and self.outages and self.outage.random() < self.outages:
            self.away = self.outage.randrange(1, LONGEST_OUTAGE)
        if self.away:
            self.away -= 1
            self.faults["away"] += 1
            raise Transient(f"Chroma is away: injected at {name}")
        self.fault(name)

    def strike(self, point: str, request: str | None = None) -> None:
        """Let the process die, or a request to Chroma fail."""
        self.point(point)
        self.request(request or point)

    def full(self) -> None:
        if self.random.random() < self.error_rate / 4:
            self.faults["full disk"] += 1
            raise sqlite3.OperationalError("database or disk is full")

    def unreadable(self) -> None:
        if self.reading and self.reads.random() < self.read_rate:
            self.faults["journal read"] += 1
            raise sqlite3.OperationalError("disk I/O error")

    @contextmanager
    def failing_reads(self) -> Iterator[None]:
        self.reading = True
        try:
            yield
        finally:
            self.reading = False
