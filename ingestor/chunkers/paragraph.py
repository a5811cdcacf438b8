"""Windows of paragraphs, which blank lines separate. One over ``max_tokens`` is split by ``recursive``."""

from pydantic import Field, model_validator

from ingestor.chunkers.options import OverlapOptions, require_smaller
from ingestor.chunkers.recursive import fitting
from ingestor.model import Chunking, Document, Sums
from ingestor.ports import Embed
from ingestor.registry import Plugin
from ingestor.text.bonds import settle
from ingestor.text.limits import SMALLEST, pack
from ingestor.text.sentences import paragraphs
from ingestor.text.spans import chunks
from ingestor.text.tokens import Tokens


class ParagraphOptions(OverlapOptions):
    """``overlap`` is in paragraphs."""

    max_paragraphs: int = Field(default=3, ge=1, description="most paragraphs of a chunk")
    overlap: int = Field(default=1, ge=0, description="paragraphs at a chunk's end that the next one repeats")
    max_tokens: int | None = Field(
        default=250, ge=SMALLEST, description="longer chunks are cut; `null`: no limit"
    )

    @model_validator(mode="after")
    def _sizes_in_order(self) -> "ParagraphOptions":
        require_smaller("overlap", self.overlap, "max_paragraphs", self.max_paragraphs)
        return self


class Paragraph:
    def __init__(self, options: ParagraphOptions, tokens: Tokens) -> None:
        self._options, self._tokens = options, tokens

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        text, tokens, options = document.text, self._tokens, self._options
        units = fitting(text, paragraphs(text), tokens, options.max_tokens)
        spans = pack(text, units, tokens, options.max_tokens, options.max_paragraphs, options.overlap)
        return Chunking(chunks(text, settle(document, spans, tokens, options.min_tokens, options.max_tokens)))


PLUGIN = Plugin(kind="paragraph", version=2, options=ParagraphOptions, build=Paragraph)
