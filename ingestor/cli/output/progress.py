"""Shows the progress of running work: as a bar on a terminal, elsewhere as log lines.

Progress starts at zero again after the daemon had no work left.
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
RARER = 0.1  # least time between two lines, as a share of the work's duration so far

log = logging.getLogger("ingestor")


@contextmanager
def show_progress(quiet: bool, *, logged: bool = False) -> Iterator[Callable[[SyncProgress], None]]:
    """Yield a function that shows the progress of work.

    On a terminal it updates a bar. Elsewhere, or if ``logged``, it logs lines. If ``quiet``, it does nothing.
    """
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
    """Show that a command is at a step, until the context ends.

    Yield a function that shows how far the step is. ``what``: name of the step. A terminal shows the step at
    once; elsewhere a line is printed every few seconds.
    """
    if quiet:
        yield lambda how_far: None
    elif err.is_terminal:
        with err.status(Text(what)) as status:
            yield lambda how_far: status.update(Text(f"{what}: {line(how_far)}"))
    else:
        last = monotonic()

        def print_rarely(how_far: str) -> None:
            nonlocal last
            if monotonic() - last >= EVERY:
                last = monotonic()
                print(f"{what}: {line(how_far)}", file=sys.stderr, flush=True)

        yield print_rarely


class Bar:
    """Progress bar, which is visible only while there is work."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task: TaskID = bar.add_task("", total=None, work="")

    def __call__(self, progress: SyncProgress) -> None:
        if (listing := _describe_listings(progress)) and not progress.waiting:
            self._bar.update(self._task, description=listing, total=None, work="")
            self._bar.start()
            return
        if not progress.waiting:
            self._bar.stop()
            self._bar.remove_task(self._task)
            self._task = self._bar.add_task("", total=None, work="")
            return
        work = describe_work(progress)
        self._bar.update(self._task, description="", completed=progress.share, total=1.0, work=work)
        self._bar.start()


class ProgressLines:
    """Logs how far work is if it takes more than five seconds, and also logs its end.

    The intervals grow with the duration: ten hours of work give about eighty lines.
    """

    def __init__(self) -> None:
        self._next = EVERY  # seconds of the progress
        self._next_listing = 0.0  # monotonic seconds

    def __call__(self, progress: SyncProgress) -> None:
        listing = _describe_listings(progress)
        if listing and not progress.waiting and monotonic() >= self._next_listing:
            longest = max(progress.at - one.since for one in progress.listing.values())
            self._next_listing = monotonic() + max(EVERY, longest * RARER)
            log.info("source %s", listing, extra=event("progress"))
        if progress.seconds < self._next and (progress.waiting or self._next == EVERY):
            return
        self._next = progress.seconds + max(EVERY, progress.seconds * RARER) if progress.waiting else EVERY
        known = {"documents": progress.done, "pending": progress.waiting, "texts": progress.texts}
        log.info("progress: %s", describe_work(progress), extra=event("progress", **known))


def describe_work(progress: SyncProgress) -> str:
    """Describe progress in words: documents and texts done, the totals, the rate, and the time left."""
    parts = [f"{progress.done:,} of {quantity(progress.done + progress.waiting, 'document')}"]
    if progress.texts + progress.left:
        parts.append(f"{progress.texts:,} of {quantity(progress.texts + progress.left, 'text')} embedded")
    if progress.loading and not progress.texts:
        parts.append("loading the model")
    if progress.rate is not None:
        parts.append(f"{progress.rate:.1f}/s")
    if progress.seconds_left is not None:
        parts.append(f"{duration(progress.seconds_left)} left")
    return ", ".join(parts)


def _describe_listings(progress: SyncProgress) -> str:
    """Describe the listings that have run for some seconds; "" if there are none."""
    long = {name: one for name, one in progress.listing.items() if progress.at - one.since >= EVERY}
    return "; ".join(f"{name} {describe_listing(one, progress.at)}" for name, one in long.items())


def greet(ready: Ready, config: Path) -> None:
    """Print the state of a daemon when it has first finished all work, and commands to try next."""
    names, spent = ", ".join(ready.collections), duration(ready.seconds)
    records = f"{quantity(ready.records, 'record')} in {names}"
    if ready.unusable:
        about = f"\n[bold yellow]Not in step:[/] {', '.join(ready.unusable)} cannot be written"
        err.print(f"{about}; reasons: {command('status', config)}")
    elif ready.listed:
        err.print(f"\n[bold green]In step:[/] {records}, after {spent}.")
    else:
        err.print(f"\n[bold yellow]No source could be listed:[/] {records}, as before the start.")
    if ready.failed:
        failed = quantity(ready.failed, "document")
        err.print(f"[yellow]{failed} failed;[/] reasons: {command('status', config)}")
    if ready.unseen:
        about = f"not fully listed: {', '.join(ready.unseen)}"
        err.print(f"[yellow]{about};[/] reasons: {command('status', config)}")
    if ready.chroma and len(ready.unusable) < len(ready.collections):
        err.print(f"Chroma listens at [bold]{ready.chroma}[/].")
    if ready.page:
        err.print(f"Open in a browser: [bold]{ready.page}/[/]")
    if ready.question:
        name = f" --collection {ready.collections[0]}" if len(ready.collections) > 1 else ""
        err.print("Search from another terminal:\n")
        err.print(
            f"  {command(f'query {quote(ready.question)}{name}', config)}\n", style="cyan", markup=False
        )
    elif not (ready.records or ready.unseen or ready.unusable):
        err.print("No documents to index yet: new documents are indexed as they appear.")
    err.print("Watching for changes; Ctrl-C ends it.\n")


def print_stopping() -> None:
    """Print that the daemon is stopping, and finishes running writes before."""
    err.print("\nStopping; running writes are finished first.")
