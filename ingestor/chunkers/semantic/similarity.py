"""Chunks that grow while the next unit resembles the chunk so far.

The chunk grows by the next paragraph or sentence if the cosine of their vectors is at least ``threshold`` and
the two fit into ``max_tokens``; else a new one begins. With ``vectors: encoded`` the model reads the chunk
again whenever it has grown, one text at a time, which is slow; with ``pooled`` it reads every unit once.

A threshold suits one embedding model and not another: look at ``ingestor chunk FILE --strategy similarity
--html``, and choose one at which the cuts are where you would make them.
"""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from ingestor.chunkers.options import GrowingOptions
from ingestor.chunkers.semantic.parts import whole_paragraphs, whole_sentences
from ingestor.chunkers.semantic.vectors import Stretches, finished
from ingestor.model import Chunking, Document, Sums
from ingestor.ports import Embed
from ingestor.registry import Plugin
from ingestor.segmentation.cluster import Segment
from ingestor.text.bonds import settle
from ingestor.text.limits import SMALLEST
from ingestor.text.tokens import Tokens


class SimilarityOptions(GrowingOptions):
    threshold: float = Field(default=0.3, ge=-1, le=1, description="lowest cosine at which a chunk grows")
    unit: Literal["sentence", "paragraph"] = "sentence"
    min_tokens: int | None = Field(
        default=50, ge=1, description="shorter chunks are joined with a neighbour; `null`: none are"
    )
    max_tokens: int = Field(default=400, ge=SMALLEST, description="largest chunk")


class Similarity:
    def __init__(self, options: SimilarityOptions, tokens: Tokens) -> None:
        self._options, self._tokens = options, tokens

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        text, options = document.text, self._options
        unit = whole_sentences if options.unit == "sentence" else whole_paragraphs
        spans = unit(document, self._tokens, options.max_tokens)
        if not spans:
            return Chunking(())
        stretches = Stretches(text, spans, options, embed, self._tokens)
        grown = [stretches.span(chunk) for chunk in grow(stretches, options.threshold, options.max_tokens)]
        kept = settle(document, grown, self._tokens, options.min_tokens, options.max_tokens)
        return finished(document, kept, stretches.units, options, embed, self._tokens)


def grow(stretches: Stretches, threshold: float, most: int) -> Iterator[Segment]:
    """The chunks in order, as runs of units."""
    count = len(stretches.spans)
    stretches.fetch([(at, at + 1) for at in range(count)])
    first = 0
    for at in range(1, count):
        fits = stretches.size((first, at + 1)) <= most
        if not fits or stretches.alike((first, at), (at, at + 1)) < threshold:
            yield first, at
            first = at
    yield first, count


PLUGIN = Plugin(kind="similarity", version=2, options=SimilarityOptions, build=Similarity)
