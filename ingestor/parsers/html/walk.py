"""From the tree of an HTML page to blocks: one pass, no recursion.

Block-level elements end the paragraph that is being collected; everything else adds to it. A list is one
block unless it holds code, tables or headings, then its items are walked through one by one; and so are
the cells of a table that is there for the layout.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ingestor.core.completeness import words as count_words
from ingestor.parsers.html.inline import cites, description, formula, is_formula
from ingestor.parsers.html.nodes import (
    MOST_COLUMNS,
    Node,
    children,
    columns,
    is_figure,
    is_layout,
    is_named,
    language,
    last_first,
    with_title,
)
from ingestor.parsers.html.skipped import AROUND_TAGS, is_skipped
from ingestor.parsers.html.tags import words
from ingestor.parsers.shared.compose import Composer
from ingestor.parsers.shared.numbers import raised
from ingestor.text.outline import heading_number

_BREAK = "\0"  # stands for <br>; the tree holds no NUL
NEVER = words(
    "script style template noscript svg iframe canvas audio video object select button textarea input "
    "rp title -comment -doctype"
)
_BLOCKS = words(
    "address article aside blockquote body caption center dd details dialog dir div dl dt fieldset "
    "figcaption figure footer form h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li main menu nav ol "
    "p pre section summary table tbody td tfoot th thead tr ul"
)
_APART = _BLOCKS | {"br"}
_SPACED = frozenset(mark for tag in _BLOCKS - {"pre"} for mark in (tag, f"/{tag}"))
_LISTS = frozenset(("ul", "ol", "menu", "dir"))
_WITH_MORE = words("math img sup a")  # than their inner text
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_ONE_BLOCK = words("pre dt figure table") | _LISTS | _HEADINGS.keys()  # or what they hold is walked through
# Elements of other names are neither skipped nor replaced, unless by their attributes.
TO_LOOK_AT = NEVER | _WITH_MORE | AROUND_TAGS
_SIGNATURE = frozenset(("sig",))  # Sphinx: of a function
_ABSOLUTE = ("https://", "http://", "mailto:")
_DEEPEST_INDENT = 10
_ENOUGH = 140  # visible characters that make an element the page's main content


@dataclass(slots=True)
class PageWalk:
    """``looked_at``: names of elements that may be skipped or replaced; ``main``: only the main content;
    ``links``: with the addresses of links."""

    looked_at: frozenset[str]
    main: bool
    links: bool = False
    composer: Composer = field(default_factory=Composer)
    first_heading: str | None = None
    content: Node = None  # the element that was read; set by ``walk``
    _inline: list[str] = field(default_factory=list)
    _quotes: int = 0

    def walk(self, root: Node) -> None:
        """Add the blocks of the tree below ``root``."""
        self.content = self._content(root) if self.main else root
        todo: list[Node | str] = [self.content]  # a str: an element ends here
        while todo:
            node = todo.pop()
            if isinstance(node, str):
                self._end_paragraph()
                self._quotes -= node == "blockquote"
            elif node.is_text_node:
                text = node.text_content or ""
                if self._inline or not text.isspace():  # as between two blocks
                    self._inline.append(text)
            elif (tag := node.tag) in self.looked_at and (
                said := self._instead(node, tag, self.links)
            ) is not None:
                self._inline.append(said)
            else:
                todo.extend(self._opened(node, tag))
        self._end_paragraph()

    def _opened(self, node: Node, tag: str) -> list[Node | str]:
        """The steps for an element, the last first."""
        if tag == "br":
            self._inline.append(_BREAK)
        if tag not in _BLOCKS:
            return last_first(node)
        self._end_paragraph()
        if tag in _ONE_BLOCK and self._add_whole(node, tag):
            return []
        self._quotes += tag == "blockquote"
        return [tag, *last_first(node)]

    def _end_paragraph(self) -> None:
        if not self._inline:
            return
        text = paragraph("".join(self._inline))
        self._inline.clear()
        if text:  # not only the white space between two elements
            self.composer.add("quote" if self._quotes else "paragraph", text)

    def _add_whole(self, node: Node, tag: str) -> bool:
        """Add an element that is one block."""
        if tag in _HEADINGS:
            self._add_heading(node, _HEADINGS[tag])
        elif tag == "pre":
            self.composer.add("code", self._text(node).replace(_BREAK, "\n"), language=language(node))
        elif tag == "dt":
            symbol = node.id if is_named(node.attributes, _SIGNATURE) else None
            self.composer.add("definition", one_line(self._text(node)), symbol=symbol)
        elif tag in _LISTS and not node.css_first("pre, table, h1, h2, h3, h4, h5, h6"):
            self.composer.add("list", self._list(node))
        elif tag == "figure" and is_figure(node):
            picture = node.css_first("img[src]")
            source = picture.attributes.get("src") if picture else None
            self.composer.add("figure", one_line(self._text(node)), figure=source)
        elif tag == "table" and not is_layout(node):
            self._add_table(node)
        else:
            return False
        return True

    def _add_heading(self, node: Node, level: int) -> None:
        title = one_line(self._text(node))
        self.first_heading = self.first_heading or title
        self.composer.add("heading", title, level=level, title=title, number=heading_number(title))

    def _add_table(self, node: Node) -> None:
        caption = node.css_first("caption")
        if caption:
            self.composer.add("paragraph", one_line(self._text(caption)))
        rows = [self._row(row) for row in node.css("tr")]
        self.composer.table(rows)

    def _row(self, row: Node) -> list[str]:
        cells: list[str] = []
        for node in children(row):
            if (tag := node.tag) in ("td", "th") and not is_skipped(tag, node.attributes, main=self.main):
                cells += [one_line(self._text(node, self.links)), *[""] * (columns(node) - 1)]
        return cells[:MOST_COLUMNS]

    def _list(self, root: Node) -> str:
        """Its items, a line each; the level shows in the indentation."""
        lines, marks = [""], [_Marks(root.tag == "ol")]
        for tag, said in self._events(root, self.links):
            if tag == "-text":
                lines[-1] += said
            elif tag in _LISTS:
                marks.append(_Marks(tag == "ol"))
                lines.append("")
            elif tag[1:] in _LISTS:
                marks.pop()
                lines.append("")
            elif tag == "li":
                lines.append(f"{_indent(marks)}{marks[-1].next()}{_BREAK}")
            else:
                lines[-1] += " "
        return "\n".join(filter(None, map(_item, lines)))

    def _text(self, root: Node, links: bool = False) -> str:
        """All that is visible below a node, blocks set apart by a space."""
        only = root.first_child
        if only is not None and only.next is None and only.tag == "-text":  # nearly all cells and titles
            text = only.text_content or ""
        else:
            text = "".join(self._parts(root, links))
        return f" {text} " if root.tag in _SPACED else text

    def _parts(self, root: Node, links: bool) -> list[str]:
        """What is inside it and not skipped, blocks set apart by a space."""
        parts: list[str] = []
        todo: list[Node | str] = last_first(root)
        while todo:
            node = todo.pop()
            if isinstance(node, str):
                parts.append(node)
            elif node.is_text_node:
                parts.append(node.text_content or "")
            elif (tag := node.tag) in self.looked_at and (
                said := self._instead(node, tag, links)
            ) is not None:
                parts.append(said)
            else:
                if tag == "br":
                    parts.append(_BREAK)
                elif tag in _SPACED:
                    parts.append(" ")
                    todo.append(" ")
                todo += last_first(node)
        return parts

    def _events(self, root: Node, links: bool) -> Iterator[tuple[str, str]]:
        """What is inside it and not skipped: ("-text", its text); ("br", ""); where an element that stands
        apart begins and ends, ("p", "") and ("/p", "").
        """
        todo: list[Node | str] = last_first(root)
        while todo:
            node = todo.pop()
            if isinstance(node, str):
                yield node, ""
            elif node.is_text_node:
                yield "-text", node.text_content or ""
            elif (tag := node.tag) in self.looked_at and (
                said := self._instead(node, tag, links)
            ) is not None:
                yield "-text", said
            else:
                if tag in _APART:
                    yield tag, ""
                    todo.append(f"/{tag}")
                todo.extend(last_first(node))

    def _instead(self, node: Node, tag: str, links: bool) -> str | None:
        """What is read instead of an element's children: "" of one that is skipped, None of most."""
        attributes = node.attributes
        skipped = tag in NEVER or is_skipped(tag, attributes, main=self.main)
        if tag in _WITH_MORE and (said := self._said(node, tag, attributes, links, skipped)) is not None:
            return said
        if skipped:
            self._leave_out(node, tag)
            return ""
        return None

    def _said(
        self, node: Node, tag: str, attributes: Mapping[str, str | None], links: bool, skipped: bool
    ) -> str | None:
        """The text of elements with more than their inner text: formulas, pictures, raised numbers, links."""
        if tag == "math":
            return formula(node)
        if tag == "img" and (not skipped or is_formula(node)):
            return description(node)
        if skipped:
            return None
        if tag == "sup" or (tag == "a" and cites(attributes)):
            text = node.text().strip()  # raised in raised ones: looked through once for each, not for all
            if (high := raised(text)) != text:
                return high
        return self._link(node) if tag == "a" and links else None

    def _link(self, node: Node) -> str | None:
        """In Markdown's form, unless it leads to another place of the site, or its text is the address."""
        address = (node.attributes.get("href") or "").strip()
        if not address.startswith(_ABSOLUTE) or any(child.tag in _BLOCKS for child in children(node)):
            return None
        text = self._text(node)
        return f"[{one_line(text)}]({address})" if text.strip() and text.strip() not in address else None

    def _leave_out(self, node: Node, tag: str) -> None:
        if tag not in NEVER:
            self.composer.leave_out("navigation and hidden parts", count_words(node.text(separator=" ")))

    def _content(self, root: Node) -> Node:
        """The one element that is marked as the main content, else all."""
        for marked in ("main, [role=main]", "article"):
            found = root.css(marked)
            if len(found) == 1 and _says_enough(found[0].text()):
                return with_title(found[0])
        return root


@dataclass(slots=True)
class _Marks:
    """The marks of one list's items."""

    numbered: bool
    count: int = 0

    def next(self) -> str:
        self.count += 1
        return f"{self.count}. " if self.numbered else "- "


def _says_enough(text: str) -> bool:
    return any(len(one_line(said)) >= _ENOUGH for said in (text[: 10 * _ENOUGH], text))


def one_line(text: str) -> str:
    return " ".join(text.replace(_BREAK, " ").split())


def paragraph(text: str) -> str:
    """White space collapsed, lines broken where the page breaks them."""
    if _BREAK not in text:
        return " ".join(text.split())
    return "\n".join(" ".join(line.split()) for line in text.split(_BREAK))


def _item(line: str) -> str:
    mark, _, text = line.rpartition(_BREAK)
    words = " ".join(text.split())
    return f"{mark}{words}" if words else ""


def _indent(marks: list[_Marks]) -> str:
    return "  " * min(len(marks) - 1, _DEEPEST_INDENT)
