"""Strategies that compare neighbouring stretches of text: ``breakpoint``, ``similarity`` and ``double_pass``.

``breakpoint`` cuts where neighbouring sentences differ more than usual in the document. Each sentence is
embedded together with ``buffer`` neighbours on either side. The distance of consecutive sentences is
``1 - cosine``, and a distance above a threshold is a cut. [Kamradt, "5 Levels of Text Splitting"; LangChain's
SemanticChunker] The option ``threshold`` says how the threshold is computed; the default of ``amount`` is in
brackets:

- ``percentile``: the ``amount``-th percentile of the distances (95).

- ``standard_deviation``: the distances' mean plus ``amount`` standard deviations (3).

- ``interquartile``: the distances' mean plus ``amount`` interquartile ranges (1.5).

- ``gradient``: the ``amount``-th percentile (95) of the distances' gradient, which must exceed it.

The threshold is lowered for the whole document until no chunk exceeds ``max_tokens`` [Chroma's
KamradtModified, which aims at a mean size]. Without that limit, chunks of a few thousand tokens are common.

``similarity`` adds the next paragraph or sentence to a chunk if the cosine of their vectors is at least
``threshold`` and both fit into ``max_tokens``. Otherwise a new chunk begins. With ``vectors: encoded`` the
model reads the chunk again after each addition, one text at a time, which is slow. With ``pooled`` the model
reads every unit once. A threshold suits one embedding model only. The command
``ingestor chunk FILE --strategy similarity --html`` shows the cuts, so that a suitable threshold can be
chosen.

``double_pass`` makes chunks of sentences, then merges chunks. In the first pass, two sentences open a chunk
if their cosine exceeds ``initial``. The chunk grows while the next sentence's cosine with the chunk's last
two sentences exceeds ``appending``. In the second pass, a chunk is merged with the next chunk if their cosine
exceeds ``merging``. The chunk after the next is also tried, to bridge a formula, a quotation or code. Neither
pass exceeds ``max_tokens``. [Kurek, "Chunking methods in RAG: semantic double-pass merging", Bitpeak 2024;
LlamaIndex's SemanticDoublePassMergingSplitter] The published thresholds (0.7, 0.8, 0.7 for a text of three
topics) are for spaCy's word vectors without stop words. The defaults are for all-MiniLM-L6-v2: in our corpora
half of all neighbouring sentences exceed 0.3, and a third 0.4. Choose thresholds with the same shares for
another model.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Literal

import numpy as np
from pydantic import Field

from ingestor.chunkers.options import GrowingOptions
from ingestor.chunkers.parts import (
    CutTask,
    Seen,
    Values,
    cosines,
    embed_parts,
    finish,
    sizes,
    whole_paragraphs,
    whole_sentences,
)
from ingestor.model import Chunking, Document, Sums
from ingestor.ports import Embed
from ingestor.registry import Plugin
from ingestor.segmentation.cluster import Segment, segments
from ingestor.segmentation.fixed_point import Fixed, Integers, blocks, to_fixed, unit
from ingestor.segmentation.pooling import sum_by_weight
from ingestor.text.bonds import settle
from ingestor.text.limits import SMALLEST
from ingestor.text.spans import Span
from ingestor.text.tokens import Tokens

Threshold = Literal["percentile", "standard_deviation", "interquartile", "gradient"]

AMOUNTS = {"percentile": 95.0, "standard_deviation": 3.0, "interquartile": 1.5, "gradient": 95.0}
_REHEARSALS = 8


class BreakpointOptions(GrowingOptions):
    threshold: Threshold = "percentile"
    amount: float | None = Field(
        default=None, ge=0, le=100, description="level of the threshold; the default depends on `threshold`"
    )
    min_tokens: int | None = Field(
        default=50,
        ge=1,
        description="chunks with fewer tokens are joined with a neighbour; `null`: no minimum",
    )
    max_tokens: int | None = Field(
        default=400,
        ge=SMALLEST,
        description="largest chunk; the threshold is lowered for it. `null`: no limit",
    )
    buffer: int = Field(
        default=1,
        ge=0,
        le=10,
        description="how many sentences before and after a sentence are embedded with it",
    )


class SimilarityOptions(GrowingOptions):
    threshold: float = Field(
        default=0.3,
        ge=-1,
        le=1,
        description="lowest cosine similarity at which a sentence is added to the chunk",
    )
    unit: Literal["sentence", "paragraph"] = "sentence"
    min_tokens: int | None = Field(
        default=50,
        ge=1,
        description="chunks with fewer tokens are joined with a neighbour; `null`: no minimum",
    )
    max_tokens: int = Field(default=400, ge=SMALLEST, description="largest chunk")


class DoublePassOptions(GrowingOptions):
    initial: float = Field(
        default=0.3, ge=-1, le=1, description="cosine similarity above which two sentences start a chunk"
    )
    appending: float = Field(
        default=0.4,
        ge=-1,
        le=1,
        description="cosine similarity above which the next sentence is added to a chunk",
    )
    merging: float = Field(
        default=0.3, ge=-1, le=1, description="cosine similarity above which chunks are merged"
    )
    min_tokens: int | None = Field(
        default=25,
        ge=1,
        description="chunks with fewer tokens are joined with a neighbour; `null`: no minimum",
    )
    max_tokens: int = Field(default=400, ge=SMALLEST, description="largest chunk")


class Stretches:
    """Vectors of stretches of text, for comparison. A stretch is a run [first, end) of neighbouring units.

    ``spans``: the units, which are sentences or paragraphs. The option ``vectors`` decides whether the model
    reads each stretch, or the vectors of its units are averaged.
    """

    def __init__(self, task: CutTask, spans: Sequence[Span]) -> None:
        text = task.document.text
        self.spans, self.tokens = spans, sizes(text, spans, task.tokens)
        self._sums: list[int] = [0, *np.cumsum(self.tokens).tolist()]
        self.units = embed_parts(task, spans) if task.options.vectors == "pooled" else None
        self._text, self._embed = text, task.embed
        self._vectors: dict[Segment, Fixed] = {}
        self._noted: set[Segment] | None = None
        self._passing = lru_cache(maxsize=8)(lambda stretch: self.rows([stretch])[0])

    def rows(self, stretches: Sequence[Segment]) -> Fixed:
        """Return a unit vector for each stretch; shape (stretches, dimensions)."""
        if self.units is None:
            return to_fixed(self._embed([self._text[a:b] for a, b in map(self.span, stretches)]))
        result = np.empty((len(stretches), self.units.vectors.shape[1]), np.int32)
        for part in blocks(len(stretches)):
            result[part] = unit(sum_by_weight(self.units.vectors, self.units.tokens, stretches[part]))
        return result

    def fetch(self, stretches: Sequence[Segment]) -> None:
        """Embed the stretches in one batch, for ``alike`` to compare; forget all other vectors."""
        kept = {stretch: self._vectors[stretch] for stretch in stretches if stretch in self._vectors}
        missing = [stretch for stretch in stretches if stretch not in kept]
        self._vectors = kept | dict(zip(missing, self.rows(missing) if missing else (), strict=True))

    def rehearse(self, walk: Callable[[], list[Segment]]) -> list[Segment]:
        """Return the result of ``walk``, which calls ``alike``, with stretches embedded in large batches.

        In a rehearsal, ``alike`` notes each stretch without a vector, and reports it as different from any
        other. All noted stretches are embedded together before the next rehearsal. After the last one,
        missing stretches are embedded one by one. The result is the same as without rehearsals; only a few
        needless texts are embedded.
        """
        for _ in range(_REHEARSALS if self.units is None else 0):
            self._noted = set()
            result = walk()
            noted, self._noted = sorted(self._noted), None
            if not noted:
                return result
            self._vectors |= zip(noted, self.rows(noted), strict=True)
        return walk()

    def alike(self, first: Segment, second: Segment) -> float:
        """Return the cosine of two stretches; -inf if a rehearsal notes that one has no vector yet."""
        if self._noted is not None:
            missing = [stretch for stretch in (first, second) if stretch not in self._vectors]
            self._noted.update(missing)
            if missing:
                return -math.inf
        one, other = (
            self._vectors[stretch] if stretch in self._vectors else self._passing(stretch)
            for stretch in (first, second)
        )
        return int(one @ other) / math.sqrt(max(int(one @ one) * int(other @ other), 1))

    def distances(self, pairs: Iterable[tuple[Segment, Segment]]) -> Values:
        return np.array([1 - self.alike(one, other) for one, other in pairs], np.float64)

    def alone(self) -> list[Segment]:
        """Return each unit as a stretch of its own."""
        return [(at, at + 1) for at in range(len(self.spans))]

    def size(self, stretch: Segment) -> int:
        """Return the number of tokens of a stretch, approximately."""
        return self._sums[stretch[1]] - self._sums[stretch[0]]

    def span(self, stretch: Segment) -> Span:
        return self.spans[stretch[0]][0], self.spans[stretch[1] - 1][1]


class Breakpoint:
    """Strategy ``breakpoint``: cuts where neighbouring sentences differ more than usual in the document."""

    def __init__(self, options: BreakpointOptions, tokens: Tokens) -> None:
        self._options, self._tokens = options, tokens

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        options = self._options

        def cut(stretches: Stretches) -> Iterator[Segment]:
            distances = 1 - cosines(stretches.rows(windows(len(stretches.spans), options.buffer)))
            return segments(tuple(ends(*values_and_bound(distances, stretches.tokens, options))))

        spans = whole_sentences(document, self._tokens, options.max_tokens)
        return _chunks(CutTask(document, options, embed, self._tokens), spans, cut)

    def look(self, document: Document, embed: Embed) -> Seen:
        options = self._options
        spans = whole_sentences(document, self._tokens, options.max_tokens)
        stretches = Stretches(CutTask(document, options, embed, self._tokens), spans)
        rows = stretches.rows(windows(len(spans), options.buffer))
        values, bound = values_and_bound(1 - cosines(rows), stretches.tokens, options)
        what = (
            "how fast the distance of neighbouring sentences grows"
            if options.threshold == "gradient"
            else "the distance of each sentence from the next"
        )
        meaning = f"{what}, each seen with {options.buffer} on either side; there is a cut above the line"
        return Seen("sentence", spans, rows, values, np.full(len(values), bound), meaning)


def _chunks(task: CutTask, spans: Sequence[Span], cut: Callable[[Stretches], Iterable[Segment]]) -> Chunking:
    """Return the chunks of a document, within the limits of the options.

    ``cut``: the strategy; it returns the chunks as runs of units.
    """
    if not spans:
        return Chunking(())
    stretches, limits = Stretches(task, spans), task.options
    grown = [stretches.span(segment) for segment in cut(stretches)]
    kept = settle(task.document, grown, task.tokens, limits.min_tokens, limits.max_tokens)
    return finish(task, kept, stretches.units)


def windows(count: int, buffer: int) -> list[Segment]:
    """Return a stretch for each of ``count`` units: the unit and ``buffer`` neighbours on either side."""
    return [(max(at - buffer, 0), min(at + buffer + 1, count)) for at in range(count)]


def values_and_bound(distances: Values, tokens: Integers, options: BreakpointOptions) -> tuple[Values, float]:
    """Return the value of each place between two sentences, and the bound above which to cut.

    Values are the distances, or how fast these grow if the threshold is ``gradient``. ``tokens``: tokens of
    each sentence.
    """
    steep = options.threshold == "gradient" and len(distances) > 1
    values = np.gradient(distances) if steep else distances
    bound = threshold(distances, options.threshold, options.amount)
    return values, bound if options.max_tokens is None else lower(values, bound, tokens, options.max_tokens)


def threshold(distances: Values, kind: Threshold, amount: float | None = None) -> float:
    """Return the bound that a distance, or its gradient, must exceed for a cut.

    ``amount``: level of the bound, in the unit of the ``kind`` of threshold. Sums are rounded only once, so
    the order of the distances makes no difference.
    """
    amount = AMOUNTS[kind] if amount is None else amount
    if len(distances) < 2:
        return math.inf
    if kind == "gradient":
        return float(np.percentile(np.gradient(distances), amount))
    if kind == "percentile":
        return float(np.percentile(distances, amount))
    mean = math.fsum(distances) / len(distances)
    if kind == "interquartile":
        spread = float(np.percentile(distances, 75) - np.percentile(distances, 25))
    else:
        spread = math.sqrt(math.fsum((distances - mean) ** 2) / len(distances))
    return mean + amount * spread


def ends(values: Values, bound: float) -> list[int]:
    """Return the ends of chunks as numbers of units: one at each value above the bound, and the last."""
    return [*(np.flatnonzero(values > bound) + 1).tolist(), len(values) + 1]


def lower(values: Values, bound: float, tokens: Integers, most: int) -> float:
    """Return the greatest bound, not above ``bound``, with which no chunk has more than ``most`` tokens.

    ``tokens``: tokens of each unit. If single units have more, return the least bound, which cuts everywhere.
    """
    bounds: list[float] = [-math.inf, *np.unique(values[values < bound]).tolist(), bound]
    low, high = 0, len(bounds) - 1  # chunks grow with the bound
    while low < high:
        middle = (low + high + 1) // 2
        cuts = ends(values, bounds[middle])
        if np.add.reduceat(tokens, [0, *cuts[:-1]]).max() <= most:
            low = middle
        else:
            high = middle - 1
    return bounds[low]


class Similarity:
    """Strategy ``similarity``: a chunk grows as long as the next unit resembles the chunk so far."""

    def __init__(self, options: SimilarityOptions, tokens: Tokens) -> None:
        self._options, self._tokens = options, tokens
        self._parts = whole_sentences if options.unit == "sentence" else whole_paragraphs

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        options = self._options
        spans = self._parts(document, self._tokens, options.max_tokens)
        return _chunks(CutTask(document, options, embed, self._tokens), spans, partial(grow, options=options))

    def look(self, document: Document, embed: Embed) -> Seen:
        options = self._options
        spans = self._parts(document, self._tokens, options.max_tokens)
        stretches = Stretches(CutTask(document, options, embed, self._tokens), spans)
        edges = _edges(list(grow(stretches, options)) if spans else (), len(spans))
        distances = stretches.distances(((first, at), (at, at + 1)) for first, at in edges)
        meaning = (
            f"the distance of each {options.unit} from the chunk before it as it was by then; "
            f"there is a cut above the line, or where the chunk would exceed {options.max_tokens} tokens"
        )
        bounds = np.full(len(distances), 1 - options.threshold)
        return Seen(options.unit, spans, stretches.rows(stretches.alone()), distances, bounds, meaning)


def grow(stretches: Stretches, options: SimilarityOptions) -> Iterator[Segment]:
    """Yield the chunks of the strategy ``similarity`` in order, as runs of units."""
    count = len(stretches.spans)
    stretches.fetch(stretches.alone())
    first = 0
    for at in range(1, count):
        fits = stretches.size((first, at + 1)) <= options.max_tokens
        if not fits or stretches.alike((first, at), (at, at + 1)) < options.threshold:
            yield first, at
            first = at
    yield first, count


class DoublePass:
    """Strategy ``double_pass``: joins sentences to chunks, then merges chunks, even across insertions."""

    def __init__(self, options: DoublePassOptions, tokens: Tokens) -> None:
        self._options, self._tokens = options, tokens

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        options = self._options

        def cut(stretches: Stretches) -> Iterator[Segment]:
            stretches.fetch(stretches.alone())
            first = stretches.rehearse(lambda: list(open_chunks(stretches, options)))
            stretches.fetch(first)
            return merge(stretches, first, options)

        spans = whole_sentences(document, self._tokens, options.max_tokens)
        return _chunks(CutTask(document, options, embed, self._tokens), spans, cut)

    def look(self, document: Document, embed: Embed) -> Seen:
        options = self._options
        spans = whole_sentences(document, self._tokens, options.max_tokens)
        stretches = Stretches(CutTask(document, options, embed, self._tokens), spans)
        edges = _edges(open_chunks(stretches, options), len(spans))
        distances = stretches.distances(((max(first, at - 2), at), (at, at + 1)) for first, at in edges)
        bounds = [options.initial if at - first == 1 else options.appending for first, at in edges]
        meaning = (
            "the first pass: the distance of each sentence from the last two of the chunk before it; above "
            "the line the chunk ends, unless the second pass merges what follows"
        )
        rows = stretches.rows(stretches.alone())
        return Seen("sentence", spans, rows, distances, 1 - np.array(bounds), meaning)


def open_chunks(stretches: Stretches, options: DoublePassOptions) -> Iterator[Segment]:
    """Yield the chunks of the first pass of ``double_pass``, as runs of sentences."""
    first, count = 0, len(stretches.spans)
    for end in range(1, count + 1):
        takes = False
        if end < count and stretches.size((first, end + 1)) <= options.max_tokens:
            bound = options.initial if end - first == 1 else options.appending
            takes = stretches.alike((max(first, end - 2), end), (end, end + 1)) > bound
        if not takes:
            yield first, end
            first = end


def merge(stretches: Stretches, opened: Sequence[Segment], options: DoublePassOptions) -> Iterator[Segment]:
    """Yield the chunks of the second pass of ``double_pass``: chunks of the first pass, ``opened``, merged.

    This pass has no rehearsal. Its stretches are long, so needless embeddings would cost more than batches
    save.
    """
    current, at = opened[0], 1
    while at < len(opened):
        taken = _count_merged(stretches, current, opened[at : at + 2], options)
        if taken:
            current = current[0], opened[at + taken - 1][1]
            at += taken
        else:
            yield current
            current = opened[at]
            at += 1
    yield current


def _count_merged(
    stretches: Stretches, current: Segment, following: Sequence[Segment], options: DoublePassOptions
) -> int:
    """Return how many of the ``following`` chunks to merge into the ``current`` one: 0, 1 or 2."""
    for taken, other in enumerate(following, start=1):
        if stretches.alike(current, other) > options.merging:
            fits = stretches.size((current[0], other[1])) <= options.max_tokens
            return taken if fits else 0
    return 0


def _edges(chunks: Iterable[Segment], count: int) -> list[Segment]:
    """Return (first unit of the chunk, next unit) for each comparison while a chunk grew.

    ``count``: number of units.
    """
    return [(first, at) for first, end in chunks for at in range(first + 1, min(end, count - 1) + 1)]


BREAKPOINT = Plugin(kind="breakpoint", version=3, options=BreakpointOptions, build=Breakpoint)
SIMILARITY = Plugin(kind="similarity", version=3, options=SimilarityOptions, build=Similarity)
DOUBLE_PASS = Plugin(kind="double_pass", version=3, options=DoublePassOptions, build=DoublePass)
