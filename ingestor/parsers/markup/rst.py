"""reStructuredText: sections, directives, literal blocks, tables and lists become blocks of the source.

Sections are underlined titles; their levels follow from the order in which styles of underlines appear
(docutils, "reStructuredText Markup Specification", sections). Some directives hold prose, such as a note or
the description of a function. Such a directive gives a block for its first lines only, and its body gives
further blocks. A directive without body that shows nothing (``.. setting:: DEBUG``) labels the text that
follows, like a target.
"""

import re
from unicodedata import east_asian_width

from ingestor.model import Blob, Block, Document
from ingestor.parsers.markup.lines import FoundBlock, Lines, blocks, indent, lines_of, markup_document
from ingestor.parsers.shared.decode import decode
from ingestor.parsers.shared.plugin import parser_plugin

_RULER = re.compile(r"([!-/:-@\[-`{-~])\1*")
_DIRECTIVE = re.compile(r"\s*\.\.[ \t]+(?:\|[^|]+\|[ \t]+)?([\w:.+-]+?)::(?:[ \t]+(.*))?")
_FOOTNOTE = re.compile(r"\s*\.\.[ \t]+\[[^\]]+\]")
_TARGET = re.compile(r"\s*(?:\.\.[ \t]+_|__[ \t])")
_LABEL = re.compile(r"\s*\.\.[ \t]+_(?:`[^`]*`|(?:[^:`\\]|\\.|:(?=\S))+):")  # of a place, not of an address
_ITEM = re.compile(r"\s*(?:[-*+•‣⁃]|\(?(?:\d{1,4}|#|[a-zA-Z])\)|(?:\d{1,4}|#)\.)(?:[ \t]|$)")
_FIELD = re.compile(r"\s*:(?![: ])([^:\n`]+):(?:[ \t]+(.*)|$)")
_SIMPLE_TABLE = re.compile(r"\s*=+(?:[ \t]+=+)+")
_GRID_TABLE = re.compile(r"\s*\+[-=+]+\+")
_ROLE = re.compile(r"``(?P<literal>[^`]+)``|(?::(?P<role>[\w:.+-]{1,100}):)?`(?P<text>[^`]+)`_{0,2}")
_NUMBERED = {"pep": "PEP ", "rfc": "RFC "}
_POINTER = re.compile(r"(?<![ \t])[ \t]*+<[^<>]*+>$")
_MARKUP = re.compile(r"\*{1,2}(?=\S)|(?<=\S)\*{1,2}|\\(?=\W)")
_CODE = {"code-block", "code", "sourcecode", "highlight", "parsed-literal", "productionlist", "raw", "math"}
_CODE |= {
    "doctest",
    "testcode",
    "testoutput",
    "testsetup",
    "ipython",
    "prompt",
    "graphviz",
    "jupyter-execute",
}
_NAMED = {"code-block", "code", "sourcecode"}  # their argument is a language
_TABLES = {"table", "list-table", "csv-table", "flat-table"}
_WHOLE = {"toctree", "image", "figure", "include", "literalinclude", "contents", "replace", "unicode"}
_ADMONITIONS = {"note", "warning", "tip", "hint", "important", "caution", "danger", "error", "attention"}
_ADMONITIONS |= {"admonition", "seealso", "todo", "versionadded", "versionchanged", "deprecated", "topic"}
_ADMONITIONS |= {"sidebar", "rubric", "epigraph", "only", "container", "availability", "impl-detail"}
_ADMONITIONS |= {"glossary"}
_LABELS = {"index", "meta", "highlight", "highlightlang"}
_DESCRIBED = re.compile(  # directives that show their argument, with a body or without one
    r"(?:[\w+-]+:)?(?:auto.*|doxygen.*|(?:class|static|abstract)?method|function|c?macro|data|var|type|attribute|property"
    r"|exception|class|struct|enum|enumerator|member|union|concept|alias|decorator|decoratormethod|opcode|pdbcommand"
    r"|option|cmdoption|django-admin-option|envvar|describe|object|token|program-output|math|raw|plot|video|youtube)"
)
_ABOUT = {"title": "title", "author": "author", "authors": "author", "date": "date"}
_ABOUT |= {"lang": "language", "language": "language"}


