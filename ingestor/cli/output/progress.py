"""Progress of running work: a bar on a terminal, plain lines elsewhere.

It shows one stretch of work, from rest to rest; a daemon's next stretch starts at zero.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from rich.text import Text

from ingestor.cli.output.console import duration, err, listing_words
from ingestor.core.escape import line
from ingestor.state.run_status import SyncProgress
from ingestor.units import counted

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID

EVERY = 5.0  # seconds between two lines


@contextmanager
def shown(quiet: bool) -> Iterator[Callable[[SyncProgress], None]]:
    """A bar on a terminal, a line every few seconds elsewhere, nothing if ``quiet``."""
    if quiet:
        yield lambda progress: None
    elif err.is_terminal:
        from rich.progress import Progress  # slow to import

        with Progress(*_columns(), console=err, transient=True) as bar:
            yield Bar(bar)
    else:
        yield ProgressLines()


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

    def __call__(self, stretch: SyncProgress) -> None:
        if (listing := _listing(stretch)) and not stretch.waiting:
            self._bar.update(self._task, description=listing, total=None, work="")
            self._bar.start()
            return
        if not stretch.waiting:
            self._bar.stop()
            self._bar.remove_task(self._task)
            self._task = self._begin()
            return
        self._bar.update(
            self._task, description="", completed=stretch.share, total=1.0, work=work_words(stretch)
        )
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

    def __call__(self, stretch: SyncProgress) -> None:
        listing = _listing(stretch)
        if listing and not stretch.waiting and monotonic() - self._listing >= EVERY:
            self._listing = monotonic()
            print(listing, file=sys.stderr, flush=True)
        total = stretch.done + stretch.waiting
        if not total or (stretch.waiting and stretch.seconds - self._last < EVERY):
            return
        self._last = stretch.seconds if stretch.waiting else -EVERY
        print(work_words(stretch), file=sys.stderr, flush=True)


def work_words(stretch: SyncProgress) -> str:
    """Documents and texts that are done of those that are known, the rate, and the time left."""
    parts = [f"{stretch.done:,} of {counted(stretch.done + stretch.waiting, 'document')}"]
    if stretch.texts + stretch.left:
        parts.append(f"{stretch.texts:,} of {counted(stretch.texts + stretch.left, 'text')} embedded")
    if stretch.loading and not stretch.texts:
        parts.append("loading the model")
    if stretch.rate is not None:
        parts.append(f"{stretch.rate:.1f}/s")
    if stretch.seconds_left is not None:
        parts.append(f"{duration(stretch.seconds_left)} left")
    return ", ".join(parts)


def _listing(stretch: SyncProgress) -> str:
    """Progress of long listings; "" if there are none."""
    long = {name: one for name, one in stretch.listing.items() if stretch.at - one.since >= EVERY}
    return "; ".join(f"{name} {listing_words(one, stretch.at)}" for name, one in long.items())
