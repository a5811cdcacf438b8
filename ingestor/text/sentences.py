"""Finds sentences and paragraphs as exact spans. Pure, linear, deterministic.

A paragraph ends at a blank line. A heading line, a list item and a table row begin a sentence. Only the text
of a paragraph decides where its sentences end, so an edit changes the sentences of one paragraph only. The
library ``sentencex`` (rules for many languages) splits a paragraph. A long paragraph is passed through in
windows, because the library's time is quadratic for text that is not ASCII.
"""

import re
from collections.abc import Iterator

from sentencex import get_sentence_boundaries

from ingestor.text.spans import Span, is_boundary, split, trim_all

_WINDOW = 2048  # code points
_BLANK = re.compile(r"(?>\r\n?|\n)[^\S\r\n]*+[\r\n]\s*+")  # possessive, hence linear
_MARK = r"[^\S\n]*(?:(?P<whole>#{1,6}[^\S\n].*\n?|\|.*\n?)|[-*+•][^\S\n]|\d{1,3}[.)][^\S\n])"
_MARKED = re.compile(_MARK)
_MARKED_LINE = re.compile(f"^{_MARK}", re.M)
_CLOSING = re.compile(r"[*_~]++(?=\s)")
_END = re.compile(r"""(?<![.!?…])[.!?…]++["')\]»”’]*+(?=\s++["'(\[«“‘]?[^\s\Wa-z])|[。！？｡]++[」』）”’]*+""")


def paragraphs(text: str, span: Span | None = None) -> list[Span]:
    """Return the paragraphs of a text, or of a span of it, trimmed: the text between blank lines."""
    start, end = span or (0, len(text))
    cuts = (match.end() for match in _BLANK.finditer(text, start, end))
    return trim_all(text, split((start, end), cuts))


def sentences(text: str, span: Span | None = None, language: str | None = None) -> list[Span]:
    """Return the sentences of a text, or of a span of it, trimmed.

    ``language``: BCP 47 tag of the language; None for the rules of English.
    """
    code = (language or "en").partition("-")[0].lower()
    return [
        sentence
        for paragraph in paragraphs(text, span)
        for line in split(paragraph, _line_cuts(text, paragraph))
        for sentence in trim_all(text, split(line, _sentence_starts(text, line, code)))
    ]


def _line_cuts(text: str, span: Span) -> Iterator[int]:
    for match in _MARKED_LINE.finditer(text, *span):
        yield match.start()
        if match["whole"]:
            yield match.end()


def _sentence_starts(text: str, span: Span, language: str) -> Iterator[int]:
    """Yield the offsets at which sentences begin in a span; none is inside the mark of a list item.

    A sentence longer than the window continues in the next one.
    """
    at, end = span
    mark = _MARKED.match(text, at, end)
    at = mark.end() if mark else at
    while at < end:
        starts = _starts(text[at : min(at + _WINDOW, end)], language)
        yield from (at + start for start in starts if is_boundary(text, at + start))
        if at + _WINDOW >= end:
            return
        at += starts[-1] if starts else _WINDOW  # the window may have cut the last sentence


def _starts(text: str, language: str) -> list[int]:
    """Return the offsets at which the second and later sentences of a short text begin."""
    try:
        starts = [boundary["start_index"] for boundary in get_sentence_boundaries(language, text)]
        return [_after_markup(text, at) for at in starts[1:]]
    except UnicodeEncodeError:  # a lone surrogate, which sentencex can't read
        return [match.end() for match in _END.finditer(text) if match.end() < len(text)]


def _after_markup(text: str, at: int) -> int:
    """Return the offset after marks that end emphasis: after a full stop they belong to the sentence."""
    match = _CLOSING.match(text, at)
    return match.end() if match and not text[at - 1].isspace() else at
