"""Shows progress of running work, as a bar on a terminal or as log lines, and a message at its end.

A stretch of work lasts from rest to rest; a daemon's next stretch starts at zero.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from rich.text import Text

from ingestor.cli.output.console import describe_listing, duration, err
from ingestor.cli.usage import command, quote
from ingestor.core.escape import line
from ingestor.core.events import event
from ingestor.state.run_status import SyncProgress
from ingestor.units import quantity

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from ingestor.project import Ready


EVERY = 5.0  # least seconds between two lines
RARER = 0.1  # least time between two lines, as a share of the work's duration

log = logging.getLogger("ingestor")


@contextmanager
def show_progress(quiet: bool, *, logged: bool = False) -> Iterator[Callable[[SyncProgress], None]]:
    """Show a bar on a terminal, log lines elsewhere or if ``logged``, nothing if ``quiet``."""
    if quiet:
        yield lambda progress: None
    elif err.is_terminal and not logged:
        from rich.progress import BarColumn, Progress, TextColumn  # slow to import

        text = TextColumn("{task.description}{task.fields[work]}", markup=False)
        with Progress(BarColumn(10), text, console=err, transient=True) as bar:
            yield Bar(bar)
    else:
        yield ProgressLines()


@contextmanager
def busy(what: str, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show a step and its progress on a terminal; print a line every few seconds elsewhere."""
    if quiet:
        yield lambda how_far: None
    elif err.is_terminal:
        with err.status(Text(what)) as status:
            yield lambda how_far: status.update(Text(f"{what}: {line(how_far)}"))
    else:
        yield RareLines(what)


class RareLines:
    """Prints a line at most every five seconds; the first after five seconds."""

    def __init__(self, what: str) -> None:
        self._what, self._last = what, monotonic()

    def __call__(self, how_far: str) -> None:
        if monotonic() - self._last >= EVERY:
            self._last = monotonic()
            print(f"{self._what}: {line(how_far)}", file=sys.stderr, flush=True)


class Bar:
    """A bar that is visible only while there is work."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task: TaskID = bar.add_task("", total=None, work="")

    def __call__(self, stretch: SyncProgress) -> None:
        if (listing := _describe_listings(stretch)) and not stretch.waiting:
            self._bar.update(self._task, description=listing, total=None, work="")
            self._bar.start()
            return
        if not stretch.waiting:
            self._bar.stop()
            self._bar.remove_task(self._task)
            self._task = self._bar.add_task("", total=None, work="")
            return
        self._bar.update(
            self._task, description="", completed=stretch.share, total=1.0, work=work_words(stretch)
        )
        self._bar.start()


class ProgressLines:
    """Log lines about work of more than five seconds, and one at its end.

    Lines get rarer as the work takes longer: ten hours give some eighty lines.
    """

    def __init__(self) -> None:
        self._next = EVERY  # seconds of the stretch
        self._next_listing = 0.0  # monotonic seconds

    def __call__(self, stretch: SyncProgress) -> None:
        listing = _describe_listings(stretch)
        if listing and not stretch.waiting and monotonic() >= self._next_listing:
            longest = max(stretch.at - one.since for one in stretch.listing.values())
            self._next_listing = monotonic() + max(EVERY, longest * RARER)
            log.info("source %s", listing, extra=event("progress"))
        if stretch.seconds < self._next and (stretch.waiting or self._next == EVERY):
            return
        self._next = stretch.seconds + max(EVERY, stretch.seconds * RARER) if stretch.waiting else EVERY
        known = {"documents": stretch.done, "pending": stretch.waiting, "texts": stretch.texts}
        log.info("progress: %s", work_words(stretch), extra=event("progress", **known))


def work_words(stretch: SyncProgress) -> str:
    """Return the documents and texts done, of how many, the rate, and the time left."""
    parts = [f"{stretch.done:,} of {quantity(stretch.done + stretch.waiting, 'document')}"]
    if stretch.texts + stretch.left:
        parts.append(f"{stretch.texts:,} of {quantity(stretch.texts + stretch.left, 'text')} embedded")
    if stretch.loading and not stretch.texts:
        parts.append("loading the model")
    if stretch.rate is not None:
        parts.append(f"{stretch.rate:.1f}/s")
    if stretch.seconds_left is not None:
        parts.append(f"{duration(stretch.seconds_left)} left")
    return ", ".join(parts)


def _describe_listings(stretch: SyncProgress) -> str:
    """Return the progress of long listings; "" if there are none."""
    long = {name: one for name, one in stretch.listing.items() if stretch.at - one.since >= EVERY}
    return "; ".join(f"{name} {describe_listing(one, stretch.at)}" for name, one in long.items())


def greet(ready: Ready, config: Path) -> None:
    """Print the state of a daemon at its first rest, and the next command to try."""
    names, spent = ", ".join(ready.collections), duration(ready.seconds)
    err.print(f"\n[bold green]In step:[/] {quantity(ready.records, 'record')} in {names}, after {spent}.")
    if ready.failed:
        failed = quantity(ready.failed, "document")
        err.print(f"[yellow]{failed} failed;[/] what and why: {command('status', config)}")
    if ready.unseen:
        about = f"not fully listed: {', '.join(ready.unseen)}"
        err.print(f"[yellow]{about};[/] why: {command('status', config)}")
    if ready.chroma:
        err.print(f"Chroma listens at [bold]{ready.chroma}[/].")
    if ready.page:
        err.print(f"Open in a browser: [bold]{ready.page}/[/]")
    if ready.question:
        name = f" --collection {ready.collections[0]}" if len(ready.collections) > 1 else ""
        err.print("Search from another terminal:\n")
        err.print(
            f"  {command(f'query {quote(ready.question)}{name}', config)}\n", style="cyan", markup=False
        )
    elif not ready.records:
        err.print("No documents to index yet: new documents are indexed as they appear.")
    err.print("Watching for changes; Ctrl-C ends it.\n")


def say_goodbye() -> None:
    err.print("\nStopping; running writes are finished first.")
