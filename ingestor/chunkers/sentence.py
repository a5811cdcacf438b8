"""Windows of whole sentences. A sentence is cut only where it is over ``max_tokens`` by itself."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from ingestor.chunkers.options import OverlapOptions, require_smaller
from ingestor.limits import SMALLEST, limit
from ingestor.model import Chunking, Document, Sums
from ingestor.ports import Embed
from ingestor.registry import Plugin
from ingestor.sentences import sentences
from ingestor.spans import Span, chunks

if TYPE_CHECKING:
    from ingestor.tokens import Tokens


class SentenceOptions(OverlapOptions):
    """``overlap`` is in sentences."""

    max_sentences: int = Field(10, ge=1)
    overlap: int = Field(2, ge=0)
    max_tokens: int | None = Field(250, ge=SMALLEST)

    @model_validator(mode="after")
    def _sizes_in_order(self) -> "SentenceOptions":
        require_smaller("overlap", self.overlap, "max_sentences", self.max_sentences)
        return self


class Sentence:
    def __init__(self, options: SentenceOptions, tokens: "Tokens") -> None:
        self._options, self._tokens = options, tokens

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        text, options = document.text, self._options
        units = sentences(text, language=document.language)
        spans = grouped(text, units, self._tokens, options.max_sentences, options.overlap, options.max_tokens)
        kept = limit(text, spans, self._tokens, options.min_tokens, options.max_tokens)
        return Chunking(chunks(text, kept))


def grouped(
    text: str, units: Sequence[Span], tokens: "Tokens", most: int, overlap: int, max_tokens: int | None
) -> Iterator[Span]:
    """Windows of up to ``most`` units, each beginning ``overlap`` units before the last one's end.

    A window ends early rather than exceed ``max_tokens``, and repeats fewer units where the new one
    needs the room; a unit that is over the limit alone is a window.
    """
    sums = list(accumulate(sizes(text, units, tokens), initial=0))
    room = sums[-1] if max_tokens is None else max_tokens
    first, end = 0, 0  # the window is units[first:end]
    while end < len(units):
        while first < end and sums[end + 1] - sums[first] > room:
            first += 1
        end += 1
        while end < len(units) and end - first < most and sums[end + 1] - sums[first] <= room:
            end += 1
        yield units[first][0], units[end - 1][1]
        first = max(end - overlap, first + 1)


def sizes(text: str, units: Sequence[Span], tokens: "Tokens") -> list[int]:
    """Tokens of each unit with the whitespace up to the next, so that sums hardly differ from counts."""
    ends = [start for start, _ in units[1:]] + [end for _, end in units[-1:]]
    return tokens.counts([text[start:end] for (start, _), end in zip(units, ends, strict=True)])


PLUGIN = Plugin(kind="sentence", version=1, options=SentenceOptions, build=Sentence)
