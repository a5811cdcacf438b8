"""Cuts where neighbouring sentences differ more than usual in the document.

Each sentence is embedded together with ``buffer`` neighbours on either side; the distance of two that follow
each other is 1 - cosine, and there is a cut where it exceeds a threshold: [Kamradt, "5 Levels of Text
Splitting"; LangChain's SemanticChunker]

- ``percentile``: the ``amount``-th percentile of the distances (95);
- ``standard_deviation``: their mean and ``amount`` standard deviations (3);
- ``interquartile``: their mean and ``amount`` interquartile ranges (1.5);
- ``gradient``: the ``amount``-th percentile (95) of the distances' gradient, which then must exceed it.

The threshold is lowered for the whole document until no chunk exceeds ``max_tokens`` [Chroma's
KamradtModified, which aims at a mean size]. Without that limit chunks of a few thousand tokens are common.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from ingestor.chunkers.options import GrowingOptions
from ingestor.chunkers.semantic.parts import whole_sentences
from ingestor.chunkers.semantic.vectors import Stretches, cosines, finished, joined
from ingestor.model import Chunking, Document, Sums
from ingestor.ports import Embed
from ingestor.registry import Plugin
from ingestor.segmentation.fixed_point import Integers
from ingestor.text.bonds import settle
from ingestor.text.limits import SMALLEST
from ingestor.text.tokens import Tokens

Threshold = Literal["percentile", "standard_deviation", "interquartile", "gradient"]
Values = npt.NDArray[np.float64]  # shape (n - 1,): between each unit and the next

AMOUNTS = {"percentile": 95.0, "standard_deviation": 3.0, "interquartile": 1.5, "gradient": 95.0}


class BreakpointOptions(GrowingOptions):
    threshold: Threshold = "percentile"
    amount: float | None = Field(
        default=None, ge=0, le=100, description="value of the threshold; its default depends on `threshold`"
    )
    min_tokens: int | None = Field(
        default=50, ge=1, description="shorter chunks are joined with a neighbour; `null`: none are"
    )
    max_tokens: int | None = Field(
        default=400,
        ge=SMALLEST,
        description="largest chunk; the threshold is lowered for it. `null`: no limit",
    )
    buffer: int = Field(default=1, ge=0, le=10, description="sentences embedded on either side of each")


class Breakpoint:
    def __init__(self, options: BreakpointOptions, tokens: Tokens) -> None:
        self._options, self._tokens = options, tokens

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        text, options = document.text, self._options
        spans = whole_sentences(document, self._tokens, options.max_tokens)
        if not spans:
            return Chunking(())
        stretches = Stretches(text, spans, options, embed, self._tokens)
        cuts = breakpoints(distances(stretches, options.buffer), stretches.tokens, options)
        kept = settle(document, joined(spans, cuts), self._tokens, options.min_tokens, options.max_tokens)
        return finished(document, kept, stretches.units, options, embed, self._tokens)


def distances(stretches: Stretches, buffer: int) -> Values:
    """Between each unit and the next, each seen with its neighbours."""
    count = len(stretches.spans)
    windows = [(max(at - buffer, 0), min(at + buffer + 1, count)) for at in range(count)]
    return 1 - cosines(stretches.rows(windows))


def breakpoints(found: Values, tokens: Integers, options: BreakpointOptions) -> list[int]:
    """The ends of the chunks, in units."""
    values = np.gradient(found) if options.threshold == "gradient" and len(found) > 1 else found
    bound = threshold(found, options.threshold, options.amount)
    if options.max_tokens is not None:
        bound = lowered(values, bound, tokens, options.max_tokens)
    return ends(values, bound)


def threshold(found: Values, kind: Threshold, amount: float | None = None) -> float:
    """Return the bound that a distance (or its gradient) must exceed for a cut.

    Sums are rounded once, so the order of the distances does not matter.
    """
    amount = AMOUNTS[kind] if amount is None else amount
    if len(found) < 2:
        return math.inf
    if kind == "gradient":
        return float(np.percentile(np.gradient(found), amount))
    if kind == "percentile":
        return float(np.percentile(found, amount))
    mean = math.fsum(found) / len(found)
    if kind == "interquartile":
        spread = float(np.percentile(found, 75) - np.percentile(found, 25))
    else:
        spread = math.sqrt(math.fsum((found - mean) ** 2) / len(found))
    return mean + amount * spread


def ends(values: Values, bound: float) -> list[int]:
    """Return the end after each unit whose value exceeds the bound, and the end after the last unit."""
    return [*(np.flatnonzero(values > bound) + 1).tolist(), len(values) + 1]


def lowered(values: Values, bound: float, tokens: Integers, most: int) -> float:
    """The greatest bound, not above the one given, at which no chunk has more than ``most`` tokens.

    The least possible one where single units have more.
    """
    bounds: list[float] = [-math.inf, *np.unique(values[values < bound]).tolist(), bound]
    low, high = 0, len(bounds) - 1  # chunks grow with the bound
    while low < high:
        middle = (low + high + 1) // 2
        if _largest(tokens, ends(values, bounds[middle])) <= most:
            low = middle
        else:
            high = middle - 1
    return bounds[low]


def _largest(tokens: Integers, cuts: Sequence[int]) -> int:
    return int(np.add.reduceat(tokens, [0, *cuts[:-1]]).max())


PLUGIN = Plugin(kind="breakpoint", version=2, options=BreakpointOptions, build=Breakpoint)
