"""Output of commands: tables and sentences for people, JSON for programs.

The JSON keys are stable (docs/commands.md); texts for people may change. Other modules of this folder print
search results, statuses, plans, evaluations and progress.
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
from ingestor.units import quantity

if TYPE_CHECKING:
    from ingestor.queries.inventory import CollectionInfo
    from ingestor.queries.status import SyncReport
    from ingestor.queries.verification import Verification
    from ingestor.state.reports import Event
    from ingestor.state.reports import Listed as Document
    from ingestor.state.run_status import RunningListing

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

UNREAD_KINDS = ("quarantined", "unsupported", "failed")
DOCUMENTS = ("added", "changed", "moved", "rebuilt", "recut", "removed", "unchanged", *UNREAD_KINDS)

DAMAGES = ("missing", "orphaned", "stale", "wrong_metadata", "unreachable", "words", "settings")
GAP = "   "


def print_answer(value: object, words: str, as_json: bool) -> None:
    """Print the result of a command: for people ``words``, for programs ``value`` as JSON."""
    print(json.dumps(value) if as_json else words)


def print_table(
    header: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    figures: bool = False,
    highlighted: int | None = None,
) -> None:
    """Print a table with aligned columns. Cells are never truncated, however narrow the terminal is.

    Columns of whole numbers are aligned to the right. ``figures``: whether to align all columns but the first
    to the right. ``highlighted``: number of the row to print in bold, from 0.
    """
    cells = [[Text(name, "dim") for name in header]]
    cells += [[Text(line(cell)) if isinstance(cell, str) else cell for cell in row] for row in rows]
    widths = [max(cell_len(row[at].plain) for row in cells) for at in range(len(header))]
    columns = [[row[at].plain.replace(",", "") for row in cells[1:]] for at in range(len(header))]
    to_the_right = [
        (figures and at > 0) or all(cell.isdecimal() for cell in column) for at, column in enumerate(columns)
    ]
    for number, row in enumerate(cells):
        padded = []
        for cell, width, right in zip(row, widths, to_the_right, strict=True):
            space = " " * (width - cell_len(cell.plain))
            padded.append(Text.assemble(space, cell) if right else Text.assemble(cell, space))
        shown = Text(GAP).join(padded)
        shown.rstrip()
        if highlighted is not None and number == highlighted + 1:
            shown.stylize("bold")
        out.print(shown)


def show_sync(result: SyncReport, as_json: bool, config: Path) -> None:
    """Print the report of a sync: numbers of documents and records, then problems with their remedies."""
    if as_json:
        print(json.dumps(asdict(result)))
        return
    embedded = result.embedded
    print(f"documents   {count_kinds(asdict(result.documents))}")
    print(f"records     {count_kinds(asdict(result.records))}")
    paid = f", cost {embedded.cost:,.4g}" if embedded.cost else ""
    print(f"embedded    {quantity(embedded.texts, 'text')}, {quantity(embedded.tokens, 'token')}{paid}")
    if (asked := result.asked).calls:
        cost = f", cost {asked.cost:.2f}" if asked.cost else ""
        read = quantity(asked.prompt_tokens, "token")
        print(f"LLM calls   {asked.calls:,}, {read} read, {asked.completion_tokens:,} written{cost}")
    print(f"time        {duration(result.seconds)}")
    if result.unsupported:
        print(f"skipped     {count_kinds(result.unsupported)}: no parser reads them")
    states = Counter(short.state for short in result.short)
    for state, number in sorted(states.items()):
        print(f"{state:11} {quantity(number, 'document')}; why: ingestor status")
    _show_problems(result, config)


def _show_problems(result: SyncReport, config: Path) -> None:
    for about, reason in join_alike((each.source, each.document, each.reason) for each in result.problems):
        complain(about, reason)
    paused = dict.fromkeys(result.paused, "paused")
    for source, reason in {**result.unseen, **result.held, **paused}.items():
        if reason not in result.unusable.values():  # printed below
            complain(f"source {source}", reason)
    for source, documents in result.unconfigured.items():
        removed, kept = (quantity(documents[kind], "document") for kind in ("removed", "kept"))
        done = [f"{removed} removed"] if documents["removed"] else []
        done += [f"{kept} kept until: {command('apply', config)}"] if documents["kept"] else []
        complain(f"source {source}", f"is no longer in the config; {', '.join(done)}")
    for collection, reason in result.waits.items():
        complain(f"collection {collection}", f"waits for apply: {reason}")
    for collection, reason in result.unusable.items():
        complain(f"collection {collection}", reason)


def join_alike(documents: Iterable[tuple[str, str, str]]) -> list[tuple[str, str]]:
    """Join the documents of one source with the same reason: return one of them, with the number of the
    others, and the reason.

    ``documents``: source ("" if unknown), document and reason.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    for source, document, reason in documents:
        alike.setdefault((source, reason), []).append(document)
    return [
        (
            f"{source}{': ' * bool(source)}{names[0]}{f' and {len(names) - 1:,} more' * (len(names) > 1)}",
            reason,
        )
        for (source, reason), names in alike.items()
    ]


def complain(about: str, reason: str) -> None:
    """Print a problem as ``about: reason``. ``about``: the object that has the problem, in yellow."""
    print_wrapped(Text.assemble((line(about), "yellow"), f": {line(reason)}"))


