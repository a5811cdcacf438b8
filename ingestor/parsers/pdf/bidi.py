"""The order in which a line is read that has letters from right to left. Pure.

A page shows characters by their places. The rules that put a text on the page also take it back, since they
undo themselves where no directions are nested. [Unicode Standard Annex 9]
"""

import re
from collections.abc import Sequence
from itertools import groupby
from unicodedata import bidirectional, normalize

RTL = re.compile("[\u0590-\u065f\u066a-\u06ef\u06fa-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_SHAPED = re.compile("[\ufb1d-\ufdff\ufe70-\ufefc]+")  # letters in the shape that they have beside others
_WESTERN = re.compile(  # an address, a version; also a name with a number behind it, which is seen before it
    r"(?:\d[\d.]* (?=[a-zA-Z]{4}))?[^\W_\u0590-\u08ff](?:[^\s\u0590-\u08ff]*[^\W_\u0590-\u08ff])?"
)
_MIRRORED = str.maketrans("()[]{}«»", ")(][}{»«")
_OPENS, _CLOSES = r"[(\[{«]", r"[)\]}»]"
_TURNED = re.compile(  # brackets on the wrong sides of what they hold, or of their word
    rf"^[^()\[\]{{}}«»]*{_CLOSES}.*{_OPENS}[^()\[\]{{}}«»]*$|^{_CLOSES}|{_OPENS}(?=[.,:;،؛؟!?]*$)"
)


def reading_order(seen: Sequence[str], right: bool) -> list[int]:
    """Return the places of characters, seen from left to right, in the order in which they are read.

    ``right``: whether the text as a whole is read from right to left.
    """
    order = list(range(len(seen)))[:: -1 if right else 1]
    kinds = [bidirectional(seen[at]) for at in order]
    for word in _WESTERN.finditer("".join(seen[at] for at in order)):
        if "L" in kinds[slice(*word.span())]:
            kinds[slice(*word.span())] = ["L"] * len(word[0])
    levels = _levels(_resolve(kinds, right), right)
    for level in range(2, int(right), -1):
        for deep, run in groupby(enumerate(levels), key=lambda place: place[1] >= level):
            places = [at for at, _ in run]
            if deep:
                order[places[0] : places[-1] + 1] = order[places[0] : places[-1] + 1][::-1]
    return order


def _resolve(kinds: list[str], right: bool) -> list[str]:
    """Return the classes of characters as the rules W2 to W7 resolve them, numbers with their signs."""
    strong = "R" if right else "L"
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
    """Return the level of each character by its class, by the rules N1, N2 and I1, I2."""
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


def plain(word: str) -> str:
    """Return a word with letters of no shape, and with brackets that face what they hold."""
    turned = _TURNED.search(word)
    if turned and len(turned[0]) > 1:
        word = word.translate(_MIRRORED)
    elif turned:
        word = _TURNED.sub(lambda bracket: bracket[0].translate(_MIRRORED), word)
    return _SHAPED.sub(lambda run: normalize("NFKC", run[0]), word)
