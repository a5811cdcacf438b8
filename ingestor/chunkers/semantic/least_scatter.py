"""Documents cut into chunks of least scatter inside; changepoint.py has the rules and the options."""

import math

from ingestor.chunkers.semantic.borders import begun, weights
from ingestor.chunkers.semantic.changepoint_options import VERSION, ChangepointOptions
from ingestor.chunkers.semantic.parts import small_pieces
from ingestor.chunkers.semantic.vectors import Units, finished, joined, units
from ingestor.model import Chunking, Document, Sums
from ingestor.ports import Embed
from ingestor.segmentation.changepoint import (
    DOUBLING,
    Solutions,
    add_prices,
    contribution,
    grid,
    interval,
    level,
    penalties,
    scatter,
    smooth,
    solve,
    undivided_solutions,
)
from ingestor.segmentation.cluster import Cuts
from ingestor.segmentation.fixed_point import Integers
from ingestor.text.bonds import bonds, settle
from ingestor.text.tokens import Tokens


class Changepoint:
    """Change-point chunker of scope ``document``, or with a fixed penalty."""

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
        together = bonds(document, found.spans, self._tokens, most // 2)
        begins = begun(document, found.spans)
        costs = add_prices(scatter(smooth(found.vectors), found.tokens, most), together, begins)
        return solve(costs, prices, weights(document, found.spans, begins, self._options.structure))

    def _balanced(self, document: Document, found: Units, embed: Embed, others: Sums | None) -> Chunking:
        solved = self._solved(document, found, grid()) if len(found.spans) > 1 else undivided_solutions()
        own = contribution(found.tokens, solved)
        at = level(own if others is None else own + others, self._options.target)
        made = self._made(document, found, solved.cuts(at), embed)
        if self._options.scope == "document":
            return made
        low, high = interval(solved, at)
        slack = math.ceil(math.log2(1 + self._options.drift) * DOUBLING)  # levels at which the cuts are kept
        return Chunking(made.chunks, made.vectors, own, (low - slack, high + slack))

    def _made(self, document: Document, found: Units, cuts: Cuts, embed: Embed) -> Chunking:
        options = self._options
        kept = settle(document, joined(found.spans, cuts), self._tokens, options.min_tokens, options.most)
        return finished(document, kept, found, options, embed, self._tokens, options.structure)


class CollectiveChangepoint(Changepoint):
    """Change-point chunker of scope ``collection``, with a penalty found from the collection."""

    def __init__(self, options: ChangepointOptions, tokens: Tokens) -> None:
        super().__init__(options, tokens)
        structure = f" {options.structure}" if options.structure else ""
        self.statistic = f"changepoint {VERSION} {options.target} {options.most}{structure}"
        self._target = options.target

    def value(self, total: Sums) -> int:
        return level(total, self._target)
