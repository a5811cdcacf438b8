"""Reads the characters of a PDF's page with pdfium: their meaning, position and type.

pdfium reports the characters in the order of the file, with spaces that it guesses. This module uses their
boxes to drop text that is outside the page or painted twice, and to turn rotated pages upright.
"""

import math
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from ctypes import (
    POINTER,
    PYFUNCTYPE,
    addressof,
    byref,
    c_double,
    c_float,
    c_int,
    c_uint,
    c_ushort,
    c_void_p,
    cast,
    create_string_buffer,
)
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np
from pypdfium2 import raw

from ingestor.parsers.pdf.characters import RTL, meanings
from ingestor.parsers.pdf.lines import Word

if TYPE_CHECKING:
    from pypdfium2 import PdfPage, PdfTextPage

_BOLD = 600  # weight
_FIXED_PITCH, _ITALIC = 1, 64  # flags of a font
_NAMES = {  # parts of a font's name
    "bold": ("bold", "black", "heavy", "cmbx", "cmssbx", "sfbx", "-demi", "-medi"),
    "italic": ("italic", "oblique", "slanted", "cmti", "cmsl", "cmbxti"),
    "mono": ("mono", "courier", "cmtt", "consol", "typewriter"),
    "math": ("cmmi", "cmsy", "cmex", "msbm", "msam", "math", "cmmib", "cmbsy", "eufm", "symbol"),
}
HYPHENS = "\x02\ufffe"
GONE = "\0"  # in place of a character that nobody sees
WORD = re.compile(f"[^\\s{HYPHENS}]+")
_PAIR = re.compile("[\ud800-\udbff]([\udc00-\udfff])")  # pdfium's two characters for one of another plane
SYLLABIC = re.compile("[\u0900-\u109f\u1780-\u17ff]")  # scripts of India and its neighbours
_EM = 1.2  # sizes of the type: the height of a character's box
SPLIT = 0.13  # sizes of the type, beyond the usual gap inside a word: a space
JOIN = 0.03  # sizes of the type, beyond the usual gap inside a word: none
TRACKED = 0.2  # sizes of the type: the widest usual gap inside words
_SAME = 0.15  # sizes of the type between two characters that are one painted twice


def text_of(ask: Callable[..., int], *about: Any, most: int = 1_000_000) -> str:
    """Return the text that a function of pdfium writes into a buffer, at most ``most`` bytes.

    ``ask``: the function, which also reports the size that it needs. ``about``: its first arguments.
    """
    size = min(ask(*about, None, 0), most)
    buffer = create_string_buffer(size + 2)
    ask(*about, cast(buffer, POINTER(c_ushort)), size)
    return buffer.raw.decode("utf-16-le", "replace").partition("\0")[0]


def _read_unchecked(function: Any, result: Any, *more: Any) -> Any:
    """Return a function of pdfium without the checks of ctypes, because it is called for every character.

    ``result``: type of its result. ``more``: types of its arguments after the page's handle and the position.
    """
    return PYFUNCTYPE(result, c_void_p, c_int, *more)(cast(function, c_void_p).value or 0)


_unicode = _read_unchecked(raw.FPDFText_GetUnicode, c_uint)
_loose = _read_unchecked(raw.FPDFText_GetLooseCharBox, c_int, c_void_p)
_origin = _read_unchecked(raw.FPDFText_GetCharOrigin, c_int, c_void_p, c_void_p)


@dataclass(slots=True)
class PageText:
    """The text of a page as it is read: turned upright, with the origin at the lower left.

    ``chars``: one character for each that pdfium reports; CR LF ends a line, U+0002 divides a word. A
    character that pdfium reports as two halves stands in the place of the first. ``turn``: quarter turns by
    which the text is turned counter-clockwise. ``odd``: for each character, the number of gaps before it that
    may be false or missing spaces. ``lines``: words, line by line in the order of the file. ``unmapped``:
    number of characters without a Unicode value.

    ``pieces``: painted pieces of text, on a page in a syllabic script. ``glyphs``: left and right ends of
    letters with marks, by the address of their text object, on a page with letters from right to left.
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
    glyphs: Mapping[int, tuple[float, float]] = field(default_factory=dict)

    def upright(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Return the position, on the upright page, of a point in the file's coordinates."""
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
        """Replace characters at these positions by a placeholder, so that they are read as nothing."""
        letters = list(self.chars)
        for at in places:
            if not letters[at].isspace():
                letters[at] = GONE
        self.chars = "".join(letters)


