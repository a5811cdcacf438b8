"""HTML pages: the text that a reader sees, with headings, lists, tables and code.

The library ``selectolax`` builds the tree as browsers do, even from faulty markup. page.py reduces the tree
to the text that is read. Then one pass without recursion makes the blocks. A block-level element ends the
paragraph that is being collected; other elements add to it. A list is one block, unless it holds code, tables
or headings. In that case its items become blocks, and so do the cells of a table that serves only the layout.
"""

import re
from collections.abc import Callable, Sequence
from typing import Literal

from pydantic import Field

from ingestor.model import Blob, Document
from ingestor.parsers.html.page import (
    BLOCKS,
    BREAK,
    HtmlPage,
    Node,
    children,
    close_empty_elements,
    one_line,
    raw_words,
    styles,
    words,
)
from ingestor.parsers.shared.compose import Composer, SpannedCell, grid
from ingestor.parsers.shared.decode import decode
from ingestor.parsers.shared.numbers import write_number
from ingestor.parsers.shared.plugin import parser_plugin
from ingestor.registry import Options
from ingestor.text.outline import heading_number

_CHARSET = re.compile(rb"charset\s*=\s*+[\"']?\s*+([\w.:-]+)", re.IGNORECASE)
_DECLARED = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_HEAD = 4096  # bytes in which a page may name its encoding
_AUTHOR = ("author", "article:author", "dc.creator", "dcterms.creator", "citation_author")
_DATE = (
    *("date", "article:published_time", "dc.date", "dcterms.date", "dcterms.created", "dcterms.issued"),
    *("citation_publication_date", "article:modified_time", "last-modified", "dcterms.modified"),
)
_LISTS = words("ul ol menu dir")
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_NO_PROSE = words("h1 h2 h3 h4 h5 h6 ul ol menu dir dl dt table pre figure")
_TABLE_PARTS = words("thead tbody tfoot")
_NUMBER = re.compile(r"\s*([+-]?\d{1,9})")
_NUMBERED = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"} | {
    f"{case}-{name}": f"{case}{style}"
    for case in ("lower", "upper")
    for name, style in (("alpha", "Letter"), ("latin", "Letter"), ("roman", "Roman"))
}
_DEEPEST_INDENT = 10
_CELLS = words("td th")
_EDGES = re.compile(rf"\n?{BREAK}+(?:\n{BREAK}*)?")  # of block-level elements inside code
_MARKER = re.compile(r"\(?(?:\d{1,3}|[A-Za-z]|[ivxlcIVXLC]{1,5})[.)]|[-–—•·▪◦●■‣]")  # of an item
_LANGUAGE = re.compile(r"(?:language|lang|highlight|highlight-source|brush|src)[-:]\s?([A-Za-z][\w+#]*)")
_NO_LANGUAGE = words("default none text plaintext plain notranslate source")


class HtmlOptions(Options):
    mode: Literal["main", "full"] = Field(
        default="main",
        description="`main`: only the main content if the page marks it, without navigation, sidebars, "
        "headers and footers; `full`: all visible text",
    )
    links: bool = Field(
        default=False,
        description="keep addresses of links to other sites, as `[text](https://…)`; search finds "
        "them, and they"
        " fill chunks",
    )


def parse(blob: Blob, options: HtmlOptions) -> Document:
    """Read an HTML page as a document.

    Raises BadDocument if the content is not text, or its tags exceed a limit.
    """
    sent = _DECLARED.search(blob.content_type or "")
    in_page = None if sent else _CHARSET.search(blob.data, 0, _HEAD)
    encoding = sent[1] if sent else in_page[1].decode("ascii", "replace") if in_page else None
    source = decode(blob.data, encoding)
    is_xhtml = blob.name.lower().endswith((".xhtml", ".xht"))
    if is_xhtml or "xhtml" in (blob.content_type or "") or source.lstrip().startswith("<?xml"):
        source = close_empty_elements(source)
    return read_page(source, options, "application/xhtml+xml" if is_xhtml else "text/html")


