"""AsciiDoc: sections, delimited blocks, tables and lists become blocks; the document's text is the source.

Titles are ``== Title``, or underlined as in older documents. A block's attributes (``[source,python]``) and
its title (``.Title``) are on the lines before it, and belong to the block. Before a heading they are a
``label``.
"""

import re
from functools import partial
from operator import ne

from ingestor.model import Blob, Document
from ingestor.parsers.markup.lines import FoundBlock, Lines, blocks, indent, lines_of, markup_document
from ingestor.parsers.shared.decode import decode
from ingestor.parsers.shared.plugin import parser_plugin

_HEADING = re.compile(r"(={1,6}|#{1,6})[ \t]+(\S.*?)(?:(?<![ \t])[ \t]++\1)?")
_UNDERLINES = {"=": 1, "-": 2, "~": 3, "^": 4, "+": 5}
_TITLE = re.compile(r"[^\s.\[].*\w|\w")  # that may be underlined
_UNDERLINE = re.compile(r"([=\-~^+])\1+")
_FENCE = re.compile(r"(-{4,}|\.{4,}|={4,}|_{4,}|\*{4,}|\+{4,}|/{4,}|--|[|,:!]={3,})|(```+)(\w*)")
_KINDS = {"-": "code", ".": "code", "_": "quote", "+": "html", "/": "comment", "|": "table", "`": "code"}
_KINDS |= {",": "table", ":": "table", "!": "table"}
_ATTRIBUTES = re.compile(r"\[[^\[\]]*\]|\[\[.*\]\]|\.[^\s.].*")
_SOURCE = re.compile(r"\[(?:source|,|listing)[^\],]*,?\s*([\w+#-]*)")
_ITEM = re.compile(
    r"\s*(?:\*{1,5}|-|\.{1,5}|\d+\.|<\d+>|[a-zA-Z]\.)[ \t]+\S"
    r"|\S.*?(?:(?:(?<!:)|(?<!.:))::++|;;)(?:[ \t]|$)"
)
_ENTRY = re.compile(r":(!?[\w-]+!?):(?:[ \t]+(.*))?")
_PROSE_DELIMITERS = "=*-"  # of blocks that hold blocks: "====", "****" and "--"
_REVISION = re.compile(r"(?:v\S+,\s*)?(\d{4}-\d\d-\d\d)")
_ADDRESS = re.compile(r"(?<!\s)\s*+<[^<>]*+>")


def parse(blob: Blob) -> Document:
    """Read AsciiDoc as a document. Raises BadDocument if the content is not text."""
    text = decode(blob.data)
    lines = lines_of(text)
    parsed = tuple(blocks(lines, _Rules(lines)))
    title = next((block.title for block in parsed if block.kind == "heading"), None)
    return markup_document(text, parsed, "text/asciidoc", _about(lines), title)


