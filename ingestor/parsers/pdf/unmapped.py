"""Characters of a PDF whose font has no mapping to Unicode. Pure.

TeX sets with bitmap fonts (Type 3) where no outlines are installed. Their codes are those of the encodings
OT1 or T1 [Mittelbach et al., "LaTeX font encodings", encguide.pdf], those of its large symbols are Knuth's in
cmex. A control code of any other font becomes U+FFFD: something stands there.
"""

from collections.abc import Iterable, Sequence

UNKNOWN = "\ufffd"
_LIGATURES = "\ufb00\ufb01\ufb02\ufb03\ufb04"  # ff fi fl ffi ffl
_OT1 = {
    **dict(enumerate("ΓΔΘΛΞΠΣΥΦΨΩ" + _LIGATURES + "ıȷ`´ˇ˘¯˚¸ßæœøÆŒØ")),
    0x22: "”",
    0x3C: "¡",
    0x3E: "¿",
    0x5C: "“",
    0x7B: "–",
    0x7C: "—",
}
_T1 = {
    **dict(enumerate("`´ˆ˜¨˝˚ˇ˘¯˙¸˛‚‹›“”„«»–—\u200b\u2080ıȷ" + _LIGATURES)),
    **dict(enumerate("ĂĄĆČĎĚĘĞĹĽŁŃŇŊŐŔŘŚŠŞŤŢŰŮŸŹŽŻĲİđ§ăąćčďěęğĺľłńňŋőŕřśšşťţűůÿźžżĳ¡¿£", 0x80)),
    **{code: chr(code) for code in range(0xC0, 0x100)},
    0x27: "’",
    0x60: "‘",
    0xD7: "Œ",
    0xF7: "œ",
    0xDF: "ẞ",
    0xFF: "ß",
}
_CMEX = {
    **dict.fromkeys((0x00, 0x10, 0x12, 0x20), "("), **dict.fromkeys((0x01, 0x11, 0x13, 0x21), ")"),
    **dict.fromkeys((0x02, 0x14, 0x22, 0x68), "["), **dict.fromkeys((0x03, 0x15, 0x23, 0x69), "]"),
    **dict.fromkeys((0x08, 0x1A, 0x28, 0x6E), "{"), **dict.fromkeys((0x09, 0x1B, 0x29, 0x6F), "}"),
    0x50: "∑", 0x58: "∑", 0x51: "∏", 0x59: "∏", 0x52: "∫", 0x5A: "∫",
    **dict.fromkeys(range(0x70, 0x75), "√"), **dict.fromkeys((0x0C, 0x6A), "|"),
}  # fmt: skip
_ASCII = range(0x20, 0x7F)


def meanings(codes: Sequence[int], fonts: Sequence[str]) -> list[str]:
    """Return a character for each unmapped code; ``fonts``: names in lower case, empty for bitmap fonts."""
    bitmap = _encoding(code for code, font in zip(codes, fonts, strict=True) if not font)
    return [_meaning(code, font, bitmap) for code, font in zip(codes, fonts, strict=True)]


def _encoding(codes: Iterable[int]) -> dict[int, str]:
    """OT1 where its ligatures occur, whose codes are bare accents in T1."""
    used = set(codes)
    return _OT1 if used & set(range(0x0B, 0x10)) and not used & set(range(0x80, 0x100)) else _T1


def _meaning(code: int, font: str, bitmap: dict[int, str]) -> str:
    if "cmex" in font:
        return _CMEX.get(code, UNKNOWN)
    if not font and code in bitmap:
        return bitmap[code]
    return chr(code) if code in _ASCII or 0xA0 <= code < 0xD800 else UNKNOWN
