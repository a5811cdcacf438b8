"""Commands that only read, except ``verify --repair``; and the server for assistants."""

import json
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ingestor.cli.usage import (
    CONFIG,
    FAILED,
    QUARANTINED,
    SETTLED,
    USAGE,
    ConfigOption,
    JsonOption,
    VerboseOption,
    command,
    fail,
    to_read,
    to_write,
)

if TYPE_CHECKING:
    from ingestor.config.servers import Http


def plan(
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
    sample: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Read this many documents of each source and estimate the others. "
            "Default: all, or 2,000 of a source with over 20,000 new documents.",
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Read all new documents.")] = False,
    machines: Annotated[
        int, typer.Option(min=1, metavar="N", help="Estimate the time on this many machines, too.")
    ] = 1,
) -> None:
    """Show what a sync would do and cost; change nothing.

    Exits with 0 if everything could be examined, 3 if some documents are or would be quarantined, 4 if a
    source could not be listed, a document could not be read now, or Chroma differs from the journal.
    """
    from ingestor.cli.log import set_up
    from ingestor.cli.output import progress
    from ingestor.cli.output.plan import show_plan

    project, checked = to_write(config)
    set_up("warning", checked.log.format)
    with progress.busy("Reading what is new", as_json) as say:
        found = project.plan(sample=sample, everything=everything, progress=say)
    show_plan(found, as_json, config, machines)
    quarantined = QUARANTINED if found.documents.quarantined else SETTLED
    raise typer.Exit(quarantined if found.complete else FAILED)


def status(
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 4 unless the daemon runs and everything is healthy.")
    ] = False,
    verbose: VerboseOption = False,
) -> None:
    """Show the state of every source and collection."""
    from ingestor.cli.output import overview

    found = to_read(config, shown=True)[0].status()
    overview.show_status(found, as_json, config, verbose=verbose)
    if check and not found.sound:
        raise typer.Exit(FAILED)


def query(
    text: Annotated[list[str], typer.Argument(help="The text to search for; quotes are optional.")],
    n: Annotated[int, typer.Option("-n", min=1, metavar="N", help="Number of results.")] = 5,
    collection: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A collection, repeated for several, or '*' for all; optional if there is one.",
        ),
    ] = None,
    where: Annotated[str | None, typer.Option(metavar="JSON", help="A Chroma metadata filter.")] = None,
    mode: Annotated[
        Literal["hybrid", "dense", "lexical"],
        typer.Option(help="Search by vectors and words (hybrid), vectors (dense) or words (lexical)."),
    ] = "hybrid",
    expand: Annotated[
        Literal["none", "neighbours", "section", "parent", "document"],
        typer.Option(help="Context to add around each hit."),
    ] = "none",
    budget: Annotated[
        int | None, typer.Option(min=1, metavar="TOKENS", help="Token budget of all passages, instead of -n.")
    ] = None,
    distinct: Annotated[
        bool | None,
        typer.Option(
            "--distinct/--all",
            help="Show one of several near-duplicates; default with --budget and --expand.",
        ),
    ] = None,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Search a collection as an app would."""
    from ingestor.cli.log import set_up
    from ingestor.cli.output import excerpt, progress

    project, checked = to_read(config)
    set_up("error", checked.log.format)
    filter_ = _filter(where)
    name = collection[0] if collection is not None and len(collection) == 1 else collection
    alone = "Starting Chroma and searching (a running daemon is faster)"
    doing = "Searching" if project.is_running() else alone
    with progress.busy(doing, as_json):
        answer = project.search(
            " ".join(text),
            collection=name,
            n=n,
            where=filter_,
            mode=mode,
            expand=expand,
            budget_tokens=budget,
            distinct=distinct,
        )
    missing = 0 if as_json else project.unsearchable()
    shown = excerpt.show_hits if budget is None and expand == "none" else excerpt.show_passages
    shown(answer, as_json, missing)


def _filter(where: str | None) -> dict[str, object] | None:
    try:
        value = json.loads(where) if where is not None else None
    except (ValueError, RecursionError) as error:
        value = error
    if value is not None and not isinstance(value, dict):
        fail(f"--where must be a JSON object such as '{{\"page\": 3}}', not {where!r}", USAGE)
    return value


def verify(
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
    repair: Annotated[bool, typer.Option("--repair", help="Repair differences from cached vectors.")] = False,
    rebuild: Annotated[
        bool,
        typer.Option(
            "--rebuild", help="With --repair: move Chroma's folder aside first, and write everything again."
        ),
    ] = False,
) -> None:
    """Compare sources, journal, Chroma and the keyword index.

    Exits with 4 if anything differs.
    """
    from ingestor.cli.log import set_up
    from ingestor.cli.output import console, progress

    project, checked = to_write(config) if repair else to_read(config)
    set_up("warning", checked.log.format)
    with progress.busy("Comparing", as_json):
        report = project.verify(repair=repair, rebuild=rebuild)
    console.show_verify(report, as_json, config)
    raise typer.Exit(SETTLED if report.clean else FAILED)


def list_documents(
    pattern: Annotated[
        str | None, typer.Argument(help="A part of the key, or a shell pattern such as 'ref/*.md'.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(metavar="NAME", help="List the documents of this source only.")
    ] = None,
    collection: Annotated[
        str | None, typer.Option(metavar="NAME", help="List the documents of this collection only.")
    ] = None,
    state: Annotated[
        Literal["settled", "due", "waiting", "quarantined", "unsupported", "empty", "incomplete"] | None,
        typer.Option(help="List the documents in this state only."),
    ] = None,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """List the documents."""
    from ingestor.cli.output import console

    with to_read(config)[0].documents(source, collection, state, pattern) as found:
        chosen = any((pattern, source, collection, state))
        console.show_documents(*found, as_json, chosen=chosen)


def history(
    document: Annotated[str | None, typer.Argument(help="A document: its key, path or id.")] = None,
    source: Annotated[
        str | None, typer.Option(metavar="NAME", help="Show changes of this source only.")
    ] = None,
    n: Annotated[int, typer.Option("-n", min=1, max=20_000, metavar="N", help="Number of changes.")] = 50,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Show what changed, when and why, newest first."""
    from ingestor.cli.output import console

    console.show_history(to_read(config)[0].history(source, document, n), as_json)