def print_wrapped(text: Text, indent: str = "") -> None:
    """Print a text, wrapped to the width of the terminal. In a file or pipe, print it as one line.

    ``indent``: text before each line. Lines after the first are indented by four more columns.
    """
    rows = text.wrap(out, max(20, out.width - len(indent) - 4)) if out.is_terminal else [text]
    for number, row in enumerate(rows):
        row.rstrip()
        out.print(Text.assemble(indent, "    " if number else "", row))


def show_verify(report: Verification, as_json: bool, config: Path) -> None:
    """Print the differences that ``verify`` found, and the command that repairs them."""
    if as_json:
        print(json.dumps(asdict(report)))
        return
    if report.aside:
        print(f"Chroma's old folder is kept: {line(report.aside)}; delete it when you no longer need it")
    print(f"{quantity(report.checked, 'record')} checked")
    differences = [(k.replace("_", " "), f"{n:,}") for k in DAMAGES if (n := getattr(report, k))]
    if differences:
        print_table(("difference", "number"), differences)
    for example in report.examples[:20]:
        print(line(f"  {example}"))
    troubles = {f"collection {name}": reason for name, reason in report.broken.items()}
    troubles |= {f"source {name}": reason for name, reason in report.unseen.items()}
    for about, reason in troubles.items():
        complain(about, reason)
    if report.unsettled:
        due = quantity(report.unsettled, "document")
        print(f"{due} not in step with the sources; details: {command('status', config)}")
        once = f"To bring them in step: {command('sync', config)}"
        print("The running ingestor is updating them." if report.running else once)
    if report.clean:
        out.print(f"[green]Everything is in order{' again' if report.repaired else ''}.[/]")
    elif report.is_damaged and report.running and report.unsettled:
        print("Records that are being written differ, too: verify again when they are written.")
    elif report.is_damaged:
        first = "stop the running ingestor, then: " if report.running else ""
        print(f"To repair it: {first}{command('verify --repair', config)}")


def show_collections(collections: Sequence[CollectionInfo], as_json: bool) -> None:
    """Print all collections in Chroma, including those that ingestor did not write."""
    if as_json:
        print(json.dumps([asdict(collection) for collection in collections]))
        return
    if not collections:
        print("Chroma has no collections yet", file=sys.stderr)
        return
    rows = list[tuple[str | Text, ...]]()
    for each in collections:
        owner = Text(each.owner, "" if each.owner == "this ingestor" else "yellow")
        unused = each.owner == "this ingestor" and not (each.in_config or each.documents)
        role = "unused" if unused else each.role or ""
        records = "?" if each.records is None else f"{each.records:,}"
        model = each.model or (f"{each.dimensions} dimensions" if each.dimensions else "")
        rows.append((each.name, owner, role, records, ", ".join(each.strategies), model))
    print_table(("collection", "owner", "role", "records", "strategy", "model"), rows)
    for collection in collections:
        if collection.trouble is not None:
            complain(f"collection {collection.name}", collection.trouble)


def show_documents(
    sources: Sequence[str], documents: Iterator[Document], as_json: bool, *, chosen: bool = False
) -> None:
    """Print documents: as a table on a terminal, else as lines that are printed while documents are read.

    ``sources``: names of the documents' sources. ``chosen``: whether filters were given, which decides the
    message if there are no documents.
    """
    if as_json:
        between = "["  # one by one, in the form of ``json.dumps`` for the whole list
        for document in documents:
            print(between, json.dumps(asdict(document)), sep="", end="")
            between = ", "
        print("[]" if between == "[" else "]")
        return
    first = next(documents, None)
    if first is None:
        print("there are no such documents" if chosen else "there are no documents yet", file=sys.stderr)
        return
    documents = chain([first], documents)
    if out.is_terminal:
        listed = [(one, Text(one.state, "green" if one.settled else "yellow")) for one in documents]
        rows = [(one.source, state, f"{one.records:,}", one.document) for one, state in listed]
        print_table(("source", "state", "records", "document"), rows)
        return
    width = max(map(len, sources))
    for document in documents:
        name = line(document.document)
        print(f"{document.source:{width}}  {document.state:11}  {document.records:6}  {name}")


def show_history(events: Sequence[Event], as_json: bool) -> None:
    """Print a line for each change: its time, what changed, in which document or collection, and why."""
    if as_json:
        shown = [{k: v for k, v in asdict(one).items() if k not in ("before", "after")} for one in events]
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


def count_kinds(counts: Mapping[str, int]) -> str:
    """Format counts as ``3 added, 1 removed``; "nothing" if all counts are zero."""
    return ", ".join(f"{number:,} {kind}" for kind, number in counts.items() if number) or "nothing"


def describe_listing(listing: RunningListing, now: float) -> str:
    """Describe a running listing.

    For example: ``is being listed for 12 s: 1,204 documents found, the last one a/b.md``.
    """
    seen = f"{quantity(listing.seen, 'document')} found" if listing.seen else "nothing found yet"
    last = f", the last one {line(listing.at)}" if listing.at else ""
    return f"is being listed for {duration(max(0.0, now - listing.since))}: {seen}{last}"


def duration(seconds: float) -> str:
    """Format a duration with its unit, such as ``0.4 s``, ``42 s``, ``12 min``, ``3.5 h`` or ``4 days``."""
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172800 else f"{seconds / 86400:.0f} days"