def read_characters(page: "PdfPage", textpage: "PdfTextPage") -> PageText:
    """Return the text of a page, without characters that readers do not see, and still without words."""
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
    if SYLLABIC.search(chars):
        text.pieces = _pieces(page, text)
        objects = {at: object_of(handle, at) for at, letter in enumerate(chars) if not letter.isspace()}
        text.hide(at for at, one in objects.items() if one in text.pieces.again)
    elif RTL.search(chars):
        text.glyphs = _glyphs(page, text)
    return text


def _odd(chars: str, lefts: Any, rights: Any, sizes: Any) -> Sequence[int]:
    """Count, up to each character, the gaps that may be false spaces, or spaces without a character."""
    blank = np.fromiter(map(str.isspace, chars), bool, len(chars))
    strange = np.zeros(len(chars) + 1, bool)
    inner = ~blank[1:] & ~blank[:-1]
    strange[1:-1] = inner & (lefts[1:] - rights[:-1] > 0.8 * SPLIT * sizes[:-1])
    made = blank[1:-1] & (lefts[1:-1] == rights[1:-1]) & ~blank[2:]
    strange[1:-2] |= made & (lefts[2:] - rights[:-2] <= (1.25 * TRACKED + JOIN) * sizes[:-2])
    return np.cumsum(strange).tolist()  # type: ignore[no-any-return]


def _turn(chars: str, left: Any, bottom: Any) -> int:
    """Return the number of quarter turns of most words, by the directions in which letters follow."""
    votes = [0, 0, 0, 0]
    spans = [word.span() for word in WORD.finditer(chars)]
    if not spans:
        return 0
    rtl = RTL.search(chars)
    firsts, ends = np.array(spans).T
    xs, ys = (left[ends - 1] - left[firsts]).tolist(), (bottom[ends - 1] - bottom[firsts]).tolist()
    for (first, end), x, y in zip(spans, xs, ys, strict=True):
        across = abs(x) >= abs(y)
        back = across and x < 0 and not rtl
        votes[(2 if back else 0) if across else (1 if y > 0 else 3)] += end - first - 1
    return votes.index(max(votes))


def find_painted_again(text: PageText, places: Iterable[int]) -> Iterator[int]:
    """Yield the positions of characters painted a second time in the same place, as for bold type."""
    seen: dict[tuple[str, int, int], list[tuple[float, float]]] = {}
    for at in places:
        letter, size = text.chars[at], text.sizes[at] or 1.0
        if letter in " \0":
            continue
        x, y = place_of(text, at)
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


def place_of(text: PageText, at: int) -> tuple[float, float]:
    """Return the point at the left end of a character's baseline, on the upright page."""
    _origin(text.address, at, _X_AT, _Y_AT)
    if text.turn:
        return text.upright(_X.value, _Y.value)
    return _X.value - text.shown[0], _Y.value - text.shown[1]


def baselines(text: PageText, places: Sequence[int]) -> list[float]:
    """Return the heights of the baselines of characters, on the upright page."""
    xy = np.empty((len(places), 2))
    at = xy.ctypes.data
    to = range(at, at + 16 * len(places), 16)
    deque(
        map(_origin, repeat(text.address), places, to, range(at + 8, at + 8 + 16 * len(places), 16)), maxlen=0
    )
    return text.upright(xy[:, 0], xy[:, 1])[1].tolist()  # type: ignore[no-any-return]


# --- characters --------------------------------------------------------------------------------------------


def possible(codes: Iterable[int]) -> list[int]:
    """Return the codes with U+FFFD for every number beyond Unicode, which some fonts have."""
    known = list(codes)
    if max(known, default=0) <= sys.maxunicode:
        return known
    return [code if code <= sys.maxunicode else 0xFFFD for code in known]


