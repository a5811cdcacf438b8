"""Forms the words and lines of a PDF's page by the gaps between its characters.

A space no wider than the gaps inside a word is dropped, and a gap as wide as a space becomes a space.
"""

import math
import re
from bisect import bisect
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from statistics import median_low
from typing import TYPE_CHECKING
from unicodedata import category, combining

from pypdfium2 import raw

from ingestor.parsers.pdf.characters import RTL, is_from_right, order_for_reading, plain_word
from ingestor.parsers.pdf.lines import SOFT, Line, Word
from ingestor.parsers.pdf.page import (
    GONE,
    HYPHENS,
    JOIN,
    SPLIT,
    SYLLABIC,
    TRACKED,
    WORD,
    PageText,
    baselines,
    find_painted_again,
    font,
    object_of,
    place_of,
    read_characters,
    size_of,
)

if TYPE_CHECKING:
    from pypdfium2 import PdfPage, PdfTextPage

_Span = tuple[int, int]
_LINE = re.compile(r"[^\r\n]+")
_PLAIN = str.maketrans(
    {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xAD: None, 0: None}
    | dict.fromkeys(range(0xDC00, 0xE000))
)
_ARABIC = re.compile("[\u0600-\u08ff\ufb50-\ufdff\ufe70-\ufefc]")
_VIRAMA, _FINAL = 9, "\u0bcd\u0d4d"  # combining class, and those that may end a word
_TIGHT = 0.08  # sizes of the type: the widest usual gap beside which gaps tell words apart
_SYLLABLE = 0.16  # sizes of the type: the widest gap between two syllables
_BESIDE_BLANK = 0.05  # sizes of the type: the widest such gap if a piece of no ink stands in it
_UPRIGHT = 0.03  # radians from a quarter turn


