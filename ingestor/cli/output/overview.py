"""Prints the results of ``status`` and ``plan``.

A status begins with the daemon and problems; numbers follow, then failed documents with their remedies. A
plan has config changes, documents by source, costs, and the next command.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from ingestor.cli.output import console
from ingestor.cli.output.console import (
    complain,
    count_kinds,
    duration,
    join_alike,
    out,
    print_table,
    print_wrapped,
)
from ingestor.cli.usage import command
from ingestor.core.escape import line
from ingestor.units import quantity, size_in_words

if TYPE_CHECKING:
    from ingestor.core.completeness import Skipped
    from ingestor.queries.plan import SyncPlan
    from ingestor.queries.status import FailedDocument, SourceStatus, Status

MOST = 20  # reasons of failures that are printed
WORK_KINDS = ("added", "changed", "moved", "rebuilt", "removed", "failed")  # kinds that mean work
RARE_KINDS = ("rebuilt", "recut", *console.UNREAD_KINDS)
LONG = 60.0  # seconds of reading and writing from which on the time is printed

HEALTH = {None: ("not created yet", "dim"), True: ("healthy", "green"), False: ("not healthy", "red")}


def show_status(status: Status, as_json: bool, config: Path, *, verbose: bool = False) -> None:
    """Print a status. ``verbose``: whether to report the confinement of parsers even if it is complete."""
    if as_json:
        print(json.dumps(asdict(status)))
        return
    now = time.time()
    out.print(_headline(status, now))
    for trouble in _troubles(status, now, config):
        print_wrapped(trouble)
    out.print()
    sources = list[tuple[str | Text, ...]]()
    for name, s in status.sources.items():
        bad = Text(f"{s.quarantined:,}", "yellow" if s.quarantined else "")
        last = f"{duration(max(0.0, now - s.last_scan))} ago" if s.last_scan else "never"
        sources.append((name, f"{s.settled:,}", f"{s.due:,}", f"{s.waiting:,}", bad, last))
    print_table(("source", "settled", "due", "waiting", "quarantined", "last scan"), sources)
    out.print()
    collections = list[tuple[str | Text, ...]]()
    for name, c in status.collections.items():
        named, health = name if c.shards == 1 else f"{name} ({c.shards} shards)", Text(*HEALTH[c.healthy])
        collections.append((named, f"{c.records:,}", c.strategy or "-", c.model or "-", health))
    print_table(("collection", "records", "strategy", "model", "in Chroma"), collections)
    if run := "\n".join(_describe_run(status, verbose)):
        out.print(Text(f"\n{run}"))
    print_skipped(status.skipped)
    _print_incomplete(status, config)
    _print_failures(status, now, config)


def _describe_run(status: Status, verbose: bool) -> Iterator[str]:
    if status.embedded_texts and status.texts_per_second and status.tokens_per_second:
        run = "this run" if status.running else "the last run"
        rates = f"{status.texts_per_second:,.1f} texts/s, {status.tokens_per_second:,.0f} tokens/s"
        paid = f", cost {status.embedding_cost:,.4g}" if status.embedding_cost else ""
        texts, tokens = quantity(status.embedded_texts, "text"), quantity(status.embedded_tokens, "token")
        yield f"embedded by {run}: {texts}, {tokens}{paid}, at {rates}"
    if status.guard and (verbose or "without" in status.guard):
        yield f"Chroma's port: {line(status.guard)}"
    if status.no_service:
        yield f"service port: none ({line(status.no_service)})"
    if status.isolation and (verbose or "without" in status.isolation):
        yield f"isolation: {line(status.isolation)}"


def _headline(status: Status, now: float) -> Text:
    """Return the first line: whether the daemon runs, and what work is pending."""
    work = ", ".join(_work(status, now))
    if not status.running:
        return Text.assemble(("not running", "yellow"), f"; {work or 'nothing is left to do'}")
    since = f" for {duration(max(0.0, now - status.started))}" if status.started else ""
    chroma = f"; Chroma at {status.chroma}" if status.chroma else ""
    work = work or ("nothing to do" if status.started else "starting")
    return Text.assemble(("running", "green"), f"{since}; {work}{chroma}")


def _work(status: Status, now: float) -> Iterator[str]:
    """Yield phrases for the first line.

    The phrases are about pending documents, sources that were not listed, and collections that are being
    changed.
    """
    due = sum(source.due for source in status.sources.values())
    bad = sum(source.quarantined for source in status.sources.values())
    if due:
        yield f"{quantity(due, 'document')} to do"
    if bad:
        yield f"{quantity(bad, 'document')} quarantined"
    for name, source in status.sources.items():
        if state := _explain_unlisted(source):
            yield f"source {name} {state}"
    for name, collection in status.collections.items():
        if collection.built:
            yield f"collection {name} is being rebuilt"
        if collection.waits:
            yield f"collection {name} waits for apply"
        if collection.healthy is False:
            yield f"collection {name} is not healthy"


def _explain_unlisted(source: SourceStatus) -> str | None:
    """Return why the journal may be out of date about a source, as a predicate such as "is paused".

    Return None if it is up to date.
    """
    states = {
        "is held": source.held,
        "is paused": source.paused is not None,
        "is being listed": source.listing,
        "could not be listed completely": source.trouble,
        "is not in the config": not source.configured,
        "was never listed": source.last_scan is None,
    }
    return next((words for words, holds in states.items() if holds), None)


def _troubles(status: Status, now: float, config: Path) -> Iterator[Text]:
    """Yield a line for each problem that needs a person's attention, with its remedy."""
    if status.config_restart:
        old = f"the config of {_clock(status.config_since)}" if status.config_since else "the previous config"
        words = f", which takes effect at a restart; until then {old} stays in force"
        keys = ", ".join(status.config_restart)
        yield Text.assemble((f"the config file differs in {keys}", "red"), words)
    elif status.config_error is not None:
        since = f" since {_clock(status.config_since)}" if status.config_since else ""
        error = "; ".join(map(line, status.config_error.splitlines()))
        words = f"the previous config stays in force{since}. {error}"
        yield Text.assemble(("the config file has an error: ", "red"), words)
    for name, source in status.sources.items():
        yield from _source_troubles(name, source, now, config)
    yield from _changes(status, now, config)
    unhealthy: dict[str, list[str]] = {}  # a reason of several collections, such as an unreachable server
    for name, collection in status.collections.items():
        if collection.healthy is False:
            unhealthy.setdefault(collection.reason or "", []).append(name)
    for reason, names in unhealthy.items():
        yield Text.assemble((f"collection {', '.join(names)}: ", "red"), line(reason))
    if not status.running and any(source.due for source in status.sources.values()):
        yield Text(f"To do it: {command('run', config)}, or once: {command('sync', config)}")


