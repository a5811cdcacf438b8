"""Figures beside a strategy's chunks: sizes, and the similarities that the strategy saw. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from ingestor.model import Chunk
from ingestor.preview import plot as preview_plot
from ingestor.preview.plot import Floats, Run
from ingestor.segmentation.fixed_point import SCALE

if TYPE_CHECKING:
    from ingestor.chunkers.semantic.seen import Seen


_LARGER = '<button type="button" class="larger" aria-pressed="false" title="larger or smaller">⤢</button>'


def sizes(tokens: Sequence[int], scale: Run) -> str:
    """Draw a histogram of chunk sizes. ``scale``: ends of the axis, shared by strategies side by side."""
    return _figure(
        "sized",
        preview_plot.histogram(tokens, *scale),
        f"<span>{scale[0]:,}</span><span>tokens in a chunk, log scale</span><span>{scale[1]:,}</span>",
    )


def views(saw: "Seen", units: Sequence[Sequence[Run]], lent_by: str | None) -> tuple[str, str]:
    """The matrix and the curve. ``lent_by``: the strategy that saw it, where it was another one."""
    low, high = preview_plot.contrast(saw.vectors)
    ramp = f'<span>{low:.2f}</span><span class="ramp"></span><span>{high:.2f}</span>'
    matrix = _figure("alike", preview_plot.matrix(saw.vectors, units), ramp + _LARGER)
    bounds = saw.bounds if lent_by is None else None
    low, high = preview_plot.scale(saw.distances, bounds)
    ends = f'<span class="high">{high:.2f}</span><span class="low">{low:.2f}</span>'
    plot = f'<div class="plot">{preview_plot.curve(saw.distances, bounds, units)}{ends}</div>'
    captions = (
        _meaning(saw)
        if lent_by is None
        else f"This strategy looks at no vectors: above is what {lent_by} saw."
    )
    return matrix, _figure("course", plot, escape(captions))


def units_of(spans: Sequence[Run], chunks: Iterable[Chunk]) -> list[list[Run]]:
    """The units that each chunk covers, also in part, as runs."""
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    return [
        list(
            _join((bisect_right(ends, start), bisect_left(starts, end)) for start, end in chunk_spans(chunk))
        )
        for chunk in chunks
    ]


def chunk_spans(chunk: Chunk) -> tuple[Run, ...]:
    return chunk.spans or ((chunk.start, chunk.end),)


def alikeness(saw: "Seen", units: Sequence[Sequence[Run]]) -> list[str]:
    """Return how alike the units of each chunk are, and how alike they are to the units of the next chunk."""
    scaled = saw.vectors.astype(np.float64) / SCALE
    rows = [scaled[[at for first, end in runs for at in range(first, end)]] for runs in units]
    following = [*rows[1:], rows[0][:0]] if rows else []
    return [
        " · ".join(filter(None, [_inside(own), _towards(own, after)]))
        for own, after in zip(rows, following, strict=True)
    ]


def _inside(own: Floats) -> str:
    size, total = len(own), own.sum(axis=0)
    if size < 2:
        return ""
    return f"inside {(total @ total - (own * own).sum()) / (size * (size - 1)):.2f}"


def _towards(own: Floats, after: Floats) -> str:
    if not (len(own) and len(after)):
        return ""
    return f"next {own.mean(axis=0) @ after.mean(axis=0):.2f}"


def _meaning(saw: "Seen") -> str:
    count = len(saw.spans)
    words = f"{count:,} {saw.unit}s. {saw.meaning[0].upper()}{saw.meaning[1:]}."
    if saw.bounds is not None and len(set(saw.bounds.tolist())) == 1 and np.isfinite(saw.bounds[0]):
        words += f" The line is at {saw.bounds[0]:.2f}."
    pixel, point = (
        preview_plot.share(count, preview_plot.PIXELS),
        preview_plot.share(count - 1, preview_plot.POINTS),
    )
    if pixel > 1:
        words += f" Each pixel above is the mean of {pixel} by {pixel} {saw.unit}s."
    if point > 1:
        words += f" Each point of the curve is the greatest of {point}."
    return words


def _figure(kind: str, drawn: str, caption: str) -> str:
    return f'<figure class="{kind}">{drawn}<figcaption>{caption}</figcaption></figure>'


def _join(runs: Iterable[Run]) -> Iterator[Run]:
    """Ascending runs, those that touch as one, empty ones left out."""
    now = (0, 0)
    for first, end in runs:
        if now[1] > now[0] and first <= now[1]:
            now = (now[0], max(now[1], end))
        elif end > first:
            if now[1] > now[0]:
                yield now
            now = (first, end)
    if now[1] > now[0]:
        yield now