def parse(blob: Blob) -> Document:
    """Read reStructuredText as a document. Raises BadDocument if the content is not text."""
    text = decode(blob.data)
    parsed = read(text, {})
    about = {_ABOUT[key]: value for key, value in _about(text, parsed).items() if key in _ABOUT}
    title = next((block.title for block in parsed if block.kind == "heading"), None)
    return markup_document(text, parsed, "text/x-rst", about, title)


Styles = dict[tuple[str, bool], int]  # level by mark of the underline, and whether there is an overline


def read(text: str, styles: Styles) -> tuple[Block, ...]:
    """Return the blocks of a text.

    ``styles``: level of each heading style in earlier parts of the same document. New styles are added to it.
    """
    lines = lines_of(text)
    return tuple(blocks(lines, _Rules(lines, styles)))


class _Rules:
    """The rule of reStructuredText (see lines.py). It remembers the language that ``highlight`` last set."""

    def __init__(self, lines: Lines, styles: Styles) -> None:
        self._lines = lines
        self._styles = styles
        self._highlight: str | None = None

    def __call__(self, at: int) -> FoundBlock | None:
        lines, row = self._lines, self._lines.rows[at]
        fresh = not lines.row(at - 1) or bool(_RULER.fullmatch(lines.row(at - 1)))
        if fresh and (block := self._heading(at, row)):
            return block
        if fresh and (literal := self._literal(at, row)):
            return literal
        if row.lstrip().startswith((".. ", "__ ")) or row.strip() == "..":
            return self._explicit(at, row)
        return self._plain(at, row) if fresh else None

    def _heading(self, at: int, row: str) -> FoundBlock | None:
        below, after = self._lines.row(at + 1), self._lines.row(at + 2)
        if _RULER.fullmatch(row) and below and after == row and _width(below.strip()) <= max(len(row), 4):
            if not _RULER.fullmatch(below):
                return self._section(at + 3, below.strip(), row[0], overlined=True)
        elif below and not row[0].isspace() and _RULER.fullmatch(below) and not _RULER.fullmatch(row):
            if len(below) >= min(_width(row), 4):
                return self._section(at + 2, row, below[0], overlined=False)
        elif len(row) >= 4 and not below and _RULER.fullmatch(row):
            return FoundBlock("rule", at + 1)
        return None

    def _section(self, end: int, title: str, mark: str, *, overlined: bool) -> FoundBlock:
        level = self._styles.setdefault((mark, overlined), len(self._styles) + 1)
        return FoundBlock("heading", end, level, plain(title))

    def _literal(self, at: int, row: str) -> FoundBlock | None:
        """Return a doctest, or the indented block under a paragraph that ends with two colons; or None."""
        if row.lstrip().startswith(">>> "):
            return FoundBlock("code", self._lines.while_(at, bool), language="python")
        above = at - 1
        while above >= 0 and not self._lines.rows[above]:
            above -= 1
        introduced = above >= 0 and self._lines.rows[above].endswith("::") and above < at - 1
        if not introduced or _DIRECTIVE.fullmatch(self._lines.rows[above]):
            return None
        outer = indent(self._lines.rows[above])
        if indent(row) <= outer:
            return None
        return FoundBlock("code", self._lines.past_indented(at, outer), language=self._highlight)

    def _explicit(self, at: int, row: str) -> FoundBlock:
        directive = _DIRECTIVE.match(row)
        outer = indent(row)
        if directive:
            return self._directive(at, directive[1], (directive[2] or "").strip(), outer)
        if _TARGET.match(row):
            return FoundBlock("label" if _LABEL.fullmatch(row) else "definition", self._head(at, outer))
        if row.strip() == ".." and not self._lines.row(at + 1):
            return FoundBlock(
                "comment", at + 1
            )  # what is indented below it is a quotation, set apart from a list
        kind = "footnote" if _FOOTNOTE.match(row) else "comment"
        return FoundBlock(kind, self._lines.past_indented(at + 1, outer))

    def _directive(self, at: int, name: str, argument: str, outer: int) -> FoundBlock:
        if name == "highlight":
            self._highlight = argument.lower() or None
        if name in _LABELS:
            return FoundBlock("label", self._lines.past_indented(at + 1, outer))
        if name in _CODE:
            language = argument.lower() if name in _NAMED else None
            return FoundBlock(
                "code", self._lines.past_indented(at + 1, outer), language=language or self._highlight
            )
        if name in _TABLES or name in _WHOLE:
            kind = "table" if name in _TABLES else "directive"
            return FoundBlock(kind, self._lines.past_indented(at + 1, outer))
        if name in _ADMONITIONS or not argument:
            return FoundBlock("paragraph", self._head(at, outer))
        head = self._head(at, outer)
        body = self._lines.past_indented(head, outer)
        if body == head and not _DESCRIBED.fullmatch(name):
            return FoundBlock("label", head)
        symbol = re.split(r"[(\s\[=]", argument, maxsplit=1)[0]  # ``f`` of ``f(x) -> int``
        return FoundBlock("definition", head, symbol=symbol or None)

    def _head(self, at: int, outer: int) -> int:
        """Return the number of the line after a directive's first lines, which end at a blank line.

        ``outer``: indentation of the directive. Its options and indented lines belong to its head.
        """
        return self._lines.while_(at + 1, lambda row: bool(row) and indent(row) > outer)

    def _plain(self, at: int, row: str) -> FoundBlock | None:
        if _GRID_TABLE.fullmatch(row):
            return FoundBlock(
                "table", self._lines.while_(at, lambda row: row.lstrip().startswith(("+", "|")))
            )
        if _SIMPLE_TABLE.fullmatch(row):
            return FoundBlock("table", self._simple_table(at))
        if _ITEM.match(row):
            return FoundBlock("list", self._items(at, indent(row), _ITEM))
        if _FIELD.match(row):
            return FoundBlock("list", self._items(at, indent(row), _FIELD))
        return None

    def _simple_table(self, at: int) -> int:
        """Return the number of the line after a simple table: after a border before a blank line."""
        end = at + 1
        while end < len(self._lines.rows):
            end += 1
            if not self._lines.row(end) and _SIMPLE_TABLE.fullmatch(self._lines.rows[end - 1]):
                break
        return end

    def _items(self, at: int, outer: int, mark: re.Pattern[str]) -> int:
        lines = self._lines
        while True:
            end = lines.past_indented(at + 1, outer)
            at = lines.past_blank(end)
            if not lines.row(at) or indent(lines.row(at)) != outer or not mark.match(lines.row(at)):
                return end


