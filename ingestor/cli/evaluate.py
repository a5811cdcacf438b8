"""The command that measures which chunking finds the most."""

from pathlib import Path
from typing import Annotated

import typer

from ingestor.cli.usage import (
    CONFIG,
    FAILED,
    INTERRUPTED,
    SETTLED,
    ConfigOption,
    JsonOption,
    fail,
    read_config,
)


def evaluate(
    collection: Annotated[str | None, typer.Argument(help="Which collection; else the only one.")] = None,
    strategies: Annotated[
        list[str],
        typer.Option(
            metavar="NAME[:KEY=VALUE...],...",
            help="What to compare, in place of the configured one and those worth comparing with it. KEY: an "
            "option, search, rerank or parsing.KIND.OPTION. NAME: a strategy, or configured.",
        ),
    ] = [],  # noqa: B006
    questions: Annotated[
        Path | None, typer.Option(metavar="FILE", help="CSV: question, excerpt, and document if known.")
    ] = None,
    keep_questions: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the questions to a CSV file, to use again."),
    ] = None,
    sample: Annotated[int, typer.Option(min=1, help="How many documents to read.")] = 100,
    make: Annotated[
        int, typer.Option(min=1, help="How many questions to make, or to ask for, where no file has any.")
    ] = 240,
    search: Annotated[
        str,
        typer.Option(
            metavar="MODE,...",
            help="How to search where a strategy does not say: dense, lexical, hybrid, or several.",
        ),
    ] = "dense",
    ask_model: Annotated[
        bool,
        typer.Option("--ask-model", help="Have language_model of the config write the questions."),
    ] = False,
    judge: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="QUESTIONS",
            help="Have language_model answer so many questions from what each strategy finds, and judge the "
            "answers.",
        ),
    ] = 0,
    estimate: Annotated[
        bool,
        typer.Option("--estimate", help="Say what a language model would be asked and cost; ask nothing."),
    ] = False,
    budget: Annotated[
        str, typer.Option(metavar="TOKENS,...", help="How much may be retrieved; the first decides.")
    ] = "500,1000,2000",
    write: Annotated[
        bool, typer.Option("--write", help="Put the recommendation into the config file.")
    ] = False,
    check: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Ask the live collection these questions; exit 4 if recall fell."),
    ] = None,
    tolerance: Annotated[
        float, typer.Option(min=0, max=100, metavar="POINTS", help="How far recall may fall at --check.")
    ] = 2.0,
    accept: Annotated[
        bool, typer.Option("--accept", help="At --check: keep this recall as the one to compare with.")
    ] = False,
    html: Annotated[Path | None, typer.Option(metavar="OUT", help="Write a page that shows it all.")] = None,
    config: ConfigOption = CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Measure which chunking finds most in your documents.

    Touches neither collections nor journal, and works beside a daemon. What was embedded is kept in the
    cache, so that an interrupted run goes on where it was.
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
    )
    if estimate:
        run_estimate(checked, request, as_json=as_json)
        raise typer.Exit(SETTLED)
    try:
        run(checked, request, html, write=write, as_json=as_json)
    except KeyboardInterrupt:
        fail("interrupted: the same command goes on where it was", INTERRUPTED)
    raise typer.Exit(SETTLED)
