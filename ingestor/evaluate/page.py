"""Renders the page of ``evaluate --html``, and tables and sentences that a terminal also shows.

The page is self-contained, without scripts, and safe for any text. It lists the questions on which the
strategies differ most. Each unfolds into its excerpts, with missed parts marked, and its best chunks.
"""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import pairwise
from string import Template

import numpy as np

from ingestor.core.escape import escape_invisible
from ingestor.evaluate.cutting import price
from ingestor.evaluate.evaluation import Evaluation
from ingestor.evaluate.figures import colour, curves, differences, sizes
from ingestor.evaluate.judging import CORRECTNESS, describe_judged
from ingestor.evaluate.question_file import has
from ingestor.evaluate.ranking import StrategyOutcome
from ingestor.evaluate.scores import DEPTHS, within
from ingestor.text.spans import Span
from ingestor.units import quantity

Rows = list[list[str]]  # heads first

_JUDGED = ("correct", "relevant", "faithful", "similar")
_ORIGINS = {
    "file": "from {file}",
    "made": "made from the documents without a language model",
    "model": "written by a language model",
}


def describe_origins(evaluation: Evaluation) -> str:
    """Return words about where the questions come from, such as "from questions.csv"."""
    origins = {question.origin for question in evaluation.questions}
    words = (words for origin, words in _ORIGINS.items() if origin in origins)
    return " and ".join(words).format(file=evaluation.request.questions)


def recalls(evaluation: Evaluation) -> Rows:
    """Return the table with each strategy's recall and scores in percent.

    If answers were judged, the table has columns about the judgements, too.
    """
    judged = {} if evaluation.judged is None else evaluation.judged.comparisons
    budgets = [f"recall {budget:,}" for budget in evaluation.comparisons]
    heads = ["strategy", "tokens", *budgets, "recall@5", "IoU@5", "prec. Ω", "nDCG@5"]
    rows: Rows = [[*heads, *(_JUDGED if judged else ())]]
    for at, outcome in enumerate(evaluation.outcomes):
        scores, means = outcome.scores, [each.means[at] for each in evaluation.comparisons.values()]
        row = [row_head(outcome), f"{outcome.cut.mean_tokens:.0f}"]
        row += [f"{100 * each.mean:.1f} ({100 * each.low:.0f}–{100 * each.high:.0f})" for each in means]
        row += [f"{100 * m.mean():.1f}" for m in (scores.recall, scores.iou, scores.omega, scores.ndcg)]
        for metric, comparison in judged.items():
            ends = comparison.means[at]
            correct = f"{ends.mean:.2f} ({ends.low:.1f}–{ends.high:.1f})"
            row.append(correct if metric == CORRECTNESS else f"{100 * ends.mean:.0f}")
        rows.append(row)
    return rows


_COSTS = [
    "strategy", "records", "disk, MB", "passes", "embedded", "seconds",
    "requests", "read", "written", "price", "rerank s a question",
]  # fmt: skip


def costs(evaluation: Evaluation) -> Rows:
    """Return the table with the costs of each strategy. Columns without any value are left out."""
    rows = list[list[str]]()
    for each in evaluation.outcomes:
        costs, asked = each.costs, each.costs.asked
        row = [row_head(each), f"{costs.records:,}", f"{costs.disk / 1e6:,.1f}", f"{costs.passes:.1f}"]
        row += [f"{costs.embedded:,}", f"{costs.seconds:,.0f}"]
        row += [f"{n:,}" if n else "" for n in (asked.calls, asked.prompt_tokens, asked.answer_tokens)]
        row.append("" if costs.money is None else price(costs.money))
        rows.append([*row, "" if each.rerank_seconds is None else f"{each.rerank_seconds:.2g}"])
    kept = [at for at in range(len(_COSTS)) if any(row[at] for row in rows)]
    return [[row[at] for at in kept] for row in (_COSTS, *rows)]


def details(evaluation: Evaluation) -> Rows:
    """Return the table with further figures of each strategy.

    Some figures are means with ± standard deviations over the questions. The last column is the number that
    ``questions_to_settle`` returns.
    """
    hits = [f"found@{depth}" for depth in DEPTHS]
    heads = ["strategy", "characters", *hits, "similarity", "recall@5", "IoU@5", "precision@5"]
    rows = [[*heads, "recall@5, tokens", "IoU@5, tokens", "context@5", "to settle"]]
    for at, outcome in enumerate(evaluation.outcomes):
        scores, more = outcome.scores, questions_to_settle(evaluation, at)
        row = [row_head(outcome), f"{outcome.cut.mean_characters:.0f}"]
        row += [f"{100 * scores.hits[depth].mean():.0f}" for depth in DEPTHS]
        row.append(f"{outcome.similarity.mean():.2f}")
        spread = (scores.recall, scores.iou, scores.precision, *outcome.by_tokens)
        row += [f"{100 * each.mean():.1f} ± {100 * each.std():.1f}" for each in spread]
        rows.append([*row, f"{scores.context.mean():,.0f}", "" if more is None else f"{more:,}"])
    return rows


