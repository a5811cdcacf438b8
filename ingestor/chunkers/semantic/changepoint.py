"""Chunks of least scatter inside, with ``target`` tokens on average (segmentation/changepoint.py).

The text is cut into pieces of at most 50 tokens (fewer for small targets), and these are put together into
chunks of at most 2.5 times the target. What belongs to the text after it (see ingestor/text/bonds.py) is cut
off only where it does not fit, and cuts are preferred where a section begins. In documents with headings a
cut costs less before a heading and between blocks, and more inside lists, tables and code, and pooled vectors
take nothing from neighbours in another section (``structure``; see chunkers/semantic/borders.py). With
``structure: 0`` all is as in versions before that option, also the recipe.

``penalty: auto`` finds the price of a chunk at which the mean chunk has the target size: the mean over the
collection, or over each document by itself (``scope``). A number fixes the price instead, and no document
depends on others. Chunk vectors are pooled unless ``vectors: encoded``.

The collection's price moves as documents come and go, and then those are cut again whose cuts it changes.
``drift`` lets it move by that share more, in steps of 4.4 % and one at least, before a document is cut again.
"""

import math
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ingestor.chunkers.options import smaller
from ingestor.chunkers.semantic.borders import begun, weights
from ingestor.chunkers.semantic.parts import small_pieces
from ingestor.chunkers.semantic.vectors import SemanticOptions, Units, finished, joined, units
from ingestor.model import Chunking, Document, Sums
from ingestor.ports import Embed
from ingestor.registry import Plugin, added
from ingestor.segmentation.changepoint import (
    DOUBLING,
    Solutions,
    contribution,
    grid,
    interval,
    level,
    penalties,
    scatter,
    smoothed,
    solve,
    undivided,
    weighed,
)
from ingestor.segmentation.cluster import Cuts
from ingestor.segmentation.fixed_point import Integers
from ingestor.text.bonds import bound
from ingestor.text.limits import SMALLEST, limit
from ingestor.text.tokens import Tokens

_VERSION = 2
_PIECE = 50  # tokens


class ChangepointOptions(SemanticOptions):
    """``max_tokens``: 2.5 times the target unless it is less."""

    target: int = Field(default=125, ge=SMALLEST, description="tokens of the mean chunk")
    penalty: Literal["auto"] | Annotated[float, Field(gt=0, le=1000)] = "auto"
    scope: Literal["collection", "document"] = "collection"
    drift: float = Field(
        default=0.0, ge=0, le=1, description="how far the price may leave a document's interval, as a share"
    )
    structure: float = added(
        1.0,
        before=0.0,
        ge=0,
        le=1,
        description="how much headings, blocks, lists, tables and code decide beside the meaning",
    )
    vectors: Literal["encoded", "pooled"] = "pooled"

    @model_validator(mode="after")
    def _drift_needs_a_price_that_moves(self) -> Self:
        if self.drift and not self.collective:
            raise ValueError("drift needs scope: collection and penalty: auto (no other price drifts)")
        return self

    @property
    def collective(self) -> bool:
        """Whether the price is the collection's."""
        return self.scope == "collection" and self.penalty == "auto"

    @property
    def slack(self) -> int:
        """Levels beyond a document's interval at which its cuts are kept."""
        return math.ceil(math.log2(1 + self.drift) * DOUBLING)

    @property
    def most(self) -> int:
        """Tokens of the largest chunk."""
        return smaller(self.target * 5 // 2, self.max_tokens)

    @property
    def piece(self) -> int:
        """Tokens of the largest piece."""
        return max(SMALLEST, min(_PIECE, self.most // 4))


class Changepoint:
    """Of scope ``document``, or with a fixed penalty."""

    def __init__(self, options: ChangepointOptions, tokens: Tokens) -> None:
        self._options, self._tokens = options, tokens

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        spans = small_pieces(document, self._tokens, self._options.piece, self._options.most)
        if not spans:
            return Chunking(())
        found = units(document.text, spans, embed, self._tokens)
        if self._options.penalty == "auto":
            return self._balanced(document, found, embed, others)
        solved = self._solved(document, found, penalties(self._options.penalty))
        return self._made(document, found, solved.cuts(0), embed)

    def _solved(self, document: Document, found: Units, prices: Integers) -> Solutions:
        most = self._options.most
        together = bound(document, found.spans, self._tokens, most // 2)
        begins = begun(document, found.spans)
        costs = weighed(scatter(smoothed(found.vectors), found.tokens, most), together, begins)
        return solve(costs, prices, weights(document, found.spans, begins, self._options.structure))

    def _balanced(self, document: Document, found: Units, embed: Embed, others: Sums | None) -> Chunking:
        solved = self._solved(document, found, grid()) if len(found.spans) > 1 else undivided()
        own = contribution(found.tokens, solved)
        at = level(own if others is None else own + others, self._options.target)
        made = self._made(document, found, solved.cuts(at), embed)
        if self._options.scope == "document":
            return made
        low, high = interval(solved, at)
        slack = self._options.slack
        return Chunking(made.chunks, made.vectors, own, (low - slack, high + slack))

    def _made(self, document: Document, found: Units, cuts: Cuts, embed: Embed) -> Chunking:
        text, options = document.text, self._options
        kept = limit(text, joined(found.spans, cuts), self._tokens, options.min_tokens, options.most)
        return finished(document, kept, found, options, embed, self._tokens, options.structure)


class CollectiveChangepoint(Changepoint):
    """Of scope ``collection`` with the penalty found."""

    def __init__(self, options: ChangepointOptions, tokens: Tokens) -> None:
        super().__init__(options, tokens)
        structure = f" {options.structure}" if options.structure else ""
        self.statistic = f"changepoint {_VERSION} {options.target} {options.most}{structure}"
        self._target = options.target

    def value(self, total: Sums) -> int:
        return level(total, self._target)


def build(options: ChangepointOptions, tokens: Tokens) -> Changepoint:
    return (CollectiveChangepoint if options.collective else Changepoint)(options, tokens)


PLUGIN = Plugin(kind="changepoint", version=_VERSION, options=ChangepointOptions, build=build)
