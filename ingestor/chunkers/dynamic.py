"""Strategy ``dynamic``: each chunk ends at the best position between a minimum and a maximum of tokens.

The best position is the last end of a paragraph in that range, else of a sentence, else of a clause, else of
a word. The end of a heading is never chosen. So short paragraphs are not divided, and long ones are cut at a
pause. The maximum is at least twice the minimum, so only a short document gives a chunk under the minimum.
"""

import re
from collections.abc import Iterator, Sequence

from pydantic import Field, model_validator

from ingestor.chunkers.options import ChunkerOptions
from ingestor.model import Chunking, Document, Sums
from ingestor.ports import Embed
from ingestor.registry import Plugin
from ingestor.text.bonds import settle
from ingestor.text.limits import SMALLEST, Ruler
from ingestor.text.sections import headings
from ingestor.text.sentences import paragraphs, sentences
from ingestor.text.spans import Span, boundary, break_before, chunks, is_boundary, owner, trim
from ingestor.text.tokens import Tokens

_CLAUSE = re.compile(r"[,;:—–](?=\s)|[，、；：]|[؛،](?=\s)")
_VISIBLE = re.compile(r"\S")


class DynamicOptions(ChunkerOptions):
    min_tokens: int = Field(default=50, ge=1, description="smallest chunk, unless the document is smaller")
    max_tokens: int = Field(
        default=250, ge=SMALLEST, description="largest chunk; at least twice `min_tokens`"
    )

    @model_validator(mode="after")
    def _room_between(self) -> "DynamicOptions":
        if self.max_tokens < 2 * self.min_tokens:
            raise ValueError(
                f"max_tokens ({self.max_tokens}) must be at least twice min_tokens ({self.min_tokens}), or "
                "some texts can't be cut within both limits"
            )
        return self


class Dynamic:
    def __init__(self, options: DynamicOptions, tokens: Tokens) -> None:
        self._options, self._tokens = options, tokens

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        text, tokens, options = document.text, self._tokens, self._options
        after_headings = {heading.end for heading in headings(document)}
        pauses = (
            [end for _, end in paragraphs(text) if end not in after_headings],
            [end for _, end in sentences(text, language=document.language) if end not in after_headings],
            [match.end() for match in _CLAUSE.finditer(text)],
        )
        whole = trim(text, (0, len(text)))
        spans = _grow(Ruler(text, whole, tokens), whole, pauses, options.min_tokens, options.max_tokens)
        return Chunking(chunks(text, settle(document, spans, tokens, options.min_tokens, options.max_tokens)))


def _grow(
    ruler: Ruler, whole: Span, pauses: Sequence[Sequence[int]], least: int, most: int
) -> Iterator[Span]:
    """Yield the chunks of a text in order.

    ``whole``: its span. ``least``, ``most``: limits of a chunk in tokens. ``pauses``: see ``_best_end``.
    """
    start, last = whole
    while start < last:
        end = _best_end(ruler, pauses, start, least, most)
        yield start, end
        visible = _VISIBLE.search(ruler.text, end, last)
        start = visible.start() if visible else last


def _best_end(ruler: Ruler, pauses: Sequence[Sequence[int]], start: int, least: int, most: int) -> int:
    """Return the best end of a chunk that begins at ``start`` and has ``least`` to ``most`` tokens.

    ``pauses``: ends of paragraphs, of sentences and of clauses. The text that remains after the chunk is
    empty, or has at least ``least`` tokens.
    """
    furthest = ruler.fit(start, most, soft=False)
    if furthest == ruler.end:
        return furthest
    nearest = ruler.past(start, least)
    furthest = min(furthest, max(ruler.at(len(ruler.edges) - least), nearest))
    for ends in pauses:
        last = owner(ends, furthest)
        if last >= 0 and ends[last] >= nearest and is_boundary(ruler.text, ends[last]):
            return ends[last]
    between_words = break_before(ruler.text, furthest, nearest)
    return between_words or boundary(ruler.text, furthest, start)


PLUGIN = Plugin(kind="dynamic", version=2, options=DynamicOptions, build=Dynamic)
