"""Plots of the vectors that a strategy compared, as SVG text. Pure.

A *unit* is a part of the text with a vector of its own, such as a sentence. Horizontal coordinates are
numbers of units, so a curve and a matrix of the same width line up. A chunk is a range of units. Sizes are
bounded: many units share a pixel or a point, and finer details are omitted.
"""

from base64 import b64encode
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING
from zlib import compress, crc32

import numpy as np
import numpy.typing as npt

from ingestor.model import Chunk
from ingestor.segmentation.fixed_point import SCALE, Fixed

if TYPE_CHECKING:
    from ingestor.chunkers.parts import Seen


Floats = npt.NDArray[np.float64]
Run = tuple[int, int]  # units [first, end)

PIXELS = 400  # of a matrix, at most, on either side
POINTS = 700  # of a curve
FEW = 80  # chunks or units; more are drawn in thinner lines
BARS = 32  # of a histogram
_IMAGE = 'role="img" preserveAspectRatio="none"'
_STOPS = ((247, 247, 244), (196, 214, 226), (111, 160, 194), (48, 100, 152), (14, 30, 66))  # light to dark


def matrix(vectors: Fixed, chunks: Sequence[Sequence[Run]]) -> str:
    """Draw the similarity of each two units as a matrix, in which darker means more similar.

    ``vectors``: vectors of the units. ``chunks``: the runs of units of each chunk, which are drawn as
    squares.
    """
    count = len(vectors)
    each, shades, low, high = alike(vectors)
    side = len(shades) * each
    squares = "".join(
        f"M{a} {a}H{b}V{b}H{a}z" for runs in chunks for a, b in runs if (b - a) * 2 * PIXELS >= count
    )
    return (
        f'<svg class="matrix {_density(count)}" viewBox="0 0 {count} {count}" {_IMAGE}>'
        f"<title>Similarity of any two of {count}, {low:.2f} to {high:.2f}, darker for more alike</title>"
        f'<image width="{side}" height="{side}" preserveAspectRatio="none" href="{_png(shades)}"/>'
        f'<path class="squares" d="{squares}"/><path class="mark"/></svg>'
    )


def curve(distances: Floats, bounds: Floats | None, chunks: Sequence[Sequence[Run]]) -> str:
    """Draw a curve of the distance between each unit and the next one.

    ``bounds``: the distances above which the strategy cuts, drawn as a second line. ``chunks``: runs of units
    of each chunk, drawn as bands.
    """
    count = len(distances) + 1
    low, high = scale(distances, bounds)
    each = share(len(distances), POINTS)
    peaks = np.maximum.reduceat(distances, np.arange(0, len(distances), each)) if count > 1 else distances
    line = _line(peaks, each, low, high)
    bound = "" if bounds is None else _steps(bounds, each, low, high)
    bands = [  # those too narrow to see are omitted
        "".join(
            f"M{a} 0H{b}V100H{a}z" for runs in chunks[parity::2] for a, b in runs if (b - a) * POINTS >= count
        )
        for parity in (0, 1)
    ]
    return (
        f'<svg class="curve {_density(count)}" viewBox="0 0 {count} 100" {_IMAGE}>'
        f"<title>Distances from {low:.2f} to {high:.2f}, in the order of the text</title>"
        f'<path class="band even" d="{bands[0]}"/><path class="band odd" d="{bands[1]}"/><path class="mark"/>'
        f'<path class="line" d="{line}"/><path class="bound" d="{bound}"/></svg>'
    )


def scale(distances: Floats, bounds: Floats | None) -> tuple[float, float]:
    """Return the distances at the lower and at the upper edge of the curve."""
    shown = distances if bounds is None else np.concatenate([distances, bounds[np.isfinite(bounds)]])
    low, high = float(shown.min(initial=0)), float(shown.max(initial=0))
    return low, high if high > low else low + 1