def read_page(source: str, options: HtmlOptions, content_type: str = "text/html") -> Document:
    """Read a page's main content, or the whole page if ``options`` ask for it or no main content is found.

    Raises BadDocument if the tags exceed a limit.
    """
    composer, main = Composer(), options.mode == "main"
    page, raw = add_page(composer, source, main=main, links=options.links)
    if not composer.blocks and main:
        composer = Composer()
        page, raw = add_page(composer, source, links=options.links)
    about: dict[str, str] = {}  # the page's meta elements, the first of each name
    for meta in page.tree.css("meta[content]"):
        attributes = meta.attributes
        name = attributes.get("name") or attributes.get("property") or attributes.get("http-equiv") or ""
        about.setdefault(name.lower(), one_line(attributes.get("content") or ""))
    html = page.tree.css_first("html")
    declared = html.attributes if html else {}
    language = declared.get("lang") or declared.get("xml:lang") or about.get("content-language") or ""
    scripted = not composer.blocks and page.has_scripts
    reason = "the text is generated by scripts, which are not run: save the page from a browser"
    return composer.document(
        content_type,
        title=page.title or next((block.title for block in composer.blocks if block.level), None),
        language=language.strip().replace("_", "-"),
        extra={
            key: next((about[name] for name in names if about.get(name)), None)
            for key, names in (("author", _AUTHOR), ("date", _DATE))
        },
        raw_words=raw,
        lost=(reason,) if scripted else (),
    )


def add_page(
    composer: Composer, source: str, *, main: bool = False, links: bool = False
) -> tuple[HtmlPage, int]:
    """Add the blocks of a page to ``composer``. Return the page and its number of words, also those left out.

    ``main``: add only the main content. ``links``: keep the addresses of links. Raises BadDocument if the
    tags exceed a limit.
    """
    page = HtmlPage(source, main=main, links=links)
    nodes = page.content() if main else [page.root]
    for node in nodes:
        _Walk(composer).walk(node)
    composer.left_out.update(page.left_out)
    return page, sum(map(raw_words, nodes)) + page.left_out.total()


