"""Common code of the semantic strategies: the compared units, and vectors of longer stretches.

``vectors: encoded`` has the model read every chunk, a second pass over the text. ``vectors: pooled`` makes a
chunk's vector from those of its units, weighted by tokens, and mixes in its neighbours' (``neighbours``, 0.3
unless given): no second pass, and an edit changes the vectors of at most two chunks on either side.
Strategies that compare longer stretches than a unit encode or pool those in the same way.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ingestor.chunkers.options import SemanticOptions
from ingestor.chunkers.semantic.borders import touched
from ingestor.model import Chunking, Document
from ingestor.ports import Embed
from ingestor.segmentation.cluster import Segment
from ingestor.segmentation.fixed_point import Fixed, Integers, blocks, squares, to_fixed, unit
from ingestor.segmentation.pooling import mix, pool, weighted_sums
from ingestor.text.context import Lines, contexts
from ingestor.text.spans import Span, chunks
from ingestor.text.tokens import Tokens

_REHEARSALS = 8
_FRONT = 2  # how often a token in front of a chunk counts: lines are short and tell much


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Parts of a text in order, with a vector each.

    ``tokens`` are those of each and the whitespace before it: their sums hardly differ from the counts of
    longer texts.
    """

    spans: Sequence[Span]
    tokens: Integers
    vectors: Fixed


def units(text: str, spans: Sequence[Span], embed: Embed, tokens: Tokens) -> Units:
    """Embeds each span."""
    return Units(
        spans, sizes(text, spans, tokens), to_fixed(embed([text[start:end] for start, end in spans]))
    )


def sizes(text: str, spans: Sequence[Span], tokens: Tokens) -> Integers:
    """The tokens of each, with the whitespace before it."""
    ends = [end for _, end in spans]
    starts = [*(start for start, _ in spans[:1]), *ends]
    return np.array(tokens.counts([text[a:b] for a, b in zip(starts, ends, strict=False)]), dtype=np.int64)


def joined(spans: Sequence[Span], cuts: Sequence[int]) -> list[Span]:
    """The stretches of the segments that end before these units."""
    return [(spans[first][0], spans[end - 1][1]) for first, end in zip((0, *cuts), cuts, strict=False)]


def finished(
    document: Document,
    spans: Sequence[Span],
    found: Units | None,
    options: SemanticOptions,
    embed: Embed,
    tokens: Tokens,
    structure: float = 0.0,
) -> Chunking:
    """Make a chunk of each span, with a vector pooled from the units if the options demand pooling.

    ``structure``: how much less a chunk takes from neighbours in another section or page, from 0 to 1.
    """
    made = chunks(document.text, spans)
    if options.vectors == "encoded" or found is None:
        return Chunking(made)
    dimensions = found.vectors.shape[1]
    before = _weighted(contexts(document, made, options.context), dimensions, embed, tokens)
    own = pool(found.vectors, found.tokens, _members(found.spans, spans), before)
    apart = touched(document, spans) if structure else ()
    return Chunking(made, mix(own, options.neighbours, apart, 1 - structure))


def _members(parts: Sequence[Span], spans: Sequence[Span]) -> list[Segment]:
    """The parts that each span overlaps."""
    starts, ends = [start for start, _ in parts], [end for _, end in parts]
    return [(bisect_right(ends, start), bisect_left(starts, end)) for start, end in spans]


def _weighted(lines: Sequence[Lines], dimensions: int, embed: Embed, tokens: Tokens) -> Integers:
    """Pool the lines in front of each chunk (see text/context.py), each by ``_FRONT`` times its tokens."""
    found = np.zeros((len(lines), dimensions), np.int64)
    distinct = sorted({line for each in lines for line in each})
    if distinct:
        rows = to_fixed(embed(distinct)) * (_FRONT * np.array(tokens.counts(distinct), np.int64))[:, None]
        places = {line: at for at, line in enumerate(distinct)}
        for at, each in enumerate(lines):
            found[at] = rows[[places[line] for line in each]].sum(axis=0)
    return found


class Stretches:
    """Vectors of runs of neighbouring units [first, end), encoded or pooled as the options say."""

    def __init__(
        self, text: str, spans: Sequence[Span], options: SemanticOptions, embed: Embed, tokens: Tokens
    ) -> None:
        self.spans, self.tokens = spans, sizes(text, spans, tokens)
        self._sums: list[int] = [0, *np.cumsum(self.tokens).tolist()]
        self.units = units(text, spans, embed, tokens) if options.vectors == "pooled" else None
        self._text, self._embed = text, embed
        self._known: dict[Segment, Fixed] = {}
        self._noted: set[Segment] | None = None
        self._passing = lru_cache(maxsize=8)(lambda stretch: self.rows([stretch])[0])

    def rows(self, wanted: Sequence[Segment]) -> Fixed:
        """Return a unit vector for each stretch, as rows."""
        if self.units is None:
            return to_fixed(self._embed([self._text[a:b] for a, b in map(self.span, wanted)]))
        found = np.empty((len(wanted), self.units.vectors.shape[1]), np.int32)
        for part in blocks(len(wanted)):
            found[part] = unit(weighted_sums(self.units.vectors, self.units.tokens, wanted[part]))
        return found

    def fetch(self, wanted: Sequence[Segment]) -> None:
        """Ahead of ``alike``, because embedding many texts at once is faster. Others are forgotten."""
        kept = {stretch: self._known[stretch] for stretch in wanted if stretch in self._known}
        missing = [stretch for stretch in wanted if stretch not in kept]
        self._known = kept | dict(zip(missing, self.rows(missing) if missing else (), strict=True))

    def rehearsed(self, walk: Callable[[], list[Segment]]) -> list[Segment]:
        """The result of ``walk``, with most of its stretches embedded in large batches.

        In a rehearsal, missing stretches have similarity 0; they are noted, and embedded together before the
        next one. In the last walk missing stretches are embedded one by one. The result is the same, at the
        cost of a few more texts.
        """
        for _ in range(_REHEARSALS if self.units is None else 0):
            self._noted = set()
            found = walk()
            noted, self._noted = sorted(self._noted), None
            if not noted:
                return found
            self._known |= zip(noted, self.rows(noted), strict=True)
        return walk()

    def alike(self, first: Segment, second: Segment) -> float:
        """The cosine of two stretches."""
        if self._noted is not None:
            missing = [stretch for stretch in (first, second) if stretch not in self._known]
            self._noted.update(missing)
            if missing:
                return -math.inf
        one, other = (
            self._known[stretch] if stretch in self._known else self._row(stretch)
            for stretch in (first, second)
        )
        return int(one @ other) / math.sqrt(max(int(one @ one) * int(other @ other), 1))

    def _row(self, stretch: Segment) -> Fixed:
        return self._known[stretch] if stretch in self._known else self._passing(stretch)

    def size(self, stretch: Segment) -> int:
        """About its tokens."""
        return self._sums[stretch[1]] - self._sums[stretch[0]]

    def span(self, stretch: Segment) -> Span:
        return self.spans[stretch[0]][0], self.spans[stretch[1] - 1][1]


def cosines(rows: Fixed) -> npt.NDArray[np.float64]:
    """Return the cosine of each row and the next, the same on every machine; shape (n - 1,).

    The cosine beside a zero row is 0.
    """
    products = np.einsum("ij,ij->i", rows[1:], rows[:-1]).astype(np.float64)
    lengths = squares(rows)
    found: npt.NDArray[np.float64] = products / np.sqrt(np.maximum(lengths[1:] * lengths[:-1], 1))
    return found
