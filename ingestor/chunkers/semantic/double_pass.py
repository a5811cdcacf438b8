"""Semantic double-pass merging: sentences into chunks, then chunks with those just beyond a snippet.

First pass: two sentences open a chunk if their cosine exceeds ``initial``, and it grows by the next sentence
as long as that exceeds ``appending`` towards the chunk's last two sentences together. Second pass: a chunk is
merged with the next one, or with the next but one and what lies between (a formula, a quotation, code), if
their cosine exceeds ``merging``. Neither pass goes beyond ``max_tokens``. [Kurek, "Chunking methods in RAG:
semantic double-pass merging", Bitpeak 2024; LlamaIndex's SemanticDoublePassMergingSplitter]

The published thresholds (0.7, 0.8, 0.7 for a text of three topics) are for spaCy's word vectors without stop
words. Those here are for all-MiniLM-L6-v2, by which half of all neighbouring sentences in our corpora exceed
0.3 and a third 0.4; for another model take thresholds of which the same holds.
"""

from collections.abc import Iterator, Sequence

from pydantic import Field

from ingestor.chunkers.options import GrowingOptions
from ingestor.chunkers.semantic.parts import whole_sentences
from ingestor.chunkers.semantic.vectors import Stretches, finished
from ingestor.model import Chunking, Document, Sums
from ingestor.ports import Embed
from ingestor.registry import Plugin
from ingestor.segmentation.cluster import Segment
from ingestor.text.bonds import settle
from ingestor.text.limits import SMALLEST
from ingestor.text.tokens import Tokens


class DoublePassOptions(GrowingOptions):
    initial: float = Field(
        default=0.3, ge=-1, le=1, description="similarity above which two sentences open a chunk"
    )
    appending: float = Field(
        default=0.4, ge=-1, le=1, description="similarity above which a chunk takes the next sentence"
    )
    merging: float = Field(default=0.3, ge=-1, le=1, description="similarity above which chunks are merged")
    min_tokens: int | None = Field(
        default=25, ge=1, description="shorter chunks are joined with a neighbour; `null`: none are"
    )
    max_tokens: int = Field(default=400, ge=SMALLEST, description="largest chunk")


class DoublePass:
    def __init__(self, options: DoublePassOptions, tokens: Tokens) -> None:
        self._options, self._tokens = options, tokens

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        text, options = document.text, self._options
        spans = whole_sentences(document, self._tokens, options.max_tokens)
        if not spans:
            return Chunking(())
        stretches = Stretches(text, spans, options, embed, self._tokens)
        stretches.fetch([(at, at + 1) for at in range(len(spans))])
        first = stretches.rehearsed(lambda: list(grown(stretches, options)))
        stretches.fetch(first)
        found = [stretches.span(chunk) for chunk in merged(stretches, first, options)]
        kept = settle(document, found, self._tokens, options.min_tokens, options.max_tokens)
        return finished(document, kept, stretches.units, options, embed, self._tokens)


def grown(stretches: Stretches, options: DoublePassOptions) -> Iterator[Segment]:
    """The first pass: chunks as runs of sentences."""
    first, count = 0, len(stretches.spans)
    while first < count:
        end = first + 1
        while end < count and _takes(stretches, (first, end), options):
            end += 1
        yield first, end
        first = end


def _takes(stretches: Stretches, chunk: Segment, options: DoublePassOptions) -> bool:
    """Whether the chunk takes the next sentence."""
    first, end = chunk
    if stretches.size((first, end + 1)) > options.max_tokens:
        return False
    bound = options.initial if end - first == 1 else options.appending
    return stretches.alike((max(first, end - 2), end), (end, end + 1)) > bound


def merged(stretches: Stretches, found: Sequence[Segment], options: DoublePassOptions) -> Iterator[Segment]:
    """The second pass over the chunks of the first.

    Not rehearsed: its stretches are long, and those embedded in vain took more time than batches saved.
    """
    current, at = found[0], 1
    while at < len(found):
        taken = _merges(stretches, current, found[at : at + 2], options)
        if taken:
            current = current[0], found[at + taken - 1][1]
            at += taken
        else:
            yield current
            current = found[at]
            at += 1
    yield current


def _merges(
    stretches: Stretches, current: Segment, following: Sequence[Segment], options: DoublePassOptions
) -> int:
    """How many of the following chunks the current one takes: the next, or the next two, or none."""
    for taken, other in enumerate(following, start=1):
        if stretches.alike(current, other) > options.merging:
            fits = stretches.size((current[0], other[1])) <= options.max_tokens
            return taken if fits else 0
    return 0


PLUGIN = Plugin(kind="double_pass", version=2, options=DoublePassOptions, build=DoublePass)