def histogram(sizes: Sequence[int], smallest: int, largest: int) -> str:
    """Draw how many chunks have which size.

    The axis of sizes is logarithmic, from ``smallest`` to ``largest``.
    """
    low, high = np.log(smallest), np.log(max(largest, smallest + 1))
    counts, _ = np.histogram(np.log(np.array(sizes)), bins=BARS, range=(low, high))
    most = max(int(counts.max(initial=0)), 1)
    bars = "".join(
        f"M{at + 0.1:g} 40v{-max(40 * number / most, 1):.4g}h.8V40z"
        for at, number in enumerate(counts.tolist()) if number
    )  # fmt: skip
    return (
        f'<svg class="sizes" viewBox="0 0 {BARS} 40" {_IMAGE}>'
        f"<title>Sizes of the chunks, from {smallest} to {largest} tokens, on a logarithmic scale</title>"
        f'<path d="{bars}"/></svg>'
    )


def share(count: int, most: int) -> int:
    """Return how many of ``count`` values must share a pixel or point, if at most ``most`` can be drawn."""
    return max(1, -(-count // most))


def _density(count: int) -> str:
    """Return the CSS class that sets the width of lines: thick for few units, thin for many."""
    return "few" if count <= FEW else "many"


def alike(vectors: Fixed) -> tuple[int, Floats, float, float]:
    """Return the shades of the matrix, from 0 to 1, and the similarities that the shades 0 and 1 stand for.

    Each shade is the mean similarity of two groups of consecutive units. Their size is returned first.
    """
    each = share(len(vectors), PIXELS)
    starts = np.arange(0, len(vectors), each)
    sums = np.add.reduceat(vectors.astype(np.float64) / SCALE, starts)
    means = sums / np.diff(np.append(starts, len(vectors)))[:, None]
    products = means @ means.T
    others = products[~np.eye(len(products), dtype=bool)] if len(products) > 1 else products.ravel()
    low, high = (float(value) for value in np.percentile(others, [2, 99]))
    return each, np.clip((products - low) / max(high - low, 1e-6), 0, 1), low, high


def _png(values: Floats) -> str:
    """Encode a matrix of values from 0 to 1 as a PNG picture, and return the picture as a data URI."""
    rows, columns = values.shape
    pixels = np.zeros((rows, columns + 1), np.uint8)  # each row begins with its filter, none
    pixels[:, 1:] = np.rint(values * 255)
    positions, stops = np.linspace(0, 255, len(_STOPS)), np.array(_STOPS)
    palette = np.stack([np.interp(np.arange(256), positions, colour) for colour in stops.T], axis=1)
    header = columns.to_bytes(4) + rows.to_bytes(4) + bytes([8, 3, 0, 0, 0])  # 8 bits, indexed
    parts = (
        (b"IHDR", header),
        (b"PLTE", np.rint(palette).astype(np.uint8).tobytes()),
        (b"IDAT", compress(pixels.tobytes(), 9)),
        (b"IEND", b""),
    )
    data = b"\x89PNG\r\n\x1a\n" + b"".join(
        len(body).to_bytes(4) + kind + body + crc32(kind + body).to_bytes(4) for kind, body in parts
    )
    return "data:image/png;base64," + b64encode(data).decode()


def _line(values: Floats, each: int, low: float, high: float) -> str:
    """Return the SVG path of a curve.

    Each value is drawn in the middle of the ``each`` units that it stands for.
    """
    heights = _heights(values, low, high)
    middle = (each + 1) / 2
    return "M" + "L".join(f"{at * each + middle:g} {y:g}" for at, y in enumerate(heights)) if heights else ""


def _steps(bounds: Floats, each: int, low: float, high: float) -> str:
    """Return the SVG path of a line with steps: a level for each bound, as wide as a unit.

    Neighbouring bounds with the same level are joined. ``each``: only every n-th bound is drawn.
    """
    path, at = "", 0
    for y, run in groupby(_heights(bounds[::each], low, high)):
        at += len(list(run))
        path += f"{'V' if path else 'M0.5 '}{y:g}H{min(at * each, len(bounds)) + 0.5:g}"
    return path


def _heights(values: Floats, low: float, high: float) -> list[float]:
    """Convert values to vertical coordinates of the SVG.

    The value ``low`` is at 100, the lower edge, and ``high`` at 0, the upper edge. Infinite values lie beyond
    the edges.
    """
    finite = np.nan_to_num(values, posinf=high + (high - low), neginf=low - (high - low))
    heights: list[float] = np.round(100 - 100 * (finite - low) / (high - low), 1).tolist()
    return heights


_LARGER = '<button type="button" class="larger" aria-pressed="false" title="larger or smaller">⤢</button>'


def sizes(tokens: Sequence[int], scale: Run) -> str:
    """Draw a histogram of the chunk sizes of a strategy, with a labelled axis.

    ``tokens``: size of each chunk. ``scale``: ends of the axis, the same for all strategies on the page.
    """
    low, high = scale
    ends = f"<span>{low:,}</span><span>tokens in a chunk, log scale</span><span>{high:,}</span>"
    return _figure("sized", histogram(tokens, low, high), ends)


def views(saw: "Seen", units: Sequence[Sequence[Run]], lent_by: str | None) -> tuple[str, str]:
    """Draw the matrix of similarities and the curve of distances for one strategy.

    ``saw``: the units and vectors to draw. ``units``: the runs of units of each chunk. ``lent_by``: name of
    the strategy that compared the vectors, if the strategy of this column compares none; else None.
    """
    _, _, low, high = alike(saw.vectors)
    ramp = f'<span>{low:.2f}</span><span class="ramp"></span><span>{high:.2f}</span>'
    bounds = saw.bounds if lent_by is None else None
    lowest, highest = scale(saw.distances, bounds)
    ends = f'<span class="high">{highest:.2f}</span><span class="low">{lowest:.2f}</span>'
    plot = f'<div class="plot">{curve(saw.distances, bounds, units)}{ends}</div>'
    borrowed = f"This strategy compares no vectors: the figures show those that {lent_by} compared."
    caption = escape(_explain(saw) if lent_by is None else borrowed)
    return _figure("alike", matrix(saw.vectors, units), ramp + _LARGER), _figure("course", plot, caption)


def units_of(spans: Sequence[Run], chunks: Iterable[Chunk]) -> list[list[Run]]:
    """Return the units that each chunk covers at least in part, as runs.

    ``spans``: characters of each unit.
    """
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    return [
        _join((bisect_right(ends, start), bisect_left(starts, end)) for start, end in chunk_spans(chunk))
        for chunk in chunks
    ]


def chunk_spans(chunk: Chunk) -> tuple[Run, ...]:
    return chunk.spans or ((chunk.start, chunk.end),)


def alikeness(saw: "Seen", units: Sequence[Sequence[Run]]) -> list[str]:
    """Describe the similarity of each chunk's units in words.

    The text has the mean similarity inside the chunk, and the mean similarity to the units of the next chunk.
    """
    scaled = saw.vectors.astype(np.float64) / SCALE
    rows = [scaled[[at for first, end in runs for at in range(first, end)]] for runs in units]
    described = list[str]()
    for own, after in zip(rows, [*rows[1:], scaled[:0]], strict=False):
        size, total, words = len(own), own.sum(axis=0), list[str]()
        if size > 1:
            words.append(f"inside {(total @ total - (own * own).sum()) / (size * (size - 1)):.2f}")
        if size and len(after):
            words.append(f"next {own.mean(axis=0) @ after.mean(axis=0):.2f}")
        described.append(" · ".join(words))
    return described


def _explain(saw: "Seen") -> str:
    """Return the caption of the figures: what the units and distances are, and what a pixel sums up."""
    count = len(saw.spans)
    words = f"{count:,} {saw.unit}s. {saw.meaning[0].upper()}{saw.meaning[1:]}."
    if saw.bounds is not None and len(set(saw.bounds.tolist())) == 1 and np.isfinite(saw.bounds[0]):
        words += f" The line is at {saw.bounds[0]:.2f}."
    pixel, point = share(count, PIXELS), share(count - 1, POINTS)
    if pixel > 1:
        words += f" Each pixel above is the mean of {pixel} by {pixel} {saw.unit}s."
    if point > 1:
        words += f" Each point of the curve is the greatest of {point}."
    return words


def _figure(kind: str, drawn: str, caption: str) -> str:
    return f'<figure class="{kind}">{drawn}<figcaption>{caption}</figcaption></figure>'


def _join(runs: Iterable[Run]) -> list[Run]:
    """Join runs that touch, and omit empty runs. ``runs``: in ascending order."""
    joined = list[Run]()
    for first, end in runs:
        if joined and first <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        elif end > first:
            joined.append((first, end))
    return joined
