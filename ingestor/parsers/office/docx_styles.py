"""What the styles and lists of a DOCX make of a paragraph. Pure.

Styles inherit from each other; a list's number is that of all paragraphs of the same list before it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from ingestor.parsers.shared.numbers import ListLevel, ListNumbers
from ingestor.parsers.shared.whole import whole

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_HEADING = re.compile(r"heading (\d)")
_CODE = re.compile(r"code|source|preformatted|verbatim|listing|plain text|macro text")
_QUOTE = re.compile(r"quot")
_LONGEST = 20  # styles that inherit from each other
_LEVELS = 9


def value(element: Element | None, tag: str, default: str = "") -> str:
    """``w:val`` of the child of that name."""
    child = None if element is None else element.find(f"{W}{tag}")
    return default if child is None else child.get(f"{W}val", default)


@dataclass(frozen=True, slots=True)
class DocxStyle:
    """``level``: 1 to 9 of a heading; ``list_id`` "0" takes an inherited list away."""

    name: str = ""
    level: int = 0
    list_id: str = ""
    list_level: int | None = None


class DocxStyles:
    def __init__(self, root: Element) -> None:
        self._found = {style.get(f"{W}styleId", ""): style for style in root.iter(f"{W}style")}
        default = (id_ for id_, style in self._found.items() if _is_default(style))
        self._default = next(default, "")
        language = root.find(f"{W}docDefaults/{W}rPrDefault/{W}rPr/{W}lang")
        self.language = language.get(f"{W}val") if language is not None else None
        self._known: dict[str, DocxStyle] = {}

    def of(self, paragraph: Element | None) -> DocxStyle:
        """``paragraph``: its w:pPr. What it says itself goes before its style."""
        named = self._named(value(paragraph, "pStyle") or self._default)
        own = _said(paragraph)
        return DocxStyle(named.name, own.level or named.level, own.list_id or named.list_id,
                     named.list_level if own.list_level is None else own.list_level)  # fmt: skip

    def _named(self, id_: str) -> DocxStyle:
        if id_ not in self._known:
            self._known[id_] = self._resolved(id_)
        return self._known[id_]

    def _resolved(self, id_: str) -> DocxStyle:
        level, list_id, list_level = 0, "", None
        for style in self._chain(id_):
            said = _said(style.find(f"{W}pPr"))
            by_name = _HEADING.fullmatch(value(style, "name").lower())
            level = level or said.level or (int(by_name[1]) if by_name else 0)
            list_id = list_id or said.list_id
            list_level = said.list_level if list_level is None else list_level
        found = self._found.get(id_)
        return DocxStyle(value(found, "name").lower(), level, list_id, list_level)

    def _chain(self, id_: str) -> Iterator[Element]:
        for _ in range(_LONGEST):
            style = self._found.get(id_)
            if style is None:
                return
            yield style
            id_ = value(style, "basedOn")


def kind(style: DocxStyle) -> str:
    """Of a block that is neither heading nor list."""
    if _CODE.search(style.name):
        return "code"
    return "quote" if _QUOTE.search(style.name) else "paragraph"


def _is_default(style: Element) -> bool:
    return style.get(f"{W}type") == "paragraph" and style.get(f"{W}default") in ("1", "true")


def _said(paragraph: Element | None) -> DocxStyle:
    outline = value(paragraph, "outlineLvl")
    numbering = None if paragraph is None else paragraph.find(f"{W}numPr")
    level = value(numbering, "ilvl")
    heading, depth = whole(outline, _LEVELS), whole(level, _LEVELS)
    return DocxStyle(
        level=heading + 1 if heading < _LEVELS else 0,
        list_id=value(numbering, "numId"),
        list_level=depth if depth < _LEVELS else None,
    )


def lists(root: Element) -> ListNumbers:
    patterns = {
        pattern.get(f"{W}abstractNumId", ""): _levels(pattern) for pattern in root.iter(f"{W}abstractNum")
    }
    named = {
        found.get(f"{W}numId", ""): (value(found, "abstractNumId"), _restarts(found))
        for found in root.iter(f"{W}num")
    }
    return ListNumbers(patterns, named)


def _levels(pattern: Element) -> dict[int, ListLevel]:
    return {
        whole(level.get(f"{W}ilvl", "0"), 0): ListLevel(
            value(level, "numFmt", "decimal"), value(level, "lvlText"), whole(value(level, "start"), 1)
        )
        for level in pattern.iter(f"{W}lvl")
        if level.get(f"{W}ilvl", "0").isdigit()
    }


def _restarts(found: Element) -> dict[int, int]:
    return {
        whole(override.get(f"{W}ilvl", "0"), 0): whole(value(override, "startOverride"), 1)
        for override in found.iter(f"{W}lvlOverride")
        if override.get(f"{W}ilvl", "0").isdigit() and override.find(f"{W}startOverride") is not None
    }
