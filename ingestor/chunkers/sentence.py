"""Windows of whole sentences. A sentence is cut only where it is over ``max_tokens`` by itself."""

from pydantic import Field, model_validator

from ingestor.chunkers.options import OverlapOptions, require_smaller
from ingestor.model import Chunking, Document, Sums
from ingestor.ports import Embed
from ingestor.registry import Plugin
from ingestor.text.bonds import settle
from ingestor.text.limits import SMALLEST, pack
from ingestor.text.sentences import sentences
from ingestor.text.spans import chunks
from ingestor.text.tokens import Tokens


class SentenceOptions(OverlapOptions):
    """``overlap`` is in sentences."""

    max_sentences: int = Field(default=10, ge=1, description="most sentences of a chunk")
    overlap: int = Field(default=2, ge=0, description="sentences at a chunk's end that the next one repeats")
    max_tokens: int | None = Field(
        default=250, ge=SMALLEST, description="longer chunks are cut; `null`: no limit"
    )

    @model_validator(mode="after")
    def _sizes_in_order(self) -> "SentenceOptions":
        require_smaller("overlap", self.overlap, "max_sentences", self.max_sentences)
        return self


class Sentence:
    def __init__(self, options: SentenceOptions, tokens: Tokens) -> None:
        self._options, self._tokens = options, tokens

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        text, options = document.text, self._options
        units = sentences(text, language=document.language)
        spans = pack(text, units, self._tokens, options.max_tokens, options.max_sentences, options.overlap)
        kept = settle(document, spans, self._tokens, options.min_tokens, options.max_tokens)
        return Chunking(chunks(text, kept))


PLUGIN = Plugin(kind="sentence", version=2, options=SentenceOptions, build=Sentence)
