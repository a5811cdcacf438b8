"""Decodes characters of a PDF that have no Unicode value, and orders right-to-left text for reading. Pure."""

import re
from collections.abc import Sequence
from itertools import groupby
from unicodedata import bidirectional, normalize

# --- characters without a mapping to Unicode ---------------------------------------------------------------
# TeX sets with bitmap fonts (Type 3) where no outlines are installed. Their codes are those of the encodings
# OT1 or T1 [Mittelbach et al., "LaTeX font encodings", encguide.pdf]. A control code of any other font
# becomes U+FFFD: something stands there.

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
_ASCII = range(0x20, 0x7F)


def meanings(codes: Sequence[int], fonts: Sequence[str]) -> list[str]:
    """Return a character for each code that its font does not map to Unicode.

    ``fonts``: name of each code's font in lower case; "" for a bitmap font.
    """
    used = {code for code, font in zip(codes, fonts, strict=True) if not font}
    # OT1 where its ligatures occur, whose codes are bare accents in T1
    bitmap = _OT1 if used & set(range(0x0B, 0x10)) and not used & set(range(0x80, 0x100)) else _T1
    return [_decode(code, font, bitmap) for code, font in zip(codes, fonts, strict=True)]


def _decode(code: int, font: str, bitmap: dict[int, str]) -> str:
    if "cmex" in font:  # large brackets and sums, at places of letters
        return UNKNOWN
    if not font and code in bitmap:
        return bitmap[code]
    return chr(code) if code in _ASCII or 0xA0 <= code < 0xD800 else UNKNOWN


# --- lines with letters from right to left -----------------------------------------------------------------
# A page shows characters by their places. The rules that put a text on the page also take it back, since they
# undo themselves where no directions are nested. [Unicode Standard Annex 9]

RTL = re.compile("[\u0590-\u065f\u066a-\u06ef\u06fa-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_SHAPED = re.compile("[\ufb1d-\ufdff\ufe70-\ufefc]+")  # letters in the shape that they have beside others
_WESTERN = re.compile(  # a number with its plus, "Rs. 250", an address, a version
    r"\d[\d-]*\d\+|\d[\d.,]* \.[a-zA-Z]+"
    r"|(?:\d[\d.]* (?=[a-zA-Z]{4}))?"  # a number behind a name is seen before it
    r"[^\W_\u0590-\u08ff](?:[^\s\u0590-\u08ff]*[^\W_\u0590-\u08ff])?"
)
_MIRRORED = str.maketrans("()[]{}«»", ")(][}{»«")
_OPENS, _CLOSES = r"[(\[{«]", r"[)\]}»]"
_TURNED = re.compile(  # brackets on the wrong sides of what they hold, or of their word
    rf"^[^()\[\]{{}}«»]*{_CLOSES}.*{_OPENS}[^()\[\]{{}}«»]*$|^{_CLOSES}|{_OPENS}(?=[.,:;،؛؟۔!?]*$)"
)


def is_from_right(seen: str, mostly: bool) -> bool:
    """Return whether a line is read from right to left. ``seen``: its text as it appears from left to right.

    ``mostly``: whether most of its page is read so. Even on such a page, a line is read from the left if it
    begins with a Latin letter and ends with punctuation. So is a line that begins with one and has four Latin
    words for each other word.
    """
    kinds = [bool(RTL.search(word)) for word in seen.split() if any(map(str.isalpha, word))]
    latin, right = kinds.count(False), kinds.count(True)
    turned = seen[:1].isalpha() and not RTL.match(seen) and (seen[-1:] in ".,:;!?" or latin >= 4 * right)
    return right >= latin or (mostly and not turned)


def order_for_reading(seen: Sequence[str], right: bool) -> list[int]:
    """Return the positions of characters in the order in which they are read.

    ``seen``: the characters from left to right. ``right``: whether their line is read from right to left.
    """
    order = list(range(len(seen)))[:: -1 if right else 1]
    kinds = [bidirectional(seen[at]) for at in order]
    for word in _WESTERN.finditer("".join(seen[at] for at in order)):
        if "L" in kinds[slice(*word.span())] or word[0].endswith("+"):
            kinds[slice(*word.span())] = ["L"] * len(word[0])
    levels = _levels(_resolve(kinds, right), right)
    for level in range(2, int(right), -1):
        for deep, run in groupby(enumerate(levels), key=lambda place: place[1] >= level):
            places = [at for at, _ in run]
            if deep:
                order[places[0] : places[-1] + 1] = order[places[0] : places[-1] + 1][::-1]
    return order


def _resolve(kinds: list[str], right: bool) -> list[str]:
    """Return the directional class of each character after the rules W2 to W7 of Unicode's Annex 9.

    ``right``: whether the line is read from right to left.
    """
    strong = "AL" if right and "AL" in kinds else "R" if right else "L"  # a line above may end with it
    for at, kind in enumerate(kinds):
        if kind in ("L", "R", "AL"):
            strong = kind
            kinds[at] = "R" if kind == "AL" else kind
        elif kind == "EN":
            kinds[at] = {"AL": "AN", "L": "L"}.get(strong, kind)
    for at in range(1, len(kinds) - 1):
        before, kind, after = kinds[at - 1 : at + 2]
        if before == after and (kind, before) in (("CS", "EN"), ("CS", "AN"), ("ES", "EN")):
            kinds[at] = before
    for order in (range(1, len(kinds)), range(len(kinds) - 2, -1, -1)):
        for at in order:
            if kinds[at] == "ET" and kinds[at - order.step] == "EN":
                kinds[at] = "EN"
    return kinds


def _levels(kinds: Sequence[str], right: bool) -> list[int]:
    """Return the embedding level of each character by the rules N1, N2, I1 and I2 of Unicode's Annex 9.

    ``kinds``: the class of each character, as ``_resolve`` returns it.
    """
    base = "R" if right else "L"
    sides = {"L": "L", "R": "R", "EN": "R", "AN": "R"}
    levels, before = list[int](), base
    for neutral, run in groupby(enumerate(kinds), key=lambda place: place[1] not in sides):
        places = list(run)
        if neutral:
            end = places[-1][0] + 1
            after = sides[kinds[end]] if end < len(kinds) else base
            levels += [_LEVELS[base][before if before == after else base]] * len(places)
        else:
            levels += [_LEVELS[base][kind] for _, kind in places]
            before = sides[places[-1][1]]
    return levels


_LEVELS = {"L": {"L": 0, "R": 1, "EN": 2, "AN": 2}, "R": {"L": 2, "R": 1, "EN": 2, "AN": 2}}


def plain_word(word: str) -> str:
    """Return a word with plain letters for presentation forms, and with brackets that face their content."""
    turned = _TURNED.search(word)
    if turned and len(turned[0]) > 1:
        word = word.translate(_MIRRORED)
    elif turned:
        word = _TURNED.sub(lambda bracket: bracket[0].translate(_MIRRORED), word)
    return _SHAPED.sub(lambda run: normalize("NFKC", run[0]), word)