def show(
    document: Annotated[str, typer.Argument(help="A document: its key, path or id.")],
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Show a document's chunks in Chroma."""
    from ingestor.cli.log import set_up
    from ingestor.cli.output import excerpt

    project, checked = to_read(config)
    set_up("error", checked.log.format)
    excerpt.show_chunks(project.document(document), as_json, config)


def mcp(config: ConfigOption = CONFIG) -> None:
    """Serve searches to an assistant (Model Context Protocol).

    Uses standard input and output, and asks the daemon; starts nothing and loads no model.
    """
    from ingestor.service.assistants import MISSING, is_installed

    if not is_installed():
        fail(MISSING, FAILED)
    http = to_read(config)[1].http
    if http is None:
        fail(f"{config}: ingestor mcp needs the service port of the daemon: remove `http: false`", USAGE)
    from ingestor.service.assistant_tools import server

    server(_ask(config, http)).run("stdio")


def _ask(config: Path, http: "Http") -> Callable[[str, str, object], Awaitable[tuple[int, Any]]]:
    """How the tools ask the daemon: see service.client.Ask."""
    from anyio.to_thread import run_sync

    from ingestor.ports import NeedsHuman
    from ingestor.queries.access import journal_of
    from ingestor.service.client import DaemonAway, DaemonClient

    @cache
    def client() -> DaemonClient:
        with journal_of(to_read(config)[1]) as journal:
            return DaemonClient(http, journal.owner)

    def asked(method: str, path: str, body: object) -> tuple[int, Any]:
        start = command("run", config)
        try:
            said = client().ask(method, path, body)
        except NeedsHuman as error:  # nothing was ingested yet
            raise DaemonAway(f"{error}; or start the daemon with `{start}`") from error
        except OSError as error:
            raise DaemonAway(
                f"the ingestor daemon does not answer ({error}): start it with `{start}`"
            ) from error
        return said.status, said.body

    async def ask(method: str, path: str, body: object = None) -> tuple[int, Any]:
        return await run_sync(asked, method, path, body)

    return ask
