"""Output of commands: tables for people, JSON for programs.

The JSON keys are stable (docs/commands.md); texts for people may change. ``excerpt`` shows texts,
``overview`` a status, and ``progress`` the running work.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ingestor.cli.usage import command
from ingestor.core.escape import line
from ingestor.units import counted

_PACKED = ("before", "after")  # keys of events for the program alone

if TYPE_CHECKING:
    from ingestor.queries.inventory import CollectionInfo
    from ingestor.queries.summary import SyncReport
    from ingestor.queries.verification import Verification
    from ingestor.state.queries.history import Event
    from ingestor.state.queries.reports import Listed as Document
    from ingestor.state.run_status import RunningListing

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

ASIDE = ("quarantined", "unsupported", "failed")
DOCUMENTS = ("added", "changed", "moved", "rebuilt", "recut", "removed", "unchanged", *ASIDE)
RECORDS = ("added", "replaced", "patched", "dropped")
DAMAGES = ("missing", "orphaned", "stale", "wrong_metadata", "unreachable", "words", "settings")
GAP = "   "


def say(value: object, words: str, as_json: bool) -> None:
    print(json.dumps(value) if as_json else words)


def print_table(header: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """Print aligned columns, numbers to the right. Nothing is cut off, however narrow the terminal."""
    cells = [[Text(name, "dim") for name in header]]
    cells += [[Text(line(cell)) if isinstance(cell, str) else cell for cell in row] for row in rows]
    widths = [max(cell_len(row[at].plain) for row in cells) for at in range(len(header))]
    right = [all(_is_number(row[at].plain) for row in cells[1:]) for at in range(len(header))]
    for row in cells:
        shown = Text(GAP).join(_padded(*column) for column in zip(row, widths, right, strict=True))
        shown.rstrip()
        out.print(shown)


def _is_number(text: str) -> bool:
    return text.replace(",", "").isdecimal()


def _padded(cell: Text, width: int, right: bool) -> Text:
    space = " " * (width - cell_len(cell.plain))
    return Text.assemble(space, cell) if right else Text.assemble(cell, space)


def show_sync(result: SyncReport, as_json: bool, config: Path) -> None:
    if as_json:
        print(json.dumps(asdict(result)))
        return
    embedded = result.embedded
    print(f"documents   {counted_kinds(asdict(result.documents))}")
    print(f"records     {counted_kinds(asdict(result.records))}")
    paid = f", cost {embedded.cost:,.4g}" if embedded.cost else ""
    print(f"embedded    {counted(embedded.texts, 'text')}, {counted(embedded.tokens, 'token')}{paid}")
    if (asked := result.asked).calls:
        cost = f", cost {asked.cost:.2f}" if asked.cost else ""
        read = counted(asked.prompt_tokens, "token")
        print(f"LLM calls   {asked.calls:,}, {read} read, {asked.completion_tokens:,} written{cost}")
    print(f"time        {duration(result.seconds)}")
    if result.unsupported:
        print(f"skipped     {_counted_kinds(result.unsupported)}: no parser reads them")
    states = Counter(short.state for short in result.short)
    for state, number in sorted(states.items()):
        print(f"{state:11} {counted(number, 'document')}; why: ingestor status")
    for problem in result.problems:
        complain(f"{problem.source}: {problem.document}", problem.reason)
    paused = dict.fromkeys(result.paused, "paused")
    for source, reason in {**result.unseen, **result.held, **paused}.items():
        complain(f"source {source}", reason)
    for source, documents in result.unconfigured.items():
        complain(f"source {source}", _unconfigured(documents, config))
    for collection, reason in result.waits.items():
        complain(f"collection {collection}", f"waits for apply: {reason}")
    for collection, reason in result.unusable.items():
        complain(f"collection {collection}", reason)


def _unconfigured(documents: Mapping[str, int], config: Path) -> str:
    """Describe the documents of a source that left the config."""
    removed, kept = (counted(documents[kind], "document") for kind in ("removed", "kept"))
    told = [f"{removed} removed"] if documents["removed"] else []
    told += [f"{kept} kept until: {command('apply', config)}"] if documents["kept"] else []
    return f"is no longer in the config; {', '.join(told)}"


def complain(about: str, reason: str) -> None:
    print_wrapped(Text.assemble((line(about), "yellow"), f": {line(reason)}"))


def print_wrapped(text: Text, indent: str = "") -> None:
    """Print text: on a terminal wrapped, further lines indented by four columns; in a file one line."""
    rows = text.wrap(out, max(20, out.width - len(indent) - 4)) if out.is_terminal else [text]
    for number, row in enumerate(rows):
        row.rstrip()
        out.print(Text.assemble(indent, "    " if number else "", row))


def show_verify(report: Verification, as_json: bool, config: Path) -> None:
    if as_json:
        print(json.dumps(asdict(report)))
        return
    if report.aside:
        print(f"Chroma's old folder is kept: {line(report.aside)}; delete it when you no longer need it")
    print(f"{counted(report.checked, 'record')} checked")
    found = {kind: getattr(report, kind) for kind in DAMAGES if getattr(report, kind)}
    if found:
        print_table(("difference", "number"), [(k.replace("_", " "), f"{n:,}") for k, n in found.items()])
    for example in report.examples[:20]:
        print(line(f"  {example}"))
    for name, reason in report.broken.items():
        complain(f"collection {name}", reason)
    for name, reason in report.unseen.items():
        complain(f"source {name}", reason)
    if report.unsettled:
        _print_unsettled(report, config)
    if report.clean:
        out.print(f"[green]Everything is in order{' again' if report.repaired else ''}.[/]")
    elif report.damaged:
        print(f"To repair it: {command('verify --repair', config)}")


def _print_unsettled(report: Verification, config: Path) -> None:
    due = counted(report.unsettled, "document")
    print(f"{due} not in step with the sources; details: {command('status', config)}")
    if report.running:
        print("The running ingestor is updating them.")
    else:
        print(f"To bring them in step: {command('sync', config)}")


def show_collections(found: Sequence[CollectionInfo], as_json: bool) -> None:
    if as_json:
        print(json.dumps([asdict(collection) for collection in found]))
        return
    if not found:
        print("Chroma has no collections yet", file=sys.stderr)
        return
    header = ("collection", "owner", "role", "records", "strategy", "model")
    print_table(header, [_collection_row(collection) for collection in found])
    for collection in found:
        if collection.trouble is not None:
            complain(f"collection {collection.name}", collection.trouble)


def _collection_row(stock: CollectionInfo) -> tuple[str | Text, ...]:
    unused = "" if stock.owner != "this ingestor" or stock.in_config or stock.documents else "unused"
    model = stock.model or (f"{stock.dimensions} dimensions" if stock.dimensions else "")
    records = "?" if stock.records is None else f"{stock.records:,}"
    return (
        stock.name,
        Text(stock.owner, "" if stock.owner == "this ingestor" else "yellow"),
        unused or stock.role or "",
        records,
        ", ".join(stock.strategies),
        model,
    )


def show_documents(
    sources: Sequence[str], documents: Iterator[Document], as_json: bool, *, chosen: bool = False
) -> None:
    """A table is aligned as a whole; else each document is printed as soon as it is read.

    ``chosen``: whether some documents only were asked for.
    """
    if as_json:
        _print_list(map(asdict, documents))
        return
    first = next(documents, None)
    if first is None:
        print("there are no such documents" if chosen else "there are no documents yet", file=sys.stderr)
        return
    documents = chain([first], documents)
    if out.is_terminal:
        print_table(("source", "state", "records", "document"), map(_row, documents))
        return
    width = max(map(len, sources))
    for document in documents:
        name = line(document.document)
        print(f"{document.source:{width}}  {document.state:11}  {document.records:6}  {name}")


def show_history(events: Sequence[Event], as_json: bool) -> None:
    """Print a line for each change: when, what, where and why."""
    if as_json:
        shown = [{key: value for key, value in asdict(one).items() if key not in _PACKED} for one in events]
        print(json.dumps(shown))
        return
    if not events:
        print("nothing changed yet", file=sys.stderr)
    for one in events:
        at = datetime.fromtimestamp(one.at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        name = one.document or (f"collection {one.collection}" if one.collection else "")
        where = ": ".join(filter(None, (one.source, name))) or "the config file"
        why = "" if one.why is None else f" ({'; '.join(map(str.strip, one.why.splitlines()))})"
        print_wrapped(Text(f"{at}  {one.what:11}  {line(where)}{line(why)}"))


def _print_list(values: Iterable[object]) -> None:
    """Print values one by one, in the form that ``json.dumps`` gives the whole list."""
    between = "["
    for value in values:
        print(between, json.dumps(value), sep="", end="")
        between = ", "
    print("[]" if between == "[" else "]")


def _row(document: Document) -> tuple[str | Text, ...]:
    state = Text(document.state, "green" if document.settled else "yellow")
    return document.source, state, f"{document.records:,}", document.document


def counted_kinds(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {kind}" for kind, number in counts.items() if number) or "nothing"


def _counted_kinds(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {kind}" for kind, number in kinds.items())


def listing_words(listing: RunningListing, now: float) -> str:
    """``is being listed for 12 s: 1,204 documents found, the last one a/b.md``."""
    found = f"{counted(listing.seen, 'document')} found" if listing.seen else "nothing found yet"
    last = f", the last one {line(listing.at)}" if listing.at else ""
    return f"is being listed for {duration(max(0.0, now - listing.since))}: {found}{last}"


def duration(seconds: float) -> str:
    """``0.4 s``, ``42 s``, ``12 min``, ``3.5 h``, ``4 days``."""
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172800 else f"{seconds / 86400:.0f} days"
