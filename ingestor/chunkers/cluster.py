"""Strategy ``cluster``: joins neighbouring pieces that are more similar than the average of the collection.

The text is cut into pieces of at most ``min_tokens``, which are embedded. A chunk joins up to max_tokens /
min_tokens neighbouring pieces, and the best of all divisions is computed (segmentation/cluster.py). The
method is ClusterSemanticChunker [Smith & Troynikov, Chroma technical report, 2024]. Unlike in the published
code, no chunk exceeds the limit. A chunk of a word or two is joined with a neighbour.

``scope: collection`` compares pieces with the mean over all documents of the collection, as published. Each
added or removed document moves the mean, and every document whose cuts change is cut again. So the collection
always equals one that is made anew. ``drift`` lets the mean move further, so that fewer chunks are written
again; chunks then depend on the history. ``scope: document`` compares pieces with the mean over their own
document.
"""

from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from ingestor.chunkers.options import SemanticOptions
from ingestor.chunkers.parts import CutTask, Seen, Units, cosines, embed_parts, finish, join, small_pieces
from ingestor.model import Chunking, Document, Sums
from ingestor.ports import BadDocument, Embed
from ingestor.registry import Plugin
from ingestor.segmentation.cluster import MEAN_BITS, Programme, contribution, mean, programme
from ingestor.segmentation.fixed_point import sums_of_runs
from ingestor.text.bonds import settle
from ingestor.text.limits import SMALLEST
from ingestor.text.tokens import Tokens

_VERSION = 3
_LEAST = 5  # a chunk under a fifth of a piece is joined with a neighbour, if both fit


class ClusterOptions(SemanticOptions):
    """Options of ``cluster``. ``min_tokens`` limits a piece; a chunk has one or more pieces."""

    max_tokens: int = Field(default=400, ge=SMALLEST, description="largest chunk")
    min_tokens: int = Field(
        default=50, ge=SMALLEST, description="most tokens of the segments that are compared"
    )
    scope: Literal["collection", "document"] = Field(
        default="collection",
        description="mean similarity to compare with: that of the whole `collection`, or of each `document`",
    )
    drift: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="how far the mean similarity of the collection may move before documents are "
        "chunked again",
    )

    @model_validator(mode="after")
    def _drift_needs_a_collection(self) -> Self:
        if self.drift and self.scope == "document":
            raise ValueError(
                "`drift` needs `scope: collection`: a document's own mean does not change with the collection"
            )
        return self


class Cluster:
    """Chunker ``cluster`` for scope ``document``, which compares pieces within each document."""

    def __init__(self, options: ClusterOptions, tokens: Tokens) -> None:
        self._options, self._tokens = options, tokens

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        options = self._options
        task, units = self._embed(document, embed)
        if not units.spans:
            return Chunking(())
        own = contribution(units.vectors)
        value = mean(own if others is None else own + others)
        solved = solvable(units, options)
        cuts = solved.cuts(value)
        least = options.min_tokens // _LEAST
        kept = settle(document, join(units.spans, cuts), self._tokens, least, options.max_tokens)
        made = finish(task, kept, units)
        if options.scope == "document":
            return made
        low, high = solved.interval(value, cuts)
        slack = round(options.drift * (1 << MEAN_BITS))
        return Chunking(made.chunks, made.vectors, own, (low - slack, high + slack))

    def look(self, document: Document, embed: Embed) -> Seen:
        _, units = self._embed(document, embed)
        average = mean(contribution(units.vectors)) / (1 << MEAN_BITS)
        meaning = (
            "the distance of each piece from the next; the line is that of any two pieces on average. The "
            "cuts are the best of all together: within a chunk all pairs count, not only neighbours"
        )
        distances = 1 - cosines(units.vectors)
        bounds = np.full(len(distances), 1 - average)
        return Seen("piece", units.spans, units.vectors, distances, bounds, meaning)

    def _embed(self, document: Document, embed: Embed) -> tuple[CutTask, Units]:
        task = CutTask(document, self._options, embed, self._tokens)
        spans = small_pieces(document, self._tokens, self._options.min_tokens, self._options.max_tokens)
        return task, embed_parts(task, spans)


class CollectiveCluster(Cluster):
    """Chunker ``cluster`` for scope ``collection``, which compares pieces with the whole collection.

    ``statistic``: name under which the collection stores the sum of all documents' contributions. Chunkers
    with the same size of pieces share it, whatever their ``max_tokens``.
    """

    def __init__(self, options: ClusterOptions, tokens: Tokens) -> None:
        super().__init__(options, tokens)
        self.statistic = f"cluster {_VERSION} {options.min_tokens}"

    def value(self, total: Sums) -> int:
        return mean(total)


def solvable(units: Units, options: ClusterOptions) -> Programme:
    """Return the dynamic programme that finds a document's best cuts (see segmentation/cluster.py).

    Raises BadDocument if the document is too long to compare its pieces.
    """
    longest = options.max_tokens // options.min_tokens
    allowed = sums_of_runs(units.tokens, longest) <= options.max_tokens
    allowed[:, 0] = True
    try:
        return programme(units.vectors, longest, allowed)
    except ValueError as error:
        raise BadDocument(
            f"{error}: lower `max_tokens`, raise `min_tokens`, or split the document"
        ) from error


def build(options: ClusterOptions, tokens: Tokens) -> Cluster:
    return (CollectiveCluster if options.scope == "collection" else Cluster)(options, tokens)


PLUGIN = Plugin(kind="cluster", version=_VERSION, options=ClusterOptions, build=build)