class _Walk:
    def __init__(self, composer: Composer) -> None:
        self._composer = composer
        self._inline: list[str] = []
        self._quotes = 0
        self._mark = ""  # of an item of a list that is walked through
        self._marker = ""  # text of a cell that only marks the next cell as an item
        self._holders = frozenset[int]()  # elements that hold code, tables, headings or figures
        self._headed = frozenset[int]()  # tables with header cells of their own
        self._levels: dict[int, int] = {}  # of elements that are headings by their role
        self._marks: dict[int, str] = {}  # of items of numbered lists

    def walk(self, root: Node) -> None:
        """Add the blocks of an element and of all elements inside it."""
        self._inspect(root)
        todo: list[Node | str] = [root]  # a str: an element ends here
        while todo:
            node = todo.pop()
            if isinstance(node, str):
                self._end_paragraph()
                self._quotes -= node == "blockquote"
            elif node.is_text_node:
                text = node.text_content or ""
                if self._inline or not text.isspace():  # as between two blocks
                    self._inline.append(text)
            elif (tag := node.tag) == "br":
                self._inline.append(BREAK)
            elif tag not in BLOCKS and node.mem_id not in self._levels:
                todo += _last_first(node)
            else:
                self._end_paragraph()
                if not self._add_whole(node, tag):
                    self._quotes += tag == "blockquote"
                    todo += [tag, *_last_first(node)]
        self._end_paragraph()

    def _inspect(self, root: Node) -> None:
        """Find elements that hold several blocks, tables with header cells, and numbers of items."""
        holders, headed = set[int](), set[int]()
        for inner in root.css("pre, table, h1, h2, h3, h4, h5, h6, [role=heading], figure"):
            node = inner.parent
            while node is not None and node.mem_id not in holders:
                holders.add(node.mem_id)
                node = node.parent
        for cell in root.css("th"):
            row = cell.parent
            part = row.parent if row is not None else None
            table = part.parent if part is not None and part.tag in _TABLE_PARTS else part
            if table is not None:
                headed.add(table.mem_id)
        self._holders, self._headed, self._marks = frozenset(holders), frozenset(headed), _marks(root)
        self._levels = {
            node.mem_id: min(max(_whole(node.attributes.get("aria-level"), 2), 1), 6)
            for node in root.css("[role=heading]")
        }

    def _end_paragraph(self) -> None:
        if not self._inline:
            return
        lines = "".join(self._inline).split(BREAK)
        self._inline.clear()
        if text := "\n".join(" ".join(line.split()) for line in lines).strip():
            self._composer.add("quote" if self._quotes else "paragraph", self._marker + self._mark + text)
            self._marker = self._mark = ""

    def _add_whole(self, node: Node, tag: str) -> bool:
        """Add an element as one block if that is possible. Return whether it was added."""
        level = _HEADINGS.get(tag) or self._levels.get(node.mem_id)
        if level:
            title = _line(node)
            self._composer.add("heading", title, level=level, title=title, number=heading_number(title))
        elif tag == "pre":
            self._composer.add("code", _code(node), language=_language(node))
        elif tag in _CELLS and node.mem_id not in self._holders and _is_marker(node):
            self._marker = f"{_line(node)} "
            return True
        elif tag == "dt":
            signature = "sig" in (node.attributes.get("class") or "").split()  # Sphinx: of a function
            self._composer.add("definition", _line(node), symbol=node.id if signature else None)
        elif tag in _LISTS and node.mem_id not in self._holders:
            self._composer.add("list", self._list(node))
        elif tag == "figure" and "data-figure" in node.attributes and node.mem_id not in self._holders:
            self._composer.add("figure", _line(node), figure=node.attributes["data-figure"] or None)
        elif tag == "table" and not self._is_layout(node):
            self._add_table(node)
        else:
            self._mark = self._marks.get(node.mem_id, "") if tag == "li" else self._mark
            return False
        self._mark = ""
        return True

    def _is_layout(self, table: Node) -> bool:
        if table.attributes.get("role") in ("presentation", "none"):
            return True
        if table.mem_id in self._headed:
            return False
        rows = [row for part in _rows(table) for row in part]
        return table.mem_id in self._holders or len(rows) < 2 or all(map(_is_item, rows))

    def _add_table(self, table: Node) -> None:
        for child in children(table):
            if child.tag == "caption":
                self._composer.add("paragraph", _line(child))
        self._composer.table(
            row for part in _rows(table) for row in grid([[*map(_cell, row)] for row in part])
        )

    def _list(self, root: Node) -> str:
        """Return a list as text: a line for each item, indented by the level of the item."""
        lines: list[tuple[str, list[str]]] = [("", [])]  # an item's mark, and the parts of its text
        depth, todo = 0, _last_first(root)
        while todo:
            node = todo.pop()
            if isinstance(node, str):  # " ", or the end of a list
                lines[-1][1].append(node)
                if not node:
                    depth -= 1
                    lines.append(("", []))
            elif node.is_text_node:
                lines[-1][1].append(node.text_content or "")
            elif (tag := node.tag) in _LISTS:
                depth += 1
                lines.append(("", []))
                todo += ["", *_last_first(node)]
            elif tag == "li":
                indent = "  " * min(depth, _DEEPEST_INDENT)
                lines.append((indent + self._marks.get(node.mem_id, "- "), []))
                todo += _last_first(node)
            else:
                if tag in BLOCKS or tag == "br":
                    lines[-1][1].append(" ")
                    todo.append(" ")
                todo += _last_first(node)
        texts = ((mark, " ".join("".join(parts).split())) for mark, parts in lines)
        return "\n".join(f"{mark}{text}" for mark, text in texts if text)


def _last_first(node: Node) -> list[Node | str]:
    """Return the children of a node in reverse order, so that a stack pops them in the order of the page."""
    nodes: list[Node | str] = []
    child = node.last_child
    while child is not None:
        nodes.append(child)
        child = child.prev
    return nodes


def _text(root: Node) -> str:
    """Return the text of an element, with a space between the block-level elements inside it."""
    return _join(root, BREAK, lambda tag: " " if tag in BLOCKS and tag != "pre" else "")


def _code(pre: Node) -> str:
    """Return the text of a ``pre`` element, in which every block-level element has lines of its own."""
    edges = {tag: " " if tag in _CELLS else BREAK for tag in BLOCKS}
    return _EDGES.sub("\n", _join(pre, "\n", lambda tag: edges.get(tag, "")))