def _source_troubles(name: str, source: SourceStatus, now: float, config: Path) -> Iterator[Text]:
    if source.held:
        yield Text.assemble((f"source {name} is held: ", "red"), line(source.held))
    if source.paused is not None:
        words = f" has been paused for {duration(max(0.0, now - source.paused))}; to resume: "
        yield Text.assemble((f"source {name}", "yellow"), words, command(f"resume {name}", config))
    if source.listing is not None:
        yield Text(f"source {name} {console.describe_listing(source.listing, now)}")
    if source.trouble:
        yield Text.assemble((f"source {name}: ", "yellow"), line(source.trouble))
    for warning in filter(None, (source.language, source.tokens)):
        yield Text.assemble((f"source {name}: ", "yellow"), line(warning))
    if source.renamed_from:
        words = f" was renamed from {source.renamed_from}; its documents are handed over by the next pass"
        yield Text.assemble((f"source {name}", "yellow"), words)
    if not source.configured:
        words = f" is no longer in the config; its documents stay until: {command('apply', config)}"
        yield Text.assemble((f"source {name}", "yellow"), words)


def _changes(status: Status, now: float, config: Path) -> Iterator[Text]:
    """Yield lines about collections that wait for approval, are being rebuilt, or can be rolled back."""
    for name, collection in status.collections.items():
        if collection.waits:
            words = f"{line(collection.waits)}. To approve it: {command('apply', config)}"
            yield Text.assemble((f"collection {name} waits for apply: ", "yellow"), words)
        if collection.delayed:
            words = f"the new collection cannot replace it yet: {line(collection.delayed)}"
            yield Text.assemble((f"collection {name}: ", "yellow"), words)
        if collection.lexical:
            yield Text.assemble((f"collection {name}: ", "yellow"), line(collection.lexical))
        if collection.built:
            done, of = collection.built
            yield Text(f"collection {name} is being rebuilt: {done:,} of {quantity(of, 'document')} done")
        if collection.old_until and collection.old_until > now:
            what = "rollback" if collection.old_undone else "change"
            left = duration(collection.old_until - now)
            kept = f"the state before the last {what} is kept for another {left}"
            yield Text(f"collection {name}: {kept}; to return: {command(f'rollback {name}', config)}")


