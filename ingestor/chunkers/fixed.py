"""Windows of a fixed size, whatever they cut through. The cheapest strategy, and the plainest baseline.

Tokens are those of the whole text. A window holds ``size`` of them, or a few fewer where its text,
counted by itself, would have more, or where its end would tear a user-perceived character.
"""

from typing import Literal

from pydantic import Field, model_validator

from ingestor.chunkers.options import OverlapOptions, require_smaller
from ingestor.model import Chunking, Document, Sums
from ingestor.ports import Embed
from ingestor.registry import Plugin
from ingestor.text.bonds import settle
from ingestor.text.limits import SMALLEST, count, windows
from ingestor.text.spans import Span, by_characters, chunks
from ingestor.text.tokens import Tokens


class FixedOptions(OverlapOptions):
    size: int = Field(default=200, ge=SMALLEST, description="size of a window, in `unit`")
    unit: Literal["tokens", "characters"] = Field(
        default="tokens", description="unit of `size` and `overlap`"
    )

    @model_validator(mode="after")
    def _sizes_in_order(self) -> "FixedOptions":
        require_smaller("overlap", self.overlap, "size", self.size)
        return self


class Fixed:
    def __init__(self, options: FixedOptions, tokens: Tokens) -> None:
        self._options, self._tokens = options, tokens

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        text, options = document.text, self._options
        whole = (0, len(text))
        if options.unit == "tokens":
            spans = windows(text, whole, self._tokens, options.size, options.overlap)
        else:
            spans = by_characters(text, whole, options.size, options.overlap)

        def within(span: Span) -> bool:
            by_tokens = options.unit == "tokens"
            return (count(text, span, self._tokens) if by_tokens else span[1] - span[0]) <= options.size

        kept = settle(document, spans, self._tokens, options.min_tokens, options.max_tokens, within)
        return Chunking(chunks(text, kept))


PLUGIN = Plugin(kind="fixed", version=2, options=FixedOptions, build=Fixed)
