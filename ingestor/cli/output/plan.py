"""Output of ``plan``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from ingestor.cli.invocation import command
from ingestor.cli.output.console import (
    ASIDE,
    DOCUMENTS,
    RECORDS,
    complain,
    counted_kinds,
    duration,
    print_table,
    print_wrapped,
)
from ingestor.cli.output.overview import print_skipped
from ingestor.core.escape import line
from ingestor.units import counted

if TYPE_CHECKING:
    from ingestor.app.estimate import Estimate
    from ingestor.app.needs import Needs
    from ingestor.app.plan import Plan
    from ingestor.app.recipe_changes import Outlook

DONE = ("added", "changed", "moved", "rebuilt", "removed", "failed")  # kinds that mean work
SELDOM = ("rebuilt", *ASIDE)
LONG = 60.0  # seconds of reading and writing that are told


def show_plan(estimate: Estimate, as_json: bool, config: Path, machines: int = 1) -> None:
    plan = estimate.plan
    if as_json:
        print(json.dumps(_plan_json(estimate, machines)))
        return
    _print_changes(estimate, config)
    kinds = [kind for kind in DOCUMENTS if kind not in SELDOM or plan.documents[kind]]
    rows = [(name, *(f"{counts[kind]:,}" for kind in kinds)) for name, counts in plan.sources.items()]
    print_table(("source", *kinds), rows)
    print()
    for name, (read, due) in plan.sampled.items():
        words = f": {read:,} of {counted(due, 'new document')} were read; the figures are scaled to all"
        print_wrapped(Text.assemble((f"source {name}", "yellow"), words))
    records, about = "" if plan.cuts_known else "about ", "" if plan.exact else "about "
    estimated = "" if plan.cuts_known else "; an estimate: the cuts depend on texts not embedded yet"
    print(f"records    {records}{counted_kinds(plan.records)}{estimated}")
    print(f"to embed   {about}{counted(plan.texts, 'text')}, {counted(plan.tokens, 'token')}")
    if plan.asks:
        cost = f", cost {plan.cost:.2f} and that of the answers" if plan.cost else ""
        asks = f"{plan.asks:,}"
        print(
            f"LLM calls  about {asks}, {counted(plan.prompt_tokens, 'prompt token')}{cost}; nothing was sent"
        )
    if estimate.seconds and estimate.tokens_per_second:
        rate = f"{estimate.tokens_per_second:,.0f} tokens/s"
        print(f"time       about {duration(estimate.seconds)}, at this machine's {rate}")
    if estimate.cost:
        print(f"cost       about {estimate.cost:,.4g}")
    _print_needs(estimate, machines)
    print_skipped(plan.skipped.found())
    _complain_all(estimate)
    print(f"\n{_then(estimate, config)}")


def _print_needs(estimate: Estimate, machines: int) -> None:
    needs = estimate.needs
    if not needs.disk.total:
        return
    disk = needs.disk
    parts = ((disk.chroma, "in Chroma"), (disk.journal, "in the journal"), (disk.cache, "in the cache"))
    where = ", ".join(f"{size / 1e6:,.1f} {name}" for size, name in parts)
    print(f"disk       about {disk.total / 1e6:,.1f} MB more: {where}")
    both = ", those of old and new collections" if any(one.another for one in estimate.changes) else ""
    print(f"memory     Chroma then takes about {needs.memory / 1e6:,.1f} MB for all vectors{both}")
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


def _needs_json(needs: Needs, machines: int) -> dict[str, Any]:
    return {
        **{f"{name}_bytes": size for name, size in asdict(needs.disk).items()},
        "chroma_memory": needs.memory,
        "read_seconds": round(needs.read_seconds, 1),
        "write_seconds": round(needs.write_seconds, 1),
        "machines": machines,
        "seconds": round(needs.on(machines), 1),
        "chroma_written": round(needs.written, 6),
        "chroma_stored": round(needs.stored, 6),
    }


def _complain_all(estimate: Estimate) -> None:
    sources = [(f"source {name}", reason) for name, reason in estimate.plan.unseen.items()]
    collections = [(f"collection {name}", reason) for name, reason in estimate.unusable.items()]
    for about, reason in (*estimate.plan.problems, *sources, *collections):
        complain(about, reason)


def _then(estimate: Estimate, config: Path) -> str:
    if estimate.restart:
        keys = ", ".join(estimate.restart)
        return (
            f"Nothing was changed. The config file differs in {keys}, which takes effect at a restart; until "
            "then the running ingestor ignores the changed file."
        )
    if estimate.elsewhere:
        return (
            f"Nothing was changed. The running ingestor follows {line(estimate.elsewhere)}, not {config}: "
            "to do it, put the change into that file."
        )
    if not (_works(estimate.plan) or estimate.renames):
        return "Nothing to do." if estimate.complete else "Nothing else to do in what could be examined."
    if any(change.waits for change in estimate.changes):
        return f"Nothing was changed. To do it: {command('apply', config)}"
    if estimate.running:
        return "Nothing was changed. The running ingestor will do it."
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


def _plan_json(estimate: Estimate, machines: int) -> dict[str, Any]:
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
        "disk": estimate.needs.disk.total,
        "needs": _needs_json(estimate.needs, machines),
        "sample": {"read": plan.sampled} if plan.sampled else None,
        "tokens_per_second": estimate.tokens_per_second,
        "seconds": estimate.seconds,
        "problems": [
            {"document": about, "reason": reason} for about, reason in [*plan.problems, *plan.unseen.items()]
        ],
        "skipped": [asdict(kind) for kind in plan.skipped.found()],
        "unseen": plan.unseen,
        "unusable": dict(estimate.unusable),
        "running": estimate.running,
        "follows": estimate.elsewhere,
        "restart": list(estimate.restart),
    }