def print_skipped(skipped: Sequence[Skipped]) -> None:
    """Print how many documents no parser can read, by kind of file, with one reason for each kind."""
    if not skipped:
        return
    total = sum(kind.documents for kind in skipped)
    out.print(f"\n{quantity(total, 'document')} skipped, because no parser reads them:")
    for kind in skipped[:MOST]:
        print_wrapped(Text(line(f"{kind.source}: {kind.documents:,} {kind.kind}, {kind.reason}")), "    ")


def _print_incomplete(status: Status, config: Path) -> None:
    """Print documents whose text is empty or incomplete."""
    if status.short:
        out.print(f"\n{quantity(len(status.short), 'document')} empty or incomplete:")
        reasons = [(each.source, each.document, f"{each.state}: {each.reason}") for each in status.short]
        _print_reasons(reasons, config)


def _print_failures(status: Status, now: float, config: Path) -> None:
    if status.failures:
        out.print(f"\n{quantity(len(status.failures), 'document')} failed:")
        reasons = [
            (each.source, each.document, f"{_outlook(each, now)}: {each.reason}") for each in status.failures
        ]
        _print_reasons(reasons, config)
        out.print(f"To retry at once: {command('retry --all', config)}")


def _print_reasons(documents: Sequence[tuple[str, str, str]], config: Path) -> None:
    """Print documents with reasons, and how to list them all. ``documents``: source, document and reason."""
    alike = join_alike(documents)
    for about, reason in alike[:MOST]:
        out.print(Text(line(about), "yellow"))
        print_wrapped(Text(line(reason)), "    ")
    if min(len(alike), MOST) < len(documents):
        out.print(f"All of them: {command('ls --json', config)}")


def _outlook(failed: FailedDocument, now: float) -> str:
    """Describe when a failed document will be retried."""
    if failed.next_try is None:
        return "quarantined until the file or the config changes"
    if failed.next_try <= now:
        return "will be retried at the next pass; failed"
    at = _clock(failed.next_try)
    tries = quantity(failed.attempts, "failed try", "failed tries")
    return f"{tries}, the next in {duration(failed.next_try - now)} ({at})"


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S")


def show_plan(plan: SyncPlan, as_json: bool, config: Path, machines: int = 1) -> None:
    """Print a plan. ``machines``: number of machines that share the work, for the estimate of the time."""
    if as_json:
        print(json.dumps(_plan_json(plan, machines)))
        return
    _print_changes(plan, config)
    if not plan.sources:
        print("No source could be examined, so there is nothing to plan:")
        _print_problems(plan, config)
        print(f"\nNothing was changed. To plan again: {command('plan', config)}")
        return
    total = asdict(plan.documents)
    kinds = [kind for kind in console.DOCUMENTS if kind not in RARE_KINDS or total[kind]]
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
    _print_problems(plan, config)
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
        read, cpu = duration(needs.read_seconds), duration(needs.write_seconds)
        print(f"besides    about {read} to read and chunk (one by one), {cpu} of Chroma's CPU time to write")
    if machines > 1:
        together = duration(needs.on(machines, plan.seconds))
        print(f"in all     about {together} on {machines:,} such machines, with one Chroma")
    if needs.written or needs.stored:
        print(f"Chroma     about {needs.written:,.4g} to write, {needs.stored:,.4g} a month to store")


def _print_problems(plan: SyncPlan, config: Path) -> None:
    alike = join_alike(("", about, reason) for about, reason in plan.problems)
    sources = [(f"source {name}", reason) for name, reason in plan.unseen.items()]
    collections = [(f"collection {name}", reason) for name, reason in plan.unusable.items()]
    for about, reason in (*alike[:MOST], *sources, *collections):
        complain(about, reason)
    if min(len(alike), MOST) < len(plan.problems):
        out.print(f"All of them: {command('plan --json', config)}")


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
            "seconds": round(needs.on(machines, plan.seconds), 1),
            "chroma_written": round(needs.written, 6),
            "chroma_stored": round(needs.stored, 6),
        },
        "sample": {"read": plan.sampled} if plan.sampled else None,
        "problems": [{"document": about, "reason": reason} for about, reason in problems],
    }
