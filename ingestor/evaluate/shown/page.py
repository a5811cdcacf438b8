"""The page of ``evaluate --html``: self-contained, without scripts, and safe for any text."""

from collections.abc import Iterable, Iterator
from html import escape
from string import Template

from ingestor.core.escape import escape_invisible
from ingestor.evaluate.asking.judgements import CORRECTNESS, Judged
from ingestor.evaluate.evaluation import Evaluation
from ingestor.evaluate.ranking.outcomes import StrategyOutcome
from ingestor.evaluate.shown.curves import colour, curves, differences, sizes
from ingestor.evaluate.shown.questions import differing_questions, render
from ingestor.evaluate.shown.tables import Rows, costs, details, row_head
from ingestor.units import counted

_METRICS = ("recall@5", "IoU@5", "precision Ω", "nDCG@5")
_JUDGED = ("correct, 1 to 5", "relevant", "faithful", "similar to the excerpts")
_ASKED = " Requests to a language model, and the tokens that it reads and writes, are in the price."
_ORIGINS = {
    "made": "made from the documents without a language model",
    "model": "written by a language model",
    "file": "from a file",
}


def page(evaluation: Evaluation, frame: str) -> str:
    """Render the page of an evaluation. ``frame``: the page's template with $placeholders."""
    outcome = evaluation.outcomes[evaluation.verdict.pick]
    pick, budget = outcome.cut.strategy, evaluation.request.budgets[0]
    base = _base(evaluation)
    return Template(frame).substitute(
        collection=_safe(evaluation.request.collection),
        pick=_safe(outcome.name),
        kept="stays" if pick.configured else "is recommended",
        cards="".join(_cards(evaluation, outcome)),
        text=_safe(evaluation.text),
        yaml="" if not evaluation.changes else f"<h2>For the config</h2><pre>{_safe(pick.yaml)}</pre>",
        legend="".join(_legend(evaluation)),
        curves=curves(_names(evaluation), evaluation.comparisons, evaluation.verdict.pick),
        budget=f"{budget:,}",
        base=_safe(evaluation.outcomes[base].name),
        differences=differences(_names(evaluation), evaluation.comparisons[budget], base),
        table=_table(evaluation),
        whole="" if evaluation.sample.is_whole else ", in proportion to the documents that were read",
        details=_rows_of(details(evaluation), evaluation),
        costs=_rows_of(costs(evaluation), evaluation),
        asked=_ASKED if any(each.cut.asked.calls for each in evaluation.outcomes) else "",
        judged=_judgements(evaluation),
        questions="".join(render(evaluation, at) for at in differing_questions(evaluation)),
    )


def _base(evaluation: Evaluation) -> int:
    """Return the number of the strategy to compare with: the configured one, or else the pick."""
    configured = [at for at, each in enumerate(evaluation.outcomes) if each.cut.strategy.configured]
    return configured[0] if configured else evaluation.verdict.pick


def _names(evaluation: Evaluation) -> list[str]:
    return [each.name for each in evaluation.outcomes]


def _cards(evaluation: Evaluation, pick: StrategyOutcome) -> Iterator[str]:
    budget = evaluation.request.budgets[0]
    mean = evaluation.comparisons[budget].means[evaluation.verdict.pick]
    origins = sorted({question.origin for question in evaluation.questions})
    yield _card(
        f"{100 * mean.mean:.1f} %",
        f"recall at {budget:,} tokens, 95 % interval {100 * mean.low:.0f} to {100 * mean.high:.0f}",
    )
    yield _card(
        f"{len(evaluation.questions):,}", f"questions, {' and '.join(_ORIGINS[each] for each in origins)}"
    )
    yield _card(
        f"{len(evaluation.sample.documents):,}",
        f"of {counted(evaluation.sample.listed, 'document')} read",
    )
    yield _card(f"{len(pick.cut.places):,}", f"chunks, {pick.cut.mean_tokens:.0f} tokens on average")