class _Rules:
    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def __call__(self, at: int) -> FoundBlock | None:
        row = self._lines.rows[at]
        if row[0] in "[.:" and (about := self._block_with_attributes(at)):
            return about
        if _is_comment(row):
            return FoundBlock("comment", self._lines.while_(at, _is_comment))
        if block := self._heading(at, row) or self._read_fence(at, at, row):
            return block
        if not self._lines.row(at - 1):
            return self._loose(at, row)
        return None

    def _heading(self, at: int, row: str) -> FoundBlock | None:
        if row[0] in "=#" and (title := _HEADING.fullmatch(row)):
            return FoundBlock("heading", at + 1, len(title[1]), title[2])
        above, below = self._lines.row(at - 1), self._lines.row(at + 1)
        fresh = not above or _ATTRIBUTES.fullmatch(above)
        if fresh and _UNDERLINE.fullmatch(below) and abs(len(below) - len(row)) <= 2 and _TITLE.match(row):
            return FoundBlock("heading", at + 2, _UNDERLINES[below[0]], row)
        return None

    def _block_with_attributes(self, at: int) -> FoundBlock | None:
        """Return the block that begins with lines of attributes; None if there are no such lines.

        Attributes of the document are ``front_matter``.
        """
        lines = self._lines
        if _ENTRY.fullmatch(lines.rows[at]):
            return FoundBlock("front_matter", lines.while_(at, lambda row: bool(_ENTRY.fullmatch(row))))
        body = lines.while_(at, lambda row: bool(_ATTRIBUTES.fullmatch(row)))
        if body == at:
            return None
        row = lines.row(body)
        source = next(filter(None, map(_SOURCE.match, lines.rows[at:body])), None)
        language = source[1].lower() or None if source else None
        if not row or self._heading(body, row):
            return FoundBlock("label", body)
        fenced = self._read_fence(at, body, row, language)
        if fenced or not source:
            return fenced or self._loose(body, row) or FoundBlock("paragraph", lines.while_(body, bool))
        return FoundBlock("code", lines.while_(body, bool), language=language)

    def _read_fence(self, at: int, body: int, row: str, language: str | None = None) -> FoundBlock | None:
        """Return the delimited block that opens at line ``body``; None if ``row`` is no delimiter.

        ``row`` is the text of the line. The block ends with the line that repeats the delimiter, or with the
        document. Of a block that holds other blocks, only the delimiter is returned.
        """
        fence = _FENCE.fullmatch(row)
        if not fence:
            return None
        mark = fence[1] or fence[2]
        if mark[0] in _PROSE_DELIMITERS and (mark[0] != "-" or len(mark) == 2):
            return FoundBlock("delimiter", body + 1)
        end = self._lines.while_(body + 1, lambda line: line != mark)
        last = min(end + 1, len(self._lines.rows))
        return FoundBlock(_KINDS[mark[0]], last, language=language or (fence[3] or "").lower() or None)

    def _loose(self, at: int, row: str) -> FoundBlock | None:
        """Return the rule, list or indented literal text that begins at line ``at``; else None."""
        if row in ("'''", "---", "***", "<<<"):
            return FoundBlock("rule", at + 1)
        if _ITEM.match(row):
            return FoundBlock("list", self._items(at))
        if row[0] in " \t":
            return FoundBlock("code", self._lines.while_(at, bool))
        return None

    def _items(self, at: int) -> int:
        """Return the number of the line after the list that begins at line ``at``.

        Blocks that a line ``+`` joins to an item belong to the list.
        """
        lines = self._lines
        while True:
            while lines.row(at):
                fenced = self._read_fence(at, at, lines.rows[at]) if lines.row(at - 1) == "+" else None
                at = fenced.end if fenced else at + 1
            after = lines.past_blank(at)
            if not lines.row(after) or not (_ITEM.match(lines.rows[after]) or indent(lines.rows[after])):
                return at
            at = after


def _is_comment(row: str) -> bool:
    """Return whether a line is a comment, not the delimiter of one."""
    return row.startswith("//") and not row.startswith("////")


def _about(lines: Lines) -> dict[str, str]:
    """Return the metadata in a document's header, which ends at the first blank line.

    Names are title, author, date and language.
    """
    at = lines.while_(0, lambda row: not row or _is_comment(row))
    while (mark := lines.row(at)).startswith("////"):
        at = lines.while_(at + 1, partial(ne, mark)) + 1
        at = lines.while_(at, lambda row: not row or _is_comment(row))
    title = _HEADING.fullmatch(lines.row(at))
    rows = (
        lines.rows[at + 1 : lines.while_(at + 1, bool)] if title else lines.rows[at : lines.while_(at, bool)]
    )
    about = {"title": title[2]} if title else {}
    entries = [entry for entry in map(_ENTRY.fullmatch, rows) if entry]
    names = {"author": "author", "authors": "author", "revdate": "date", "date": "date", "lang": "language"}
    about |= {names[e[1]]: e[2] for e in entries if e[1] in names and e[2]}
    loose = [row for row in rows if not row.startswith((":", "/"))] if title else []
    if loose and not _REVISION.match(loose[0]):
        about.setdefault("author", ", ".join(_ADDRESS.sub("", name).strip() for name in loose[0].split(";")))
    revision = next(filter(None, map(_REVISION.match, loose[:2])), None)
    return {**({"date": revision[1]} if revision else {}), **about}


PLUGIN = parser_plugin("asciidoc", 4, parse, isolated="large")
