"""The words of a PDF's page: pdfium's characters, corrected by where they stand.

pdfium gives the characters in the order of the file, with the spaces that it guesses. Their boxes tell more:
text outside the page or painted twice goes, and turned pages are turned back. A space as narrow as the gaps
inside a word goes, and a gap as wide as a space becomes one.
"""

import math
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ctypes import (
    PYFUNCTYPE,
    addressof,
    byref,
    c_double,
    c_float,
    c_int,
    c_uint,
    c_void_p,
    cast,
    create_string_buffer,
)
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, repeat
from operator import attrgetter
from statistics import median_low
from typing import TYPE_CHECKING, Any
from unicodedata import category, combining

import numpy as np
from pypdfium2 import raw

from ingestor.parsers.pdf import bidi
from ingestor.parsers.pdf.lines import SOFT, Line, Word
from ingestor.parsers.pdf.unmapped import meanings

if TYPE_CHECKING:
    from pypdfium2 import PdfPage, PdfTextPage

_BOLD = 600  # weight
_FIXED_PITCH, _ITALIC = 1, 64  # flags of a font
_NAMES = {  # parts of a font's name
    "bold": ("bold", "black", "heavy", "cmbx", "cmssbx", "sfbx", "-demi", "-medi"),
    "italic": ("italic", "oblique", "slanted", "cmti", "cmsl", "cmbxti"),
    "mono": ("mono", "courier", "cmtt", "consol", "typewriter"),
    "math": ("cmmi", "cmsy", "cmex", "msbm", "msam", "math", "cmmib", "cmbsy", "eufm", "symbol"),
    "caps": ("caps", "csc", "smallcap", "-sc"),
}
_HYPHENS = "\x02\ufffe"
_GONE = "\0"  # in place of a character that nobody sees
_WORD = re.compile(f"[^\\s{_HYPHENS}]+")
_LINE = re.compile(r"[^\r\n]+")
_PAIR = re.compile("[\ud800-\udbff]([\udc00-\udfff])")  # pdfium's two characters for one of another plane
_PLAIN = str.maketrans(
    {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xAD: None, 0: None}
    | dict.fromkeys(range(0xDC00, 0xE000))
)
_ARABIC = re.compile("[\u0600-\u08ff\ufb50-\ufdff\ufe70-\ufefc]")
_SYLLABIC = re.compile("[\u0900-\u109f\u1780-\u17ff]")  # scripts of India and its neighbours
_VIRAMA, _FINAL = 9, "\u0bcd\u0d4d"  # combining class, and those that may end a word
_EM = 1.2  # sizes of the type: the height of a character's box
_SPLIT = 0.13  # sizes of the type, beyond the usual gap inside a word: a space
_JOIN = 0.03  # sizes of the type, beyond the usual gap inside a word: none
_TIGHT = 0.08  # sizes of the type: the widest usual gap beside which gaps tell words apart
_TRACKED = 0.2  # sizes of the type: the widest usual gap inside words
_SYLLABLE = 0.16  # sizes of the type: the widest gap between two syllables
_BESIDE_BLANK = 0.05  # sizes of the type: the widest such gap if a piece of no ink stands in it
_SAME = 0.15  # sizes of the type between two characters that are one painted twice
_SINGLE = re.compile(r"(?:(?<!\S)[^\W\d_]\s+){4}[^\W\d_](?!\S)")  # letters in a row that stand alone
_LETTERS = 5  # of them: a word set wide
_LETTER_GAP = 0.28  # sizes of the type: more is the space between words
_WORD_GAP = 1.4  # times the gap between such letters
_UPRIGHT = 0.03  # radians from a quarter turn


def _unchecked(function: Any, result: Any, *more: Any) -> Any:
    """Return pdfium's function without the checks of ctypes: it is called for every character."""
    return PYFUNCTYPE(result, c_void_p, c_int, *more)(cast(function, c_void_p).value or 0)


_unicode = _unchecked(raw.FPDFText_GetUnicode, c_uint)
_loose = _unchecked(raw.FPDFText_GetLooseCharBox, c_int, c_void_p)
_origin = _unchecked(raw.FPDFText_GetCharOrigin, c_int, c_void_p, c_void_p)


