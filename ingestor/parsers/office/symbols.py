"""Maps the characters of symbol fonts, which old documents store as private codes, to Unicode. Pure.

Word and other programs store such a character as its code in the font, often plus U+F000. Symbol is Adobe's
Greek and mathematical set [Adobe, Symbol encoding to Unicode 4.0]. For the Wingdings fonts, only the symbols
that people type are known: arrows, ticks, crosses, bullets, numbers in circles.
"""

import re

_PRIVATE = re.compile("[\uf020-\uf0ff]")
_BASE = 0xF000

_SYMBOL = " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼"
_SYMBOL_HIGH = (
    "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪\0〉∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭"
)
_WINGDINGS = {
    0x21: "✏", 0x22: "✂", 0x28: "☎", 0x2A: "✉", 0x33: "🖫", 0x36: "⌛", 0x3F: "✍", 0x41: "✌", 0x43: "👍",
    0x44: "👎", 0x45: "☜", 0x46: "☞", 0x47: "☝", 0x48: "☟", 0x4A: "☺", 0x4B: "😐", 0x4C: "☹",
    0x4D: "💣", 0x4E: "☠", 0x52: "☼", 0x54: "❄", 0x56: "✞", 0x59: "✡", 0x5A: "☪", 0x6C: "●", 0x6D: "❍",
    0x6E: "■", 0x6F: "□",
    0x71: "❑", 0x72: "❒", 0x73: "⬧", 0x74: "⧫", 0x75: "◆", 0x76: "❖", 0x77: "⬥", 0x78: "⌧", 0x7B: "❀",
    0x80: "⓪", **{0x81 + n: chr(0x2460 + n) for n in range(10)}, 0x8B: "⓿",
    **{0x8C + n: chr(0x2776 + n) for n in range(10)},
    0x9E: "·", 0x9F: "•", 0xA0: "▪", 0xA1: "○", 0xA4: "◉", 0xA7: "▪", 0xA8: "◻", 0xAA: "✦", 0xAB: "★",
    0xAC: "✶", 0xB7: "🕐", 0xD5: "⌫", 0xD6: "⌦", 0xD8: "➢", 0xDC: "➲", 0xDF: "←", 0xE0: "→", 0xE1: "↑",
    0xE2: "↓", 0xE3: "↖", 0xE4: "↗", 0xE5: "↙", 0xE6: "↘", 0xE7: "🡄", 0xE8: "➔", 0xEF: "⇦", 0xF0: "⇨",
    0xF1: "⇧", 0xF2: "⇩", 0xF3: "⬄", 0xF4: "⇳", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑",
}  # fmt: skip
_WINGDINGS_2 = {
    0x4F: "✗", 0x50: "✓", 0x51: "☒", 0x52: "☑", 0x53: "☒", 0x54: "☒", 0x97: "●", 0x98: "●", 0x9E: "○",
    0xA3: "□", 0xA2: "■",
}  # fmt: skip
_WINGDINGS_3 = {
    0x66: "←", 0x67: "→", 0x68: "↑", 0x69: "↓", 0x6A: "↖", 0x6B: "↗", 0x6C: "↙", 0x6D: "↘", 0x6E: "↔",
    0x6F: "↕", 0x70: "▲", 0x71: "▼", 0x74: "◄", 0x75: "►", 0x7D: "▶", 0x7C: "◀",
}  # fmt: skip
_FONTS = {
    "symbol": {0x20 + at: sign for at, sign in enumerate(_SYMBOL)}
    | {0xA0 + at: sign for at, sign in enumerate(_SYMBOL_HIGH) if sign != "\0"},
    "wingdings": _WINGDINGS,
    "wingdings 2": _WINGDINGS_2,
    "wingdings 3": _WINGDINGS_3,
}


def symbol(font: str, place: int) -> str:
    """Return the Unicode character for a code of a font; U+FFFD for an unknown code of a symbol font."""
    known = _FONTS.get(font.lower())
    at = place - _BASE if place >= _BASE else place
    if known is not None:
        return known.get(at, "\ufffd")
    return chr(place) if 0x20 <= place < _BASE else "\ufffd"


def readable(text: str, font: str) -> str:
    """Return the text of a run in ``font``, with the private codes of a symbol font as Unicode."""
    if font.lower() not in _FONTS or not _PRIVATE.search(text):
        return text
    return _PRIVATE.sub(lambda match: symbol(font, ord(match[0])), text)