def _decode(handle: Any, codes: Sequence[int]) -> tuple[str, int]:
    """Return the text for character codes, and the number of characters without a Unicode value."""
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
        names = [font(handle, at).name for at in lost]
        for at, meaning in zip(lost, meanings([codes[at] for at in lost], names), strict=True):
            letters[at] = meaning
    whole = _PAIR.sub(
        lambda pair: pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le") + pair[1],
        "".join(letters),
    )
    return whole, len(lost)


def object_of(handle: Any, at: int) -> int | None:
    """Return the address of the text object that holds a character; None if no object does."""
    return cast(raw.FPDFText_GetTextObject(handle, at), c_void_p).value


@dataclass(frozen=True, slots=True)
class Pieces:
    """The painted pieces of a page's text. ``places``: number of each piece, by its object's address.

    ``ends``: right end of each piece. ``blank``: numbers of pieces without ink. A syllable is painted in
    several pieces, but pdfium gives all its characters to the first piece, often with the box of the first
    letter. ``again``: addresses of later pieces for which pdfium repeats these characters.
    """

    places: Mapping[int, int]
    ends: Sequence[float]
    blank: frozenset[int]
    again: frozenset[int]


def _pieces(page: "PdfPage", text: PageText) -> Pieces:
    places, ends = dict[int, int](), list[float]()
    blank, again = set[int](), set[int]()
    replaced = set[int]()  # marks that state the characters of their pieces
    for address, left, right, name in _iterate_painted(page, text):
        places[address] = len(ends)
        if left == right:
            blank.add(len(ends))
        ends.append(right)
        if name in replaced:
            again.add(address)
        if name:
            replaced.add(name)
    return Pieces(places, ends, frozenset(blank), frozenset(again))


def _glyphs(page: "PdfPage", text: PageText) -> dict[int, tuple[float, float]]:
    """Return the left and right ends of each letter with its marks, by the address of its text object."""
    painted = list(_iterate_painted(page, text))
    extents = dict[int, tuple[float, float]]()
    for _, left, right, name in painted:
        least, most = extents.get(name, (left, right))
        extents[name] = min(least, left), max(most, right)
    return {address: extents[name] for address, _, _, name in painted if name}


def _iterate_painted(page: "PdfPage", text: PageText) -> Iterator[tuple[int, float, float, int]]:
    """Yield (address, left end, right end, mark) of each piece of text in the order of painting.

    The mark is the address of the tag that states the piece's characters (``ActualText``); 0 if there is no
    tag.
    """
    box = c_float(), c_float(), c_float(), c_float()
    kind = c_int()
    for number in range(raw.FPDFPage_CountObjects(page)):
        piece = raw.FPDFPage_GetObject(page, number)
        address = cast(piece, c_void_p).value
        if raw.FPDFPageObj_GetType(piece) != raw.FPDF_PAGEOBJ_TEXT or not address:
            continue
        raw.FPDFPageObj_GetBounds(piece, *map(byref, box))
        left, _, right, _ = text.box(*(edge.value for edge in box))
        name = 0
        for at in range(raw.FPDFPageObj_CountMarks(piece)):
            mark = raw.FPDFPageObj_GetMark(piece, at)
            kind.value = raw.FPDFPageObjMark_GetParamValueType(mark, b"ActualText")
            if kind.value == raw.FPDF_OBJECT_STRING:
                name = cast(mark, c_void_p).value or 0
        yield address, left, right, name


# --- fonts --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Font:
    name: str
    bold: bool
    italic: bool
    mono: bool
    math: bool


def size_of(handle: Any, at: int) -> float:
    """Return the type size of a character, in points."""
    matrix = raw.FS_MATRIX()
    raw.FPDFText_GetMatrix(handle, at, byref(matrix))
    size = float(raw.FPDFText_GetFontSize(handle, at))
    return round(size * (math.hypot(matrix.c, matrix.d) or 1.0), 1)


def font(handle: Any, at: int) -> _Font:
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
