"""Commands that only read, except ``verify --repair``."""

import json
from dataclasses import replace
from os import environ
from typing import Annotated, Literal

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
    chosen,
    config_in_force,
    fail,
    looked_up,
    read_config,
)


def plan(
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
    sample: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Read this many documents of each source and estimate the others. "
            "Default: all, or 2,000 of a source with over 20,000 new documents.",
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Read all new documents.")] = False,
    machines: Annotated[int, typer.Option(min=1, help="Estimate the time on this many machines, too.")] = 1,
) -> None:
    """Show what a sync would do and cost; change nothing.

    Exits with 0 if everything could be examined, 3 if some documents are or would be quarantined, 4 if a
    source could not be listed, a document could not be read now, or Chroma differs from the journal.
    """
    from ingestor.app.estimate import make_plan
    from ingestor.app.plan import Sampling
    from ingestor.cli.log import set_up
    from ingestor.cli.output import progress
    from ingestor.cli.output.plan import show_plan
    from ingestor.state.running_config import in_force, running_file

    checked = read_config(config)
    set_up("warning", checked.log.format)
    bounds = Sampling() if sample is None else Sampling(sample, sample)
    with progress.busy("Reading what is new", as_json) as say:
        estimate = make_plan(checked, None if everything else bounds, say)
    estimate = replace(estimate, restart=in_force(config, environ).restart)
    if estimate.running and (file := running_file(checked.state)) not in (None, str(config.absolute())):
        estimate = replace(estimate, elsewhere=file)
    show_plan(estimate, as_json, config, machines)
    quarantined = QUARANTINED if estimate.plan.documents["quarantined"] else SETTLED
    raise typer.Exit(quarantined if estimate.complete else FAILED)


def status(
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 4 unless the daemon runs and everything is healthy.")
    ] = False,
    verbose: VerboseOption = False,
) -> None:
    """Show the state of every source and collection."""
    from ingestor.app.queries import current_status
    from ingestor.cli.output import overview

    found = current_status(config_in_force(config))
    overview.show_status(found, as_json, config, verbose=verbose)
    if check and not found.sound:
        raise typer.Exit(FAILED)


def query(
    text: Annotated[list[str], typer.Argument(help="The text to search for; quotes are optional.")],
    n: Annotated[int, typer.Option("-n", min=1, help="Number of results.")] = 5,
    collection: Annotated[
        list[str] | None,
        typer.Option(help="A collection, repeated for several, or '*' for all; optional if there is one."),
    ] = None,
    where: Annotated[str | None, typer.Option(help="A Chroma metadata filter, as JSON.")] = None,
    mode: Annotated[
        Literal["hybrid", "dense", "lexical"],
        typer.Option(help="Search by vectors and words (hybrid), vectors (dense) or words (lexical)."),
    ] = "hybrid",
    expand: Annotated[
        Literal["none", "neighbours", "section", "parent", "document"],
        typer.Option(help="Context to add around each hit."),
    ] = "none",
    budget: Annotated[
        int | None, typer.Option(min=1, help="Token budget of all passages, instead of -n.")
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
    from ingestor.app.queries import is_running, search, unsearchable
    from ingestor.cli.log import set_up
    from ingestor.cli.output import excerpt, progress
    from ingestor.search.values import Question

    checked = looked_up(config)
    set_up("error", checked.log.format)
    names, only = collection or [chosen(checked, None)], _filter(where)
    name = names if len(names) > 1 else names[0]
    doing = (
        "Searching" if is_running(checked) else "Starting Chroma and searching (a running daemon is faster)"
    )
    with progress.busy(doing, as_json):
        answer = search(checked, Question(" ".join(text), name, n, budget, mode, only, expand, distinct))
    missing = 0 if answer.hits else unsearchable(checked)
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
    """Compare sources, journal, Chroma and the words.

    Exits with 4 if anything differs.
    """
    from ingestor.app.verification import verified
    from ingestor.cli.log import set_up
    from ingestor.cli.output import console, progress

    checked = read_config(config) if repair else looked_up(config)
    set_up("warning", checked.log.format)
    if rebuild and not repair:
        fail("--rebuild goes with --repair: ingestor verify --repair --rebuild", USAGE)
    with progress.busy("Comparing", as_json):
        report = verified(checked, repair, rebuild)
    console.show_verify(report, as_json, config)
    raise typer.Exit(SETTLED if report.clean else FAILED)


def list_documents(
    source: Annotated[str | None, typer.Option(help="List the documents of this source only.")] = None,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """List the documents."""
    from ingestor.app.queries import journal_of, listed
    from ingestor.cli.output import console

    with journal_of(looked_up(config)) as journal:
        console.show_documents(*listed(journal, source), as_json)


def show(
    document: Annotated[str, typer.Argument(help="A document: its key, path or id.")],
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Show a document's chunks in Chroma."""
    from ingestor.app.queries import shown
    from ingestor.cli.log import set_up
    from ingestor.cli.output import excerpt

    checked = looked_up(config)
    set_up("error", checked.log.format)
    excerpt.show_chunks(shown(checked, document), as_json, config)
