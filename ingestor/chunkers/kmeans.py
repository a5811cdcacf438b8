"""Strategy ``kmeans``: a chunk is a cluster of similar sentences from anywhere in the document.

The strategy is a poor baseline for comparisons: it loses the order of the text, and an edit anywhere can move
sentences between all chunks. A chunk has several spans. A cluster over ``max_tokens`` is divided into runs of
its sentences, and a small cluster is joined with the next.

The result is deterministic. The first centre is the sentence farthest from the mean. Every further centre is
the sentence farthest from its nearest centre, or the earliest of several. Lloyd's iteration follows [Lloyd
1982]. Sums are floats, whose last bits depend on the processor and its BLAS. So a sentence between two
centres may be in another chunk on another machine. Strategies that cut between sentences use integers
(segmentation/fixed_point.py).
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from pydantic import Field

from ingestor.chunkers.options import ChunkerOptions
from ingestor.chunkers.parts import Seen, cosines
from ingestor.chunkers.recursive import split_large
from ingestor.model import Chunk, Chunking, Document, Sums, Vectors
from ingestor.ports import Embed
from ingestor.registry import Plugin
from ingestor.segmentation.fixed_point import to_fixed
from ingestor.text.limits import SMALLEST
from ingestor.text.sentences import sentences
from ingestor.text.spans import Span
from ingestor.text.tokens import Tokens

_ROUNDS = 50
_LEAST = 4  # tokens; a smaller group is joined with another, if both fit
_Group = list[Span]


class KmeansOptions(ChunkerOptions):
    clusters: int = Field(default=10, ge=1, description="most groups of a document's sentences")
    max_tokens: int = Field(
        default=250, ge=SMALLEST, description="most tokens of a chunk; larger groups of sentences are divided"
    )


class Kmeans:
    def __init__(self, options: KmeansOptions, tokens: Tokens) -> None:
        self._options, self._tokens = options, tokens

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        text, most = document.text, self._options.max_tokens
        units = self._sentences(document)
        if not units:
            return Chunking(())
        members: dict[int, _Group] = {}
        labels = cluster(embed([text[start:end] for start, end in units]), self._options.clusters)
        for unit, label in zip(units, labels.tolist(), strict=True):
            members.setdefault(label, []).append(unit)
        groups = sorted(run for each in members.values() for run in _runs(text, each, self._tokens, most))
        least = max(self._options.min_tokens or 0, min(_LEAST, most))
        joined = _join_small(text, groups, self._tokens, least, most)
        return Chunking(
            tuple(
                Chunk(group[0][0], max(end for _, end in group), _text(text, group), spans=tuple(group))
                for group in joined
            )
        )

    def look(self, document: Document, embed: Embed) -> Seen:
        spans = self._sentences(document)
        vectors = to_fixed(embed([document.text[start:end] for start, end in spans]))
        meaning = "the distance of each sentence from the next, which this strategy takes no notice of"
        return Seen("sentence", spans, vectors, 1 - cosines(vectors), None, meaning)

    def _sentences(self, document: Document) -> list[Span]:
        spans = sentences(document.text, language=document.language)
        return split_large(document.text, spans, self._tokens, self._options.max_tokens)


def cluster(vectors: Vectors, clusters: int) -> npt.NDArray[np.intp]:
    """Return the number of each row's cluster; shape (rows,). There are at most ``clusters`` clusters."""
    points = np.asarray(vectors, np.float64)
    centres = points[_farthest_points(points, clusters)]
    labels = np.full(len(points), -1)
    for _ in range(_ROUNDS):
        nearest = (np.einsum("ij,ij->i", centres, centres) - 2 * points @ centres.T).argmin(axis=1)
        if (nearest == labels).all():
            break
        labels = nearest
        sums = np.zeros_like(centres)
        np.add.at(sums, labels, points)
        sizes = np.bincount(labels, minlength=len(centres))
        filled = sizes > 0  # a centre without points is not moved
        centres[filled] = sums[filled] / sizes[filled, None]
    return labels


def _farthest_points(points: npt.NDArray[np.float64], most: int) -> list[int]:
    """Return the rows to use as first centres: at most ``most`` points that lie far from one another."""
    chosen = [int(np.square(points - points.mean(axis=0)).sum(axis=1).argmax())]
    distance = np.square(points - points[chosen[0]]).sum(axis=1)
    while len(chosen) < most and distance.max() > 0:
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, np.square(points - points[chosen[-1]]).sum(axis=1))
    return chosen


def _runs(text: str, members: _Group, tokens: Tokens, most: int) -> Iterator[_Group]:
    """Divide a cluster into groups of at most ``most`` tokens, and yield them. Sentences stay in order."""
    run: _Group = []
    total = 0
    for member, size in zip(members, tokens.counts([text[start:end] for start, end in members]), strict=True):
        total += size + 1  # 1 for the newline
        if run and total > most:
            yield from _halve(text, run, tokens, most)
            run, total = [], size + 1
        run.append(member)
    yield from _halve(text, run, tokens, most)


def _halve(text: str, run: _Group, tokens: Tokens, most: int) -> Iterator[_Group]:
    """Yield a group, halved until each part has at most ``most`` tokens or a single sentence."""
    if len(run) == 1 or tokens.count(_text(text, run)) <= most:
        yield run
        return
    middle = len(run) // 2
    yield from _halve(text, run[:middle], tokens, most)
    yield from _halve(text, run[middle:], tokens, most)


def _join_small(text: str, groups: list[_Group], tokens: Tokens, least: int, most: int) -> list[_Group]:
    """Return the groups; a small group is joined with the next one if both have at most ``most`` tokens.

    A group is small under ``least`` tokens. A small last group is joined with the previous one.
    """
    kept: list[_Group] = []

    def join(small: _Group, other: _Group, least: int) -> list[_Group]:
        both = sorted([*small, *other])
        fits = tokens.count(_text(text, small)) < least and tokens.count(_text(text, both)) <= most
        return [both] if fits else []

    for group in groups:
        if kept and (both := join(kept[-1], group, least)):
            kept[-1:] = both
        else:
            kept.append(group)
    if len(kept) > 1 and (both := join(kept[-1], kept[-2], _LEAST)):
        kept[-2:] = both
    return kept


def _text(text: str, group: _Group) -> str:
    return "\n".join(text[start:end] for start, end in group)


PLUGIN = Plugin(kind="kmeans", version=4, options=KmeansOptions, build=Kmeans)
