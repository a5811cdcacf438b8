"""Org: headlines, ``#+BEGIN_…`` blocks, tables, lists and drawers become blocks; the text is the source."""

import re

from ingestor.model import Blob, Document
from ingestor.parsers.markup.lines import FoundBlock, Lines, blocks, indent, lines_of, markup_document
from ingestor.parsers.shared.decode import decode
from ingestor.parsers.shared.plugin import parser_plugin

_HEADLINE = re.compile(
    r"(\*+)[ \t]+(?:(?:TODO|DONE|NEXT|WAITING|CANCELLED)[ \t]++)?(?:\[#\w\][ \t]++)?(.*?)"
    r"(?:(?<![ \t])[ \t]++:[\w@#%:]+:)?"
)
_BEGIN = re.compile(r"\s*#\+begin_(\w+)(?:[ \t]+(\S+))?.*", re.IGNORECASE)
_KEYWORD = re.compile(r"\s*#\+(\w+)(?:\[.*\])?:[ \t]*(.*)", re.IGNORECASE)
_AFFILIATED = re.compile(
    r"\s*#\+(?:name|caption|attr_\w+|header|plot|label|tblname|results|index)(?:\[.*\])?:.*", re.IGNORECASE
)
_TARGET = re.compile(r"\s*<<[^<>]+>>")
_DRAWER = re.compile(r"\s*:(?!end:)[\w-]+:\s*", re.IGNORECASE)
_ITEM = re.compile(r"\s*(?:[-+]|\d+[.)])(?:[ \t]|$)|\s+\*[ \t]")
_COMMENT = re.compile(r"\s*#(?:[ \t]|$)")
_FIXED = re.compile(r"\s*:(?:[ \t]|$)")
_RULE = re.compile(r"-{5,}")
_NOTE = re.compile(r"\[fn:[^\]\s:]+\]")
_LINK = re.compile(r"\[\[(?:[^\[\]]*\]\[)?([^\[\]]*)\]\]")
_KINDS = {"src": "code", "example": "code", "export": "code", "quote": "quote", "verse": "quote"}
_KINDS |= {"comment": "comment"}
_CODE = ("src", "export")  # their argument is a language


def parse(blob: Blob) -> Document:
    """Read an Org file as a document. Raises BadDocument if the content is not text."""
    text = decode(blob.data)
    lines = lines_of(text)
    rules = _Rules(lines)
    parsed = tuple(blocks(lines, rules))
    tops = [block.title for block in parsed if block.kind == "heading" and block.level == 1]
    return markup_document(text, parsed, "text/org", rules.about, tops[0] if len(tops) == 1 else None)


class _Rules:
    """The rule of Org (see lines.py). ``about``: metadata from the document's ``#+KEYWORD:`` lines."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._no_end: set[str] = set()  # names of blocks of which no end is left
        self.about: dict[str, str] = {}

    def __call__(self, at: int) -> FoundBlock | None:
        lines, row = self._lines, self._lines.rows[at]
        if row[0] == "*" and (headline := _HEADLINE.fullmatch(row)):
            return FoundBlock("heading", at + 1, len(headline[1]), _plain(headline[2]))
        if _BEGIN.fullmatch(row) or _KEYWORD.fullmatch(row):
            return self._hash(at, row)
        if _TARGET.fullmatch(row):
            return FoundBlock("label", at + 1)
        if _DRAWER.fullmatch(row):
            return FoundBlock("properties", self._end(at, ":end:") or at + 1)
        for kind, mark in (("comment", _COMMENT), ("code", _FIXED)):
            if mark.match(row):
                return FoundBlock(kind, lines.while_(at, lambda line, mark=mark: bool(mark.match(line))))  # type: ignore[misc]
        if row.lstrip().startswith("|"):
            return FoundBlock("table", lines.while_(at, lambda line: line.lstrip().startswith("|")))
        if _NOTE.match(row):
            goes_on = lines.while_(
                at + 1, lambda line: bool(line) and line[0] != "*" and not _NOTE.match(line)
            )
            return FoundBlock("footnote", goes_on)
        if _RULE.fullmatch(row):
            return FoundBlock("rule", at + 1)
        return FoundBlock("list", self._items(at)) if _ITEM.match(row) else None

    def _hash(self, at: int, row: str) -> FoundBlock:
        begin = _BEGIN.fullmatch(row)
        if begin:
            name = begin[1].lower()
            end = self._end(at, f"#+end_{name}")
            language = (begin[2] or "").lower() if name in _CODE else None
            if end is None:
                return FoundBlock("paragraph", at + 1)
            return FoundBlock(_KINDS.get(name, "paragraph"), end, language=language or None)
        if _AFFILIATED.fullmatch(row):
            return FoundBlock("label", self._lines.while_(at, lambda line: bool(_AFFILIATED.fullmatch(line))))
        end = at
        while not _AFFILIATED.fullmatch(self._lines.row(end)) and (
            keyword := _KEYWORD.fullmatch(self._lines.row(end))
        ):
            if keyword[2]:
                self.about.setdefault(keyword[1].lower(), _plain(keyword[2]))
            end += 1
        return FoundBlock("front_matter", end)

    def _end(self, at: int, mark: str) -> int | None:
        """Return the number of the line after the next line ``mark``; None if there is no such line.

        A mark that was not found is remembered, so that it is searched for only once.
        """
        if mark in self._no_end:
            return None
        end = self._lines.while_(at + 1, lambda row: row.strip().lower() != mark)
        if end == len(self._lines.rows):
            self._no_end.add(mark)
            return None
        return end + 1

    def _items(self, at: int) -> int:
        """Return the number of the line after the list that begins at line ``at``.

        The list ends at two blank lines, or before a line that is neither an item nor indented like its text.
        """
        lines = self._lines
        outer = indent(lines.rows[at])
        while True:
            end = lines.past_indented(at + 1, outer)
            at = lines.past_blank(end)
            row = lines.row(at)
            if not row or at - end > 1 or indent(row) != outer or not _ITEM.match(row):
                return end


def _plain(title: str) -> str:
    return " ".join(_LINK.sub(r"\1", title).split())


PLUGIN = parser_plugin("org", 3, parse, isolated="large")