def _card(figure: str, about: str) -> str:
    return f'<div class="card"><b>{_safe(figure)}</b><span>{_safe(about)}</span></div>'


def _legend(evaluation: Evaluation) -> Iterator[str]:
    for at, name in enumerate(_names(evaluation)):
        mark = ' class="pick"' if at == evaluation.verdict.pick else ""
        yield f'<li{mark}><i style="background:var(--{colour(at)})"></i>{_safe(name)}</li>'


def _table(evaluation: Evaluation) -> str:
    recalls = [f"recall {budget:,}" for budget in evaluation.request.budgets]
    heads = ("strategy", "chunks", "tokens", "sizes", *recalls, *_METRICS)
    return _rows(heads, ("".join(_row(evaluation, at)) for at in range(len(evaluation.outcomes))), evaluation)


def _rows_of(table: Rows, evaluation: Evaluation) -> str:
    heads, *rows = table
    return _rows(heads, map(_cells, rows), evaluation)


def _rows(heads: Iterable[str], rows: Iterable[str], evaluation: Evaluation) -> str:
    """Render a table's heads and rows. ``rows``: the cells of each strategy."""
    body = "".join(
        f'<tr class="{"pick" if at == evaluation.verdict.pick else ""}">{cells}</tr>'
        for at, cells in enumerate(rows)
    )
    return f"<tr>{_cells(heads, 'th')}</tr>{body}"


def _row(evaluation: Evaluation, at: int) -> Iterator[str]:
    outcome = evaluation.outcomes[at]
    cut, scores = outcome.cut, outcome.scores
    yield _cells((row_head(outcome), f"{len(cut.places):,}", f"{cut.mean_tokens:.0f}"))
    yield f"<td>{sizes([place.tokens for place in cut.places])}</td>"
    for each in evaluation.comparisons.values():
        ends = each.means[at]
        yield (f"<td>{100 * ends.mean:.1f} <small>{100 * ends.low:.0f}–{100 * ends.high:.0f}</small></td>")
    yield _cells(f"{100 * m.mean():.1f}" for m in (scores.recall, scores.iou, scores.omega, scores.ndcg))


def _judgements(evaluation: Evaluation) -> str:
    """A section of its own; nothing where no answer was judged."""
    judged = evaluation.judged
    if judged is None:
        return ""
    summary = (
        f"By a language model, of {judged.compared:,} of {counted(judged.questions, 'question')}; "
        f"{counted(sum(judged.unjudged), 'answer')} without a valid judgement. "
        "Correctness is from 1 to 5 with its 95 % interval, all else in percent."
    )
    if judged.agreement is not None:
        same = judged.agreement
        summary += (
            f" Of {counted(same.count, 'answer')} judged twice, {100 * same.correctness:.0f} % got the same "
            f"correctness, {100 * same.relevancy:.0f} % the same relevancy and "
            f"{100 * same.faithfulness:.0f} % the same faithfulness."
        )
    rows = (
        _cells([name]) + "".join(_judgement_cells(judged, at)) for at, name in enumerate(_names(evaluation))
    )
    table = f"<table>{_rows(('strategy', *_JUDGED), rows, evaluation)}</table>" if judged.comparisons else ""
    return f'<h2>Judged answers</h2><p class="note">{_safe(summary)}</p><div class="scroll">{table}</div>'


def _judgement_cells(judged: Judged, at: int) -> Iterator[str]:
    for metric, comparison in judged.comparisons.items():
        ends = comparison.means[at]
        correct = f"{ends.mean:.2f} <small>{ends.low:.1f}–{ends.high:.1f}</small>"
        yield f"<td>{correct if metric == CORRECTNESS else f'{100 * ends.mean:.0f}'}</td>"


def _cells(values: Iterable[str], tag: str = "td") -> str:
    return "".join(f"<{tag}>{_safe(value)}</{tag}>" for value in values)


def _safe(value: str) -> str:
    return escape(escape_invisible(value))
