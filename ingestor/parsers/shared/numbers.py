"""How word processors write the numbers of lists and headings, and how they count them. Pure."""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from ingestor.parsers.shared.whole import whole

_PLACE = re.compile(r"%(\d)")
_ROMAN = [(1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc")]
_ROMAN += [(50, "l"), (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")]
_HIGHEST = 4000


def written(value: int, style: str) -> str:
    """``value`` as decimal, lowerLetter, upperLetter, lowerRoman or upperRoman; others count as decimal."""
    if value < 1 or value >= _HIGHEST:
        return str(value)
    if style.endswith("Letter"):
        text = chr(ord("a") + (value - 1) % 26) * ((value - 1) // 26 + 1)
    elif style.endswith("Roman"):
        text = _roman(value)
    else:
        return str(value)
    return text.upper() if style.startswith("upper") else text


def _roman(value: int) -> str:
    text = ""
    for worth, letters in _ROMAN:
        count, value = divmod(value, worth)
        text += letters * count
    return text


@dataclass(frozen=True, slots=True)
class ListLevel:
    """``text`` has "%1" where the number of the outermost level stands, "%2" for the next."""

    format: str = "bullet"
    text: str = ""
    start: int = 1


class ListNumbers:
    """The numbers of lists, in the order of their paragraphs.

    ``patterns``: levels by name. ``lists``: by name, a pattern, and where its levels start again.
    """

    def __init__(
        self,
        patterns: Mapping[str, Mapping[int, ListLevel]],
        lists: Mapping[str, tuple[str, Mapping[int, int]]],
    ) -> None:
        self._patterns, self._lists = patterns, lists
        self._counts: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._seen: set[str] = set()

    def marker(self, list_id: str, level: int) -> str:
        """What stands in front of the next paragraph of that list: "2.1", "a)"; "" is a bullet."""
        pattern_id, restarts = self._lists.get(list_id, ("", {}))
        levels = self._patterns.get(pattern_id, {})
        counts = self._counts[pattern_id]
        if list_id not in self._seen:
            self._seen.add(list_id)
            counts |= {at: start - 1 for at, start in restarts.items()}
        here = levels.get(level, ListLevel())
        counts[level] = counts.get(level, here.start - 1) + 1
        for deeper in [at for at in counts if at > level]:
            del counts[deeper]
        if here.format in ("bullet", "none"):
            return ""

        def number(place: re.Match[str]) -> str:
            at = whole(place[1], 1) - 1
            other = levels.get(at, ListLevel("decimal"))
            return written(counts.get(at, other.start), other.format)

        return _PLACE.sub(number, here.text).strip()


_RAISED = str.maketrans("0123456789+-−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻")


def raised(text: str) -> str:
    """A number that is set as a superscript: 10 and 6 must not become 106. Other text is unchanged."""
    digits = text.strip().lstrip("+-−")
    return text.translate(_RAISED) if digits.isascii() and digits.isdecimal() else text