@dataclass(slots=True)
class PageText:
    """A page as it is read: turned upright, with the origin at its lower left.

    ``chars``: a character for each of pdfium's; CR LF ends a line, U+0002 divides a word. A character of two
    halves stands where its first was. ``turn``: quarters that the text is turned counter-clockwise.
    ``odd``: how many gaps before each character are no plain spaces or joints. ``lines``: words, line by line
    in the order of the file. ``unmapped``: characters without a Unicode value. ``pieces``: places and ends of
    the pieces of text that are painted, by their addresses, on a page in a syllabic script.
    """

    handle: Any
    address: int | None
    chars: str
    unmapped: int
    turn: int
    shown: tuple[float, float, float, float]
    lefts: Sequence[float]
    rights: Sequence[float]
    sizes: Sequence[float]
    odd: Sequence[int]
    lines: list[list[Word]]
    pieces: "Pieces | None" = None

    def upright(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Return where a point of the file's coordinates stands on the page as it is read."""
        left, bottom, right, top = self.shown
        return ((x - left, y - bottom), (y - bottom, right - x), (right - x, top - y), (top - y, x - left))[
            self.turn
        ]

    def box(self, left: float, bottom: float, right: float, top: float) -> tuple[float, float, float, float]:
        (x, y), (to_x, to_y) = self.upright(left, bottom), self.upright(right, top)
        return min(x, to_x), min(y, to_y), max(x, to_x), max(y, to_y)

    @property
    def height(self) -> float:
        left, bottom, right, top = self.shown
        return right - left if self.turn % 2 else top - bottom

    def hide(self, places: Iterable[int]) -> None:
        """Take characters out of the text."""
        letters = list(self.chars)
        for at in places:
            if not letters[at].isspace():
                letters[at] = _GONE
        self.chars = "".join(letters)


def read(page: "PdfPage", textpage: "PdfTextPage") -> PageText:
    handle = textpage.raw
    count, address = raw.FPDFText_CountChars(handle), cast(handle, c_void_p).value
    chars, unmapped = _decode(handle, possible(map(_unicode, repeat(address), range(count))))
    boxes = np.zeros((count, 4), np.float32)
    at = boxes.ctypes.data
    deque(map(_loose, repeat(address), range(count), range(at, at + 16 * count, 16)), maxlen=0)
    left, top, right, bottom = boxes.T.astype(np.float64)
    shown = page.get_cropbox()
    turn = _turn(chars, left, bottom)
    lefts, rights, tall = (
        lambda: (left - shown[0], right - shown[0], top - bottom),
        lambda: (bottom - shown[1], top - shown[1], right - left),
        lambda: (shown[2] - right, shown[2] - left, top - bottom),
        lambda: (shown[3] - top, shown[3] - bottom, right - left),
    )[turn]()
    sizes = tall / _EM
    text = PageText(
        handle, address, chars, unmapped, turn, shown, lefts.tolist(), rights.tolist(), sizes.tolist(),
        _odd(chars, lefts, rights, sizes), [],
    )  # fmt: skip
    outside = (abs(left + right - shown[0] - shown[2]) > shown[2] - shown[0]) | (
        abs(bottom + top - shown[1] - shown[3]) > shown[3] - shown[1]
    )
    if outside.any():
        text.hide(np.flatnonzero(outside).tolist())
    if _SYLLABIC.search(chars):
        text.pieces = _pieces(page, text)
        objects = {at: _object(handle, at) for at, letter in enumerate(chars) if not letter.isspace()}
        text.hide(at for at, one in objects.items() if one in text.pieces.again)
    text.lines = list(_lines(text))
    words = [word for line in text.lines for word in line]
    if len({(word.text[:3], word.left // 4, word.baseline // 4) for word in words}) < len(words):
        everything = (at for line in text.lines for word in line for at in range(word.first, word.last + 1))
        text.hide(list(_painted_again(text, everything)))
        text.lines = list(_lines(text))
    return text


def _odd(chars: str, lefts: Any, rights: Any, sizes: Any) -> Sequence[int]:
    """Count the gaps that may be no words' spaces, or spaces without a character, up to each character."""
    blank = np.fromiter(map(str.isspace, chars), bool, len(chars))
    strange = np.zeros(len(chars) + 1, bool)
    inner = ~blank[1:] & ~blank[:-1]
    strange[1:-1] = inner & (lefts[1:] - rights[:-1] > 0.8 * _SPLIT * sizes[:-1])
    made = blank[1:-1] & (lefts[1:-1] == rights[1:-1]) & ~blank[2:]
    strange[1:-2] |= made & (lefts[2:] - rights[:-2] <= (1.25 * _TRACKED + _JOIN) * sizes[:-2])
    return np.cumsum(strange).tolist()  # type: ignore[no-any-return]


def _turn(chars: str, left: Any, bottom: Any) -> int:
    """Return the quarter turn that most words share, by where their letters follow each other."""
    votes = [0, 0, 0, 0]
    spans = [word.span() for word in _WORD.finditer(chars)]
    if not spans:
        return 0
    rtl = bidi.RTL.search(chars)
    firsts, ends = np.array(spans).T
    xs, ys = (left[ends - 1] - left[firsts]).tolist(), (bottom[ends - 1] - bottom[firsts]).tolist()
    for (first, end), x, y in zip(spans, xs, ys, strict=True):
        across = abs(x) >= abs(y)
        back = across and x < 0 and not rtl
        votes[(2 if back else 0) if across else (1 if y > 0 else 3)] += end - first - 1
    return votes.index(max(votes))


def _painted_again(text: PageText, places: Iterable[int]) -> Iterator[int]:
    """Yield the characters that stand where the same character stood before."""
    seen: dict[tuple[str, int, int], list[tuple[float, float]]] = {}
    for at in places:
        letter, size = text.chars[at], text.sizes[at] or 1.0
        if letter in " \0":
            continue
        x, y = _place(text, at)
        near, cell = _SAME * size, 2 * _SAME * size
        column, row = math.floor(x / cell), math.floor(y / cell)
        before = (
            place
            for dx in (-1, 0, 1)
            for dy in (-1, 0, 1)
            for place in seen.get((letter, column + dx, row + dy), ())
        )
        if any(abs(to_x - x) < near and abs(to_y - y) < near for to_x, to_y in before):
            yield at
        else:
            seen.setdefault((letter, column, row), []).append((x, y))


_X, _Y, _FLAGS, _NAME = c_double(), c_double(), c_int(), create_string_buffer(128)
_X_AT, _Y_AT = addressof(_X), addressof(_Y)


def _place(text: PageText, at: int) -> tuple[float, float]:
    """Return where a character's left end and its baseline meet."""
    _origin(text.address, at, _X_AT, _Y_AT)
    if text.turn:
        return text.upright(_X.value, _Y.value)
    return _X.value - text.shown[0], _Y.value - text.shown[1]


def _baselines(text: PageText, places: Sequence[int]) -> list[float]:
    """Return the heights of characters' baselines, as ``_place`` does."""
    xy = np.empty((len(places), 2))
    at = xy.ctypes.data
    to = range(at, at + 16 * len(places), 16)
    deque(
        map(_origin, repeat(text.address), places, to, range(at + 8, at + 8 + 16 * len(places), 16)), maxlen=0
    )
    return text.upright(xy[:, 0], xy[:, 1])[1].tolist()  # type: ignore[no-any-return]


# --- characters --------------------------------------------------------------------------------------------


def possible(codes: Iterable[int]) -> list[int]:
    """Replace numbers of no character, which some fonts have, by U+FFFD."""
    known = list(codes)
    if max(known, default=0) <= sys.maxunicode:
        return known
    return [code if code <= sys.maxunicode else 0xFFFD for code in known]


def _decode(handle: Any, codes: Sequence[int]) -> tuple[str, int]:
    """Return the characters, and how many have no Unicode value in their font."""
    letters = list(map(chr, codes))
    strange = [
        at for at, code in enumerate(codes)
        if (code < 0x20 and code not in (2, 10, 13)) or code in (0x7B, 0x7C) or code >= 0xFFFE
    ]  # fmt: skip
    lost: list[int] = []
    if any(raw.FPDFText_HasUnicodeMapError(handle, at) or not codes[at] for at in strange):
        lost = [
            at for at, code in enumerate(codes)
            if raw.FPDFText_HasUnicodeMapError(handle, at)
            or (not code and not raw.FPDFText_IsGenerated(handle, at))
        ]  # fmt: skip
        names = [_font(handle, at).name for at in lost]
        for at, meaning in zip(lost, meanings([codes[at] for at in lost], names), strict=True):
            letters[at] = meaning
    whole = _PAIR.sub(
        lambda pair: pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le") + pair[1],
        "".join(letters),
    )
    return whole, len(lost)


def _object(handle: Any, at: int) -> int | None:
    """Return the address of the text object that a character belongs to."""
    return cast(raw.FPDFText_GetTextObject(handle, at), c_void_p).value


@dataclass(frozen=True, slots=True)
class Pieces:
    """Pieces of a page's text as they are painted: ``ends`` holds right ends, ``blank`` those without ink.

    A syllable is painted in several pieces, of which the first has all its characters, and often the box of
    its first letter alone. ``again``: later pieces for which pdfium repeats the characters.
    """

    places: Mapping[int, int]
    ends: Sequence[float]
    blank: frozenset[int]
    again: frozenset[int]


def _pieces(page: "PdfPage", text: PageText) -> Pieces:
    places, ends = dict[int, int](), list[float]()
    blank, again = set[int](), set[int]()
    replaced = set[int]()  # marks that state the characters of their pieces
    box = c_float(), c_float(), c_float(), c_float()
    kind = c_int()
    for number in range(raw.FPDFPage_CountObjects(page)):
        piece = raw.FPDFPage_GetObject(page, number)
        address = cast(piece, c_void_p).value
        if raw.FPDFPageObj_GetType(piece) != raw.FPDF_PAGEOBJ_TEXT or not address:
            continue
        raw.FPDFPageObj_GetBounds(piece, *map(byref, box))
        left, _, right, _ = text.box(*(edge.value for edge in box))
        places[address] = len(ends)
        if left == right:
            blank.add(len(ends))
        ends.append(right)
        for at in range(raw.FPDFPageObj_CountMarks(piece)):
            mark = raw.FPDFPageObj_GetMark(piece, at)
            kind.value = raw.FPDFPageObjMark_GetParamValueType(mark, b"ActualText")
            if kind.value == raw.FPDF_OBJECT_STRING and (name := cast(mark, c_void_p).value):
                if name in replaced:
                    again.add(address)
                replaced.add(name)
    return Pieces(places, ends, frozenset(blank), frozenset(again))


def _is_divided(text: PageText, before: int, after: int) -> bool:
    """Tell whether a word ends between two characters, by all that is painted from one to the other."""
    end, widest = text.rights[before], _SYLLABLE
    if text.pieces:
        one, other = (text.pieces.places.get(_object(text.handle, at) or 0, -1) for at in (before, after))
        if 0 <= one < other:
            end = max(end, *text.pieces.ends[one:other])
            widest = _BESIDE_BLANK if any(at in text.pieces.blank for at in range(one, other)) else widest
    return _place(text, after)[0] - end > widest * _size(text.handle, before)


# --- words -------------------------------------------------------------------------------------------------


def _lines(text: PageText) -> Iterator[list[Word]]:
    """Yield the words of each line; where pdfium puts two lines into one, those of each."""
    chars, ascii_ = text.chars, text.chars.isascii()
    rtl = 0 if ascii_ else len(bidi.RTL.findall(chars))
    mostly = 2 * rtl > sum(map(str.isalpha, chars)) if rtl else False
    plain = (ascii_ or chars.translate(_PLAIN) == chars) and _GONE not in chars
    for run in _LINE.finditer(chars):
        begin, end = run.span()
        spans = [span.span() for span in _WORD.finditer(chars, begin, end)]
        if _GONE in run[0]:
            spans = [span for span in spans if chars[slice(*span)].strip(_GONE)]
        if not spans:
            continue
        if rtl and (bidi.RTL.search(chars, begin, end) or _ARABIC.search(chars, begin, end)):
            words = _logical(text, spans, mostly)
        elif (
            text.odd[end] > text.odd[begin]
            or any(mark in run[0] for mark in _HYPHENS)
            or not (ascii_ or run[0].isascii() or not any(category(c)[0] == "M" for c in run[0]))
            or _SINGLE.search(chars, begin, end)
        ):
            words = [_word(text, group) for group in _grouped(text, spans)]
        else:
            words = [
                Word(
                    chars[a:b] if plain else chars[a:b].translate(_PLAIN),
                    text.lefts[a], text.rights[b - 1], y, a, b - 1,
                )
                for (a, b), y in zip(spans, _baselines(text, [a for a, _ in spans]), strict=True)
            ]  # fmt: skip
        begin = 0
        for at in range(1, len(words) + 1):
            if at == len(words) or _is_below(text, words[at - 1], words[at]):
                line = words[begin:at]
                if not rtl and any(after.right < word.left for word, after in pairwise(line)):
                    line.sort(key=attrgetter("left"))  # written from its end
                yield line
                begin = at


def _is_below(text: PageText, word: Word, after: Word) -> bool:
    """Tell whether pdfium has put a word on the line of another one that stands lower or higher."""
    step = abs(after.baseline - word.baseline) / (text.sizes[word.first] or 1.0)
    return step > 1 or (step > 0.5 and after.left < word.right)


def _word(text: PageText, spans: Sequence[tuple[int, int]]) -> Word:
    first, last = spans[0][0], spans[-1][1] - 1
    letters = text.chars[first : spans[0][1]].translate(_PLAIN)
    for (_, before), (start, end) in pairwise(spans):
        joint = (SOFT if text.chars[start].islower() else "-") if text.chars[before] in _HYPHENS else ""
        letters += joint + text.chars[start:end].translate(_PLAIN)
    after = text.chars[last + 1 : last + 2]
    return Word(
        letters, text.lefts[first], text.rights[last], _place(text, first)[1], first, last,
        after in tuple(_HYPHENS),
    )  # fmt: skip


def _grouped(text: PageText, spans: Sequence[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """Yield the parts of each word: pdfium's words, joined and split by the gaps between letters."""
    chars, lefts, rights = text.chars, text.lefts, text.rights
    inside = [lefts[at + 1] - rights[at] for start, end in spans for at in range(start, end - 1)]
    size = text.sizes[spans[0][0]]
    usual = max(median_low(inside), 0.0) if len(inside) > 2 else 0.0
    wide = max(inside, default=0.0) - usual > 0.8 * _SPLIT * size
    group: list[tuple[int, int]] = []
    letters = _set_wide(text, spans)
    for at, (start, end) in enumerate(spans):
        before = spans[at - 1][1] if at else 0
        made = before + 1 == start and chars[before] == " " and lefts[before] == rights[before]
        gap = lefts[start] - rights[before - 1] if group else 0.0
        joined = group and (
            at in letters
            or (before + 1 == start and chars[before] in _HYPHENS)
            or (combining(chars[before - 1]) == _VIRAMA and chars[before - 1] not in _FINAL)
            or category(chars[start]).startswith("M")
            or (
                made
                and usual <= _TRACKED * size
                and inside
                and -_JOIN * size <= gap <= 1.25 * usual + _JOIN * size
                and chars[start].isalpha()
                and chars[before - 1].isalpha()
                and not text.pieces
            )
            or (made and _SYLLABIC.match(chars[before - 1]) and not _is_divided(text, before - 1, start))
        )
        if group and not joined:
            yield group
            group = []
        for place in range(start, end - 1) if text.pieces or (wide and usual <= _TIGHT * size) else ():
            one, other = chars[place], chars[place + 1]
            if text.pieces and _SYLLABIC.match(one):
                bound = combining(one) == _VIRAMA and one not in _FINAL
                apart = not bound and category(other)[0] == "L" and _is_divided(text, place, place + 1)
            else:
                gap = lefts[place + 1] - rights[place] - usual
                apart = wide and gap > _SPLIT * text.sizes[place] and one.isalpha() and other.isalpha()
            if apart:
                yield [*group, (start, place + 1)]
                group, start = [], place + 1
        group.append((start, end))
    if group:
        yield group


def _set_wide(text: PageText, spans: Sequence[tuple[int, int]]) -> set[int]:
    """Return the letters that belong to the word before: words set with space between their letters."""
    within, run = set[int](), list[int]()
    for at, (start, end) in enumerate([*spans, (0, 0)]):
        if end - start == 1 and text.chars[start].isalpha():
            run.append(at)
            continue
        if len(run) >= _LETTERS:
            gaps = [text.lefts[spans[b][0]] - text.rights[spans[a][0]] for a, b in pairwise(run)]
            usual = median_low(gaps)
            if 0 < usual <= _LETTER_GAP * text.sizes[spans[run[0]][0]]:
                within |= {b for b, gap in zip(run[1:], gaps, strict=True) if gap <= _WORD_GAP * usual}
        run = []
    return within


def _logical(text: PageText, spans: Sequence[tuple[int, int]], mostly: bool) -> list[Word]:
    """Return the words of a line with Hebrew or Arabic, in the order in which they are read.

    ``mostly``: whether the page is read from right to left.
    """
    chars, lefts, rights = text.chars, text.lefts, text.rights
    own = {at: number for number, span in enumerate(spans) for at in range(*span) if chars[at] != _GONE}
    bases = [at for at in own if not combining(chars[at])]
    if not bases:
        return []
    back = [-1 if lefts[first] > lefts[end - 1] else 1 for first, end in spans]
    bases.sort(key=lambda at: (lefts[at], back[own[at]] * at))  # letters of a ligature stand at one place
    above: dict[int, str] = {}
    for mark in (at for at in own if combining(chars[at])):
        base = min(bases, key=lambda at: abs(lefts[at] + rights[at] - lefts[mark] - rights[mark]))
        above[base] = above.get(base, "") + chars[mark]
    seen: list[int | None] = [bases[0]]
    end, size = rights[bases[0]], _size(text.handle, bases[0])
    for before, at in pairwise(bases):
        bracket = chars[before] in "()[]{}«»" or chars[at] in "()[]{}«»"
        widest = 0.2 if bracket else 0.5 if own[before] == own[at] else 0.1
        if lefts[at] - end > widest * size:
            seen.append(None)
        seen.append(at)
        end = max(end, rights[at])
    signs = [" " if at is None else chars[at] for at in seen]
    kinds = [bool(bidi.RTL.search(word)) for word in "".join(signs).split() if any(map(str.isalpha, word))]
    order = [seen[at] for at in bidi.reading_order(signs, mostly or 2 * sum(kinds) >= len(kinds))]
    words, places = list[Word](), list[int]()
    for place in [*order, None]:
        if place is not None:
            places.append(place)
        elif places:
            word = "".join(chars[at] + above.get(at, "") for at in places).translate(_PLAIN)
            left, edge = min(lefts[at] for at in places), max(rights[at] for at in places)
            baseline = _place(text, places[0])[1]
            words.append(Word(bidi.plain(word), left, edge, baseline, min(places), max(places)))
            places = []
    return words


def split(text: PageText, word: Word, wall: float) -> tuple[Word, ...]:
    """Return two words that pdfium has put together, since one ends at the wall where the other begins."""
    if word.first < 0 or word.first == word.last:
        return (word,)
    before = _object(text.handle, word.first)
    for at in range(word.first + 1, word.last + 1):
        now = _object(text.handle, at)
        if now != before and text.lefts[at] >= wall - 2:
            return _word(text, [(word.first, at)]), _word(text, [(at, word.last + 1)])
        before = now
    return (word,)


# --- lines -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Font:
    name: str
    bold: bool
    italic: bool
    mono: bool
    math: bool
    caps: bool


def line_of(text: PageText, words: Sequence[Word]) -> Line:
    """Return a line of these words, set as its first, its middle and its last character are."""
    handle, last = text.handle, words[-1].last
    hyphen = words[-1].divided or raw.FPDFText_IsHyphen(handle, last) == 1
    places = (words[0].first, words[len(words) // 2].first, last)
    fonts = [_font(handle, at) for at in places]  # one of them may be the mark of a note: smaller, and raised
    sizes = [_size(handle, at) for at in places]
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
        caps=fonts[1].caps,
        math=fonts[1].math,
        font=fonts[1].name,
        even=fonts[0] == fonts[1] == fonts[2],
        slanted=is_slanted(text, words[len(words) // 2]),
        largest=max(sizes),
        words=tuple(words),
    )


def is_slanted(text: PageText, word: Word) -> bool:
    turn = float(raw.FPDFText_GetCharAngle(text.handle, word.first)) % (math.pi / 2)
    return _UPRIGHT < turn < math.pi / 2 - _UPRIGHT


def _size(handle: Any, at: int) -> float:
    """Return the size of a character's type, in points."""
    matrix = raw.FS_MATRIX()
    raw.FPDFText_GetMatrix(handle, at, byref(matrix))
    size = float(raw.FPDFText_GetFontSize(handle, at))
    return round(size * (math.hypot(matrix.c, matrix.d) or 1.0), 1)


def _font(handle: Any, at: int) -> _Font:
    raw.FPDFText_GetFontInfo(handle, at, _NAME, len(_NAME), _FLAGS)
    return _font_of(_NAME.value, _FLAGS.value, raw.FPDFText_GetFontWeight(handle, at))


@lru_cache(maxsize=1024)
def _font_of(code: bytes, flags: int, weight: int) -> _Font:
    name = code.decode("utf-8", "replace").lower()
    name = name.partition("+")[2] or name
    set_as = {style: any(part in name for part in parts) for style, parts in _NAMES.items()}
    set_as["bold"] |= weight >= _BOLD
    set_as["italic"] |= bool(flags & _ITALIC)
    set_as["mono"] |= bool(flags & _FIXED_PITCH)
    return _Font(name, **set_as)
