"""The values that semantic strategies compared, for people to look at. No cut depends on this module.

Each strategy compares *units* of the text in order. The curve shows a *distance* (1 - cosine) for each unit
and the next, and for some strategies a *bound* that a distance must exceed to cut.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ingestor.chunkers.auto import AutoOptions, kind_of
from ingestor.chunkers.options import ChunkerOptions
from ingestor.chunkers.recursive import fitting
from ingestor.chunkers.semantic.breakpoint import BreakpointOptions, Values, distances, lowered, threshold
from ingestor.chunkers.semantic.changepoint_options import ChangepointOptions
from ingestor.chunkers.semantic.cluster import ClusterOptions
from ingestor.chunkers.semantic.double_pass import DoublePassOptions, grown
from ingestor.chunkers.semantic.kmeans import KmeansOptions
from ingestor.chunkers.semantic.parts import small_pieces, whole_paragraphs, whole_sentences
from ingestor.chunkers.semantic.similarity import SimilarityOptions, grow
from ingestor.chunkers.semantic.vectors import Stretches, cosines
from ingestor.model import Document
from ingestor.ports import Embed
from ingestor.registry import Options
from ingestor.segmentation.changepoint import smooth
from ingestor.segmentation.cluster import MEAN_BITS, Segment, contribution, mean
from ingestor.segmentation.fixed_point import Fixed, to_fixed
from ingestor.text.sentences import sentences
from ingestor.text.spans import Span
from ingestor.text.tokens import Tokens


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """``distances[i]`` lies between units i and i + 1; ``bounds`` likewise, None where no bound decides."""

    unit: str  # what one is called
    spans: Sequence[Span]
    vectors: Fixed  # one a unit
    distances: Values
    bounds: Values | None
    meaning: str  # of the curve, in a sentence


def seen(document: Document, options: Options, embed: Embed, tokens: Tokens) -> Seen | None:
    """Return the values behind the cuts, as if the document were alone in its collection.

    Cuts that a minimum size removes are shown. Return None for strategies that use no vectors.
    """
    if isinstance(options, ChunkerOptions) and (key := options.of_type(document.content_type)):
        return seen(document, options.options_of(key), embed, tokens)
    match options:
        case AutoOptions():
            picked = getattr(options, kind_of(document, tokens, options.short_tokens))
            return seen(document, picked.options, embed, tokens)
        case BreakpointOptions():
            return _breakpoint(document, options, embed, tokens)
        case SimilarityOptions():
            return _similarity(document, options, embed, tokens)
        case DoublePassOptions():
            return _double_pass(document, options, embed, tokens)
        case ClusterOptions():
            return _cluster(document, options, embed, tokens)
        case ChangepointOptions():
            return _changepoint(document, options, embed, tokens)
        case KmeansOptions():
            return _kmeans(document, options, embed, tokens)
    return None


def _breakpoint(document: Document, options: BreakpointOptions, embed: Embed, tokens: Tokens) -> Seen:
    spans = whole_sentences(document, tokens, options.max_tokens)
    stretches = Stretches(document.text, spans, options, embed, tokens)
    found = distances(stretches, options.buffer)
    steep = options.threshold == "gradient"
    values = np.gradient(found) if steep and len(found) > 1 else found
    bound = threshold(found, options.threshold, options.amount)
    if options.max_tokens is not None:
        bound = lowered(values, bound, stretches.tokens, options.max_tokens)
    windows = [
        (max(at - options.buffer, 0), min(at + options.buffer + 1, len(spans))) for at in range(len(spans))
    ]
    what = "how fast the distance of neighbouring sentences grows" if steep else (
        "the distance of each sentence from the next"
    )  # fmt: skip
    meaning = f"{what}, each seen with {options.buffer} on either side; there is a cut above the line"
    return Seen("sentence", spans, stretches.rows(windows), values, np.full(len(values), bound), meaning)


def _similarity(document: Document, options: SimilarityOptions, embed: Embed, tokens: Tokens) -> Seen:
    parts = whole_sentences if options.unit == "sentence" else whole_paragraphs
    spans = parts(document, tokens, options.max_tokens)
    stretches = Stretches(document.text, spans, options, embed, tokens)
    found = grow(stretches, options.threshold, options.max_tokens) if spans else ()
    pairs = [((first, at), (at, at + 1)) for first, at in _edges(found, len(spans))]
    meaning = (
        f"the distance of each {options.unit} from the chunk before it as it was by then; "
        f"there is a cut above the line, or where the chunk would exceed {options.max_tokens} tokens"
    )
    bounds = np.full(len(pairs), 1 - options.threshold)
    return Seen(options.unit, spans, _own(stretches), _compared(stretches, pairs), bounds, meaning)


def _double_pass(document: Document, options: DoublePassOptions, embed: Embed, tokens: Tokens) -> Seen:
    spans = whole_sentences(document, tokens, options.max_tokens)
    stretches = Stretches(document.text, spans, options, embed, tokens)
    edges = list(_edges(grown(stretches, options), len(spans)))
    pairs = [((max(first, at - 2), at), (at, at + 1)) for first, at in edges]
    bounds = [options.initial if at - first == 1 else options.appending for first, at in edges]
    meaning = (
        "the first pass: the distance of each sentence from the last two of the chunk before it; above the "
        "line the chunk ends, unless the second pass merges what follows"
    )
    return Seen(
        "sentence", spans, _own(stretches), _compared(stretches, pairs), 1 - np.array(bounds), meaning
    )


def _cluster(document: Document, options: ClusterOptions, embed: Embed, tokens: Tokens) -> Seen:
    spans = small_pieces(document, tokens, options.min_tokens, options.max_tokens)
    vectors = _embedded(document.text, spans, embed)
    average = mean(contribution(vectors)) / (1 << MEAN_BITS)
    meaning = (
        "the distance of each piece from the next; the line is that of any two pieces on average. The cuts "
        "are the best of all together: within a chunk all pairs count, not only neighbours"
    )
    found = 1 - cosines(vectors)
    return Seen("piece", spans, vectors, found, np.full(len(found), 1 - average), meaning)


def _changepoint(document: Document, options: ChangepointOptions, embed: Embed, tokens: Tokens) -> Seen:
    spans = small_pieces(document, tokens, options.piece, options.most)
    vectors = smooth(_embedded(document.text, spans, embed))
    meaning = (
        "the distance of each piece from the next, both smoothed. No line decides: the cuts are those that "
        "leave least scatter inside the chunks, at a price for every chunk"
    )
    return Seen("piece", spans, vectors, 1 - cosines(vectors), None, meaning)


def _kmeans(document: Document, options: KmeansOptions, embed: Embed, tokens: Tokens) -> Seen:
    text = document.text
    spans = fitting(text, sentences(text, language=document.language), tokens, options.max_tokens)
    vectors = _embedded(document.text, spans, embed)
    meaning = "the distance of each sentence from the next, which this strategy takes no notice of"
    return Seen("sentence", spans, vectors, 1 - cosines(vectors), None, meaning)


def _embedded(text: str, spans: Sequence[Span], embed: Embed) -> Fixed:
    return to_fixed(embed([text[start:end] for start, end in spans]))


def _own(stretches: Stretches) -> Fixed:
    return stretches.rows([(at, at + 1) for at in range(len(stretches.spans))])


def _edges(found: Iterable[Segment], count: int) -> Iterator[Segment]:
    """(where the chunk begins that was growing, unit that it was to take) for every unit but the first."""
    for first, end in found:
        for at in range(first + 1, min(end, count - 1) + 1):
            yield first, at


def _compared(stretches: Stretches, pairs: Sequence[tuple[Segment, Segment]]) -> Values:
    return np.array([1 - stretches.alike(one, other) for one, other in pairs], np.float64)
