"""The words of a PDF's page: pdfium's characters, corrected by where they stand.

pdfium gives the characters in the order of the file, with the spaces that it guesses. Their boxes tell more:
text outside the page or painted twice goes, turned pages and texts are turned back, a space as narrow as the
gaps inside a word goes, a gap as wide as a space becomes one, and a line of Hebrew or Arabic is put in the
order in which it is read.
"""

import math
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from ctypes import (
    PYFUNCTYPE,
    addressof,
    byref,
    c_double,
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
from unicodedata import category, combining, normalize

import numpy as np
from pypdfium2 import raw

from ingestor.parsers.pdf.lines import Line, Word
from ingestor.parsers.pdf.unmapped import meanings

if TYPE_CHECKING:
    from pypdfium2 import PdfPage, PdfTextPage

_BOLD = 600  # weight
_FIXED_PITCH, _ITALIC = 1, 64  # flags of a font
_BOLD_NAMES = ("bold", "black", "heavy", "cmbx", "cmssbx", "sfbx", "-demi", "-medi")
_ITALIC_NAMES = ("italic", "oblique", "slanted", "cmti", "cmsl", "cmbxti")
_CAPS_NAMES = ("caps", "csc", "smallcap", "-sc")
_MONO_NAMES = ("mono", "courier", "cmtt", "consol", "typewriter")
_MATH_NAMES = ("cmmi", "cmsy", "cmex", "msbm", "msam", "math", "cmmib", "cmbsy", "eufm", "symbol")
_HYPHENS = "\x02\ufffe"
_GONE = "\0"  # in place of a character that nobody sees
_WORD = re.compile(f"[^\\s{_HYPHENS}]+")
_LINE = re.compile(r"[^\r\n]+")
_PAIR = re.compile("[\ud800-\udbff]([\udc00-\udfff])")  # pdfium's two characters for one of another plane
_PLAIN = str.maketrans(
    {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xAD: None, 0: None}
    | dict.fromkeys(range(0xDC00, 0xE000))
)
_RTL = re.compile("[\u0590-\u065f\u066a-\u06ef\u06fa-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_ARABIC = re.compile("[\u0600-\u08ff\ufb50-\ufdff\ufe70-\ufefc]")
_LTR_RUN = re.compile(r"[^\W_](?:.*[^\W_])?")
_SHAPED = re.compile("[\ufb1d-\ufdff\ufe70-\ufefc]+")  # letters in the shape that they have beside others
_MIRRORED = dict(zip("()[]{}«»", ")(][}{»«", strict=True))
_BRACKET = re.compile(
    r"^[)\]}»]|[(\[{«](?=[.,:;،؛؟!?]*$)"
)  # that opens or closes on the wrong side of its word
_INDIC = re.compile("[\u0900-\u0dff]")
_VIRAMA, _FINAL = 9, "\u0bcd\u0d4d"  # combining class, and those that may end a word
_EM = 1.2  # sizes of the type: the height of a character's box
_SPLIT = 0.13  # sizes of the type, beyond the usual gap inside a word: a space
_JOIN = 0.03  # sizes of the type, beyond the usual gap inside a word: none
_TIGHT = 0.08  # sizes of the type: the widest usual gap beside which gaps tell words apart
_TRACKED = 0.2  # sizes of the type: the widest usual gap inside words
_SYLLABLE = 0.16  # sizes of the type: the widest gap between two of an Indian script
_SIGN = 0.26  # sizes of the type: a vowel sign, which stands unseen behind the box of its letter
_UNSEEN_BASE = {
    "\u093f": 0.15,
    **dict.fromkeys("\u09bf\u09c7\u09c8\u0bc6\u0bc7\u0bc8", 0.45),
}  # or a letter behind it
_SAME = 0.15  # sizes of the type between two characters that are one painted twice
_SINGLE = re.compile(r"(?:(?<!\S)[^\W\d_]\s+){4}[^\W\d_](?!\S)")  # letters in a row that stand alone
_LETTERS = 5  # of them: a word set wide
_LETTER_GAP = 0.28  # sizes of the type: more is the space between words
_WORD_GAP = 1.4  # times the gap between such letters
_UPRIGHT = 0.03  # radians from a quarter turn


def _quick(function: Any, result: Any, *more: Any) -> Any:
    """Return pdfium's function without the checks of ctypes: it is called for every character."""
    return PYFUNCTYPE(result, c_void_p, c_int, *more)(cast(function, c_void_p).value or 0)


_unicode = _quick(raw.FPDFText_GetUnicode, c_uint)
_loose = _quick(raw.FPDFText_GetLooseCharBox, c_int, c_void_p)
_origin = _quick(raw.FPDFText_GetCharOrigin, c_int, c_void_p, c_void_p)


@dataclass(slots=True)
class PageText:
    """A page as it is read: turned upright, with the origin at its lower left.

    ``said``: a character for each of pdfium's; CR LF ends a line, U+0002 divides a word. A character of two
    halves stands where its first was. ``turn``: quarters that the text is turned counter-clockwise.
    ``odd``: how many gaps before each character are no plain spaces or joints. ``lines``: words, line by line
    in the order of the file. ``unmapped``: characters without a Unicode value.
    """

    handle: Any
    address: int | None
    said: str
    unmapped: int
    turn: int
    shown: tuple[float, float, float, float]
    lefts: Sequence[float]
    rights: Sequence[float]
    sizes: Sequence[float]
    odd: Sequence[int]
    lines: list[list[Word]]

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


def read(page: "PdfPage", textpage: "PdfTextPage") -> PageText:
    handle = textpage.raw
    count, address = raw.FPDFText_CountChars(handle), cast(handle, c_void_p).value
    said, unmapped = _decoded(handle, possible(map(_unicode, repeat(address), range(count))))
    boxes = np.zeros((count, 4), np.float32)
    at = boxes.ctypes.data
    deque(map(_loose, repeat(address), range(count), range(at, at + 16 * count, 16)), maxlen=0)
    left, top, right, bottom = boxes.T.astype(np.float64)
    shown = page.get_cropbox()
    outside = (abs(left + right - shown[0] - shown[2]) > shown[2] - shown[0]) | (
        abs(bottom + top - shown[1] - shown[3]) > shown[3] - shown[1]
    )
    said = _without(said, np.flatnonzero(outside).tolist())
    turn = _turn(said, left, bottom)
    lefts, rights, tall = (
        lambda: (left - shown[0], right - shown[0], top - bottom),
        lambda: (bottom - shown[1], top - shown[1], right - left),
        lambda: (shown[2] - right, shown[2] - left, top - bottom),
        lambda: (shown[3] - top, shown[3] - bottom, right - left),
    )[turn]()
    sizes = tall / _EM
    text = PageText(
        handle, address, said, unmapped, turn, shown, lefts.tolist(), rights.tolist(), sizes.tolist(),
        _odd(said, lefts, rights, sizes), [],
    )  # fmt: skip
    text.lines = list(_lines(text))
    words = [word for line in text.lines for word in line]
    if len({(word.text[:3], word.left // 4, word.baseline // 4) for word in words}) < len(words):
        everything = (at for line in text.lines for word in line for at in range(word.first, word.last + 1))
        text.said = _without(said, list(_painted_again(text, everything)))
        text.lines = list(_lines(text))
    return text


def _odd(said: str, lefts: Any, rights: Any, sizes: Any) -> Sequence[int]:
    """Count the gaps that may be no words' spaces, or spaces without a character, up to each character."""
    blank = np.fromiter(map(str.isspace, said), bool, len(said))
    strange = np.zeros(len(said) + 1, bool)
    inner = ~blank[1:] & ~blank[:-1]
    strange[1:-1] = inner & (lefts[1:] - rights[:-1] > 0.8 * _SPLIT * sizes[:-1])
    made = blank[1:-1] & (lefts[1:-1] == rights[1:-1]) & ~blank[2:]
    strange[1:-2] |= made & (lefts[2:] - rights[:-2] <= (1.25 * _TRACKED + _JOIN) * sizes[:-2])
    return np.cumsum(strange).tolist()  # type: ignore[no-any-return]


def _without(said: str, places: Iterable[int]) -> str:
    letters = list(said)
    gone = [at for at in places if not letters[at].isspace()]
    for at in gone:
        letters[at] = _GONE
    return "".join(letters) if gone else said


def _turn(said: str, left: Any, bottom: Any) -> int:
    """Return the quarter turn that most words share, by where their letters follow each other."""
    votes = [0, 0, 0, 0]
    spans = [found.span() for found in _WORD.finditer(said) if _GONE not in found[0]]
    if not spans:
        return 0
    firsts, ends = np.array(spans).T
    xs, ys = (left[ends - 1] - left[firsts]).tolist(), (bottom[ends - 1] - bottom[firsts]).tolist()
    for (first, end), x, y in zip(spans, xs, ys, strict=True):
        across = abs(x) >= abs(y)
        back = across and x < 0 and not _RTL.search(said, first, end)
        votes[(2 if back else 0) if across else (1 if y > 0 else 3)] += end - first - 1
    return votes.index(max(votes))


def _painted_again(text: PageText, places: Iterable[int]) -> Iterator[int]:
    """Yield the characters that stand where the same character stood before."""
    seen: dict[tuple[str, int, int], list[tuple[float, float]]] = {}
    for at in places:
        letter, size = text.said[at], text.sizes[at] or 1.0
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
    told = list(codes)
    if max(told, default=0) <= sys.maxunicode:
        return told
    return [code if code <= sys.maxunicode else 0xFFFD for code in told]


def _decoded(handle: Any, codes: Sequence[int]) -> tuple[str, int]:
    """Return the characters, and how many have no Unicode value in their font."""
    said = list(map(chr, codes))
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
            said[at] = meaning
    whole = "".join(said)
    return _PAIR.sub(
        lambda pair: pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le") + pair[1], whole
    ), len(lost)


# --- words -------------------------------------------------------------------------------------------------


def _lines(text: PageText) -> Iterator[list[Word]]:
    """Yield the words of each line; where pdfium puts two lines into one, those of each."""
    said, ascii_ = text.said, text.said.isascii()
    rtl = not ascii_ and _RTL.search(said) is not None
    plain = ascii_ or said.translate(_PLAIN) == said
    plain = plain and _GONE not in said
    for found in _LINE.finditer(said):
        begin, end = found.span()
        spans = [span.span() for span in _WORD.finditer(said, begin, end)]
        if _GONE in found[0]:
            spans = [span for span in spans if said[slice(*span)].strip(_GONE)]
        if not spans:
            continue
        if rtl and (_RTL.search(said, begin, end) or _ARABIC.search(said, begin, end)):
            words = _logical(text, spans)
        elif (
            text.odd[end] > text.odd[begin]
            or any(mark in found[0] for mark in _HYPHENS)
            or not (ascii_ or found[0].isascii() or not any(category(c)[0] == "M" for c in found[0]))
            or _SINGLE.search(said, begin, end)
        ):
            words = [_word(text, group) for group in _grouped(text, spans)]
        else:
            words = [
                Word(
                    said[a:b] if plain else said[a:b].translate(_PLAIN),
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
    said = text.said[first : spans[0][1]]
    for (_, before), (start, end) in pairwise(spans):
        divided = text.said[before] in _HYPHENS and not text.said[start].islower()
        said += f"{'-' * divided}{text.said[start:end]}"
    said = said.translate(_PLAIN)
    after = text.said[last + 1 : last + 2]
    baseline = _place(text, first)[1]
    return Word(said, text.lefts[first], text.rights[last], baseline, first, last, after in tuple(_HYPHENS))


def _grouped(text: PageText, spans: Sequence[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """Yield the parts of each word: pdfium's words, joined and split by the gaps between letters."""
    said, lefts, rights = text.said, text.lefts, text.rights
    inside = [lefts[at + 1] - rights[at] for start, end in spans for at in range(start, end - 1)]
    size = text.sizes[spans[0][0]]
    usual = max(median_low(inside), 0.0) if len(inside) > 2 else 0.0
    wide = max(inside, default=0.0) - usual > 0.8 * _SPLIT * size
    group: list[tuple[int, int]] = []
    letters = _set_wide(text, spans)
    for at, (start, end) in enumerate(spans):
        before = spans[at - 1][1] if at else 0
        made = before + 1 == start and said[before] == " " and lefts[before] == rights[before]
        gap = lefts[start] - rights[before - 1] if group else 0.0
        joined = bool(group) and (
            at in letters
            or (before + 1 == start and said[before] in _HYPHENS)
            or (combining(said[before - 1]) == _VIRAMA and said[before - 1] not in _FINAL)
            or category(said[start]).startswith("M")
            or (
                made
                and usual <= _TRACKED * size
                and bool(inside)
                and -_JOIN * size <= gap <= 1.25 * usual + _JOIN * size
                and said[start].isalpha()
                and said[before - 1].isalpha()
            )
            or (made and bool(_INDIC.match(said[start])) and gap <= _indic_space(text, before - 1))
        )
        if group and not joined:
            yield group
            group = []
        if wide and usual <= _TIGHT * size:
            for place in range(start, end - 1):
                if (
                    lefts[place + 1] - rights[place] - usual > _SPLIT * text.sizes[place]
                    and said[place].isalpha()
                    and said[place + 1].isalpha()
                ):
                    yield [*group, (start, place + 1)]
                    group, start = [], place + 1
        group.append((start, end))
    if group:
        yield group


def _indic_space(text: PageText, at: int) -> float:
    """Return the widest gap behind a letter of an Indian script inside a word, in points.

    Chrome writes several characters for the first glyph of a syllable, and none for its vowel sign.
    """
    if not _INDIC.match(text.said[at]):
        return -1.0
    unseen = category(text.said[at]) == "Mc" and _place(text, at) == _place(text, at - 1)
    behind = _UNSEEN_BASE.get(text.said[at], _SIGN) if unseen else 0.0
    return (_SYLLABLE + behind) * _size(text.handle, at)


def _set_wide(text: PageText, spans: Sequence[tuple[int, int]]) -> set[int]:
    """Return the letters that belong to the word before: words set with space between their letters."""
    found, run = set[int](), list[int]()
    for at, (start, end) in enumerate([*spans, (0, 0)]):
        if end - start == 1 and text.said[start].isalpha():
            run.append(at)
            continue
        if len(run) >= _LETTERS:
            gaps = [text.lefts[spans[b][0]] - text.rights[spans[a][0]] for a, b in pairwise(run)]
            usual = median_low(gaps)
            if 0 < usual <= _LETTER_GAP * text.sizes[spans[run[0]][0]]:
                found |= {b for b, gap in zip(run[1:], gaps, strict=True) if gap <= _WORD_GAP * usual}
        run = []
    return found


def _logical(text: PageText, spans: Sequence[tuple[int, int]]) -> list[Word]:
    """Return the words of a line with Hebrew or Arabic, in the order in which they are read."""
    said, lefts, rights = text.said, text.lefts, text.rights
    own = {at: number for number, span in enumerate(spans) for at in range(*span)}
    bases = sorted((at for at in own if not combining(said[at])), key=lefts.__getitem__)
    if not bases:
        return []
    above: dict[int, str] = {}
    for mark in (at for at in own if combining(said[at])):
        base = min(bases, key=lambda at: abs(lefts[at] + rights[at] - lefts[mark] - rights[mark]))
        above[base] = above.get(base, "") + said[mark]
    words, end, size = [[bases[0]]], rights[bases[0]], _size(text.handle, bases[0])
    for before, at in pairwise(bases):
        bracket = said[before] in _MIRRORED or said[at] in _MIRRORED
        widest = 0.2 if bracket else 0.5 if own[before] == own[at] else 0.1
        if lefts[at] - end > widest * size:
            words.append([])
        words[-1].append(at)
        end = max(end, rights[at])
    whole = [any(_RTL.match(said[at]) for at in word) for word in words]
    named = sum(any(said[at].isalpha() for at in word) for word in words)
    right = 2 * sum(whole) >= named
    arabic = any(_ARABIC.match(said[at]) for at in bases)
    if right:
        words.reverse()
        whole.reverse()
    begin = 0
    for at in range(len(words) + 1):  # what runs against the line's direction is turned
        if at == len(words) or whole[at] == right:
            words[begin:at] = words[begin:at][::-1]
            begin = at + 1
    return [_rtl_word(text, word, above, arabic) for word in words]


def _rtl_word(text: PageText, places: Sequence[int], above: dict[int, str], arabic: bool) -> Word:
    """Return a word from its letters, left to right: as it is, or the other way round but for numbers.

    ``arabic``: whether the line has Arabic letters, beside which a number's sign stands on its other side.
    """
    order, rtl = list(places), any(_RTL.match(text.said[at]) for at in places)
    turned = rtl or (arabic and not any(text.said[at].isalpha() for at in order))
    if turned:
        order.reverse()
        for number, (one, other) in enumerate(list(pairwise(order))):
            if places[0] > places[-1] and text.lefts[one] == text.lefts[other] and one > other:
                order[number], order[number + 1] = other, one  # a ligature's letters, in reading order
        plain = "".join(" " if _RTL.match(text.said[at]) else text.said[at] for at in order)
        for run in re.finditer(r"\S+", plain):
            if inner := _LTR_RUN.search(run[0]):
                begin, end = run.start() + inner.start(), run.start() + inner.end()
                order[begin:end] = order[begin:end][::-1]
    said = "".join(text.said[at] + above.get(at, "") for at in order).translate(_PLAIN)
    if turned:
        said = _BRACKET.sub(lambda bracket: _MIRRORED[bracket[0]], said)
    said = _SHAPED.sub(lambda run: normalize("NFKC", run[0]), said)
    left, right = min(text.lefts[at] for at in places), max(text.rights[at] for at in places)
    return Word(said, left, right, _place(text, order[0])[1], min(order), max(order))


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


def _object(handle: Any, at: int) -> int | None:
    """Return the address of the text object that a character belongs to."""
    return cast(raw.FPDFText_GetTextObject(handle, at), c_void_p).value


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
    said = " ".join(word.text for word in words)
    return Line(
        said.removesuffix("-") if hyphen else said,
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
        slanted=_is_slanted(raw.FPDFText_GetCharAngle(handle, places[1])),
        largest=max(sizes),
        words=tuple(words),
    )


def is_slanted(text: PageText, word: Word) -> bool:
    return _is_slanted(raw.FPDFText_GetCharAngle(text.handle, word.first))


def _is_slanted(angle: float) -> bool:
    turn = angle % (math.pi / 2)
    return _UPRIGHT < turn < math.pi / 2 - _UPRIGHT


def _size(handle: Any, at: int) -> float:
    """Return the size of a character's type, in points."""
    matrix = raw.FS_MATRIX()
    raw.FPDFText_GetMatrix(handle, at, byref(matrix))
    size = float(raw.FPDFText_GetFontSize(handle, at))
    return round(size * (math.hypot(matrix.c, matrix.d) or 1.0), 1)


def _font(handle: Any, at: int) -> _Font:
    raw.FPDFText_GetFontInfo(handle, at, _NAME, len(_NAME), _FLAGS)
    return _font_named(_NAME.value, _FLAGS.value, raw.FPDFText_GetFontWeight(handle, at))


@lru_cache(maxsize=1024)
def _font_named(told: bytes, flags: int, weight: int) -> _Font:
    name = told.decode("utf-8", "replace").lower()
    name = name.partition("+")[2] or name

    def has(parts: tuple[str, ...]) -> bool:
        return any(part in name for part in parts)

    return _Font(
        name,
        bold=weight >= _BOLD or has(_BOLD_NAMES),
        italic=bool(flags & _ITALIC) or has(_ITALIC_NAMES),
        mono=bool(flags & _FIXED_PITCH) or has(_MONO_NAMES),
        math=has(_MATH_NAMES),
        caps=has(_CAPS_NAMES),
    )
