"""The page of ``evaluate --html``: self-contained, without scripts, and safe for any text."""

from collections.abc import Iterator, Sequence
from html import escape
from string import Template

import numpy as np

from ingestor.core.escape import spelt
from ingestor.evaluate.curves import curves
from ingestor.evaluate.evaluation import Evaluation
from ingestor.evaluate.ranking.scored import NEAREST
from ingestor.evaluate.scores import Excerpt, Place, Question

_SHOWN = 10  # questions
_HEADS = ("strategy", "chunks", "tokens")
_METRICS = ("recall@5", "IoU@5", "precision Ω", "nDCG@5", "embedded", "seconds")


def page(found: Evaluation, frame: str) -> str:
    """``frame``: a page with $places for what is put in."""
    pick = found.outcomes[found.verdict.pick].cut.strategy
    made = sum(question.origin == "made" for question in found.questions)
    return Template(frame).substitute(
        collection=_safe(found.request.collection),
        text=_safe(found.text),
        yaml="" if pick.configured else f"<pre>{_safe(pick.yaml)}</pre>",
        curves=curves(_names(found), found.comparisons, found.verdict.pick),
        table=_table(found),
        questions="".join(_question(found, at) for at in _apart(found)),
        facts=f"{len(found.questions):,} questions, {made:,} of them made from the documents; "
        f"{len(found.sample.documents):,} of {found.sample.listed:,} documents.",
    )


def _names(found: Evaluation) -> list[str]:
    return [each.name for each in found.outcomes]


def _table(found: Evaluation) -> str:
    heads = (*_HEADS, *(f"recall {budget:,}" for budget in found.request.budgets), *_METRICS)
    rows = "".join(
        f'<tr class="{"pick" if at == found.verdict.pick else ""}">{_cells(_row(found, at), "td")}</tr>'
        for at in range(len(found.outcomes))
    )
    return f"<tr>{_cells(heads, 'th')}</tr>{rows}"


def _row(found: Evaluation, at: int) -> Iterator[str]:
    outcome = found.outcomes[at]
    cut, scores = outcome.cut, outcome.scores
    yield outcome.name + (" (configured)" if cut.strategy.configured else "")
    yield from (f"{len(cut.places):,}", f"{cut.mean_tokens:.0f}")
    for each in found.comparisons.values():
        ends = each.means[at]
        yield f"{100 * ends.mean:.1f} ({100 * ends.low:.0f}–{100 * ends.high:.0f})"
    yield from (f"{100 * m.mean():.1f}" for m in (scores.recall, scores.iou, scores.omega, scores.ndcg))
    yield from (f"{cut.embedded_tokens:,}", f"{outcome.seconds:.1f}")


def _cells(values: Sequence[str] | Iterator[str], tag: str) -> str:
    return "".join(f"<{tag}>{_safe(value)}</{tag}>" for value in values)


def _apart(found: Evaluation) -> list[int]:
    """The questions on which recall at the first budget differs most."""
    recall = np.array([each.scores.at[found.request.budgets[0]] for each in found.outcomes])
    spread = recall.max(axis=0) - recall.min(axis=0)
    order = np.lexsort((np.arange(len(spread)), -recall.std(axis=0), -spread))
    return [int(at) for at in order[:_SHOWN] if spread[at] > 0]


def _question(found: Evaluation, at: int) -> str:
    question, budget = found.questions[at], found.request.budgets[0]
    wanted = "".join(
        f'<div class="chunk">{_safe(_text(found, e.document)[e.start : e.end])}</div>'
        for e in question.excerpts
    )
    answers = "".join(
        f"<h4>{_safe(each.name)}: {100 * each.scores.at[budget][at]:.0f} %</h4>"
        + _first(found, question, [each.cut.places[number] for number in each.scores.ranked[at][:NEAREST]])
        for each in found.outcomes
    )
    shares = " · ".join(f"{100 * each.scores.at[budget][at]:.0f}" for each in found.outcomes)
    return (
        f"<details><summary>{_safe(question.text)} <small>recall {shares}</small></summary>"
        f"<h4>The excerpt</h4>{wanted}{answers}</details>"
    )


def _first(found: Evaluation, question: Question, places: Sequence[Place]) -> str:
    """The nearest chunk, and where in the ranking chunks of the excerpt stand."""
    return "".join(
        f'<div class="chunk"><small>{rank}. {_safe(found.sample.documents[place.document].key)}</small>\n'
        f"{''.join(_marked(found, place, question.excerpts))}</div>"
        for rank, place in enumerate(places[:2], start=1)
    )


def _marked(found: Evaluation, place: Place, excerpts: Sequence[Excerpt]) -> Iterator[str]:
    text = _text(found, place.document)
    own = [e for e in excerpts if e.document == place.document]
    for start, end in place.spans:
        at = start
        for excerpt in sorted(own, key=lambda e: e.start):
            low, high = max(at, excerpt.start), min(end, excerpt.end)
            if low < high:
                yield f"{_safe(text[at:low])}<mark>{_safe(text[low:high])}</mark>"
                at = high
        yield _safe(text[at:end])


def _text(found: Evaluation, document: int) -> str:
    return found.sample.documents[document].document.text


def _safe(value: str) -> str:
    return escape(spelt(value))
