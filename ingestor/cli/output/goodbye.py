"""The message when everything is indexed, with a question to try that has an answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ingestor.cli.invocation import command, quoted
from ingestor.cli.output.console import duration, err
from ingestor.units import counted

if TYPE_CHECKING:
    from ingestor.project import Ready


def greet(found: Ready, config: Path) -> None:
    """Print the message."""
    names, spent = ", ".join(found.collections), duration(found.seconds)
    err.print(f"\n[bold green]In step:[/] {counted(found.records, 'record')} in {names}, after {spent}.")
    if found.failed:
        failed = counted(found.failed, "document")
        err.print(f"[yellow]{failed} failed;[/] what and why: {command('status', config)}")
    if found.unseen:
        about = f"not fully listed: {', '.join(found.unseen)}"
        err.print(f"[yellow]{about};[/] why: {command('status', config)}")
    if found.chroma:
        err.print(f"Chroma listens at [bold]{found.chroma}[/].")
    if found.page:
        err.print(f"Open in a browser: [bold]{found.page}/[/]")
    if found.question:
        name = f" --collection {found.collections[0]}" if len(found.collections) > 1 else ""
        err.print("Search from another terminal:\n")
        err.print(
            f"  {command(f'query {quoted(found.question)}{name}', config)}\n", style="cyan", markup=False
        )
    elif not found.records:
        err.print("No documents to index yet: new documents are indexed as they appear.")
    err.print("Watching for changes; Ctrl-C ends it.\n")


def say_goodbye() -> None:
    err.print("\nStopping; running writes are finished first.")
