"""The message when everything is indexed, with a question to try that has an answer."""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from ingestor.chroma.backend import Collections
from ingestor.cli.invocation import command, quoted
from ingestor.cli.output.console import duration, err
from ingestor.core.entries import Edition
from ingestor.core.escape import line
from ingestor.ports import Gone, NeedsHuman, Torn, Transient
from ingestor.state.run_status import Live
from ingestor.units import counted

LOOKED_AT = 300  # records whose headings are candidates
LONGEST = 60  # characters of it


def greet(
    live: Live,
    collections: Sequence[str],
    records: int,
    failed: int,
    question: str | None,
    config: Path,
    unseen: Sequence[str] = (),
    page: str | None = None,
) -> None:
    """Print the message.

    ``live``: the progress at the first rest. ``failed``: number of documents that failed. ``unseen``: sources
    that are held or paused, or could not be listed whole. ``page``: the address for people.
    """
    spent = duration(live.at - live.started)
    err.print(
        f"\n[bold green]In step:[/] {counted(records, 'record')} in {', '.join(collections)}, after {spent}."
    )
    if failed:
        err.print(
            f"[yellow]{counted(failed, 'document')} failed;[/] what and why: {command('status', config)}"
        )
    if unseen:
        about = f"not fully listed: {', '.join(unseen)}"
        err.print(f"[yellow]{about};[/] why: {command('status', config)}")
    if live.chroma:
        err.print(f"Chroma listens at [bold]{live.chroma}[/].")
    if page:
        err.print(f"Open in a browser: [bold]{page}/[/]")
    if question:
        name = f" --collection {collections[0]}" if len(collections) > 1 else ""
        err.print("Search from another terminal:\n")
        err.print(f"  {command(f'query {quoted(question)}{name}', config)}\n", style="cyan", markup=False)
    elif not records:
        err.print("No documents to index yet: new documents are indexed as they appear.")
    err.print("Watching for changes; Ctrl-C ends it.\n")


def say_goodbye() -> None:
    err.print("\nStopping; running writes are finished first.")


def question(collections: Collections, edition: Edition) -> str | None:
    """A heading that is a question, else any heading; None if there is none."""
    with suppress(Transient, Gone, Torn, NeedsHuman):
        index = collections.edition(edition)
        if index is not None:
            records = index.read(list(islice(index.ids(), LOOKED_AT)))
            found = [r.metadata.get("section_title") or r.metadata.get("title") for r in records]
            return _best(line(str(title)) for title in found if title)
    return None


def _best(titles: Iterable[str]) -> str | None:
    """The longest candidate, questions first, without section numbers."""
    plain = {re.sub(r"^[\d.]+\s+", "", title) for title in titles}
    fitting = sorted(title for title in plain if title and len(title) <= LONGEST)
    return max(fitting, key=lambda title: (title.endswith("?"), ". " not in title, len(title)), default=None)
