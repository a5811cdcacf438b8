"""Finds leads, which are text that belongs to the text after it, and keeps them from ending a chunk. Pure.

``leads`` finds the leads of a document by its blocks. They are headings, labels and comments, terms of
definitions, a sentence that introduces a table or list, and a table's caption, units and header. ``settle``
is the last step of every strategy whose chunks follow the text. It applies the limits of size, and moves
leads from a chunk's end to the next chunk. ``bonds`` reports where a strategy should not cut. These places
are after a lead, after a colon, after a comment in code, and inside a sentence short enough to stay whole.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from ingestor.model import Block, Document
from ingestor.text.limits import count, limit
from ingestor.text.outline import LEADING
from ingestor.text.sections import label_spans
from ingestor.text.sentences import paragraphs, sentences
from ingestor.text.spans import Span, owner, trim, trim_all
from ingestor.text.table_headers import header_end

if TYPE_CHECKING:
    from ingestor.text.tokens import Tokens

_COLONS = (":", "：", "︓")
_DIRECTIVES = r"include|define|undef|ifn?def|if|elif|else|endif|pragma|import|error|line|region|endregion"
_REMARK = re.compile(  # a comment's line, or a decorator, annotation or attribute
    rf"\s*(?:#(?!\s*(?:{_DIRECTIVES})\b)|//|--\s|;|%|/\*|\*/|\*\s|@\w|\[\w[^\[\]]*\]\s*$)"
)
_WORDY = 16  # characters for each token; a sentence with more counts as long
_POINTING = re.compile(
    r"\b(?:follow(?:s|ing)|below|tables?|folgend\w*|tabellen?|suivante?s?|tableaux?|siguientes?|tablas?)\b",
    re.I,
)
_LABEL, _SENTENCE = 120, 500  # characters of the longest line and sentence that introduce a table or list
_LABELS = 3  # lines above a table: a title, a unit, a date
_BODY = 24  # characters of a body that may be cut between words, beside its lead
_TRIES = 16  # places that are tried to divide a chunk
_TROFF = re.compile(  # a heading, the opening of a paragraph, or an item with its tag
    r"^[.'](?:(?:SH|SS|Sh|Ss|PP|P|LP|Pp|HP|IP|It)\b.*\n|T[PQ]\b.*\n.*\n)", re.M
)
_BOLD = re.compile(  # a line of a paragraph of its own that is all bold, or all code
    r"(?:^|(?<=\n\n))(?:(\*\*|__)[^\s*_][^*_\n]{0,80}\1|`[^`\n]{1,80}`):?[ \t]*\r?\n(?=\r?\n)"
)
_LAID_OUT = frozenset(("text/plain", "text/x-rst", "text/asciidoc", "text/markdown", "text/x-log"))
_LISTED = re.compile(r"[-*+•]\s|\d+[.)]\s|[#|>.=~^\"']")
_LONGEST_TERM = 80  # characters of a line
_NOT_PROSE = frozenset(("code", "table", "math", "figure", "front_matter", "properties", "html"))


def announces(text: str, span: Span, following: Span) -> bool:
    """Return whether a span ends with a colon, and the next span begins on another line. Both are trimmed."""
    gap = text[span[1] : following[0]]
    return text.endswith(_COLONS, *span) and ("\n" in gap or "\r" in gap)


def bonds(document: Document, spans: Sequence[Span], tokens: "Tokens", longest: int) -> list[bool]:
    """Return for each span whether it should stay together with the next one; False for the last span.

    ``spans``: in order, and trimmed. ``longest``: number of tokens up to which a sentence stays whole.
    """
    text, blocks = document.text, document.blocks
    starts = [block.start for block in blocks]
    midst = _Sentences(document, tokens, longest)
    tails = Tails(document)

    def belongs(span: Span, following: Span) -> bool:
        if announces(text, span, following) or tails.ends(span):
            return True
        at = owner(starts, span[1] - 1)
        kind = blocks[at].kind if at >= 0 and span[1] <= blocks[at].end else ""
        if kind == "code":
            return bool(_REMARK.match(text[text.rfind("\n", 0, span[1]) + 1 : span[1]]))
        return kind not in _NOT_PROSE and midst.holds(following[0])

    return [*map(belongs, spans, spans[1:]), *(False for _ in spans[:1])]


def settle(
    document: "Document | Tails",
    spans: Iterable[Span],
    tokens: "Tokens",
    minimum: int | None,
    maximum: int | None,
    within: Callable[[Span], bool] = lambda span: True,
) -> list[Span]:
    """Return the spans within the limits (see ``limit``), none of which ends with a lead.

    A lead is moved to the next span, unless it does not fit there. ``within``: returns whether a span keeps a
    limit of the strategy that is not in tokens.
    """
    text = (document.document if isinstance(document, Tails) else document).text
    kept = limit(text, spans, tokens, minimum, maximum)
    if len(kept) < 2:
        return kept
    tails = document if isinstance(document, Tails) else Tails(document)
    if not tails.leads:
        return kept

    def fits(span: Span) -> bool:
        return within(span) and (maximum is None or count(text, span, tokens) <= maximum)

    done: list[Span] = []
    waiting = kept[::-1]
    while waiting:
        span = waiting.pop()
        for tried, begin in enumerate(tails.begins(span) if waiting else ()):
            following = (min(begin, waiting[-1][0]), waiting[-1][1])
            parts = [following] if following == waiting[-1] or fits(following) else []
            if not parts and tried < _TRIES:
                parts = _divide(tails.document, following, tails, fits)
            if parts:
                waiting[-1:] = parts[::-1]
                span = trim(text, (span[0], begin))
                break
        if span[0] < span[1] and not (done and span[1] <= done[-1][1]):
            done.append(span)
    return done if minimum is None else limit(text, done, tokens, minimum, maximum)


def leads(document: Document) -> list[Span]:
    """Return the leads of a document as trimmed spans, in order, none inside another."""
    text, blocks = document.text, document.blocks
    marked = [*label_spans(document), *_terms(document)]
    for at, block in enumerate(blocks):
        labels = list(_labels(document, at)) if block.kind == "table" else []
        marked += labels
        if block.kind == "definition":
            marked.append((block.start, block.end))
        elif block.kind == "table" and (end := header_end(text, block)) < block.end:
            marked.append((block.start, end))
        if at > len(labels):
            marked += _introduction(document, blocks[at - len(labels) - 1], block.kind)
    ordered: list[Span] = []
    for span in sorted(trim_all(text, marked)):
        if not ordered or span[0] >= ordered[-1][1]:
            ordered.append(span)
    return ordered


def _terms(document: Document) -> Iterator[Span]:
    """Yield terms of definitions that only the layout shows, and macros that open parts of manual pages."""
    text, blocks = document.text, document.blocks
    if document.content_type == "text/troff":
        yield from (match.span() for match in _TROFF.finditer(text))
    if document.content_type == "text/markdown":
        yield from (match.span() for match in _BOLD.finditer(text))
    if document.content_type not in _LAID_OUT:
        return
    starts = [block.start for block in blocks]
    before, line, start = -1, "", 0  # the indentation of the line before, a line, and its place
    for following in (*text.splitlines(keepends=True), ""):
        if _defines(before, line, following):
            at = owner(starts, start)
            if at < 0 or blocks[at].kind not in _NOT_PROSE or blocks[at].end <= start:
                yield start, start + len(line)
        before = _indentation(line) if line.strip() else -1
        start += len(line)
        line = following


def _defines(before: int, line: str, following: str) -> bool:
    """Return whether a line is a term, and the next its definition: indented or marked by colons.

    ``before``: indentation of the line before; -1 if that line is blank.
    """
    words, indent = line.strip(), _indentation(line)
    if not words or len(words) > _LONGEST_TERM or 0 <= before <= indent or not following.strip():
        return False
    if words.endswith("::") or following.startswith(": "):
        return True
    is_term = not words.endswith((".", ",", ";", "!", "?")) and not _LISTED.match(words)
    return is_term and _indentation(following) >= indent + 2


def _indentation(line: str) -> int:
    expanded = line.expandtabs()
    return len(expanded) - len(expanded.lstrip())


def _labels(document: Document, table: int) -> Iterator[Span]:
    """Yield the spans of the caption and the units above a table, which is block number ``table``.

    They are paragraphs directly above it: short lines that end no sentence, or the caption that the parser
    found.
    """
    blocks, text = document.blocks, document.text
    for block in reversed(blocks[max(table - _LABELS, 0) : table]):
        words = text[block.start : block.end].strip()
        label = (
            len(words) <= _LABEL and "\n" not in words and not words.endswith((".", "!", "?", "。", *_COLONS))
        )
        if block.kind != "paragraph" or not (label or words == blocks[table].caption):
            return
        yield block.start, block.end


def _introduction(document: Document, block: Block, kind: str) -> list[Span]:
    """Return the last sentence of a block if it introduces the next block; [] otherwise.

    ``kind``: kind of the next block.
    """
    text = document.text
    if block.kind in _NOT_PROSE or block.kind in ("heading", "definition", *LEADING) or kind == "heading":
        return []
    start, end = trim(text, (block.start, block.end))
    colon = text.endswith(_COLONS, start, end)
    if not colon and kind not in ("table", "list"):
        return []
    last = sentences(text, (max(start, end - 2 * _SENTENCE), end), document.language)[-1:]
    kept = last and last[0][1] - last[0][0] <= _SENTENCE and (colon or _POINTING.search(text, *last[0]))
    return last if kept else []


def _divide(document: Document, span: Span, tails: "Tails", fits: Callable[[Span], bool]) -> list[Span]:
    """Divide a span near its middle into two parts for which ``fits`` is true; [] if that is impossible.

    A cut between blocks is preferred, then one between rows or sentences, then one between words. No cut
    follows a lead.
    """
    text, (start, end) = document.text, span
    if tails.begins(span)[:1] == [start]:
        return []  # leads only
    blocks = document.blocks[max(owner(tails.blocks, start), 0) : owner(tails.blocks, end - 1) + 1]
    rows = [
        at + 1
        for block in blocks
        if block.kind in _NOT_PROSE or block.kind == "list"
        for at in range(max(block.start, start), min(block.end, end))
        if text[at] == "\n"
    ]
    finer = [*rows, *(first for first, _ in sentences(text, span, document.language))]
    words = [at for at in range(start + 1, end) if text[at - 1].isspace() and not text[at].isspace()]
    words = [at for at in words if not tails.ends((start, at - _BODY))]
    for places in ([block.start for block in blocks], finer, words):
        nearest = sorted({at for at in places if start < at < end}, key=lambda at: abs(2 * at - start - end))
        for at in nearest[:_TRIES]:
            first, second = trim(text, (start, at)), trim(text, (at, end))
            if not tails.ends(first) and fits(first) and fits(second):
                return [first, second]
    return []


class Tails:
    """The leads of a document, prepared for fast search; ``settle`` accepts them instead of a document."""

    def __init__(self, document: Document) -> None:
        self.document, self.leads = document, leads(document)
        self.blocks = [block.start for block in document.blocks]
        self._text = document.text
        self._starts = [start for start, _ in self.leads]

    def begins(self, span: Span) -> list[int]:
        """Return the starts of the leads that end a span, first to last; [] if no lead ends it.

        The span is trimmed, and may end inside a lead.
        """
        starts, at = list[int](), self._last(span)
        while at is not None:
            starts.append(at)
            at = self._last((span[0], at))
        return starts[::-1]

    def ends(self, span: Span) -> bool:
        """Return whether a lead ends the span."""
        return self._last(span) is not None

    def _last(self, span: Span) -> int | None:
        """Return the start, in the span, of the lead that ends it; None if no lead does."""
        place = bisect_left(self._starts, span[1]) - 1
        if span[0] >= span[1] or place < 0:
            return None
        start, end = self.leads[place]
        if end <= span[0] or self._text[end : span[1]].strip():
            return None
        return max(start, span[0])


class _Sentences:
    """The sentences of a document, found only in the paragraphs for which they are needed."""

    def __init__(self, document: Document, tokens: "Tokens", longest: int) -> None:
        self._document, self._tokens, self._longest = document, tokens, longest
        self._paragraphs = paragraphs(document.text)
        self._starts = [start for start, _ in self._paragraphs]
        self._of = lru_cache(maxsize=4)(self._split)

    def holds(self, at: int) -> bool:
        """Return whether a cut at offset ``at`` would split a sentence that is short enough to stay whole."""
        place = owner(self._starts, at)
        if place < 0 or not self._starts[place] < at < self._paragraphs[place][1]:
            return False
        starts, spans = self._of(place)
        start, end = spans[max(owner(starts, at), 0)]
        return start < at < end and self._fits((start, end))

    def _fits(self, span: Span) -> bool:
        if span[1] - span[0] > self._longest * _WORDY:
            return False
        return count(self._document.text, span, self._tokens) <= self._longest

    def _split(self, place: int) -> tuple[list[int], list[Span]]:
        spans = sentences(self._document.text, self._paragraphs[place], self._document.language)
        return [start for start, _ in spans], spans