def read(page: "PdfPage", textpage: "PdfTextPage") -> PageText:
    """Return the text of a page with its words in lines."""
    text = read_characters(page, textpage)
    text.lines = list(_lines(text))
    words = [word for line in text.lines for word in line]
    if len({(word.text[:3], word.left // 4, word.baseline // 4) for word in words}) < len(words):
        everything = (at for line in text.lines for word in line for at in range(word.first, word.last + 1))
        text.hide(list(find_painted_again(text, everything)))
        text.lines = list(_lines(text))
    return text


# --- words -------------------------------------------------------------------------------------------------


def _is_divided(text: PageText, before: int, after: int) -> bool:
    """Return whether a word ends between two characters, given by their positions.

    The gap is measured from the right end of everything painted for the first one.
    """
    end, widest = text.rights[before], _SYLLABLE
    if text.pieces:
        one, other = (text.pieces.places.get(object_of(text.handle, at) or 0, -1) for at in (before, after))
        if 0 <= one < other:
            end = max(end, *text.pieces.ends[one:other])
            widest = _BESIDE_BLANK if any(at in text.pieces.blank for at in range(one, other)) else widest
    return place_of(text, after)[0] - end > widest * size_of(text.handle, before)


def _lines(text: PageText) -> Iterator[list[Word]]:
    """Yield the words of each line. Two lines that pdfium reports as one are separated."""
    chars, ascii_ = text.chars, text.chars.isascii()
    rtl = 0 if ascii_ else len(RTL.findall(chars))
    mostly = 2 * rtl > sum(map(str.isalpha, chars)) if rtl else False
    plain = (ascii_ or chars.translate(_PLAIN) == chars) and GONE not in chars
    for begin, end, spans in _runs(text, bool(rtl)):
        run = chars[begin:end]
        if rtl and (RTL.search(chars, begin, end) or _ARABIC.search(chars, begin, end)):
            words = _logical(text, spans, mostly)
        elif (
            text.odd[end] > text.odd[begin]
            or any(mark in run for mark in HYPHENS)
            or not (ascii_ or run.isascii() or not any(category(c)[0] == "M" for c in run))
        ):
            words = [_word(text, group) for group in _group(text, spans)]
        else:
            words = [
                Word(
                    chars[a:b] if plain else chars[a:b].translate(_PLAIN),
                    text.lefts[a], text.rights[b - 1], y, a, b - 1,
                )
                for (a, b), y in zip(spans, baselines(text, [a for a, _ in spans]), strict=True)
            ]  # fmt: skip
        first = 0
        for at in range(1, len(words) + 1):
            if at == len(words) or _is_below(text, words[at - 1], words[at]):
                line = words[first:at]
                if not rtl and any(after.right < word.left for word, after in pairwise(line)):
                    line.sort(key=attrgetter("left"))  # written from its end
                yield line
                first = at


def _runs(text: PageText, rtl: bool) -> Iterator[tuple[int, int, list[_Span]]]:
    """Yield (begin, end, words) for each line that pdfium reports, as positions of characters.

    ``rtl``: whether to join parts of a line, because pdfium ends a line at a letter with raised marks.
    """
    held: tuple[int, int, list[_Span]] | None = None
    place = before = (0.0, 0.0, 0.0)
    for line in _LINE.finditer(text.chars):
        spans = [span.span() for span in WORD.finditer(text.chars, *line.span())]
        if GONE in line[0]:
            spans = [span for span in spans if text.chars[slice(*span)].strip(GONE)]
        if not spans:
            continue
        if rtl:
            before, place = place, _extent(text, spans)
        if held and rtl and _is_beside(before, place, size_of(text.handle, spans[0][0])):
            held = held[0], line.end(), [*held[2], *spans]
            place = min(before[0], place[0]), max(before[1], place[1]), before[2]
            continue
        if held:
            yield held
        held = *line.span(), spans
    if held:
        yield held


def _extent(text: PageText, spans: Sequence[_Span]) -> tuple[float, float, float]:
    """Return the left end, the right end and the usual baseline of words."""
    places = [at for start, end in spans for at in range(start, end)]
    heights = median_low(baselines(text, places))
    return min(text.lefts[at] for at in places), max(text.rights[at] for at in places), heights


def _is_beside(one: tuple[float, float, float], other: tuple[float, float, float], size: float) -> bool:
    """Return whether two parts of a line are at the same height, with a gap no wider than between words.

    ``one``, ``other``: results of ``_extent``. ``size``: their type size.
    """
    gap = max(one[0] - other[1], other[0] - one[1])
    return abs(one[2] - other[2]) < 0.6 * size and -0.3 * size < gap < 0.5 * size


def _is_below(text: PageText, word: Word, after: Word) -> bool:
    """Return whether ``after`` is not on the line of ``word``, although pdfium reports them on one."""
    step = abs(after.baseline - word.baseline) / (text.sizes[word.first] or 1.0)
    return step > 1 or (step > 0.5 and after.left < word.right)


def _word(text: PageText, spans: Sequence[_Span]) -> Word:
    first, last = spans[0][0], spans[-1][1] - 1
    letters = text.chars[first : spans[0][1]].translate(_PLAIN)
    for (_, before), (start, end) in pairwise(spans):
        joint = (SOFT if text.chars[start].islower() else "-") if text.chars[before] in HYPHENS else ""
        letters += joint + text.chars[start:end].translate(_PLAIN)
    after = text.chars[last + 1 : last + 2]
    return Word(
        letters, text.lefts[first], text.rights[last], place_of(text, first)[1], first, last,
        after in tuple(HYPHENS),
    )  # fmt: skip


def _group(text: PageText, spans: Sequence[_Span]) -> Iterator[list[_Span]]:
    """Yield the spans of characters that form each word.

    Words of pdfium are joined or split, depending on the gaps between their letters.
    """
    chars, lefts, rights = text.chars, text.lefts, text.rights
    inside = [lefts[at + 1] - rights[at] for start, end in spans for at in range(start, end - 1)]
    size = text.sizes[spans[0][0]]
    usual = max(median_low(inside), 0.0) if len(inside) > 2 else 0.0
    wide = max(inside, default=0.0) - usual > 0.8 * SPLIT * size
    group: list[_Span] = []
    for at, (start, end) in enumerate(spans):
        before = spans[at - 1][1] if at else 0
        made = before + 1 == start and chars[before] == " " and lefts[before] == rights[before]
        gap = lefts[start] - rights[before - 1] if group else 0.0
        joined = group and (
            (before + 1 == start and chars[before] in HYPHENS)
            or (combining(chars[before - 1]) == _VIRAMA and chars[before - 1] not in _FINAL)
            or category(chars[start]).startswith("M")
            or (
                made
                and usual <= TRACKED * size
                and inside
                and -JOIN * size <= gap <= 1.25 * usual + JOIN * size
                and chars[start].isalpha()
                and chars[before - 1].isalpha()
                and not text.pieces
            )
            or (made and SYLLABIC.match(chars[before - 1]) and not _is_divided(text, before - 1, start))
        )
        if group and not joined:
            yield group
            group = []
        for place in range(start, end - 1) if text.pieces or (wide and usual <= _TIGHT * size) else ():
            one, other = chars[place], chars[place + 1]
            if text.pieces and SYLLABIC.match(one):
                bound = combining(one) == _VIRAMA and one not in _FINAL
                apart = not bound and category(other)[0] == "L" and _is_divided(text, place, place + 1)
            else:
                gap = lefts[place + 1] - rights[place] - usual
                apart = wide and gap > SPLIT * text.sizes[place] and one.isalpha() and other.isalpha()
            if apart:
                yield [*group, (start, place + 1)]
                group, start = [], place + 1
        group.append((start, end))
    if group:
        yield group


def _logical(text: PageText, spans: Sequence[_Span], mostly: bool) -> list[Word]:
    """Return the words of a line with Hebrew or Arabic text, in the order in which they are read.

    ``mostly``: whether most of the page is read from right to left.
    """
    chars, begins, ends = text.chars, text.lefts, text.rights
    own = {at: number for number, span in enumerate(spans) for at in range(*span) if chars[at] != GONE}
    bases = [at for at in own if not combining(chars[at])]
    if not bases:
        return []
    back = [-1 if begins[first] > begins[end - 1] else 1 for first, end in spans]
    marks, above = [at for at in own if combining(chars[at])], dict[int, str]()
    lefts, rights = {at: begins[at] for at in own}, {at: ends[at] for at in own}
    starts, glyphs = lefts, dict[int | None, list[int]]()
    if marks:
        starts = {at: place_of(text, at)[0] for at in bases}
        for at in bases:
            glyphs.setdefault(object_of(text.handle, at), []).append(at)
    bases.sort(
        key=lambda at: (starts[at], begins[at], back[own[at]] * at)
    )  # letters of a ligature: one place
    for mark in marks:
        glyph = object_of(text.handle, mark)
        own_bases = glyphs.get(glyph, bases)
        base = min(own_bases, key=lambda at: abs(begins[at] + ends[at] - begins[mark] - ends[mark]))
        above[base] = above.get(base, "") + chars[mark]
        left, right = text.glyphs.get(glyph or 0, (begins[base], ends[base]))
        lefts[base], rights[base] = min(begins[base], left), max(ends[base], right)
    blank = (at for at in range(spans[0][0], spans[-1][1]) if chars[at] == " " and ends[at] > begins[at])
    spaces = [*sorted(begins[at] + ends[at] for at in blank), math.inf]
    seen: list[int | None] = [bases[0]]
    end, size = rights[bases[0]], size_of(text.handle, bases[0])
    for before, at in pairwise(bases):
        loose = any(one in above or chars[one] in "()[]{}«»" for one in (before, at))
        widest = 0.2 if loose else 0.5 if own[before] == own[at] else 0.1
        painted_space = spaces[bisect(spaces, 2 * end)] < 2 * lefts[at]
        if lefts[at] - end > (0.1 if painted_space else widest) * size:
            seen.append(None)
        seen.append(at)
        end = max(end, rights[at])
    signs = [" " if at is None else chars[at] for at in seen]
    order = [seen[at] for at in order_for_reading(signs, is_from_right("".join(signs), mostly))]
    words, places = list[Word](), list[int]()
    for place in [*order, None]:
        if place is not None:
            places.append(place)
        elif places:
            word = "".join(chars[at] + above.get(at, "") for at in places).translate(_PLAIN)
            left, edge = min(lefts[at] for at in places), max(rights[at] for at in places)
            baseline = median_low(baselines(text, places))
            words.append(Word(plain_word(word), left, edge, baseline, min(places), max(places)))
            places = []
    return words


# --- lines --------------------------------------------------------------------------------------------------


def line_of(text: PageText, words: Sequence[Word]) -> Line:
    """Return a line of these words. Its type is that of most of its first, middle and last characters."""
    handle, last = text.handle, words[-1].last
    hyphen = words[-1].divided or raw.FPDFText_IsHyphen(handle, last) == 1
    places = (words[0].first, words[len(words) // 2].first, last)
    fonts = [font(handle, at) for at in places]  # one of them may be the mark of a note: smaller, and raised
    sizes = [size_of(handle, at) for at in places]
    whole = " ".join(word.text for word in words)
    return Line(
        whole.removesuffix("-") if hyphen else whole,
        min(word.left for word in words),
        max(word.right for word in words),
        median_low([words[0].baseline, words[len(words) // 2].baseline, words[-1].baseline]),
        median_low(sizes),
        bold=sum(font.bold for font in fonts) >= 2 and (fonts[2].bold or fonts[2].mono),
        mono=sum(font.mono for font in fonts) >= 2,
        hyphen=hyphen,
        italic=sum(font.italic for font in fonts) >= 2,
        math=fonts[1].math,
        font=fonts[1].name,
        slanted=is_slanted(text, words[len(words) // 2]),
        words=tuple(words),
    )


def is_slanted(text: PageText, word: Word) -> bool:
    turn = float(raw.FPDFText_GetCharAngle(text.handle, word.first)) % (math.pi / 2)
    return _UPRIGHT < turn < math.pi / 2 - _UPRIGHT
