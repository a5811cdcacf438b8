"""Cuts a text into short pieces for comparison: whole lines and sentences where they fit. Pure, linear.

A text is split at blank lines, ends of lines, ends of sentences, wraps of lines, clauses and words, in that
order. A part that is too large is split at the next finer border, and small neighbours are packed up to the
size. The end of a long line counts as a wrap, not as an end, if it has no final mark and no list item
follows. The method is the recursive splitter of Chroma's technical report, 2024, extended by sentences and
clauses.

*Resynchronisation.* Greedy packing would spread every edit: after a shortened line, all later packs may
shift. So a pack also ends where the few characters before demand it, about every 256 tokens, as in backup
programs. An edit then changes pieces only up to the next such place. Apart from that, pieces depend only on
the paragraph, line or sentence that is split.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from ingestor.text.limits import limit
from ingestor.text.sentences import sentences
from ingestor.text.spans import Span, is_boundary, owner, split

if TYPE_CHECKING:
    from ingestor.text.tokens import Tokens

_WRAPPED = 45  # code points; a shorter line was not wrapped
_STOPS = r"[.!?…:;。！？]"
_CLOSED = rf"""(?<={_STOPS})|(?<={_STOPS}["'”’)\]\s])|(?<=\s\s)|(?<![^\n]{{{_WRAPPED}}})"""
_LISTED = r"[-*+•]\s|\d{1,3}[.)]\s|[#|>]"
_ENDS = (  # ends of parts, from coarse to fine; the match belongs to the part before it. None: sentences
    re.compile(r"\n[^\S\n]*\n\s*"),
    re.compile(rf"(?:{_CLOSED})\n\s*|\n\s*+(?={_LISTED})"),
    None,
    re.compile(r"\n\s*"),
    re.compile(r"[,;:]\s+|[，、；：،؛]\s*"),
    re.compile(r"\s+"),
)
_FINEST = len(_ENDS)
_APART = 256  # tokens between content-defined ends of packs, on average
_DECIDING = 32  # code points before the end of a pack
_MIXERS = np.array([0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F], np.uint32)  # large odd numbers
_MARK = np.uint32(1 << 28)  # a sixteenth of all values


def pieces(
    text: str,
    tokens: "Tokens",
    size: int,
    breaks: Iterable[int] = (),
    language: str | None = None,
    tables: Sequence[Span] = (),
    rows: int = 0,
) -> list[Span]:
    """Return pieces of at most ``size`` tokens, trimmed and in order. Only white space is omitted.

    No piece crosses one of the ascending ``breaks``. ``language``: see text/sentences.py. ``tables``: spans
    in which pieces may have up to ``rows`` tokens.
    """

    def divide(span: Span, level: int, most: int) -> Iterator[Span]:
        parts = split(span, _cuts(text, span, level, language))
        sized = zip(parts, _sizes(text, parts, tokens), strict=True)
        for small, run in groupby(sized, lambda part: part[1] <= most):
            if small:
                yield from _pack(text, run, most)
                continue
            for part, _ in run:
                yield from divide(part, level + 1, most) if level < _FINEST else [part]

    starts, cut = [start for start, _ in tables], list[Span]()
    for span in split((0, len(text)), sorted({*breaks, *chain.from_iterable(tables)})):
        at = owner(starts, span[0])
        most = rows if at >= 0 and span[0] < tables[at][1] else size
        if span[1] > span[0]:
            cut += limit(text, divide(span, 0, most), tokens, None, most)
    return cut


def _cuts(text: str, span: Span, level: int, language: str | None) -> Iterator[int]:
    """Yield the offsets at which parts of a span begin.

    ``level``: kind of border, from 0 for blank lines to words and places inside words.
    """
    if level == _FINEST:
        return _marks(text, span)
    if ends := _ENDS[level]:
        return (match.end() for match in ends.finditer(text, *span) if is_boundary(text, match.end()))
    return (start for start, _ in sentences(text, span, language))


def _marks(text: str, span: Span) -> Iterator[int]:
    """Yield places to cut in text without spaces, about every 16 code points; the 4 before a place decide."""
    codes = np.frombuffer(text[span[0] : span[1]].encode("utf-32-le", "surrogatepass"), np.uint32)
    width = len(_MIXERS)
    if len(codes) <= width:
        return
    mixed = sum(codes[at : len(codes) - width + at + 1] * mixer for at, mixer in enumerate(_MIXERS))
    marked = mixed < _MARK
    marked[1:] &= mixed[1:] != mixed[:-1]  # no places in a run of equal characters
    yield from (at for at in (np.flatnonzero(marked) + span[0] + width).tolist() if is_boundary(text, at))


def _sizes(text: str, parts: Sequence[Span], tokens: "Tokens") -> list[int]:
    """Count the tokens of each part, with the white space before it, as in running text."""
    ends = [start + len(text[start:end].rstrip()) for start, end in parts]
    return tokens.counts([text[a:b] for a, b in zip([parts[0][0], *ends], ends, strict=False)])


def _pack(text: str, parts: Iterable[tuple[Span, int]], size: int) -> Iterator[Span]:
    pack, total = (0, 0), 0
    for (start, end), count in parts:
        if total and total + count > size:
            yield pack
            total = 0
        pack, total = (pack[0] if total else start, end), total + count
        if _ends_here(text, end, count):
            yield pack
            total = 0
    if total:
        yield pack


def _ends_here(text: str, at: int, count: int) -> bool:
    """Return whether a pack must end at offset ``at``, by the characters before it.

    ``count``: tokens of the pack's last part; the longer the part, the more likely the pack ends.
    """
    before = text[max(at - _DECIDING, 0) : at].encode("utf-8", "surrogatepass")
    return crc32(before) % _APART < count
