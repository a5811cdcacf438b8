"""Commands that read, and the MCP server.

Only ``verify --repair`` and ``evaluate --write`` write anything.
"""

import json
import signal
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Exit, Option

from ingestor.cli import usage
from ingestor.cli.usage import CONFIG, ConfigOption, JsonOption, VerboseOption, command, fail

if TYPE_CHECKING:
    from ingestor.config.servers import Http


def plan(
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
    sample: Annotated[
        int | None,
        Option(
            min=1,
            metavar="N",
            help="Read this many documents of each source and estimate the others. "
            "Default: all, or 2,000 of a source with over 20,000 new documents.",
        ),
    ] = None,
    everything: Annotated[bool, Option("--all", help="Read all new documents, not a sample.")] = False,
    machines: Annotated[
        int, Option(min=1, metavar="N", help="Estimate the time on this many machines, too.")
    ] = 1,
) -> None:
    """Show what a sync would do and cost; change nothing.

    Exit codes: 0 if everything could be examined, 3 if documents are quarantined or would be. Exit code 4: a
    source could not be listed, a document could not be read now, or Chroma differs from the journal.
    """
    from ingestor.cli.output import overview, progress

    if everything and sample is not None:
        fail("--all and --sample exclude each other: choose one")
    project, _ = usage.open_to_write(config, "warning")
    with progress.busy("Reading what is new", as_json) as note:
        estimate = project.plan(sample=sample, everything=everything, progress=note)
    overview.show_plan(estimate, as_json, config, machines)
    quarantined = usage.QUARANTINED if estimate.documents.quarantined else usage.SETTLED
    raise Exit(quarantined if estimate.complete else usage.FAILED)


def status(
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
    check: Annotated[
        bool, Option("--check", help="Exit with code 4 unless the daemon runs and everything is healthy.")
    ] = False,
    verbose: VerboseOption = False,
) -> None:
    """Show the state of every source and collection."""
    from ingestor.cli.output import overview

    state = usage.open_to_read(config, shown=True)[0].status()
    overview.show_status(state, as_json, config, verbose=verbose)
    if check and not state.sound:
        raise Exit(usage.FAILED)