def questions_to_settle(evaluation: Evaluation, at: int) -> int | None:
    """Return how many more questions would show whether a strategy differs from the recommended one.

    ``at``: number of the strategy. The number is approximate. Return None if the difference is already clear,
    or is zero.
    """
    pick, asked = evaluation.verdict.pick, len(evaluation.questions)
    if at == pick:
        return None
    difference = evaluation.comparisons[evaluation.request.budgets[0]].difference(at, pick)
    if difference.clear or difference.needed is None:
        return None
    return max(difference.needed - asked, 1)


def row_head(outcome: StrategyOutcome) -> str:
    """Return the name of a strategy for a table's row. The configured strategy is marked."""
    return outcome.name + (" (configured)" if outcome.cut.strategy.configured else "")


_SHOWN = 10  # questions
_CHUNKS = 2  # of each strategy
_LONGEST = 1500  # characters of a chunk; the middle of a longer chunk is omitted


def select_questions(evaluation: Evaluation) -> list[int]:
    """Return the numbers of the questions on which the strategies' recall differs most.

    Recall at the first budget is compared.
    """
    recall = np.array([each.scores.at[evaluation.request.budgets[0]] for each in evaluation.outcomes])
    spread = recall.max(axis=0) - recall.min(axis=0)
    order = np.lexsort((np.arange(len(spread)), -recall.std(axis=0), -spread))
    return [int(at) for at in order[:_SHOWN] if spread[at] > 0]


def render(evaluation: Evaluation, at: int) -> str:
    """Render a question with the recall of each strategy. A click unfolds its excerpts and the best chunks.

    ``at``: number of the question.
    """
    budget = evaluation.request.budgets[0]
    shares = "".join(
        f'<span class="share" style="--share:{each.scores.at[budget][at]:.2f};--own:var(--{colour(number)})"'
        f' title="{_safe(each.name)}">{100 * each.scores.at[budget][at]:.0f}</span>'
        for number, each in enumerate(evaluation.outcomes)
    )
    strategies = "".join(
        f'<section><h4><i style="background:var(--{colour(number)})"></i>{_safe(each.name)}: '
        f"{100 * each.scores.at[budget][at]:.0f} %</h4>"
        f"{''.join(_evidence(each, at, budget, evaluation.quoted[at]))}</section>"
        for number, each in enumerate(evaluation.outcomes)
    )
    return (
        f'<details><summary><span class="question">{_safe(evaluation.questions[at].text)}</span>'
        f'<span class="shares">{shares}</span></summary><div class="strategies">{strategies}</div></details>'
    )


def _evidence(outcome: StrategyOutcome, at: int, budget: int, quoted: Sequence[str]) -> Iterator[str]:
    """Yield the excerpts of a question with their missed parts marked, then the best chunks with hits marked.

    ``at``: number of the question. ``quoted``: texts of its excerpts.
    """
    cut, excerpts = outcome.cut, outcome.questions[at].excerpts
    places = [cut.places[number] for number in outcome.scores.ranked[at]]
    held = list(within(places, budget))
    for excerpt, words in zip(excerpts, quoted, strict=True):
        spans = [span for place in held if place.document == excerpt.document for span in place.spans]
        text = cut.sample.documents[excerpt.document].document.text
        if has(cut.sample, excerpt):
            marked = _mark(text, (excerpt.start, excerpt.end), spans, ("mark", "del"))
        else:
            marked = f"<small>Not in what it reads.</small>\n{_tag(words, 'del')}"
        yield f'<div class="excerpt">{marked}</div>'
    for rank, place in enumerate(places[:_CHUNKS], start=1):
        document = cut.sample.documents[place.document]
        own = [(e.start, e.end) for e in excerpts if e.document == place.document]
        text = " … ".join(_shorten(document.document.text, span, own) for span in place.spans)
        yield f'<div class="chunk"><small>{rank}. {_safe(document.item.key)}</small>\n{text}</div>'


def _shorten(text: str, span: Span, own: Sequence[Span]) -> str:
    start, end = span
    if end - start <= _LONGEST or any(max(a, start) < min(b, end) for a, b in own):
        return _mark(text, span, own, ("mark", ""))
    half = _LONGEST // 2
    return f"{_safe(text[start : start + half])} … {_safe(text[end - half : end])}"


def _mark(text: str, span: Span, held: Sequence[Span], tags: tuple[str, str]) -> str:
    """Render the text of a span, with HTML tags around its parts.

    ``held``: spans whose parts count as found, such as those of retrieved chunks. ``tags``: names of the tags
    around these parts, and around all other parts.
    """
    start, end = span
    edges = sorted({start, end, *(each for pair in held for each in pair if start < each < end)})
    return "".join(
        _tag(text[a:b], tags[0] if any(low <= a and b <= high for low, high in held) else tags[1])
        for a, b in pairwise(edges)
    )


