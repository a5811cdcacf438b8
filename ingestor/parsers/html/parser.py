"""HTML: the text a reader sees, with headings, lists, tables and code.

``selectolax`` makes the tree as browsers do, whatever the markup; ``page`` reduces it to what is read. One
pass without recursion makes the blocks: block-level elements end the paragraph that is being collected, and
all else adds to it. A list is one block unless it holds code, tables or headings; its items are walked
through then, and so are the cells of a table that serves the layout.
"""

import re
from typing import Literal

from pydantic import Field

from ingestor.model import Blob, Document
from ingestor.parsers.html.page import BLOCKS, BREAK, HtmlPage, Node, children, one_line, raw_words, styles
from ingestor.parsers.html.tags import words
from ingestor.parsers.shared.compose import Composer
from ingestor.parsers.shared.decode import decode
from ingestor.parsers.shared.grid import SpannedCell, grid
from ingestor.parsers.shared.numbers import written
from ingestor.registry import Options, Plugin
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
_TABLE_PARTS = words("thead tbody tfoot")
_NUMBER = re.compile(r"\s*([+-]?\d{1,9})")
_NUMBERED = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"} | {
    f"{case}-{name}": f"{case}{style}"
    for case in ("lower", "upper")
    for name, style in (("alpha", "Letter"), ("latin", "Letter"), ("roman", "Roman"))
}
_DEEPEST_INDENT = 10
_LANGUAGE = re.compile(r"(?:language|lang|highlight|highlight-source|brush|src)[-:]\s?([A-Za-z][\w+#]*)")
_NO_LANGUAGE = words("default none text plaintext plain notranslate source")


class HtmlOptions(Options):
    mode: Literal["main", "full"] = Field(
        default="main",
        description="`main` leaves out navigation, sidebars, headers and footers, and takes only what is "
        "marked as the main content where the page marks it; `full` takes all that is visible",
    )
    links: bool = Field(
        default=False,
        description="whether links to other sites keep their addresses: `[text](https://…)`; they are found"
        " then, but take up room in chunks",
    )


class HtmlParser:
    isolated = True

    def __init__(self, options: HtmlOptions) -> None:
        self._main, self._links = options.mode == "main", options.links

    def parse(self, blob: Blob) -> Document:
        """Raises BadDocument when the content is not text, or its tags are tangled beyond reason."""
        sent = _DECLARED.search(blob.content_type or "")
        named = sent or _CHARSET.search(blob.data, 0, _HEAD)
        encoding = named[1] if named else None
        source = decode(
            blob.data, encoding.decode("ascii", "replace") if isinstance(encoding, bytes) else encoding
        )
        is_xhtml = blob.name.lower().endswith((".xhtml", ".xht"))
        return self.read(source, "application/xhtml+xml" if is_xhtml else "text/html")

    def read(self, source: str, content_type: str = "text/html") -> Document:
        """All of the page where its main content is nowhere to be seen. Raises BadDocument."""
        composer = Composer()
        page, raw = self._add(composer, source, main=self._main)
        if not composer.blocks and self._main:
            composer = Composer()
            page, raw = self._add(composer, source, main=False)
        about = _about(page)
        html = page.tree.css_first("html")
        declared = html.attributes if html else {}
        language = declared.get("lang") or declared.get("xml:lang") or about.get("content-language") or ""
        extra = {
            key: next((about[name] for name in names if about.get(name)), None)
            for key, names in (("author", _AUTHOR), ("date", _DATE))
        }
        scripted = not composer.blocks and page.has_scripts
        made = "its text is made by scripts, which are not run: save the page as a browser shows it"
        return Document(
            text=composer.text,
            blocks=tuple(composer.blocks),
            content_type=content_type,
            title=page.title or next((one.title for one in composer.blocks if one.level), None),
            language=language.strip().replace("_", "-") or None,
            extra=tuple((key, value) for key, value in extra.items() if value),
            raw_words=raw,
            left_out=composer.left_out,
            lost=(made,) if scripted else (),
        )

    def add(self, composer: Composer, source: str) -> int:
        """Add the blocks of all that is visible. Returns how many words the page holds."""
        return self._add(composer, source, main=False)[1]

    def _add(self, composer: Composer, source: str, *, main: bool) -> tuple[HtmlPage, int]:
        page = HtmlPage(source, main=main, links=self._links)
        nodes = page.content() if main else [page.root]
        for node in nodes:
            _Walk(composer).walk(node)
        for rule, count in page.left_out.items():
            composer.leave_out(rule, count)
        return page, sum(map(raw_words, nodes)) + sum(page.left_out.values())


