"""What commands print: tables for people, JSON for programs, progress while they wait.

The JSON keys are a promise (docs/commands.md); texts for people may change.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ingestor.inspection import Estimate, Listed, Shown, Verification
from ingestor.live import Live
from ingestor.model import Hit
from ingestor.printable import line, spelt
from ingestor.status import Status

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

EXCERPT = 300  # characters of a hit that are shown


def say(value: object, words: str, as_json: bool) -> None:
    print(json.dumps(value) if as_json else words)


@contextmanager
def progress(quiet: bool) -> Iterator[Callable[[Live], None]]:
    """A bar on a terminal, a plain line every few seconds elsewhere, nothing if ``quiet``."""
    if quiet:
        yield lambda live: None
    elif err.is_terminal:
        with _bar() as bar:
            task = bar.add_task("documents", total=None, texts=0)
            yield lambda live: _advance(bar, task, live)
    else:
        yield Lines()


def _bar() -> Progress:
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[texts]} texts embedded"),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=err, transient=True)


def _advance(bar: Progress, task: Any, live: Live) -> None:
    done = _done(live)
    bar.update(task, completed=done, total=done + live.waiting, texts=live.texts)


class Lines:
    """A line at most every five seconds, and one when the work is done."""

    def __init__(self) -> None:
        self._last = 0.0

    def __call__(self, live: Live) -> None:
        total = _done(live) + live.waiting
        if not total or (live.waiting and live.at - self._last < 5):
            return
        self._last = live.at
        print(f"{_done(live)} of {total} documents, {live.texts} texts embedded", file=sys.stderr, flush=True)


def _done(live: Live) -> int:
    return sum(live.tally.get(kind, 0) for kind in ("added", "changed", "moved", "removed"))


def ready(live: Live, collections: Sequence[str], records: int, config: Path) -> None:
    """What a person wants to know once everything is indexed."""
    spent = live.at - live.started
    option = "" if config == Path("config.yaml") else f" --config {config}"
    err.print(f"\n[bold green]In step.[/] {records} records in {', '.join(collections)} after {spent:.0f} s.")
    if live.chroma:
        err.print(f"Chroma listens at [bold]{live.chroma}[/]. Ask it something from another terminal:")
        name = f" --collection {collections[0]}" if len(collections) > 1 else ""
        err.print(f'  ingestor query "How long may I keep a book?"{name}{option}', style="cyan")
    err.print("Watching for changes; Ctrl-C ends it.\n")


def show_sync(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(result))
        return
    for part in ("documents", "records"):
        print(f"{part + ':':11}{_counted(result[part])}")
    embedded = result["embedded"]
    print(f"embedded:  {embedded['texts']} texts, {embedded['tokens']} tokens")
    if (asked := result["asked"])["calls"]:
        cost = f", cost {asked['cost']:.2f}" if asked["cost"] else ""
        words = f"{asked['prompt_tokens']} tokens read, {asked['completion_tokens']} written{cost}"
        print(f"asked:     {asked['calls']} questions to language models, {words}")
    for problem in result["problems"]:
        print(line(f"  {problem['document']}: {problem['reason']}"))
    for source, reason in result["held"].items():
        print(line(f"  source {source} is held: {reason}"))
    for source, reason in result["unseen"].items():
        print(line(f"  source {source}: {reason}"))
    print(f"{result['seconds']:.1f} s")


def show_plan(estimate: Estimate, as_json: bool) -> None:
    plan = estimate.plan
    if as_json:
        print(json.dumps(_plan_json(estimate)))
        return
    for name, counts in plan.sources.items():
        print(f"{name}: {_counted(counts)}")
    print(f"records:   {_counted(plan.records)}")
    least = "" if plan.exact else "at least "
    print(f"to embed:  {least}{plan.texts} texts, {plan.tokens} tokens after the cache")
    if plan.asks:
        cost = f", cost {plan.cost:.2f} and that of the answers" if plan.cost else ""
        words = f"{plan.asks} questions to language models, {plan.prompt_tokens} tokens to read{cost}"
        print(f"to ask:    about {words}; nobody was asked")
    if estimate.seconds:
        rate = f"{estimate.tokens_per_second:.0f} tokens/s"
        print(f"time:      {least}about {_duration(estimate.seconds)} ({rate})")
    for document, reason in plan.problems:
        print(line(f"  {document}: {reason}"))
    print("Nothing was touched; `ingestor sync` does it.")


def _plan_json(estimate: Estimate) -> dict[str, Any]:
    plan = estimate.plan
    kinds = ("added", "changed", "moved", "removed", "unchanged", "quarantined")
    return {
        "documents": {kind: plan.documents[kind] for kind in kinds},
        "records": {kind: plan.records[kind] for kind in ("added", "replaced", "patched", "dropped")},
        "embed": {"texts": plan.texts, "tokens": plan.tokens, "exact": plan.exact},
        "ask": {"calls": plan.asks, "prompt_tokens": plan.prompt_tokens, "cost": round(plan.cost, 6)},
        "sources": {name: dict(counts) for name, counts in plan.sources.items()},
        "tokens_per_second": estimate.tokens_per_second,
        "seconds": estimate.seconds,
        "problems": [{"document": document, "reason": reason} for document, reason in plan.problems],
    }


def show_status(status: Status, as_json: bool) -> None:
    if as_json:
        print(json.dumps(asdict(status)))
        return
    where = f"; Chroma at {status.chroma}" if status.chroma else ""
    out.print("[green]running[/]" + where if status.running else "[yellow]not running[/]")
    out.print(_source_table(status))
    out.print(_collection_table(status))
    for name, source in status.sources.items():
        if source.held:
            out.print(Text.assemble((f"{name} is held: ", "red"), line(source.held)))
        if source.trouble:
            out.print(Text(line(f"{name}: {source.trouble}"), "yellow"))
        if not source.configured:
            out.print(f"[yellow]{name} is no longer in the config;[/] its documents stay as they are")
    for failed in status.failures[:20]:
        when = "until it changes" if failed.next_try is None else f"next try {_when(failed.next_try)}"
        state = "quarantined" if failed.quarantined else "failed"
        out.print(Text(line(f"{failed.source}: {failed.document}: {state}, {when}: {failed.reason}")))
    if len(status.failures) > 20:
        out.print(f"... and {len(status.failures) - 20} more (--json lists all)")


def _source_table(status: Status) -> Table:
    table = Table(
        "source", "settled", "due", "in flight", "quarantined", "last scan", box=None, pad_edge=False
    )
    for name, source in status.sources.items():
        scan = _when(source.last_scan) if source.last_scan else "never"
        numbers = (source.settled, source.due, source.in_flight, source.quarantined)
        table.add_row(name, *map(str, numbers), scan)
    return table


def _collection_table(status: Status) -> Table:
    table = Table("collection", "records", "health", box=None, pad_edge=False)
    for name, collection in status.collections.items():
        sick = Text(collection.reason or "", "red")
        words = {True: Text("healthy", "green"), False: sick, None: Text("not there yet")}
        table.add_row(name, str(collection.records), words[collection.healthy])
    return table


def show_hits(hits: Sequence[Hit], as_json: bool) -> None:
    if as_json:
        print(json.dumps([
            {"id": hit.id, "score": hit.score, "document": hit.text, "metadata": dict(hit.metadata)}
            for hit in hits
        ]))  # fmt: skip
        return
    for hit in hits:
        meta = hit.metadata
        place = f"{meta.get('source')}:{meta.get('start_line')}-{meta.get('end_line')}"
        out.print(Text.assemble((f"{hit.score:.3f}  ", "bold green"), (line(place), "cyan")))
        if meta.get("heading_path"):
            out.print(Text(line(f"       {meta['heading_path']}"), "dim"))
        text = spelt(" ".join(hit.text.split()))
        out.print(Text(f"       {text[:EXCERPT]}{'…' if len(text) > EXCERPT else ''}\n"))
    if not hits:
        print("nothing found")


def show_verify(report: Verification, as_json: bool) -> None:
    if as_json:
        print(json.dumps(asdict(report)))
        return
    print(f"{report.checked} records checked")
    for kind in ("missing", "orphaned", "stale", "wrong_metadata", "unreachable"):
        if getattr(report, kind):
            print(f"  {getattr(report, kind)} {kind.replace('_', ' ')}")
    for example in report.examples[:20]:
        print(f"    {example}")
    for name, reason in report.broken.items():
        print(f"  collection {name} is broken: {reason}")
    for name, reason in report.unseen.items():
        print(line(f"  source {name}: {reason}"))
    if report.unsettled:
        print(f"  {report.unsettled} documents are not settled; `ingestor sync` brings them in step")
    if report.clean:
        print(f"everything is as it should be{' (after repair)' if report.repaired else ''}")
    elif report.damaged:
        print("mend it with: ingestor verify --repair")


def show_documents(documents: Sequence[Listed], as_json: bool) -> None:
    if as_json:
        print(json.dumps([asdict(document) for document in documents]))
        return
    for document in documents:
        mark = " " if document.settled else "*"
        print(f"{mark} {document.source}  {document.records:5}  {line(document.document)}")


def show_chunks(found: Shown, as_json: bool) -> None:
    chunks = [{"id": r.id, "text": r.text, "metadata": dict(r.metadata)} for r in found.records]
    if as_json:
        entry = found.entry
        print(json.dumps({"document_id": entry.document_id, "key": entry.key, "chunks": chunks}))
        return
    for number, record in enumerate(found.records):
        meta = record.metadata
        span = f"{meta.get('start_index')}-{meta.get('end_index')}"
        head = f"{record.id}  {span}  {meta.get('heading_path') or ''}"
        out.print(Text(line(head), "bold cyan"))
        out.print(Text(spelt(record.text), "yellow" if number % 2 else "default"))
    if not found.records:
        print("this document has no records")


def _counted(counts: Any) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in counts.items() if number) or "nothing"


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
