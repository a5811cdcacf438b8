"""Strategy ``changepoint``: chunks of ``target`` tokens on average, with similar text in each.

The method is in segmentation/changepoint.py. Prose is cut into pieces of at most 50 tokens, fewer for small
targets. Pieces are joined to chunks of at most 2.5 times the target. A heading, a label or other lead stays
with the text that it introduces if both fit (see text/bonds.py). Cuts are preferred at starts of sections. In
documents with headings a cut costs less before a heading and between blocks, and more inside lists, tables
and code (see chunkers/parts.py). The pooled vector of a chunk is not mixed with those of chunks in another
section or page.

A table's rows mean little without their header. So if vectors are pooled, the model reads pieces of a table
with their context in front (see text/context.py). Such a piece may be half as large as the largest chunk.

Each chunk has a price. ``penalty: auto`` computes the price at which the mean chunk has the target size. The
mean is over the collection, or over each document by itself (``scope``). If the price is a number, no
document depends on others. Chunk vectors are pooled unless ``vectors: encoded``.

The collection's price moves when documents are added or removed. A document is cut again if the new price
changes its cuts. The option ``drift`` allows the price to move further before that, rounded up to steps of
4.4 %.

Configs are checked without NumPy, which takes long to import: functions import modules that need it.
"""

import math
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from ingestor.chunkers.options import Pick, SemanticOptions, smaller
from ingestor.model import Chunking, Document
from ingestor.registry import Plugin, added
from ingestor.text.bonds import bonds, settle
from ingestor.text.limits import SMALLEST

if TYPE_CHECKING:
    from ingestor.chunkers.parts import Seen
    from ingestor.model import Sums
    from ingestor.ports import Embed
    from ingestor.text.spans import Span
    from ingestor.text.tokens import Tokens

_VERSION = 4
_PIECE = 50  # tokens


class ChangepointOptions(SemanticOptions):
    target: int = Field(default=125, ge=SMALLEST, description="mean size of a chunk, in tokens")
    max_tokens: int | None = Field(
        default=None,
        ge=SMALLEST,
        description="largest chunk; default: 2.5 times `target`",
    )
    penalty: Literal["auto"] | Annotated[float, Field(gt=0, le=1000)] = Field(
        default="auto",
        description="cost of each additional chunk; a higher value gives larger chunks. `auto`: the "
        "mean chunk has `target` tokens",
    )
    scope: Literal["collection", "document"] = Field(
        default="collection",
        description="one penalty for the whole `collection`, or one for each `document`",
    )
    drift: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="how far the penalty may move before documents are chunked again, as a share",
    )
    by_type: dict[str, Pick] = added(
        {"code": {"strategy": "structure", "max_tokens": 150}},
        before={},
        validate_default=True,
        description="other strategies for documents of a content type such as `text/html` or `text/*`, or of "
        "`code`: programs and configuration. The first that matches is used",
    )
    vectors: Literal["encoded", "pooled"] = Field(
        default="pooled",
        description="`pooled`: pool the vectors that the cuts used, and set `neighbours` to 0.3 by "
        "default; `encoded`: embed each chunk's text",
    )

    @model_validator(mode="after")
    def _drift_needs_a_price_that_moves(self) -> Self:
        if self.drift and not self.collective:
            raise ValueError(
                "`drift` needs `scope: collection` and `penalty: auto`: no "
                "other price changes with the collection"
            )
        return self

    @property
    def collective(self) -> bool:
        """Return whether the price depends on the whole collection."""
        return self.scope == "collection" and self.penalty == "auto"

    @property
    def most(self) -> int:
        """Return the number of tokens of the largest chunk."""
        return smaller(self.target * 5 // 2, self.max_tokens)

    @property
    def piece(self) -> int:
        """Return the number of tokens of the largest piece of prose."""
        return max(SMALLEST, min(_PIECE, self.most // 4))


class Changepoint:
    """Chunker ``changepoint`` for a price that the config fixes, or that depends only on the document."""

    def __init__(self, options: ChangepointOptions, tokens: "Tokens") -> None:
        self._options, self._tokens = options, tokens

    def chunk(self, document: Document, embed: "Embed", others: "Sums | None") -> Chunking:
        from ingestor.chunkers import parts
        from ingestor.segmentation import changepoint as scatter

        options, tokens = self._options, self._tokens
        task = parts.CutTask(document, options, embed, tokens)
        tables = self._tables(document)
        spans = parts.small_pieces(document, tokens, options.piece, options.most, tables)
        if not spans:
            return Chunking(())
        units = parts.embed_parts(task, spans, tables)
        penalties = scatter.grid() if options.penalty == "auto" else scatter.penalties(options.penalty)
        if len(spans) > 1:
            begins = parts.starts_section(document, spans)
            costs = scatter.scatter(scatter.smooth(units.vectors), units.tokens, options.most)
            costs = scatter.add_prices(costs, bonds(document, spans, tokens, options.most // 2), begins)
            prices = parts.prices(document, spans, begins)
            solved = scatter.solve(costs, penalties, prices)
        else:
            solved = scatter.solve_undivided()
        own, at = None, 0
        if options.penalty == "auto":
            own = scatter.contribution(units.tokens, solved)
            at = scatter.level(own if others is None else own + others, options.target)
        chosen = parts.join(spans, solved.cuts(at))
        kept = settle(document, chosen, tokens, options.min_tokens, options.most)
        made = parts.finish(task, kept, units, by_place=True)
        if not options.collective:
            return made
        low, high = scatter.interval(solved, at)
        slack = math.ceil(math.log2(1 + options.drift) * scatter.DOUBLING)  # levels
        return Chunking(made.chunks, made.vectors, own, (low - slack, high + slack))

    def look(self, document: Document, embed: "Embed") -> "Seen":
        from ingestor.chunkers import parts
        from ingestor.segmentation.changepoint import smooth

        options, tables = self._options, self._tables(document)
        spans = parts.small_pieces(document, self._tokens, options.piece, options.most, tables)
        units = parts.embed_parts(parts.CutTask(document, options, embed, self._tokens), spans, tables)
        vectors = smooth(units.vectors)
        meaning = (
            "the distance of each piece from the next, both smoothed. No line decides: the cuts are those "
            "that leave least scatter inside the chunks, at a price for every chunk"
        )
        return parts.Seen("piece", spans, vectors, 1 - parts.cosines(vectors), None, meaning)

    def _tables(self, document: Document) -> "list[Span]":
        """Return the spans of the document's tables if vectors are pooled; no spans otherwise."""
        pooled = self._options.vectors == "pooled"
        return [(block.start, block.end) for block in document.blocks if pooled and block.kind == "table"]


class CollectiveChangepoint(Changepoint):
    """Chunker ``changepoint`` for a price that depends on the whole collection.

    ``statistic``: name under which the collection stores the sum of all documents' contributions.
    """

    def __init__(self, options: ChangepointOptions, tokens: "Tokens") -> None:
        super().__init__(options, tokens)
        compared = options.target, options.most, options.vectors, options.context
        self.statistic = " ".join(map(str, ("changepoint", _VERSION, *compared)))

    def value(self, total: "Sums") -> int:
        from ingestor.segmentation.changepoint import level

        return level(total, self._options.target)


def build(options: ChangepointOptions, tokens: "Tokens") -> Changepoint:
    return (CollectiveChangepoint if options.collective else Changepoint)(options, tokens)


PLUGIN = Plugin(kind="changepoint", version=_VERSION, options=ChangepointOptions, build=build)
