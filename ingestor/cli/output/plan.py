"""Prints the result of ``plan``: config changes, documents by source, costs, and the next command."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from ingestor.cli.output.console import (
    DOCUMENTS,
    UNREAD_KINDS,
    complain,
    count_kinds,
    duration,
    print_table,
    print_wrapped,
)
from ingestor.cli.output.overview import print_skipped
from ingestor.cli.usage import command
from ingestor.core.escape import line
from ingestor.units import quantity, size_in_words

if TYPE_CHECKING:
    from ingestor.queries.plan import SyncPlan

WORK_KINDS = ("added", "changed", "moved", "rebuilt", "removed", "failed")  # kinds that mean work
RARE_KINDS = ("rebuilt", "recut", *UNREAD_KINDS)
LONG = 60.0  # seconds of reading and writing from which on the time is printed


def show_plan(plan: SyncPlan, as_json: bool, config: Path, machines: int = 1) -> None:
    """Print a plan. ``machines``: number of machines that share the work, for the estimate of the time."""
    if as_json:
        print(json.dumps(_plan_json(plan, machines)))
        return
    _print_changes(plan, config)
    if not plan.sources:
        print("No source could be examined, so there is nothing to plan:")
        _print_problems(plan)
        print(f"\nNothing was changed. To plan again: {command('plan', config)}")
        return
    total = asdict(plan.documents)
    kinds = [kind for kind in DOCUMENTS if kind not in RARE_KINDS or total[kind]]
    print_table(
        ("source", *kinds),
        [(name, *(f"{asdict(counts)[kind]:,}" for kind in kinds)) for name, counts in plan.sources.items()],
    )
    print()
    for name, (read, due) in plan.sampled.items():
        words = f": {read:,} of {quantity(due, 'new document')} were read; the figures are scaled to all"
        print_wrapped(Text.assemble((f"source {name}", "yellow"), words))
    records, about = "" if plan.cuts_known else "about ", "" if plan.embed.exact else "about "
    estimated = "" if plan.cuts_known else "; an estimate: the cuts depend on texts not embedded yet"
    print(f"records    {records}{count_kinds(asdict(plan.records))}{estimated}")
    print(f"to embed   {about}{quantity(plan.embed.texts, 'text')}, {quantity(plan.embed.tokens, 'token')}")
    if plan.ask.calls:
        cost = f", cost {plan.ask.cost:.2f} and that of the answers" if plan.ask.cost else ""
        tokens = quantity(plan.ask.prompt_tokens, "prompt token")
        print(f"LLM calls  about {plan.ask.calls:,}, {tokens}{cost}; nothing was sent")
    if plan.seconds and plan.tokens_per_second:
        rate = f"{plan.tokens_per_second:,.0f} tokens/s"
        print(f"time       about {duration(plan.seconds)}, at this machine's {rate}")
    if plan.cost:
        print(f"cost       about {plan.cost:,.4g}")
    _print_needs(plan, machines)
    print_skipped(plan.skipped)
    _print_problems(plan)
    print(f"\n{_outcome(plan, config)}")


def _print_needs(plan: SyncPlan, machines: int) -> None:
    """Print the disk space, memory, time and price that the new records need.

    Print nothing if there are no new records.
    """
    needs = plan.needs
    if not needs.disk.total:
        return
    disk = needs.disk
    parts = ((disk.chroma, "in Chroma"), (disk.journal, "in the journal"), (disk.cache, "in the cache"))
    where = ", ".join(f"{size_in_words(size)} {name}" for size, name in parts)
    print(f"disk       about {size_in_words(disk.total)} more: {where}")
    both = ", those of old and new collections" if any(one.swap for one in plan.changes) else ""
    print(f"memory     Chroma then takes about {size_in_words(needs.memory)} for all vectors{both}")
    if needs.read_seconds + needs.write_seconds >= LONG:
        read, write = duration(needs.read_seconds), duration(needs.write_seconds)
        print(
            f"besides    about {read} to read and chunk (one by one), {write} of Chroma's CPU time to write"
        )
    if machines > 1:
        print(
            f"in all     about {duration(needs.on(machines))} on {machines:,} such machines, with one Chroma"
        )
    if needs.written or needs.stored:
        print(f"Chroma     about {needs.written:,.4g} to write, {needs.stored:,.4g} a month to store")


def _print_problems(plan: SyncPlan) -> None:
    sources = [(f"source {name}", reason) for name, reason in plan.unseen.items()]
    collections = [(f"collection {name}", reason) for name, reason in plan.unusable.items()]
    for about, reason in (*plan.problems, *sources, *collections):
        complain(about, reason)


def _outcome(plan: SyncPlan, config: Path) -> str:
    """Return a sentence about what a sync would do next, with the command that starts the sync."""
    if plan.restart:
        keys = ", ".join(plan.restart)
        return (
            f"Nothing was changed. The config file differs in {keys}, which takes effect at a restart; until "
            "then the running ingestor ignores the changed file."
        )
    if plan.follows:
        return (
            f"Nothing was changed. The running ingestor follows {line(plan.follows)}, not {config}: "
            "to do it, put the change into that file."
        )
    documents = asdict(plan.documents)
    works = any(documents[kind] for kind in WORK_KINDS) or any(asdict(plan.records).values())
    if not (works or plan.renamed):
        return "Nothing to do." if plan.complete else "Nothing else to do in what could be examined."
    if any(change.waits for change in plan.changes):
        return f"Nothing was changed. To do it: {command('apply', config)}"
    if plan.running:
        return "Nothing was changed. The running ingestor will do it."
    return f"Nothing was changed. To do it: {command('sync', config)}"


def _print_changes(plan: SyncPlan, config: Path) -> None:
    for change in plan.changes:
        rebuilt = bool(change.changes or change.swap)
        how = "in a second collection, which then takes its name" if change.swap else "document by document"
        what = "'s metadata is written in place, and nothing is embedded:"
        what = f" is rebuilt {how}:" if rebuilt else what
        print_wrapped(Text.assemble((f"collection {change.collection}", "bold"), what))
        for one in (*change.changes, *([change.metadata] if change.metadata else [])):
            print_wrapped(Text(line(f"  {one}")))
        if rebuilt:
            print(f"  {quantity(change.chunks, 'chunk')} of these documents exist now")
        if rebuilt and change.waits:
            waits = f"{change.waits}. To approve it: {command('apply', config)}"
            print_wrapped(Text.assemble(("  waits for approval: ", "yellow"), waits))
        print()
    for old, new in plan.renamed.items():
        words = f"{old} was renamed to {new}: its documents are handed over, and none is embedded"
        print_wrapped(Text.assemble(("source ", "yellow"), words))
    for name in plan.leaving:
        words = f"{name} is no longer in the config; its documents stay until: {command('apply', config)}"
        print_wrapped(Text.assemble(("source ", "yellow"), words))


def _plan_json(plan: SyncPlan, machines: int) -> dict[str, Any]:
    """Return the fields of ``plan --json``. ``machines``: number of machines that share the work."""
    problems = [*plan.problems, *plan.unseen.items()]
    fields, needs = asdict(plan), plan.needs
    del fields["sampled"]
    return fields | {
        "cost": round(plan.cost, 6),
        "disk": plan.needs.disk.total,
        "needs": {
            **{f"{name}_bytes": size for name, size in asdict(needs.disk).items()},
            "chroma_memory": needs.memory,
            "read_seconds": round(needs.read_seconds, 1),
            "write_seconds": round(needs.write_seconds, 1),
            "machines": machines,
            "seconds": round(needs.on(machines), 1),
            "chroma_written": round(needs.written, 6),
            "chroma_stored": round(needs.stored, 6),
        },
        "sample": {"read": plan.sampled} if plan.sampled else None,
        "problems": [{"document": about, "reason": reason} for about, reason in problems],
    }
