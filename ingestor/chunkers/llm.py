"""Strategy ``llm``: a language model decides where the subject changes; the text of the chunks is unchanged.

The text is cut into numbered pieces of at most 50 tokens. The model reads a window of pieces, and answers
after which pieces to split the text. The next window begins after the last split. The method is
LLMSemanticChunker [Smith & Troynikov, Chroma technical report, 2024]. No window crosses the end of a stretch
(see text/sections.py), so that an edit repeats only the requests near it.

A window without a valid answer is cut by the strategy that ``fallback`` names. Its chunks have the metadata
``fallback``.
"""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Literal

from pydantic import Field

from ingestor.chunkers.cluster import Cluster, ClusterOptions
from ingestor.chunkers.options import ChunkerOptions
from ingestor.chunkers.parts import small_pieces
from ingestor.chunkers.recursive import Recursive, RecursiveOptions
from ingestor.llm.client import Answers, DirectAnswers, LanguageModel, Messages, ask_until_valid
from ingestor.llm.options import Endpoint
from ingestor.model import Chunk, Chunking, Document, Sums
from ingestor.ports import Chunker, Embed
from ingestor.registry import Plugin
from ingestor.text.bonds import settle
from ingestor.text.limits import SMALLEST
from ingestor.text.sections import stretches
from ingestor.text.spans import Span
from ingestor.text.tokens import Tokens


class AskingOptions(ChunkerOptions, Endpoint):
    """Options of chunkers that use a language model."""


_PIECE = 50  # tokens
_FEW = 4  # pieces that become one chunk without a request
_FALLBACK_SIZE = 200  # tokens
_TASK = """\
You divide a text into chunks for a search index. The text comes in numbered pieces, piece i between \
<start_chunk_i> and <end_chunk_i>. Consecutive pieces about one subject belong in one chunk. Go through all \
pieces, and find those after which the subject changes.
Answer with one line of numbers, ascending, at least one, and nothing else:
split_after: 3, 5"""
_ANSWER = re.compile(r"split_after\W*(\d{1,9}(?:[\s,;]+\d{1,9})*)", re.I)


class LlmOptions(AskingOptions):
    max_tokens: int = Field(default=400, ge=SMALLEST, description="most tokens of a chunk")
    answer_tokens: int = Field(
        default=100, ge=1, description="longest answer; a truncated answer does not count"
    )
    window: int = Field(
        default=800, ge=2 * _PIECE, description="tokens of text in one request, approximately"
    )
    fallback: Literal["recursive", "cluster"] = Field(
        default="recursive", description="strategy for a window without a valid answer"
    )


class Llm:
    def __init__(self, options: LlmOptions, tokens: Tokens, answers: Answers | None = None) -> None:
        self._options, self._tokens = options, tokens
        self._ask = LanguageModel(options, answers or DirectAnswers())

    def through(self, answers: Answers) -> "Llm":
        return Llm(self._options, self._tokens, answers)

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        text, options = document.text, self._options
        spans = small_pieces(document, self._tokens, _PIECE, options.max_tokens)
        sizes = self._tokens.counts([text[start:end] for start, end in spans])
        cuts: list[Span] = []
        unanswered: list[Span] = []
        for first, end in stretches(document, spans, sizes, options.window):
            for part, valid in self._windows(text, spans[first:end], sizes[first:end]):
                if not valid:
                    unanswered.append(part)
                cuts += [part] if valid else self._cut_without_model(document, part, embed)
        kept = settle(document, cuts, self._tokens, options.min_tokens, options.max_tokens)
        return Chunking(tuple(self._chunk(text, span, unanswered) for span in kept))

    def _windows(self, text: str, spans: Sequence[Span], sizes: Sequence[int]) -> Iterator[tuple[Span, bool]]:
        """Yield the model's chunks, each with True, and windows without a valid answer, with False.

        ``spans``: the pieces of a stretch. ``sizes``: tokens of each piece.
        """
        at = 0
        while len(spans) - at > _FEW:
            end = at + _count_that_fit(sizes[at:], self._options.window)
            splits = ask_until_valid(self._ask, question(text, spans[at:end]), partial(read, count=end - at))
            edges = [at, *(at + split for split in splits or (end - at,))]
            yield from ((_reach(spans, *edge), splits is not None) for edge in pairwise(edges))
            at = edges[-1]
            if end == len(spans):
                break
        if at < len(spans):
            yield _reach(spans, at, len(spans)), True

    def _cut_without_model(self, document: Document, part: Span, embed: Embed) -> list[Span]:
        """Cut a part of the document with the fallback strategy; return the chunks' spans."""
        start, end = part
        cut = self._fallback().chunk(Document(document.text[start:end]), embed, None).chunks
        return [(start + chunk.start, start + chunk.end) for chunk in cut]

    def _fallback(self) -> Chunker:
        most = min(self._options.max_tokens, _FALLBACK_SIZE)
        if self._options.fallback == "recursive":
            return Recursive(RecursiveOptions(size=most), self._tokens)
        options = ClusterOptions(max_tokens=most, min_tokens=min(most, _PIECE), scope="document")
        return Cluster(options, self._tokens)

    def _chunk(self, text: str, span: Span, unanswered: Sequence[Span]) -> Chunk:
        start, end = span
        alone = any(start < last and first < end for first, last in unanswered)
        extra = (("fallback", f"{self._options.fallback}: the model gave no valid answer"),) if alone else ()
        return Chunk(start, end, text[start:end], extra=extra)


def question(text: str, spans: Sequence[Span]) -> Messages:
    """Return the request about a window of pieces.

    Pieces are numbered from 1, so that windows with the same text are found in the cache.
    """
    shown = (f"<start_chunk_{i}>{text[a:b]}<end_chunk_{i}>" for i, (a, b) in enumerate(spans, 1))
    return ("system", _TASK), ("user", "\n".join(shown))


def read(answer: str, count: int) -> list[int]:
    """Parse an answer about ``count`` pieces: return the numbers of the pieces after which to split.

    Raises ValueError if the answer is invalid, with a message for the model.
    """
    lines = _ANSWER.findall(answer)
    if not lines:
        raise ValueError("the answer has no line of the form split_after: 3, 5")
    numbers = [int(number) for number in re.findall(r"\d+", lines[-1])]
    if any(first >= second for first, second in pairwise(numbers)):
        raise ValueError("the numbers after split_after must ascend")
    if not (numbers[0] >= 1 and numbers[-1] <= count):
        raise ValueError(f"the numbers after split_after must be from 1 to {count}")
    return numbers


def _count_that_fit(sizes: Sequence[int], most: int) -> int:
    """Return how many pieces, from the first on, have at most ``most`` tokens, but at least two."""
    total = 0
    for count, size in enumerate(sizes):
        total += size
        if total > most and count >= 2:
            return count
    return len(sizes)


def _reach(spans: Sequence[Span], first: int, end: int) -> Span:
    """Return the span from piece number ``first`` up to, but not including, piece number ``end``."""
    return spans[first][0], spans[end - 1][1]


PLUGIN = Plugin(kind="llm", version=2, options=LlmOptions, build=Llm)