def plain(markup: str) -> str:
    """Return a title as readers see it, without roles and other markup."""
    done, at = [], 0
    for role in _ROLE.finditer(markup):
        done += [
            _MARKUP.sub("", markup[at : role.start()]),
            role["literal"] or _text_of_role(role["role"], role["text"]),
        ]
        at = role.end()
    return " ".join("".join([*done, _MARKUP.sub("", markup[at:])]).split())


def _text_of_role(role: str | None, text: str) -> str:
    """Return the text that a role shows.

    A link shows its text, ``~a.b.c`` shows only ``c``, and a number in the role ``pep`` shows as "PEP 8".
    """
    text = _POINTER.sub("", text)
    if text.startswith("~"):
        return text.rpartition(".")[2].lstrip("~")
    return _NUMBERED.get(role or "", "") + text.lstrip("!")


def _width(title: str) -> int:
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in title)


def _about(text: str, parsed: tuple[Block, ...]) -> dict[str, str]:
    """Return the fields of the first field list, by name in lower case, if no prose comes before it."""
    for block in parsed:
        if block.kind == "list" and _FIELD.match(text, block.start):
            pairs = (_FIELD.match(line) for line in text[block.start : block.end].splitlines())
            return {pair[1].lower(): plain(pair[2]) for pair in pairs if pair and pair[2]}
        if block.kind not in ("heading", "comment", "label", "definition", "directive"):
            break
    return {}


PLUGIN = parser_plugin("rst", 3, parse, isolated="large")
