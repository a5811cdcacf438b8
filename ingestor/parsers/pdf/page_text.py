"""The text of a PDF's page as pdfium has it: characters, words and lines, and how they are set."""

import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ctypes import byref, c_double, c_int, c_void_p, cast, create_string_buffer
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise, repeat
from statistics import median_low
from typing import TYPE_CHECKING, Any

from pypdfium2 import raw

from ingestor.parsers.pdf.lines import Line, Word
from ingestor.parsers.pdf.structure import marked
from ingestor.parsers.pdf.unmapped import meanings

if TYPE_CHECKING:
    from pypdfium2 import PdfTextPage

_BOLD = 600  # weight
_FIXED_PITCH, _ITALIC = 1, 64  # flags of a font
_BOLD_NAMES = ("bold", "black", "heavy", "cmbx", "cmssbx", "sfbx", "-demi", "-medi")
_ITALIC_NAMES = ("italic", "oblique", "slanted", "cmti", "cmsl", "cmbxti")
_CAPS_NAMES = ("caps", "csc", "smallcap", "-sc")
_MONO_NAMES = ("mono", "courier", "cmtt", "consol", "typewriter")
_MATH_NAMES = ("cmmi", "cmsy", "cmex", "msbm", "msam", "math", "cmmib", "cmbsy", "eufm", "symbol")
_HYPHENS = "\x02\ufffe"
_HYPHEN = re.compile(f"[{_HYPHENS}]+(.?)")
_WORD = re.compile(f"[^\\s{_HYPHENS}]+")
_LINE = re.compile(r"[^\r\n]+")
_SPACED = re.compile(r"(?<!\S)[^\W\d_](?: [^\W\d_](?!\S)){4,}")  # letters with space between them
_LETTER_GAP = 0.28  # sizes of the type: more is the space between words
_WORD_GAP = 1.4  # times the gap between such letters
_BLANK = " \xa0\t" + _HYPHENS
_PAIR = re.compile("[\ud800-\udbff]([\udc00-\udfff])")  # pdfium's two characters for one of another plane
_PLAIN = str.maketrans(
    {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl"}
    | dict.fromkeys(range(0xDC00, 0xE000))
)
_UPRIGHT = 0.03  # radians from a quarter turn


@dataclass(frozen=True, slots=True)
class PageText:
    """``said``: a page's characters, one for each of pdfium's; CR LF ends a line, U+0002 a part of a word.

    A character of two halves stands where its first was, and the second half still behind it.
    ``unmapped``: how many of them have no Unicode value in their font.
    """

    handle: Any
    said: str
    unmapped: int = 0


@dataclass(frozen=True, slots=True)
class _Font:
    name: str
    bold: bool
    italic: bool
    mono: bool
    math: bool
    caps: bool


@dataclass(slots=True)
class _Buffers:
    """The buffer for pdfium's results."""

    x: c_double = field(default_factory=c_double)
    y: c_double = field(default_factory=c_double)
    left: c_double = field(default_factory=c_double)
    right: c_double = field(default_factory=c_double)
    bottom: c_double = field(default_factory=c_double)
    top: c_double = field(default_factory=c_double)


def read(page: "PdfTextPage") -> PageText:
    handle = page.raw
    codes = possible(map(raw.FPDFText_GetUnicode, repeat(handle), range(raw.FPDFText_CountChars(handle))))
    said = _whole("".join(map(chr, codes)))
    strange = [
        at for at, code in enumerate(codes)
        if (code < 0x20 and code not in (2, 10, 13)) or code in (0x7B, 0x7C) or code >= 0xFFFE
    ]  # fmt: skip
    if not any(raw.FPDFText_HasUnicodeMapError(handle, at) or not codes[at] for at in strange):
        return PageText(handle, said)
    return _decoded(handle, codes)


def possible(codes: Iterable[int]) -> list[int]:
    """U+FFFD for numbers of no character: some fonts have them."""
    told = list(codes)
    if max(told, default=0) <= sys.maxunicode:
        return told
    return [code if code <= sys.maxunicode else 0xFFFD for code in told]


def _decoded(handle: Any, codes: Sequence[int]) -> PageText:
    said = list(map(chr, codes))
    lost = [
        at for at, code in enumerate(codes)
        if raw.FPDFText_HasUnicodeMapError(handle, at)
        or (not code and not raw.FPDFText_IsGenerated(handle, at))
    ]  # fmt: skip
    names = [_font(handle, at).name for at in lost]
    for at, meaning in zip(lost, meanings([codes[at] for at in lost], names), strict=True):
        said[at] = meaning
    return PageText(handle, _whole("".join(said)), len(lost))


def _whole(said: str) -> str:
    return _PAIR.sub(lambda pair: _joined(pair[0]) + pair[1], said)


def _joined(pair: str) -> str:
    return pair.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def lines(
    text: PageText, values: Mapping[int, tuple[str, str]], headings: Mapping[int, tuple[int, int]]
) -> Iterator[Line]:
    """In the order of the file, which is nearly always the order to read them in.

    ``values``: what is filled in before and after a character, by its place. ``headings``: by marked content.
    """
    for found in _LINE.finditer(text.said):
        begin, said = found.start(), found[0]
        visible = said.strip(_BLANK)
        if visible:
            first = begin + said.index(visible[0])
            last = begin + len(said.rstrip(_BLANK)) - 1
            filled = _with_values(said, begin, values) if values else closed(text, said, begin)
            line = _line(text, filled, first, last)
            yield replace(line, tagged=_tag(text, first, last, headings)) if headings else line


def _tag(
    text: PageText, first: int, last: int, headings: Mapping[int, tuple[int, int]]
) -> tuple[int, int] | None:
    """The heading that holds all of a line."""
    begins, ends = (headings.get(marked(text.handle, at)) for at in (first, last))
    return begins if begins == ends else None


def words(text: PageText) -> Iterator[Word]:
    """Those that stand upright, or at a quarter turn: a slanted one is a watermark."""
    b, handle = _Buffers(), text.handle
    for found in _WORD.finditer(text.said):
        first, end = found.span()
        angle = raw.FPDFText_GetCharAngle(handle, first)
        if _is_slanted(angle):
            continue
        raw.FPDFText_GetCharBox(handle, first, byref(b.left), byref(b.right), byref(b.bottom), byref(b.top))
        left = b.left.value
        if end - first > 1:
            raw.FPDFText_GetCharBox(
                handle, end - 1, byref(b.left), byref(b.right), byref(b.bottom), byref(b.top)
            )
        raw.FPDFText_GetCharOrigin(handle, first, byref(b.x), byref(b.y))
        divided = text.said[end : end + 1] in ("\x02", "\ufffe")
        yield Word(found[0].translate(_PLAIN), left, b.right.value, b.y.value, first, divided)


def pieces(text: PageText, word: Word, wall: float) -> tuple[Word, ...]:
    """Two words that pdfium has put together, since one ends where the other begins: at the wall."""
    if word.first < 0:
        return (word,)
    end = word.first + len(_WORD.match(text.said, word.first)[0])  # type: ignore[index]
    before = _object(text.handle, word.first)
    for at in range(word.first + 1, end):
        now = _object(text.handle, at)
        if now != before and (left := edges(text, at)[0]) >= wall - 2:
            head = text.said[word.first : at].translate(_PLAIN)
            tail = text.said[at:end].translate(_PLAIN)
            return (
                Word(head, word.left, edges(text, at - 1)[1], word.baseline, word.first),
                Word(tail, left, word.right, word.baseline, -1, word.divided),
            )
        before = now
    return (word,)


def _object(handle: Any, at: int) -> int | None:
    """The address of the text object that a character belongs to."""
    return cast(raw.FPDFText_GetTextObject(handle, at), c_void_p).value


def edges(text: PageText, at: int) -> tuple[float, float]:
    """Left and right of a character, in points."""
    left, right, bottom, top = c_double(), c_double(), c_double(), c_double()
    raw.FPDFText_GetCharBox(text.handle, at, byref(left), byref(right), byref(bottom), byref(top))
    return left.value, right.value


def closed(text: PageText, said: str, begin: int = 0) -> str:
    """Words that are set with space between their letters, as words."""
    return _SPACED.sub(lambda run: _words_of(text, run[0], begin + run.start()), said)


def _words_of(text: PageText, run: str, first: int) -> str:
    sides = [_room(text, first + at) for at in range(0, len(run), 2)]
    gaps = [right[0] - left[1] for left, right in pairwise(sides)]
    usual = median_low(gaps)
    if not 0 < usual <= _LETTER_GAP * _size(text.handle, first):
        return run
    wide = [gap > _WORD_GAP * usual for gap in gaps]
    return run[0] + "".join(f"{' ' * apart}{letter}" for apart, letter in zip(wide, run[2::2], strict=True))


def _room(text: PageText, at: int) -> tuple[float, float]:
    """Left and right of the room that a character takes, the space around its strokes included."""
    box = raw.FS_RECTF()
    raw.FPDFText_GetLooseCharBox(text.handle, at, byref(box))
    return box.left, box.right


def _with_values(said: str, begin: int, values: Mapping[int, tuple[str, str]]) -> str:
    return "".join(
        character.join(values[at]) if at in values else character for at, character in enumerate(said, begin)
    )


def _line(text: PageText, said: str, first: int, last: int) -> Line:
    handle = text.handle
    hyphen = said.rstrip()[-1:] in _HYPHENS or raw.FPDFText_IsHyphen(handle, last) == 1
    plain = _HYPHEN.sub(_rejoined, said.strip()).translate(_PLAIN)
    middle = (first + last) // 2
    looked_at = (first, middle, last)  # one of them may be the mark of a note: smaller, and raised
    fonts = [_font(handle, at) for at in looked_at]
    set_as = fonts[1]
    sizes = [_size(handle, at) for at in looked_at]
    return Line(
        plain.removesuffix("-") if hyphen else plain,
        edges(text, first)[0],
        edges(text, last)[1],
        median_low(_baseline(handle, at) for at in looked_at),
        median_low(sizes),
        bold=sum(font.bold for font in fonts) >= 2 and (fonts[2].bold or fonts[2].mono),
        mono=sum(font.mono for font in fonts) >= 2,
        hyphen=hyphen,
        italic=sum(font.italic for font in fonts) >= 2,
        caps=set_as.caps,
        math=set_as.math,
        font=set_as.name,
        even=fonts[0] == fonts[1] == fonts[2],
        slanted=_is_slanted(raw.FPDFText_GetCharAngle(handle, middle)),
        largest=max(sizes),
    )


def _rejoined(hyphen: re.Match[str]) -> str:
    """pdfium may already have put the halves of a word together, and have left a mark between them."""
    return hyphen[1] if hyphen[1].islower() else f"-{hyphen[1]}"


def _is_slanted(angle: float) -> bool:
    turn = angle % (math.pi / 2)
    return _UPRIGHT < turn < math.pi / 2 - _UPRIGHT


def _baseline(handle: Any, at: int) -> float:
    x, y = c_double(), c_double()
    raw.FPDFText_GetCharOrigin(handle, at, byref(x), byref(y))
    return float(y.value)


def _size(handle: Any, at: int) -> float:
    """Of the type in which a character is set, in points."""
    matrix = raw.FS_MATRIX()
    raw.FPDFText_GetMatrix(handle, at, byref(matrix))
    size = float(raw.FPDFText_GetFontSize(handle, at))
    return round(size * (math.hypot(matrix.c, matrix.d) or 1.0), 1)


def _font(handle: Any, at: int) -> _Font:
    flags, name = c_int(), create_string_buffer(128)
    raw.FPDFText_GetFontInfo(handle, at, name, 128, byref(flags))
    return _font_named(name.value, flags.value, raw.FPDFText_GetFontWeight(handle, at))


@lru_cache(maxsize=1024)
def _font_named(told: bytes, flags: int, weight: int) -> _Font:
    name = told.decode("utf-8", "replace").lower()
    name = name.partition("+")[2] or name
    return _Font(
        name,
        bold=weight >= _BOLD or _one_of(_BOLD_NAMES, name),
        italic=bool(flags & _ITALIC) or _one_of(_ITALIC_NAMES, name),
        mono=bool(flags & _FIXED_PITCH) or _one_of(_MONO_NAMES, name),
        math=_one_of(_MATH_NAMES, name),
        caps=_one_of(_CAPS_NAMES, name),
    )


def _one_of(parts: tuple[str, ...], name: str) -> bool:
    return any(part in name for part in parts)
