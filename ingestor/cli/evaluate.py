"""The command that measures which chunking finds the most."""

from pathlib import Path
from typing import Annotated

import typer

from ingestor.cli.usage import (
    CONFIG,
    FAILED,
    INTERRUPTED,
    SETTLED,
    USAGE,
    ConfigOption,
    JsonOption,
    fail,
    read_config,
)


def evaluate(
    collection: Annotated[
        str | None, typer.Argument(help="The collection; optional if there is only one.")
    ] = None,
    strategies: Annotated[
        list[str],
        typer.Option(
            metavar="NAME[:KEY=VALUE...],...",
            help="Chunkings to compare, instead of the configured one and its usual alternatives. KEY: an "
            "option, search, rerank or parsing.KIND.OPTION. NAME: a strategy, or configured.",
        ),
    ] = [],  # noqa: B006
    questions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="CSV file with the columns question, excerpt and, if known, document."
        ),
    ] = None,
    keep_questions: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the questions to a CSV file for reuse."),
    ] = None,
    sample: Annotated[int, typer.Option(min=1, metavar="N", help="Number of documents to read.")] = 100,
    make: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of questions to generate if no file has them.")
    ] = 240,
    seed: Annotated[
        int, typer.Option(min=0, help="Another number samples other documents and questions.")
    ] = 0,
    models: Annotated[
        str,
        typer.Option(metavar="NAME,...", help="Embedding models to compare, with the same questions."),
    ] = "",
    search: Annotated[
        str,
        typer.Option(
            metavar="MODE,...",
            help="Search mode of strategies without their own: dense, lexical, hybrid, or several.",
        ),
    ] = "dense",
    ask_model: Annotated[
        bool,
        typer.Option("--ask-model", help="Generate the questions with language_model of the config."),
    ] = False,
    judge: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="QUESTIONS",
            help="Number of questions that language_model answers from each strategy's passages; it also "
            "judges the answers.",
        ),
    ] = 0,
    estimate: Annotated[
        bool,
        typer.Option("--estimate", help="Print the number and cost of model calls; send none."),
    ] = False,
    budget: Annotated[
        str, typer.Option(metavar="TOKENS,...", help="Token budgets of retrieval; the first one ranks.")
    ] = "500,1000,2000",
    write: Annotated[
        bool, typer.Option("--write", help="Write the recommendation into the config file.")
    ] = False,
    check: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Measure recall of the live collection; exit 4 if recall fell."),
    ] = None,
    tolerance: Annotated[
        float,
        typer.Option(min=0, max=100, metavar="POINTS", help="Largest accepted fall of recall, with --check."),
    ] = 2.0,
    accept: Annotated[
        bool, typer.Option("--accept", help="With --check: store this recall as the baseline.")
    ] = False,
    html: Annotated[Path | None, typer.Option(metavar="OUT", help="Write an HTML report.")] = None,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Measure which chunking finds most in your documents.

    Changes neither collections nor journal, and works beside a daemon. An interrupted run resumes with the
    vectors of the cache.
    """

    from ingestor.cli.evaluate_command import request_of, run, run_check, run_estimate
    from ingestor.cli.log import set_up

    checked = read_config(config)
    set_up("error", checked.log.format)
    if check is not None:
        passed = run_check(
            checked, collection, check, sample, budget, tolerance, accept=accept, as_json=as_json
        )
        raise typer.Exit(SETTLED if passed else FAILED)
    request = request_of(
        checked,
        collection,
        strategies,
        budget,
        search,
        questions=questions,
        keep=keep_questions,
        sample=sample,
        make=make,
        ask_model=ask_model,
        judge=judge,
        seed=seed,
        models=tuple(dict.fromkeys(filter(None, map(str.strip, models.split(","))))),
    )
    if estimate:
        run_estimate(checked, request, as_json=as_json)
        raise typer.Exit(SETTLED)
    if models and write:
        fail("--models and --write exclude each other: set embedding.model yourself", USAGE)
    try:
        run(checked, request, html, write=write, as_json=as_json)
    except KeyboardInterrupt:
        fail("interrupted: run the same command again to resume", INTERRUPTED)
    raise typer.Exit(SETTLED)
