"""Places at which a cut would leave the text before it hanging. Pure.

Text that belongs to the text after it: a line that ends with a colon, which introduces a list, a table or an
example; in code, a comment or a decorator; the beginning of a sentence. A sentence that is too long to be
kept whole is cut like any text. Headings and labels are joined to the following text earlier
(chunkers/semantic/parts.py).
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from ingestor.model import Document
from ingestor.text.limits import count
from ingestor.text.sentences import paragraphs, sentences
from ingestor.text.spans import Span, owner

if TYPE_CHECKING:
    from ingestor.text.tokens import Tokens

_COLONS = (":", "：", "︓")
_DIRECTIVES = r"include|define|undef|ifn?def|if|elif|else|endif|pragma|import|error|line|region|endregion"
_REMARK = re.compile(  # a line of a comment, or a decorator, annotation or attribute
    rf"\s*(?:#(?!\s*(?:{_DIRECTIVES})\b)|//|--\s|;|%|/\*|\*/|\*\s|@\w|\[\w[^\[\]]*\]\s*$)"
)
_WORDY = 16  # characters a token; a sentence with more of them than that is long
_NOT_PROSE = frozenset(("code", "table", "math", "figure", "front_matter", "properties", "html"))


def announces(text: str, span: Span, following: Span) -> bool:
    """Whether a trimmed span ends a line with a colon, and the one after it begins another line."""
    gap = text[span[1] : following[0]]
    return text.endswith(_COLONS, *span) and ("\n" in gap or "\r" in gap)


def bound(document: Document, spans: Sequence[Span], tokens: "Tokens", longest: int) -> list[bool]:
    """Whether each of the ordered, trimmed spans belongs to the one after it; the last belongs to none.

    ``longest``: tokens of the longest sentence that is kept whole.
    """
    text, blocks = document.text, document.blocks
    starts = [block.start for block in blocks]
    midst = _Sentences(document, tokens, longest)

    def belongs(span: Span, following: Span) -> bool:
        if announces(text, span, following):
            return True
        at = owner(starts, span[1] - 1)
        kind = blocks[at].kind if at >= 0 and span[1] <= blocks[at].end else ""
        if kind == "code":
            return bool(_REMARK.match(text[text.rfind("\n", 0, span[1]) + 1 : span[1]]))
        return kind not in _NOT_PROSE and midst.holds(following[0])

    return [*map(belongs, spans, spans[1:]), *(False for _ in spans[:1])]


class _Sentences:
    """Of a document, found where they are asked for."""

    def __init__(self, document: Document, tokens: "Tokens", longest: int) -> None:
        self._document, self._tokens, self._longest = document, tokens, longest
        self._paragraphs = paragraphs(document.text)
        self._starts = [start for start, _ in self._paragraphs]
        self._of = lru_cache(maxsize=4)(self._found)

    def holds(self, at: int) -> bool:
        """Whether a cut there would part a sentence."""
        place = owner(self._starts, at)
        if place < 0 or not self._starts[place] < at < self._paragraphs[place][1]:
            return False
        starts, found = self._of(place)
        start, end = found[max(owner(starts, at), 0)]
        return start < at < end and self._fits((start, end))

    def _fits(self, span: Span) -> bool:
        if span[1] - span[0] > self._longest * _WORDY:
            return False
        return count(self._document.text, span, self._tokens) <= self._longest

    def _found(self, place: int) -> tuple[list[int], list[Span]]:
        found = sentences(self._document.text, self._paragraphs[place], self._document.language)
        return [start for start, _ in found], found