class _Walk:
    def __init__(self, composer: Composer) -> None:
        self._composer = composer
        self._inline: list[str] = []
        self._quotes = 0
        self._mark = ""  # of an item of a list that is walked through
        self._holders = frozenset[int]()  # elements that hold code, tables, headings or figures
        self._headed = frozenset[int]()  # tables with header cells of their own
        self._marks: dict[int, str] = {}  # of items of numbered lists

    def walk(self, root: Node) -> None:
        """Add the blocks of the tree below ``root``, and of itself."""
        self._look(root)
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
            elif tag not in BLOCKS:
                todo += _last_first(node)
            else:
                self._end_paragraph()
                if not self._add_whole(node, tag):
                    self._quotes += tag == "blockquote"
                    todo += [tag, *_last_first(node)]
        self._end_paragraph()

    def _look(self, root: Node) -> None:
        """Find out which elements hold what makes them more than one block, each looked at once."""
        holders, headed = set[int](), set[int]()
        for inner in root.css("pre, table, h1, h2, h3, h4, h5, h6, figure"):
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

    def _end_paragraph(self) -> None:
        if not self._inline:
            return
        lines = "".join(self._inline).split(BREAK)
        self._inline.clear()
        if text := "\n".join(" ".join(line.split()) for line in lines).strip():
            self._composer.add("quote" if self._quotes else "paragraph", self._mark + text)
        self._mark = "" if text else self._mark

    def _add_whole(self, node: Node, tag: str) -> bool:
        """Add an element that is one block."""
        if tag in _HEADINGS:
            title = _line(node)
            self._composer.add(
                "heading", title, level=_HEADINGS[tag], title=title, number=heading_number(title)
            )
        elif tag == "pre":
            self._composer.add("code", _text(node).replace(BREAK, "\n"), language=_language(node))
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
        return table.mem_id in self._holders or sum(map(len, _rows(table))) < 2

    def _add_table(self, table: Node) -> None:
        for child in children(table):
            if child.tag == "caption":
                self._composer.add("paragraph", _line(child))
        self._composer.table(
            row for part in _rows(table) for row in grid([[*map(_cell, row)] for row in part])
        )

    def _list(self, root: Node) -> str:
        """Return the items of a list, a line each, indented by level."""
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
        said = ((mark, " ".join("".join(parts).split())) for mark, parts in lines)
        return "\n".join(f"{mark}{text}" for mark, text in said if text)


def _last_first(node: Node) -> list[Node | str]:
    """Return the children of a node, last first, as a stack takes them."""
    found: list[Node | str] = []
    child = node.last_child
    while child is not None:
        found.append(child)
        child = child.prev
    return found


def _text(root: Node) -> str:
    """All that is below a node, blocks set apart by a space."""
    parts: list[str] = []
    todo = _last_first(root)
    while todo:
        node = todo.pop()
        if isinstance(node, str):
            parts.append(node)
        elif node.is_text_node:
            parts.append(node.text_content or "")
        elif node.tag == "br":
            parts.append(BREAK)
        else:
            if node.tag in BLOCKS and node.tag != "pre":
                parts.append(" ")
                todo.append(" ")
            todo += _last_first(node)
    return "".join(parts)


def _line(node: Node) -> str:
    return one_line(_text(node))


def _rows(table: Node) -> list[list[list[Node]]]:
    """Cells of its own rows, by the part of the table that they belong to: no cell reaches beyond it."""
    parts = [child for child in children(table) if child.tag in _TABLE_PARTS]
    rows = [[row for row in children(part) if row.tag == "tr"] for part in parts]
    return [[[cell for cell in children(row) if cell.tag in ("td", "th")] for row in part] for part in rows]


def _cell(node: Node) -> SpannedCell:
    attributes = node.attributes
    return SpannedCell(
        _line(node), _whole(attributes.get("colspan"), 1), _whole(attributes.get("rowspan"), 1)
    )


def _whole(text: str | None, default: int) -> int:
    found = _NUMBER.match(text or "")
    return int(found[1]) if found else default


def _marks(root: Node) -> dict[int, str]:
    """The numbers of items, as they are shown, by the item's identity."""
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
            marks[item.mem_id] = f"{written(number, _NUMBERED.get(kind, 'decimal'))}. "
            number += step
    return marks


def _language(pre: Node) -> str | None:
    """Return the language of code, named by a class of ``pre``, its ``code`` or its ancestors."""
    near = [pre, pre.css_first("code"), pre.parent, pre.parent.parent if pre.parent else None]
    classes = " ".join((node.attributes.get("class") or "") for node in near if node is not None)
    named = (found[1].lower() for found in _LANGUAGE.finditer(classes))
    return next((name for name in named if name not in _NO_LANGUAGE), None)


def _about(page: HtmlPage) -> dict[str, str]:
    """The page's meta elements, the first of each name."""
    found: dict[str, str] = {}
    for meta in page.tree.css("meta[content]"):
        attributes = meta.attributes
        name = attributes.get("name") or attributes.get("property") or attributes.get("http-equiv") or ""
        found.setdefault(name.lower(), one_line(attributes.get("content") or ""))
    return found


PLUGIN = Plugin(kind="html", version=4, options=HtmlOptions, build=HtmlParser)
