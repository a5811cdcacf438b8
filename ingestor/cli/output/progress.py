"""Progress of running work: a bar on a terminal, plain lines elsewhere.

It shows one stretch of work, from rest to rest; a daemon's next stretch starts at zero.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

from rich.text import Text

from ingestor.cli.output.console import duration, err, listing_words
from ingestor.core.escape import line
from ingestor.state.run_status import Live
from ingestor.units import counted

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID

EVERY = 5.0  # seconds between two lines


@dataclass(frozen=True, slots=True)
class Stretch:
    """Work from rest to rest. ``texts`` were embedded in ``seconds``; ``left`` are those of read documents.

    ``begun`` documents are being prepared. Of these ``held`` are prepared, and written together with others.
    """

    done: int  # documents
    waiting: int  # documents, those that were begun included
    texts: int
    seconds: float
    listing: str = ""  # progress of long listings; "" if there are none
    held: int = 0
    left: int = 0
    begun: int = 0
    loading: bool = False  # a model, into memory

    @property
    def expected(self) -> float:
        """Return texts of all documents: those of unread ones are estimated from the others."""
        known = self.done + self.begun
        average = (self.texts + self.left) / known if known else 0.0
        return max(self.texts + self.left, average * (self.done + self.waiting))

    @property
    def share(self) -> float:
        """Return how much of the work is done, from 0 to 1."""
        documents = self.done + self.waiting
        if not self.waiting:
            return 1.0
        return self.texts / self.expected if self.texts else self.done / documents

    @property
    def work(self) -> str:
        """Documents and texts that are done of those that are known, the rate, and the time left."""
        parts = [f"{self.done:,} of {counted(self.done + self.waiting, 'document')}"]
        if self.held:
            parts.append(f"{self.held:,} prepared and waiting for the others")
        if self.texts + self.left:
            parts.append(f"{self.texts:,} of {counted(self.texts + self.left, 'text')} embedded")
        if self.loading and not self.texts:
            parts.append("loading the model")
        if self.texts and self.seconds >= 1:
            parts.append(f"{self.texts / self.seconds:.1f}/s")
        if self.waiting and 0 < self.share < 1 and self.seconds >= 1:
            parts.append(f"{duration(self.seconds / self.share - self.seconds)} left")
        return ", ".join(parts)


@dataclass(slots=True)
class Meter:
    """Splits progress into stretches of work, and passes each reading to ``show``."""

    show: Callable[[Stretch], None]
    _rest: Live = field(default_factory=Live)
    _begun: float | None = None  # POSIX seconds

    def __call__(self, live: Live) -> None:
        self._begun = live.at if self._begun is None else self._begun
        done = _done(live) - _done(self._rest)
        self.show(
            Stretch(
                done,
                live.waiting,
                texts=live.texts_stepped - self._rest.texts_stepped,
                seconds=live.at - self._begun,
                listing=_listing(live),
                held=live.held,
                left=live.texts_left,
                begun=sum(live.in_flight.values()),
                loading=live.loading,
            )
        )
        if not live.waiting:
            self._rest, self._begun = live, None


@contextmanager
def shown(quiet: bool) -> Iterator[Callable[[Live], None]]:
    """A bar on a terminal, a line every few seconds elsewhere, nothing if ``quiet``."""
    if quiet:
        yield lambda live: None
    elif err.is_terminal:
        from rich.progress import Progress  # slow to import

        with Progress(*_columns(), console=err, transient=True) as bar:
            yield Meter(Bar(bar))
    else:
        yield Meter(ProgressLines())


@contextmanager
def busy(what: str, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show on a terminal what is being done and how far it is; elsewhere a line every few seconds."""
    if quiet:
        yield lambda how_far: None
    elif err.is_terminal:
        with err.status(Text(what)) as status:
            yield lambda how_far: status.update(Text(f"{what}: {line(how_far)}"))
    else:
        yield RareLines(what)


class RareLines:
    """A line at most every five seconds; the first one after five."""

    def __init__(self, what: str) -> None:
        self._what, self._last = what, monotonic()

    def __call__(self, how_far: str) -> None:
        if monotonic() - self._last >= EVERY:
            self._last = monotonic()
            print(f"{self._what}: {line(how_far)}", file=sys.stderr, flush=True)


class Bar:
    """A bar that is visible only while there is work."""

    def __init__(self, bar: "Progress") -> None:
        self._bar = bar
        self._task = self._begin()

    def __call__(self, stretch: Stretch) -> None:
        if stretch.listing and not stretch.waiting:
            self._bar.update(self._task, description=stretch.listing, total=None, work="")
            self._bar.start()
            return
        if not stretch.waiting:
            self._bar.stop()
            self._bar.remove_task(self._task)
            self._task = self._begin()
            return
        self._bar.update(self._task, description="", completed=stretch.share, total=1.0, work=stretch.work)
        self._bar.start()

    def _begin(self) -> "TaskID":
        return self._bar.add_task("", total=None, work="")


def _columns() -> "tuple[ProgressColumn, ...]":
    from rich.progress import BarColumn, TextColumn

    return (BarColumn(10), TextColumn("{task.description}{task.fields[work]}", markup=False))


class ProgressLines:
    """A line at most every five seconds, and one when the work is done."""

    def __init__(self) -> None:
        self._last = -EVERY
        self._listing = -EVERY  # monotonic seconds: when a listing was last printed

    def __call__(self, stretch: Stretch) -> None:
        if stretch.listing and not stretch.waiting and monotonic() - self._listing >= EVERY:
            self._listing = monotonic()
            print(stretch.listing, file=sys.stderr, flush=True)
        total = stretch.done + stretch.waiting
        if not total or (stretch.waiting and stretch.seconds - self._last < EVERY):
            return
        self._last = stretch.seconds if stretch.waiting else -EVERY
        print(stretch.work, file=sys.stderr, flush=True)


def _listing(live: Live) -> str:
    long = {name: one for name, one in live.listing.items() if live.at - one.since >= EVERY}
    return "; ".join(f"{name} {listing_words(one, live.at)}" for name, one in long.items())


def _done(live: Live) -> int:
    return sum(live.tally.get(kind, 0) for kind in ("added", "changed", "moved", "removed"))
