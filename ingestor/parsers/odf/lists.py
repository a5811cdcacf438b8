"""The numbers of an OpenDocument's lists and headings, as its styles count them. Pure."""

from xml.etree.ElementTree import Element

from ingestor.parsers.odf.inline import STYLE, TEXT
from ingestor.parsers.shared.numbers import ListLevel, ListNumbers, counting_style
from ingestor.parsers.shared.whole import whole

STYLES = (f"{TEXT}list-style", f"{TEXT}outline-style")
_NUMBERED = (f"{TEXT}list-level-style-number", f"{TEXT}outline-level-style")
_ID = "{http://www.w3.org/XML/1998/namespace}id"
_HEADINGS = ""  # the name under which they are counted
_DEEPEST = 10  # levels


class OdfLists:
    """A list counts from its start, unless it says that it goes on from one before it."""

    def __init__(self) -> None:
        self._styles: dict[str, Element] = {}
        self._levels: dict[str, dict[int, ListLevel]] = {}  # of styles that were asked for
        self._patterns: dict[str, dict[int, ListLevel]] = {}  # by list
        self._known: dict[str, tuple[str, dict[int, int]]] = {}
        self._numbers = ListNumbers(self._patterns, self._known)
        self._latest: dict[str, str] = {}  # the list of each style
        self._named: dict[str | None, str] = {}

    def add(self, style: Element) -> None:
        """One of ``STYLES``."""
        if style.tag == f"{TEXT}outline-style":
            self._begin(_HEADINGS, _levels(style))
        else:
            name = style.get(f"{STYLE}name", "")
            self._styles[name] = style
            self._levels.pop(name, None)

    def begin(self, element: Element, style: str) -> str:
        """The list's name, for ``marker``."""
        before = self._named.get(element.get(f"{TEXT}continue-list"), "")
        if not before and element.get(f"{TEXT}continue-numbering") == "true":
            before = self._latest.get(style, "")
        name = before or str(len(self._known) + 1)
        if not before:
            self._begin(name, dict(self._levels_of(style)))
        self._latest[style] = name
        if identifier := element.get(_ID):
            self._named[identifier] = name
        return name

    def style_level(self, name: str, style: str, level: int) -> None:
        """A list inside of another has a style of its own."""
        if level in (levels := self._levels_of(style)):
            self._patterns[name][level] = levels[level]

    def restart(self, name: str, level: int, item: Element) -> None:
        """At the number that the item says, if it does."""
        if start := item.get(f"{TEXT}start-value"):
            self._numbers.restart(name, level, whole(start, 1))

    def marker(self, name: str, level: int) -> str:
        """Of the next item; "" of a bullet."""
        return self._numbers.marker(name, level)

    def of_heading(self, level: int) -> str:
        """The number of the next heading of that level, from 1."""
        return self._numbers.marker(_HEADINGS, level - 1) if _HEADINGS in self._known else ""

    def _levels_of(self, style: str) -> dict[int, ListLevel]:
        if style not in self._levels:
            self._levels[style] = _levels(self._styles[style]) if style in self._styles else {}
        return self._levels[style]

    def _begin(self, name: str, levels: dict[int, ListLevel]) -> None:
        self._patterns[name] = levels
        self._known[name] = (name, {})


def _levels(style: Element) -> dict[int, ListLevel]:
    """By level from 0. A level of no format has no number, nor a place in those of deeper ones."""
    found = {whole(one.get(f"{TEXT}level", "1"), 1) - 1: one for one in style if one.tag in _NUMBERED}
    shown = {at for at, one in found.items() if one.get(f"{STYLE}num-format")}
    return {at: _level(at, found[at], shown) for at in shown if 0 <= at < _DEEPEST}


def _level(at: int, said: Element, shown: set[int]) -> ListLevel:
    count = whole(said.get(f"{TEXT}display-levels", "1"), 1)
    places = [f"%{above + 1}" for above in range(max(0, at - count + 1), at + 1) if above in shown]
    prefix, suffix = (said.get(f"{STYLE}num-{side}", "") for side in ("prefix", "suffix"))
    return ListLevel(
        counting_style(said.get(f"{STYLE}num-format", "")),
        f"{prefix}{'.'.join(places)}{suffix}",
        whole(said.get(f"{TEXT}start-value", "1"), 1),
    )
