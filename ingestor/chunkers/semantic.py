"""What the semantic strategies share: an option, the units that they compare, and chunks from spans.

``vectors: encoded`` has the model read every chunk, a second pass over the text. ``vectors: pooled`` makes a
chunk's vector from those of its units, weighted by tokens, and mixes in its neighbours' (``neighbours``, 0.3
unless given): no second pass, and an edit changes the vectors of at most two chunks on either side.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator

from ingestor.chunkers.options import ChunkerOptions
from ingestor.cluster import Segment
from ingestor.fixedpoint import Fixed, Integers, fixed
from ingestor.metadata import contexts
from ingestor.model import Chunk, Document, Vectors
from ingestor.pooling import mix, pooled
from ingestor.ports import Embed
from ingestor.spans import Span
from ingestor.tokens import Tokens

_SHARE = 0.3  # of neighbours in pooled vectors


class SemanticOptions(ChunkerOptions):
    vectors: Literal["encoded", "pooled"] = Field(
        default="encoded", description="encode each chunk's text, or pool the vectors it was cut by"
    )

    @model_validator(mode="before")
    @classmethod
    def _pooled_vectors_are_mixed(cls, data: Any) -> Any:
        default = cls.model_fields["vectors"].default
        if isinstance(data, dict) and data.get("vectors", default) == "pooled":
            return {"neighbours": _SHARE, **data}
        return data


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Parts of a text in order, with a vector each.

    ``tokens`` are those of each and the whitespace before it: their sums hardly differ from the counts of
    longer texts.
    """

    spans: Sequence[Span]
    vectors: Fixed
    tokens: Integers

    def members(self, chunks: Sequence[Chunk]) -> list[Segment]:
        """The units that each chunk overlaps."""
        starts, ends = [start for start, _ in self.spans], [end for _, end in self.spans]
        return [(bisect_right(ends, chunk.start), bisect_left(starts, chunk.end)) for chunk in chunks]

    def joined(self, cuts: Sequence[int]) -> list[Span]:
        """The spans of the segments that end before these units."""
        firsts = [0, *cuts[:-1]]
        return [
            (self.spans[first][0], self.spans[end - 1][1]) for first, end in zip(firsts, cuts, strict=True)
        ]


def units(text: str, spans: Sequence[Span], embed: Embed, tokens: Tokens) -> Units:
    """Embeds each span, which must be one at least."""
    ends = [end for _, end in spans]
    counts = tokens.counts([text[a:b] for a, b in zip([spans[0][0], *ends], ends, strict=False)])
    return Units(spans, fixed(embed(texts(text, spans))), np.array(counts, dtype=np.int64))


def heading_starts(document: Document) -> list[int]:
    """No unit shall reach across the start of a heading."""
    return [block.start for block in document.blocks if block.kind == "heading"]


def texts(text: str, spans: Sequence[Span]) -> list[str]:
    return [text[start:end] for start, end in spans]


def vectors(
    document: Document,
    chunks: Sequence[Chunk],
    found: Units,
    options: SemanticOptions,
    embed: Embed,
    tokens: Tokens,
) -> Vectors | None:
    """Pooled if the options say so; else none, and the pipeline encodes the chunks.

    What ``context`` puts in front of a chunk's text is pooled like one more unit of it.
    """
    if options.vectors == "encoded":
        return None
    before = contexts(document, chunks, options.context)
    own = pooled(found.vectors, found.tokens, found.members(chunks), _weighted(before, found, embed, tokens))
    return mix(own, options.neighbours)


def _weighted(lines: Sequence[str], found: Units, embed: Embed, tokens: Tokens) -> Integers:
    """The vector of each line times its tokens; zeros for an empty one."""
    distinct = sorted({line for line in lines if line})
    known = {"": np.zeros(found.vectors.shape[1], np.int64)}
    if distinct:
        rows = fixed(embed(distinct)) * np.array(tokens.counts(distinct), np.int64)[:, None]
        known |= zip(distinct, rows, strict=True)
    return np.array([known[line] for line in lines])