def _join(root: Node, line_break: str, edge: Callable[[str], str]) -> str:
    """Return the text of an element. ``edge``: returns what stands before and after an element of this tag.

    ``line_break``: what stands for ``br``.
    """
    parts: list[str] = []
    todo = _last_first(root)
    while todo:
        node = todo.pop()
        if isinstance(node, str):
            parts.append(node)
        elif node.is_text_node:
            parts.append(node.text_content or "")
        elif node.tag == "br":
            parts.append(line_break)
        else:
            parts.append(edge(node.tag or ""))
            todo.append(edge(node.tag or ""))
            todo += _last_first(node)
    return "".join(parts)


def _line(node: Node) -> str:
    return one_line(_text(node))


def _rows(table: Node) -> list[list[list[Node]]]:
    """Return a table's cells by part (``thead``, ``tbody`` or ``tfoot``) and row, without nested tables.

    A cell may span rows, but only within its part, so parts are laid out separately.
    """
    parts = [child for child in children(table) if child.tag in _TABLE_PARTS]
    parts.sort(key=lambda part: part.tag == "tfoot")  # older pages have it in front
    rows = [[row for row in children(part) if row.tag == "tr"] for part in parts]
    return [[[cell for cell in children(row) if cell.tag in ("td", "th")] for row in part] for part in rows]


def _is_item(row: Sequence[Node]) -> bool:
    """Return whether a row is an item of a list: a marker and one more cell, besides blank cells."""
    return any(map(_is_marker, row)) and sum(bool(_line(cell)) for cell in row) == 2


def _is_marker(cell: Node) -> bool:
    """Return whether a cell has only a marker, and prose follows in the next cell with any text."""
    return bool(_MARKER.fullmatch(cell.text().strip())) and _begins_with_prose(_next_cell(cell))


def _next_cell(cell: Node) -> Node | None:
    after = cell.next
    while after is not None and not (after.tag in _CELLS and after.text().strip()):
        after = after.next
    return after


def _begins_with_prose(node: Node | None) -> bool:
    """Return whether text comes first inside an element, not a heading, a list, code or a table."""
    todo = [node]
    while todo and (node := todo.pop()):
        if node.is_text_node:
            if (node.text_content or "").strip():
                return True
        elif node.tag in _NO_PROSE:
            return False
        else:
            todo += _last_first(node)
    return False


def _cell(node: Node) -> SpannedCell:
    attributes = node.attributes
    return SpannedCell(
        _line(node), _whole(attributes.get("colspan"), 1), _whole(attributes.get("rowspan"), 1)
    )


def _whole(text: str | None, default: int) -> int:
    match = _NUMBER.match(text or "")
    return int(match[1]) if match else default


def _marks(root: Node) -> dict[int, str]:
    """Return the number in front of each item of the numbered lists, by the item's ``mem_id``."""
    marks: dict[int, str] = {}
    for numbered in root.css("ol"):
        items = [child for child in children(numbered) if child.tag == "li"]
        attributes = numbered.attributes
        style = styles(attributes)
        kind = style.get("list-style-type") or style.get("list-style") or attributes.get("type") or ""
        step = -1 if "reversed" in attributes else 1
        number = _whole(attributes.get("start"), len(items) if step < 0 else 1)
        for item in items:
            number = _whole(item.attributes.get("value"), number)
            marks[item.mem_id] = f"{write_number(number, _NUMBERED.get(kind, 'decimal'))}. "
            number += step
    return marks


def _language(pre: Node) -> str | None:
    """Return the language of code that a class of ``pre``, its ``code`` or its parents names."""
    near = [pre, pre.css_first("code"), pre.parent, pre.parent.parent if pre.parent else None]
    classes = " ".join((node.attributes.get("class") or "") for node in near if node is not None)
    named = (match[1].lower() for match in _LANGUAGE.finditer(classes))
    return next((name for name in named if name not in _NO_LANGUAGE), None)


PLUGIN = parser_plugin("html", 9, parse, HtmlOptions)
