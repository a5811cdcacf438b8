"""The questions on which strategies differ most: what was found, and what of the excerpts was missed."""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise

import numpy as np

from ingestor.core.escape import escape_invisible
from ingestor.evaluate.evaluation import Evaluation
from ingestor.evaluate.questions.readings import has
from ingestor.evaluate.ranking.outcomes import StrategyOutcome
from ingestor.evaluate.scores import ChunkPlace, Excerpt, within
from ingestor.evaluate.shown.curves import colour
from ingestor.text.spans import Span

_SHOWN = 10  # questions
_CHUNKS = 2  # of each strategy
_LONGEST = 1500  # characters of a chunk; of a longer one the middle is left out


def differing_questions(evaluation: Evaluation) -> list[int]:
    """The questions on which recall at the first budget differs most."""
    recall = np.array([each.scores.at[evaluation.request.budgets[0]] for each in evaluation.outcomes])
    spread = recall.max(axis=0) - recall.min(axis=0)
    order = np.lexsort((np.arange(len(spread)), -recall.std(axis=0), -spread))
    return [int(at) for at in order[:_SHOWN] if spread[at] > 0]


def render(evaluation: Evaluation, at: int) -> str:
    """Render a question that readers can unfold."""
    budget = evaluation.request.budgets[0]
    shares = "".join(
        f'<span class="share" style="--share:{each.scores.at[budget][at]:.2f};--own:var(--{colour(number)})"'
        f' title="{_safe(each.name)}">{100 * each.scores.at[budget][at]:.0f}</span>'
        for number, each in enumerate(evaluation.outcomes)
    )
    strategies = "".join(
        f'<section><h4><i style="background:var(--{colour(number)})"></i>{_safe(each.name)}: '
        f"{100 * each.scores.at[budget][at]:.0f} %</h4>"
        f"{''.join(_excerpts_and_chunks(each, at, budget, evaluation.quoted[at]))}</section>"
        for number, each in enumerate(evaluation.outcomes)
    )
    return (
        f'<details><summary><span class="question">{_safe(evaluation.questions[at].text)}</span>'
        f'<span class="shares">{shares}</span></summary><div class="strategies">{strategies}</div></details>'
    )


def _excerpts_and_chunks(
    outcome: StrategyOutcome, at: int, budget: int, quoted: Sequence[str]
) -> Iterator[str]:
    """The excerpts, with what was missed; then the best chunks, with what was hit."""
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
        text = _chunk(document.document.text, place, excerpts)
        yield f'<div class="chunk"><small>{rank}. {_safe(document.key)}</small>\n{text}</div>'


def _chunk(text: str, place: ChunkPlace, excerpts: Sequence[Excerpt]) -> str:
    own = [(e.start, e.end) for e in excerpts if e.document == place.document]
    return " … ".join(_shorten(text, span, own) for span in place.spans)


def _shorten(text: str, span: Span, own: Sequence[Span]) -> str:
    start, end = span
    if end - start <= _LONGEST or any(max(a, start) < min(b, end) for a, b in own):
        return _mark(text, span, own, ("mark", ""))
    half = _LONGEST // 2
    return f"{_safe(text[start : start + half])} … {_safe(text[end - half : end])}"


def _mark(text: str, span: Span, held: Sequence[Span], tags: tuple[str, str]) -> str:
    """The text of the span. ``tags``: around what is held, and around the rest."""
    start, end = span
    edges = sorted({start, end, *(each for pair in held for each in pair if start < each < end)})
    inside, outside = tags
    return "".join(
        _tag(
            text[a:b],
            inside if any(low <= a and b <= high for low, high in held) else outside,
        )
        for a, b in pairwise(edges)
    )


def _tag(text: str, tag: str) -> str:
    return f"<{tag}>{_safe(text)}</{tag}>" if tag else _safe(text)


def _safe(value: str) -> str:
    return escape(escape_invisible(value))
