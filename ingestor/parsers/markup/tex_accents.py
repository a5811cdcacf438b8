r"""Accents and letters as TeX writes them: ``\"o`` and ``\v{c}`` are ö and č. Pure."""

import re
from unicodedata import normalize

_MARKS = {
    '"': "\u0308", "'": "\u0301", "`": "\u0300", "^": "\u0302", "~": "\u0303", "=": "\u0304", ".": "\u0307",
    "u": "\u0306", "v": "\u030c", "H": "\u030b", "c": "\u0327", "k": "\u0328", "r": "\u030a", "d": "\u0323",
    "b": "\u0331", "t": "\u0361",
}  # fmt: skip
_LETTERS = {
    "ss": "ß", "o": "ø", "O": "Ø", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "aa": "å", "AA": "Å", "l": "ł",
    "L": "Ł", "i": "ı", "j": "ȷ", "dh": "ð", "DH": "Ð", "th": "þ", "TH": "Þ", "dj": "đ", "DJ": "Đ", "ng": "ŋ",
    "NG": "Ŋ", "S": "§", "P": "¶", "copyright": "©", "pounds": "£", "euro": "€", "dots": "…", "ldots": "…",
    "textendash": "–", "textemdash": "—", "textquoteright": "’", "textquoteleft": "‘",
}  # fmt: skip
_DOTLESS = {"\\i": "i", "\\j": "j"}  # an accent takes the place of the dot
_ACCENT = re.compile(
    r"\\(?:([\"'`^~=.])[ ]?|([uvHckrdbt])(?:[ ]+|(?=[{\\])))"
    r"(?:\{(\\[ij]|[^\W\d_])\}|(\\[ij])(?![A-Za-z])[ ]?|([^\W\d_]))"
)
_LETTER = re.compile(rf"\\({'|'.join(sorted(_LETTERS, key=len, reverse=True))})(?![A-Za-z])(?:\{{\}}|[ ]+)?")


def decode_accents(markup: str) -> str:
    """The text with such commands as the characters that they print; everything else stays."""
    accented = _ACCENT.sub(_accent, markup)
    return _LETTER.sub(lambda match: _LETTERS[match[1]], accented)


def _accent(match: re.Match[str]) -> str:
    base = match[3] or match[4] or match[5]
    return normalize("NFC", _DOTLESS.get(base, base) + _MARKS[match[1] or match[2]])