def query(
    text: Annotated[list[str], Argument(help="The text to search for; quotes are optional.")],
    n: Annotated[int, Option("-n", min=1, metavar="N", help="Number of results.")] = 5,
    collection: Annotated[
        list[str] | None,
        Option(
            metavar="NAME",
            help="A collection; repeat the option for several, or use '*' for all; "
            "optional if there is only one.",
        ),
    ] = None,
    where: Annotated[str | None, Option(metavar="JSON", help="A Chroma metadata filter.")] = None,
    mode: Annotated[
        Literal["hybrid", "dense", "lexical"],
        Option(help="Search by vectors and words (hybrid), by vectors (dense), or by words (lexical)."),
    ] = "hybrid",
    expand: Annotated[
        Literal["none", "neighbours", "section", "parent", "document"],
        Option(help="Context to add around each hit."),
    ] = "none",
    budget: Annotated[
        int | None, Option(min=1, metavar="TOKENS", help="Token budget of all passages, instead of -n.")
    ] = None,
    distinct: Annotated[
        bool | None,
        Option(
            "--distinct/--all",
            help="Show one hit of several near-duplicates; the default with --budget and --expand.",
        ),
    ] = None,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Search a collection as an app would, and print results."""
    from ingestor.cli.output import excerpt, progress
    from ingestor.search import values

    project, _ = usage.open_to_read(config, "error")
    try:
        filter_ = None if where is None else json.loads(where)
    except (ValueError, RecursionError):
        filter_ = where
    if filter_ is not None and not isinstance(filter_, dict):
        fail(f"--where must be a JSON object such as '{{\"page\": 3}}', not {where!r}")
    name = collection[0] if collection is not None and len(collection) == 1 else collection
    alone = "Starting Chroma and searching (a running daemon is faster)"
    question = " ".join(text)
    with progress.busy("Searching" if project.is_running() else alone, as_json):
        answer = project.search(
            question, collection=name, n=n, where=filter_, mode=mode, expand=expand, budget_tokens=budget,
            distinct=distinct,
        )  # fmt: skip
    if as_json:
        print(json.dumps(values.as_json(answer)))
    elif budget is None and expand == "none":
        excerpt.show_hits(answer, project.unsearchable(), question)
    else:
        excerpt.show_passages(answer, project.unsearchable())


def verify(
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
    repair: Annotated[bool, Option("--repair", help="Repair differences from cached vectors.")] = False,
    rebuild: Annotated[
        bool,
        Option(
            "--rebuild", help="With --repair: move Chroma's folder aside first, and write everything again."
        ),
    ] = False,
) -> None:
    """Compare sources, journal, Chroma and keyword index.

    Exits with 4 if anything differs.
    """
    from ingestor.cli.output import console, progress

    project, _ = usage.open_to_write(config, "warning") if repair else usage.open_to_read(config, "warning")
    with progress.busy("Comparing", as_json):
        report = project.verify(repair=repair, rebuild=rebuild)
    console.show_verify(report, as_json, config)
    raise Exit(usage.SETTLED if report.clean else usage.FAILED)


def list_documents(
    pattern: Annotated[
        str | None, Argument(help="A part of the key, or a shell pattern such as 'ref/*.md'.")
    ] = None,
    source: Annotated[
        str | None, Option(metavar="NAME", help="List the documents of this source only.")
    ] = None,
    collection: Annotated[
        str | None, Option(metavar="NAME", help="List the documents of this collection only.")
    ] = None,
    state: Annotated[
        Literal["settled", "due", "waiting", "quarantined", "unsupported", "empty", "incomplete"] | None,
        Option(help="List the documents in this state only."),
    ] = None,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """List the documents with their states and records."""
    from ingestor.cli.output import console

    with usage.open_to_read(config)[0].documents(source, collection, state, pattern) as documents:
        chosen = any((pattern, source, collection, state))
        console.show_documents(*documents, as_json, chosen=chosen)


def history(
    document: usage.DocumentArgument = None,
    source: Annotated[str | None, Option(metavar="NAME", help="Show changes of this source only.")] = None,
    n: Annotated[int, Option("-n", min=1, max=20_000, metavar="N", help="Number of changes.")] = 50,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Show which documents changed and why, newest first."""
    from ingestor.cli.output import console

    console.show_history(usage.open_to_read(config)[0].history(source, document, n), as_json)


def show(
    document: Annotated[str, Argument(help="A document: its key, path or id.")],
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Show the chunks of a document as they are stored in Chroma."""
    from ingestor.cli.output import excerpt

    project, _ = usage.open_to_read(config, "error")
    excerpt.show_chunks(project.document(document), as_json, config)


def mcp(config: ConfigOption = CONFIG) -> None:
    """Let an AI assistant search, by the Model Context Protocol.

    The assistant starts this command, and talks to it on standard input and output. Requests go to the
    running daemon; this command loads no model.
    """
    from ingestor.service.assistants import MISSING, is_installed

    if not is_installed():
        fail(MISSING, usage.FAILED)
    http = usage.open_to_read(config)[1].http
    if http is None:
        fail(f"{config}: ingestor mcp needs the service port of the daemon: remove `http: false`")
    from ingestor.service.assistant_tools import server

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)  # Python would wait for the thread that reads standard input
    server(_ask(config, http)).run("stdio")


def _ask(config: Path, http: "Http") -> Callable[[str, str, object], Awaitable[tuple[int, Any]]]:
    """Return the function by which tools send requests to the daemon (see service.client.Ask)."""
    from anyio.to_thread import run_sync

    from ingestor.ports import NeedsHuman
    from ingestor.queries.access import journal_of
    from ingestor.service.client import DaemonAway, DaemonClient

    @cache
    def client() -> DaemonClient:
        with journal_of(usage.open_to_read(config)[1]) as journal:
            return DaemonClient(http, journal.owner)

    def ask_daemon(method: str, path: str, body: object) -> tuple[int, Any]:
        start = command("run", config)
        try:
            return client().ask(method, path, body)
        except NeedsHuman as error:  # no sync has run yet
            raise DaemonAway(f"{error}; or start the daemon with `{start}`") from error
        except OSError as error:
            raise DaemonAway(
                f"the ingestor daemon does not answer ({error}): start it with `{start}`"
            ) from error

    async def ask(method: str, path: str, body: object = None) -> tuple[int, Any]:
        return await run_sync(ask_daemon, method, path, body)

    return ask


def chunk(
    file: Annotated[Path, Argument(help="File to chunk, in any supported format.")],
    strategy: Annotated[str | None, Option(help="Chunking strategy; default: the config's.")] = None,
    option: Annotated[
        list[str], Option(metavar="KEY=VALUE", help="Option of the strategy; may be repeated.")
    ] = [],  # noqa: B006
    compare: Annotated[
        list[str],
        Option(metavar="NAME[:KEY=VALUE...],...", help="Strategies to compare with, each with its options."),
    ] = [],  # noqa: B006
    html: Annotated[
        Path | None, Option(metavar="OUT", help="Write an HTML page that shows all strategies.")
    ] = None,
    config: Annotated[
        Path | None, Option("--config", "-c", help="The config file; default: config.yaml, if it exists.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show how strategies cut a file into chunks.

    Nothing is indexed, and Chroma is not needed.
    """
    from ingestor.cli.chunk_command import show

    show(file, strategy, option, compare, html, config, as_json=as_json)


def evaluate(
    collection: usage.CollectionArgument = None,
    strategies: Annotated[
        list[str],
        Option(
            metavar="NAME[:KEY=VALUE...],...",
            help="Chunkings to compare, instead of the configured one and its usual alternatives. KEY: an "
            "option, search, rerank or parsing.KIND.OPTION. NAME: a strategy, or configured.",
        ),
    ] = [],  # noqa: B006
    questions: Annotated[
        Path | None,
        Option(metavar="FILE", help="CSV file with the columns question, excerpt and, if known, document."),
    ] = None,
    keep_questions: Annotated[
        Path | None, Option(metavar="FILE", help="Write the questions to a CSV file for reuse.")
    ] = None,
    sample: Annotated[int, Option(min=1, metavar="N", help="Number of documents to read.")] = 100,
    make: Annotated[
        int, Option(min=1, metavar="N", help="Number of questions to generate if no file has them.")
    ] = 240,
    seed: Annotated[
        int,
        Option(
            min=0,
            metavar="N",
            help="Seed of the sample: another number chooses other documents and questions.",
        ),
    ] = 0,
    models: Annotated[
        str,
        Option(
            metavar="NAME,...", help="Embedders to compare with the same questions: names, or KIND:KEY=VALUE."
        ),
    ] = "",
    search: Annotated[
        str,
        Option(
            metavar="MODE,...",
            help="Search mode of strategies without their own: dense, lexical, hybrid, or several.",
        ),
    ] = "dense",
    ask_model: Annotated[
        bool, Option("--ask-model", help="Generate the questions with language_model of the config.")
    ] = False,
    judge: Annotated[
        int,
        Option(
            min=0,
            metavar="QUESTIONS",
            help="Number of questions that language_model answers from each strategy's passages; it also "
            "judges the answers.",
        ),
    ] = 0,
    estimate: Annotated[
        bool, Option("--estimate", help="Print the number and cost of model calls; send none.")
    ] = False,
    budget: Annotated[
        str,
        Option(metavar="TOKENS,...", help="Token budgets of retrieval; strategies are ranked at the first."),
    ] = "500,1000,2000",
    write: Annotated[bool, Option("--write", help="Write the recommendation into the config file.")] = False,
    check: Annotated[
        Path | None,
        Option(
            metavar="FILE", help="Measure recall of the live collection; exit with code 4 if recall fell."
        ),
    ] = None,
    tolerance: Annotated[
        float, Option(min=0, max=100, metavar="POINTS", help="Largest accepted fall of recall, with --check.")
    ] = 2.0,
    accept: Annotated[
        bool, Option("--accept", help="With --check: store this recall as the baseline.")
    ] = False,
    html: Annotated[Path | None, Option(metavar="OUT", help="Write an HTML report.")] = None,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Measure which chunking finds most in your documents.

    Collections and the journal are not changed, so a daemon may run meanwhile. An interrupted run resumes
    with the vectors of the cache.
    """
    from ingestor.cli.evaluate_command import read_models, request_of, run, run_check, run_estimate

    _, checked = usage.open_to_write(config, "error")
    if check is not None:
        asked = {"questions": check, "sample": sample, "tolerance": tolerance / 100, "accept": accept}
        passed = run_check(checked, collection, budget, as_json=as_json, **asked)
        raise Exit(usage.SETTLED if passed else usage.FAILED)
    if accept:
        fail("--accept goes with --check: ingestor evaluate --check FILE --accept")
    request = request_of(
        checked, collection, strategies, budget, search, questions=questions, keep=keep_questions,
        sample=sample, make=make, ask_model=ask_model, judge=judge, seed=seed,
        models=read_models(checked, models),
    )  # fmt: skip
    if estimate:
        run_estimate(checked, request, as_json=as_json)
        raise Exit(usage.SETTLED)
    if models and write:
        fail("--models and --write exclude each other: set embedding.model yourself")
    try:
        run(checked, request, html, write=write, as_json=as_json)
    except KeyboardInterrupt:
        fail("interrupted: run the same command again to resume", usage.INTERRUPTED)
