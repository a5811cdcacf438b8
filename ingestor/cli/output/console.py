"""What commands print: tables for people, JSON for programs.

The JSON keys are stable (docs/commands.md); texts for people may change. ``excerpt`` shows texts,
``overview`` a status, and ``progress`` the running work.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ingestor.cli.invocation import command
from ingestor.core.escape import line

if TYPE_CHECKING:
    from ingestor.app.estimate import Estimate
    from ingestor.app.inventory import CollectionInfo
    from ingestor.app.plan import Plan
    from ingestor.app.recipe_changes import Outlook
    from ingestor.app.verification import Verification
    from ingestor.state.queries.reports import Listed as Document
    from ingestor.state.run_status import Listing

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

ASIDE = ("quarantined", "unsupported", "failed")
DOCUMENTS = ("added", "changed", "moved", "rebuilt", "removed", "unchanged", *ASIDE)
DONE = ("added", "changed", "moved", "rebuilt", "removed", "failed")  # kinds that mean work
SELDOM = ("rebuilt", *ASIDE)
RECORDS = ("added", "replaced", "patched", "dropped")
DAMAGES = ("missing", "orphaned", "stale", "wrong_metadata", "unreachable", "words")
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


def show_sync(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(result))
        return
    embedded = result["embedded"]
    print(f"documents   {_counted(result['documents'])}")
    print(f"records     {_counted(result['records'])}")
    paid = f", cost {embedded['cost']:,.4g}" if embedded["cost"] else ""
    print(f"embedded    {counted(embedded['texts'], 'text')}, {counted(embedded['tokens'], 'token')}{paid}")
    if (asked := result["asked"])["calls"]:
        cost = f", cost {asked['cost']:.2f}" if asked["cost"] else ""
        words = f"{asked['prompt_tokens']:,} tokens read, {asked['completion_tokens']:,} written{cost}"
        print(f"asked       {counted(asked['calls'], 'question')} to language models, {words}")
    print(f"time        {duration(result['seconds'])}")
    if result["unsupported"]:
        print(f"skipped     {_counted_kinds(result['unsupported'])}: no parser reads them")
    states = Counter(short["state"] for short in result["short"])
    for state, number in sorted(states.items()):
        print(f"{state:11} {counted(number, 'document')}; why: ingestor status")
    for problem in result["problems"]:
        _complain(f"{problem['source']}: {problem['document']}", problem["reason"])
    paused = dict.fromkeys(result["paused"], "it is paused")
    for source, reason in {**result["unseen"], **result["held"], **paused}.items():
        _complain(f"source {source}", reason)
    for collection, reason in result["waits"].items():
        _complain(f"collection {collection}", f"waits for apply: {reason}")
    for collection, reason in result["unusable"].items():
        _complain(f"collection {collection}", reason)


def _complain(about: str, reason: str) -> None:
    print_wrapped(Text.assemble((line(about), "yellow"), f": {line(reason)}"))


def print_wrapped(text: Text, indent: str = "") -> None:
    """Print text: on a terminal wrapped, further lines indented by four columns; in a file one line."""
    rows = text.wrap(out, max(20, out.width - len(indent) - 4)) if out.is_terminal else [text]
    for number, row in enumerate(rows):
        row.rstrip()
        out.print(Text.assemble(indent, "    " if number else "", row))


def show_plan(estimate: Estimate, as_json: bool, config: Path) -> None:
    plan = estimate.plan
    if as_json:
        print(json.dumps(_plan_json(estimate)))
        return
    _print_changes(estimate, config)
    kinds = [kind for kind in DOCUMENTS if kind not in SELDOM or plan.documents[kind]]
    rows = [(name, *(f"{counts[kind]:,}" for kind in kinds)) for name, counts in plan.sources.items()]
    print_table(("source", *kinds), rows)
    print()
    records, about = "" if plan.cuts_known else "about ", "" if plan.exact else "about "
    estimated = "" if plan.cuts_known else "; an estimate: the cuts depend on texts not embedded yet"
    print(f"records    {records}{_counted(plan.records)}{estimated}")
    print(f"to embed   {about}{counted(plan.texts, 'text')}, {counted(plan.tokens, 'token')}")
    if plan.asks:
        cost = f", cost {plan.cost:.2f} and that of the answers" if plan.cost else ""
        asks = f"{counted(plan.asks, 'question')} to language models"
        print(f"to ask     about {asks}, {plan.prompt_tokens:,} prompt tokens{cost}; nothing was sent")
    if estimate.seconds and estimate.tokens_per_second:
        rate = f"{estimate.tokens_per_second:,.0f} tokens/s"
        print(f"time       about {duration(estimate.seconds)}, at this machine's {rate}")
    if estimate.cost:
        print(f"cost       about {estimate.cost:,.4g}")
    if estimate.disk:
        print(f"disk       about {estimate.disk / 1e6:,.1f} MB more")
    _complain_all(estimate)
    print(f"\n{_then(estimate, config)}")


def _complain_all(estimate: Estimate) -> None:
    sources = [(f"source {name}", reason) for name, reason in estimate.plan.unseen.items()]
    collections = [(f"collection {name}", reason) for name, reason in estimate.unusable.items()]
    for about, reason in (*estimate.plan.problems, *sources, *collections):
        _complain(about, reason)


def _then(estimate: Estimate, config: Path) -> str:
    if not (_works(estimate.plan) or estimate.renames):
        return "Nothing to do." if estimate.complete else "Nothing else to do in what could be examined."
    if any(change.waits for change in estimate.changes):
        return f"Nothing was changed. To do it: {command('apply', config)}"
    if estimate.running:
        return "Nothing was changed. The running ingestor does it by itself."
    return f"Nothing was changed. To do it: {command('sync', config)}"


def _print_changes(estimate: Estimate, config: Path) -> None:
    for change in estimate.changes:
        _print_change(change, config)
    for old, new in estimate.renames.items():
        words = f"{old} was renamed to {new}: its documents are handed over, and none is embedded"
        print_wrapped(Text.assemble(("source ", "yellow"), words))
    for name in estimate.leaving:
        words = f"{name} is no longer in the config; its documents stay until: {command('apply', config)}"
        print_wrapped(Text.assemble(("source ", "yellow"), words))


def _print_change(change: Outlook, config: Path) -> None:
    """Print the differences of the config, and how they are applied."""
    found = [*change.decision.changes, *([change.described] if change.described else [])]
    if change.decision.changes or change.another:
        how = (
            "in a second collection, which then takes its name" if change.another else "document by document"
        )
        said = f" is rebuilt {how}:"
    else:
        said = "'s metadata is written in place, and nothing is embedded:"
    print_wrapped(Text.assemble((f"collection {change.serves}", "bold"), said))
    for one in found:
        print_wrapped(Text(line(f"  {one}")))
    if not (change.decision.changes or change.another):
        print()
        return
    print(f"  {counted(change.chunks, 'chunk')} of these documents exist now")
    if change.waits:
        waits = f"{change.waits}. To approve it: {command('apply', config)}"
        print_wrapped(Text.assemble(("  waits for approval: ", "yellow"), waits))
    print()


def _works(plan: Plan) -> bool:
    return any(plan.documents[kind] for kind in DONE) or plan.records.total() > 0


def _plan_json(estimate: Estimate) -> dict[str, Any]:
    plan = estimate.plan
    return {
        "documents": {kind: plan.documents[kind] for kind in DOCUMENTS},
        "records": {kind: plan.records[kind] for kind in RECORDS},
        "cuts_known": plan.cuts_known,
        "embed": {"texts": plan.texts, "tokens": plan.tokens, "exact": plan.exact},
        "ask": {"calls": plan.asks, "prompt_tokens": plan.prompt_tokens, "cost": round(plan.cost, 6)},
        "sources": {name: dict(counts) for name, counts in plan.sources.items()},
        "changes": [
            {
                "collection": change.serves,
                "changes": [asdict(one) for one in change.decision.changes],
                "metadata": asdict(change.described) if change.described else None,
                "swap": change.another,
                "chunks": change.chunks,
                "waits": change.waits or None,
            }
            for change in estimate.changes
        ],
        "leaving": list(estimate.leaving),
        "renamed": dict(estimate.renames),
        "cost": round(estimate.cost, 6),
        "disk": estimate.disk,
        "tokens_per_second": estimate.tokens_per_second,
        "seconds": estimate.seconds,
        "problems": [
            {"document": about, "reason": reason} for about, reason in [*plan.problems, *plan.unseen.items()]
        ],
        "unseen": plan.unseen,
        "unusable": dict(estimate.unusable),
        "running": estimate.running,
    }


def show_verify(report: Verification, as_json: bool, config: Path) -> None:
    if as_json:
        print(json.dumps(asdict(report)))
        return
    if report.aside:
        print(f"Chroma's old folder is kept: {line(report.aside)}; delete it when you no longer need it")
    print(f"{counted(report.checked, 'record')} checked")
    found = {kind: getattr(report, kind) for kind in DAMAGES if getattr(report, kind)}
    if found:
        print_table(("difference", "records"), [(k.replace("_", " "), f"{n:,}") for k, n in found.items()])
    for example in report.examples[:20]:
        print(line(f"  {example}"))
    for name, reason in report.broken.items():
        _complain(f"collection {name}", reason)
    for name, reason in report.unseen.items():
        _complain(f"source {name}", reason)
    if report.unsettled:
        due = counted(report.unsettled, "document")
        print(f"{due} not in step with the sources; to fix that: {command('sync', config)}")
    if report.clean:
        out.print(f"[green]Everything is in order{' again' if report.repaired else ''}.[/]")
    elif report.damaged:
        print(f"To repair it: {command('verify --repair', config)}")


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
            _complain(f"collection {collection.name}", collection.trouble)


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


def show_documents(documents: Sequence[Document], as_json: bool) -> None:
    if as_json:
        print(json.dumps([asdict(document) for document in documents]))
        return
    if not documents:
        print("there are no documents yet", file=sys.stderr)
        return
    if out.is_terminal:
        header, rows = ("source", "state", "records", "document"), [_row(document) for document in documents]
        print_table(header, rows)
        return
    width = max(len(document.source) for document in documents)
    for document in documents:
        print(f"{document.source:{width}}  {document.records:6}  {line(document.document)}")


def _row(document: Document) -> tuple[str | Text, ...]:
    state = Text(document.state, "green" if document.settled else "yellow")
    return document.source, state, f"{document.records:,}", document.document


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {kind}" for kind, number in counts.items() if number) or "nothing"


def _counted_kinds(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {kind}" for kind, number in kinds.items())


def counted(number: int, what: str) -> str:
    """``1 document``, ``2,000 documents``."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def listing_words(listing: Listing, now: float) -> str:
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
