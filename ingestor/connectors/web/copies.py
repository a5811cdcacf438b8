"""Whether two HTML pages are copies: versions of one page with nearly the same text. Pure.

This runs in the daemon's process on untrusted pages: so tags are read in linear time, and by Python alone.
"""

import re
from html import unescape

_COPY = 0.7  # share of the words in a row that two versions of one page have in common
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9-]*+)[^<>]*+>?")
_LEFT_OUT = {"head", "script", "style", "noscript", "template", "nav", "header", "footer", "aside"}


def shingles(data: bytes) -> frozenset[int]:
    """Hashes of three words in a row in the text of an HTML page, without its navigation."""
    page, parts, place, within, depth = data.decode("utf-8", "replace"), list[str](), 0, "", 0
    for tag in _TAG.finditer(page):
        closing, name = tag[1], tag[2].lower()
        if not depth:
            parts.append(page[place : tag.start()])
            within = name
        if name == within and name in _LEFT_OUT:
            depth = max(0, depth + (-1 if closing else 1))
        place = tag.end()
    parts.append("" if depth else page[place:])
    words = re.findall(r"\w+", unescape(" ".join(parts)))
    places = range(max(1, len(words) - 2)) if words else ()
    return frozenset(hash(tuple(words[place : place + 3])) for place in places)


def are_copies(one: frozenset[int], other: frozenset[int]) -> bool:
    return len(one & other) >= _COPY * len(one | other)
