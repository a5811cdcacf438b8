"""Output of ``evaluate``: facts about the questions, tables, and the recommendation."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import yaml
from rich.text import Text

from ingestor.cli.output.console import err, out, print_table
from ingestor.core.escape import escape_invisible
from ingestor.evaluate.check import Checked
from ingestor.evaluate.cutting import price
from ingestor.evaluate.evaluation import Evaluation
from ingestor.evaluate.judging import describe_judged
from ingestor.evaluate.page import Rows, costs, describe_origins, details, recalls
from ingestor.evaluate.question_file import RefusedQuestion
from ingestor.evaluate.sample import Progress
from ingestor.units import quantity


@contextmanager
def progress(quiet: bool) -> Iterator[Progress]:
    """Show what an evaluation is doing, on a terminal, until the context ends.

    Yield the function that changes the shown text.
    """
    if quiet or not err.is_terminal:
        yield lambda what: None
        return
    with err.status("listing the sources") as status:
        yield lambda what: status.update(Text(escape_invisible(what)))


def show(evaluation: Evaluation) -> None:
    """Print the result of an evaluation: facts, tables and the recommendation."""
    for line in _facts(evaluation):
        out.print(Text(escape_invisible(line)))
    _print_rows(recalls(evaluation), evaluation)
    out.print(
        "\nFurther figures, ± standard deviation over the questions. Found: percent of questions of which\n"
        "half of the excerpts is in 1, 3 or 5 chunks. Similarity: cosine of question and first chunk.\n"
        "Context: tokens of five chunks. To settle: about how many more questions show a clear difference.\n"
    )
    _print_rows(details(evaluation), evaluation)
    whole = "" if evaluation.sample.is_whole else ", extrapolated from the documents that were read"
    out.print(f"\nCost for the whole collection{whole}:\n")
    _print_rows(costs(evaluation), evaluation)
    out.print(Text(f"\n{evaluation.text}\n"))
    best = evaluation.outcomes[evaluation.verdict.pick]
    strategy, snippet = best.cut.strategy, ""
    if best.model is not None and best.embedding is not None and not strategy.configured:
        options = best.embedding.options.model_dump(mode="json", exclude_unset=True)
        written = {"kind": best.embedding.plugin.kind, **options}
        snippet = yaml.safe_dump({"embedding": written}, sort_keys=False, allow_unicode=True)
    elif evaluation.changes:
        snippet = strategy.yaml
    if snippet:
        out.print(Text(f"For the config (ingestor plan then prints the cost):\n\n{snippet}"))


def _print_rows(rows: Rows, evaluation: Evaluation) -> None:
    """Print a table with a row for each strategy. ``rows``: the heads of the columns, then the rows."""
    print_table(rows[0], rows[1:], figures=True, highlighted=evaluation.verdict.pick)


def show_check(checked: Checked) -> None:
    """Print the recall of the collection, how far it fell, and the questions whose recall fell most."""
    asked, mean = checked.request, checked.mean
    for refusal in _refusals(checked.refused):
        out.print(Text(escape_invisible(refusal)))
    out.print(
        f"Collection {asked.collection}, {quantity(len(checked.recall), 'question')}: "
        f"recall at {asked.budget:,} tokens is {100 * mean.mean:.1f} "
        f"(95 % interval {100 * mean.low:.1f} to {100 * mean.high:.1f})."
    )
    if checked.before is None:
        out.print(f"Stored in {asked.recall_file}: later checks compare with this recall.")
        return
    points = f"{100 * abs(checked.fell):.1f}"
    moved = f"{'fell' if checked.fell > 0 else 'rose'} by {points} points"
    moved = "has not changed" if points == "0.0" else moved
    verdict = "within the tolerance" if checked.is_within_tolerance else "more than the tolerance"
    out.print(f"Recall {moved} since the stored check: {verdict} of {100 * asked.tolerance:.1f}.")
    for text, before, now in checked.worst(0 if checked.is_within_tolerance else 5):
        out.print(Text(escape_invisible(f"  {100 * before:.0f} -> {100 * now:.0f}  {text}")))


def _facts(evaluation: Evaluation) -> Iterator[str]:
    """Yield sentences about the questions, the documents and the language models of an evaluation.

    The last sentence explains the columns of the table.
    """
    sample = evaluation.sample
    documents = {excerpt.document for question in evaluation.questions for excerpt in question.excerpts}
    read = len(sample.documents)
    listed = quantity(sample.listed, "document")
    which = f"all {listed}" if read == sample.listed > 1 else f"{read:,} of {listed}"
    yield (
        f"{quantity(len(evaluation.questions), 'question')} about {quantity(len(documents), 'document')}, "
        f"{describe_origins(evaluation)}; searched: {which}."
    )
    for name, reason in sample.unread[:3]:
        yield f"not read: {name}: {reason}"
    if len(sample.unread) > 3:
        yield f"not read: {len(sample.unread) - 3:,} more (--json lists them)"
    yield from _refusals(evaluation.refused)
    if evaluation.asked is not None:
        use, model = evaluation.asked.use, evaluation.asked.expected.model
        cost = f", for {price(use.cost)}" if use.cost else ""
        yield (
            f"Language model {model}: {quantity(use.calls, 'request')}, "
            f"{quantity(use.prompt_tokens, 'token')} read and {use.answer_tokens:,} written{cost}; "
            "earlier answers come from the cache."
        )
    if evaluation.judged is not None:
        yield describe_judged(evaluation.judged, evaluation.request.budgets[0])
    yield (
        "Recall: percent of the excerpts within that many retrieved tokens, with its 95 % interval. "
        "@5: of the five best chunks. Tokens: of the mean chunk.\n"
    )


def _refusals(refused: Sequence[RefusedQuestion]) -> Iterator[str]:
    """Yield sentences about refused questions.

    Questions of a file are named by their line, at most three of them. Questions of a language model are
    counted by the reason for refusal.
    """
    lines = [each for each in refused if each.line]
    for each in lines[:3]:
        yield f"question skipped: line {each.line}: {each.reason}"
    if len(lines) > 3:
        yield f"questions skipped: {len(lines) - 3:,} more (--json lists them)"
    reasons = Counter(each.reason for each in refused if not each.line)
    for reason, number in reasons.most_common(5):
        yield f"refused: {quantity(number, 'question')}: {reason}"
