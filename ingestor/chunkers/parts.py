"""Parts of a document that semantic strategies compare, prices of cuts between them, and vectors of chunks.

A *part* is a span that a strategy embeds: a sentence, a paragraph or a piece. A *price* is what a cut costs
in the strategy ``changepoint``; a cut costs less at a strong border in the text's structure.

``vectors: encoded`` embeds every chunk, so the model reads the text a second time. ``vectors: pooled``
averages the vectors of a chunk's parts, weighted by tokens, and mixes in those of neighbouring chunks
(``neighbours``, default 0.3). Pooling needs no second reading, and an edit changes the vectors of at most two
chunks on either side.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ingestor.chunkers.options import SemanticOptions
from ingestor.chunkers.recursive import split_large
from ingestor.model import Chunking, Document
from ingestor.ports import Embed
from ingestor.segmentation.changepoint import WHOLE
from ingestor.segmentation.fixed_point import Fixed, Integers, squares, to_fixed
from ingestor.segmentation.pooling import mix, pool
from ingestor.text.bonds import leads
from ingestor.text.context import contexts, in_front
from ingestor.text.limits import count
from ingestor.text.pieces import pieces
from ingestor.text.sections import headings, label_spans
from ingestor.text.sentences import paragraphs, sentences
from ingestor.text.spans import Span, chunks, owner, union
from ingestor.text.tokens import Tokens

# Prices before a heading, between blocks, and inside a list, table or code, as shares of the price of a cut
# within a paragraph. Chosen on three manuals, and checked on others (decision 0052).
HEADING, BLOCK, INSIDE = 0.6, 0.9, 1.3
_FEWEST = 2  # headings or pages; fewer do not count as structure
_FRONT = 2  # how often a token in front of a chunk counts: context lines are short and informative

Values = npt.NDArray[np.float64]  # shape (n - 1,): between each part and the next
Place = tuple[int, int]  # number of the section, and number of the page


@dataclass(frozen=True, slots=True)
class CutTask:
    """A document that is to be cut, with the options, the embedder and the tokenizer for its parts."""

    document: Document
    options: SemanticOptions
    embed: Embed
    tokens: Tokens


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """The parts of a text, with a vector each.

    ``in_context``: numbers of the parts that were embedded with context in front. ``tokens``: tokens of each
    part with the white space before it, so that their sums approximate the counts of longer texts.
    """

    spans: Sequence[Span]
    tokens: Integers
    vectors: Fixed
    in_context: Collection[int] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """The values by which a strategy decided its cuts, to be shown to people beside the cuts."""

    unit: str  # name of a part, such as "sentence"
    spans: Sequence[Span]
    vectors: Fixed  # one for each part
    distances: Values  # 1 - cosine of each part and the next
    bounds: Values | None  # distances above which the strategy cuts; None if it has no such bound
    meaning: str  # explanation of the distances, in a sentence


def small_pieces(
    document: Document, tokens: Tokens, size: int, most: int, tables: Sequence[Span] = ()
) -> list[Span]:
    """Return the document in pieces of at most ``size`` tokens. Headings and labels begin a piece.

    A label is joined with the text after it if both have at most ``most`` tokens. ``tables``: spans in which
    pieces may have half of ``most`` tokens.
    """
    starts = (start for start, _ in label_spans(document))
    cut = pieces(document.text, tokens, size, starts, document.language, tables, max(size, most // 2))
    return join_labels(document, cut, tokens, most)


def whole_sentences(document: Document, tokens: Tokens, most: int | None) -> list[Span]:
    """Return the sentences of a document, with headings and labels joined to the text after them.

    A sentence over ``most`` tokens is divided.
    """
    spans = sentences(document.text, language=document.language)
    return join_labels(document, split_large(document.text, spans, tokens, most), tokens, most)


def whole_paragraphs(document: Document, tokens: Tokens, most: int | None) -> list[Span]:
    """Return the paragraphs of a document, with headings and labels joined to the text after them.

    A paragraph over ``most`` tokens is divided.
    """
    spans = paragraphs(document.text)
    return join_labels(document, split_large(document.text, spans, tokens, most), tokens, most)


def join_labels(document: Document, spans: Sequence[Span], tokens: Tokens, most: int | None) -> list[Span]:
    """Return the spans, each joined with the leads before it if both have at most ``most`` tokens.

    text/bonds.py defines leads.
    """
    if len(spans) < 2:
        return [*spans]
    leading = leads(document)
    starts = [start for start, _ in leading]
    kept: list[Span] = []
    belongs = False
    for span in spans:
        if belongs and (most is None or count(document.text, union(kept[-1], span), tokens) <= most):
            kept[-1] = union(kept[-1], span)
        else:
            kept.append(span)
        at = owner(starts, span[0])
        belongs = at >= 0 and span[1] <= leading[at][1]
    return kept


def embed_parts(task: CutTask, spans: Sequence[Span], tables: Sequence[Span] = ()) -> Units:
    """Embed the spans. A span inside one of the ``tables`` is embedded with its context in front."""
    text, starts = task.document.text, [start for start, _ in tables]
    owners = [owner(starts, end - 1) for _, end in spans]
    inside = [at for at, own in enumerate(owners) if own >= 0 and spans[at][1] <= tables[own][1]]
    read = contexts(task.document, chunks(text, [spans[at] for at in inside]), task.options.context)
    lines = dict(zip(inside, read, strict=True))
    texts = [in_front(lines.get(at, ()), text[start:end]) for at, (start, end) in enumerate(spans)]
    return Units(spans, sizes(text, spans, task.tokens), to_fixed(task.embed(texts)), lines.keys())


def sizes(text: str, spans: Sequence[Span], tokens: Tokens) -> Integers:
    """Count the tokens of each span, with the white space before it."""
    ends = [end for _, end in spans]
    starts = [*(start for start, _ in spans[:1]), *ends]
    return np.array(tokens.counts([text[a:b] for a, b in zip(starts, ends, strict=False)]), dtype=np.int64)


def join(spans: Sequence[Span], cuts: Sequence[int]) -> list[Span]:
    """Return the span of each run of parts. ``cuts``: number of parts up to the end of each run."""
    return [(spans[first][0], spans[end - 1][1]) for first, end in zip((0, *cuts), cuts, strict=False)]


def finish(task: CutTask, spans: Sequence[Span], units: Units | None, by_place: bool = False) -> Chunking:
    """Return the chunks of a document, with pooled vectors if the options demand pooling.

    ``units``: the embedded parts from which to pool; None if there are none. ``by_place``: whether to mix in
    only the vectors of neighbours in the same section and page.
    """
    document, options = task.document, task.options
    made = chunks(document.text, spans)
    if options.vectors == "encoded" or units is None:
        return Chunking(made)
    starts, ends = [start for start, _ in units.spans], [end for _, end in units.spans]
    members = [(bisect_right(ends, start), bisect_left(starts, end)) for start, end in spans]
    lines = [
        () if any(at in units.in_context for at in range(*each)) else own
        for each, own in zip(members, contexts(document, made, options.context), strict=True)
    ]
    distinct = sorted({line for each in lines for line in each})
    front = np.zeros((len(lines), units.vectors.shape[1]), np.int64)
    if distinct:
        weighted = np.array(task.tokens.counts(distinct), np.int64)[:, None] * _FRONT
        rows = dict(zip(distinct, to_fixed(task.embed(distinct)) * weighted, strict=True))
        for at, each in enumerate(lines):
            front[at] = sum((rows[line] for line in each), np.zeros_like(front[at]))
    own = pool(units.vectors, units.tokens, members, front)
    return Chunking(made, mix(own, options.neighbours, places(document, spans) if by_place else ()))


def starts_section(document: Document, spans: Sequence[Span]) -> list[bool]:
    """Return for each span whether a section starts with it; False for the first span."""
    starts = [heading.start for heading in headings(document)]
    owners = [owner(starts, start) for start, _ in spans]
    return [*(False for _ in spans[:1]), *(own != before for before, own in pairwise(owners))]


def prices(document: Document, spans: Sequence[Span], begins: Sequence[bool]) -> Integers:
    """Return the price of the cut after each span, in thousandths (1 / WHOLE) of the penalty; shape (spans,).

    All cuts cost the same in a document with fewer than two headings, where a blank line tells little.
    ``begins``: result of ``starts_section``.
    """
    result = np.full(len(spans), WHOLE, np.int64)
    if len(headings(document)) < _FEWEST:
        return result
    starts = [block.start for block in document.blocks]
    for at, (span, following) in enumerate(pairwise(spans)):
        block = owner(starts, span[1] - 1)
        if begins[at + 1]:
            share = HEADING
        elif block < 0 or document.blocks[block].end <= following[0]:
            share = BLOCK
        else:
            share = 1.0 if document.blocks[block].kind == "paragraph" else INSIDE
        result[at] = round(WHOLE * share)
    return result


def places(document: Document, spans: Sequence[Span]) -> list[tuple[Place, Place]]:
    """Return (section, page) at the start and at the end of each span; [] if the document has neither."""
    sections = [heading.start for heading in headings(document)]
    if len(sections) < _FEWEST:
        sections = []
    neighbours = zip((None, *document.blocks), document.blocks, strict=False)
    pages = [block.start for before, block in neighbours if before is None or before.page != block.page]
    if not sections and len(pages) < _FEWEST:
        return []
    return [
        (
            (owner(sections, start), owner(pages, start)),
            (owner(sections, end - 1), owner(pages, end - 1)),
        )
        for start, end in spans
    ]


def cosines(rows: Fixed) -> Values:
    """Return the cosine of each row and the next, which is the same on every machine.

    The cosine with a row of zeros is 0.
    """
    products = np.einsum("ij,ij->i", rows[1:], rows[:-1]).astype(np.float64)
    lengths = squares(rows)
    result: Values = products / np.sqrt(np.maximum(lengths[1:] * lengths[:-1], 1))
    return result