def _tag(text: str, tag: str) -> str:
    return f"<{tag}>{_safe(text)}</{tag}>" if tag else _safe(text)


_ASKED = " Requests to a language model, and the tokens that it reads and writes, are in the price."


def page(evaluation: Evaluation, frame: str) -> str:
    """Render the page of an evaluation. ``frame``: the page's template with $placeholders."""
    outcome, judged = evaluation.outcomes[evaluation.verdict.pick], evaluation.judged
    pick, budget = outcome.cut.strategy, evaluation.request.budgets[0]
    names = [each.name for each in evaluation.outcomes]
    configured = [at for at, each in enumerate(evaluation.outcomes) if each.cut.strategy.configured]
    base = configured[0] if configured else evaluation.verdict.pick  # strategy to compare with
    further, spent = details(evaluation), costs(evaluation)
    about = "" if judged is None else describe_judged(judged, budget)
    judged_note = f'<h2>Judged answers</h2><p class="note">{_safe(about)}</p>' if about else ""
    return Template(frame).substitute(
        collection=_safe(evaluation.request.collection),
        pick=_safe(outcome.name),
        kept="stays" if pick.configured else "is recommended",
        cards="".join(_cards(evaluation, outcome)),
        text=_safe(evaluation.text),
        yaml="" if not evaluation.changes else f"<h2>For the config</h2><pre>{_safe(pick.yaml)}</pre>",
        legend="".join(
            f'<li class="{"pick" if at == evaluation.verdict.pick else ""}">'
            f'<i style="background:var(--{colour(at)})"></i>{_safe(name)}</li>'
            for at, name in enumerate(names)
        ),
        curves=curves(names, evaluation.comparisons, evaluation.verdict.pick),
        budget=f"{budget:,}",
        base=_safe(names[base]),
        differences=differences(names, evaluation.comparisons[budget], base),
        table=_table(evaluation),
        whole="" if evaluation.sample.is_whole else ", in proportion to the documents that were read",
        details=_rows(further[0], map(_cells, further[1:]), evaluation),
        costs=_rows(spent[0], map(_cells, spent[1:]), evaluation),
        asked=_ASKED if any(each.cut.asked.calls for each in evaluation.outcomes) else "",
        judged=judged_note,
        questions="".join(render(evaluation, at) for at in select_questions(evaluation)),
    )


def _cards(evaluation: Evaluation, pick: StrategyOutcome) -> Iterator[str]:
    budget, sample = evaluation.request.budgets[0], evaluation.sample
    mean = evaluation.comparisons[budget].means[evaluation.verdict.pick]
    interval = f"95 % interval {100 * mean.low:.0f} to {100 * mean.high:.0f}"
    for figure, about in (
        (f"{100 * mean.mean:.1f} %", f"recall at {budget:,} tokens, {interval}"),
        (f"{len(evaluation.questions):,}", f"questions, {describe_origins(evaluation)}"),
        (f"{len(sample.documents):,}", f"of {quantity(sample.listed, 'document')} read"),
        (f"{len(pick.cut.places):,}", f"chunks, {pick.cut.mean_tokens:.0f} tokens on average"),
    ):
        yield f'<div class="card"><b>{_safe(figure)}</b><span>{_safe(about)}</span></div>'


def _table(evaluation: Evaluation) -> str:
    """Render the table of recall, with the number of chunks and a drawing of their sizes."""
    (strategy, *heads), *rows = recalls(evaluation)
    drawn = (
        f"{_cells((name, f'{len(each.cut.places):,}', tokens))}"
        f"<td>{sizes([place.tokens for place in each.cut.places])}</td>{_cells(scores)}"
        for each, (name, tokens, *scores) in zip(evaluation.outcomes, rows, strict=True)
    )
    return _rows((strategy, "chunks", heads[0], "sizes", *heads[1:]), drawn, evaluation)


def _rows(heads: Iterable[str], rows: Iterable[str], evaluation: Evaluation) -> str:
    """Render the rows of a table as HTML.

    ``heads``: cells of the first row. ``rows``: cells of each strategy.
    """
    body = "".join(
        f'<tr class="{"pick" if at == evaluation.verdict.pick else ""}">{cells}</tr>'
        for at, cells in enumerate(rows)
    )
    return f"<tr>{_cells(heads, 'th')}</tr>{body}"


def _cells(values: Iterable[str], tag: str = "td") -> str:
    return "".join(f"<{tag}>{_safe(value)}</{tag}>" for value in values)


def _safe(value: str) -> str:
    return escape(escape_invisible(value))
