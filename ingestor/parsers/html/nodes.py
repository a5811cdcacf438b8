"""What an element of an HTML page is, by its names and by what stands in it. Pure."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from ingestor.parsers.html.tags import words

Node = Any  # selectolax.lexbor.LexborNode

LANGUAGE = re.compile(r"(?:language|lang|highlight|highlight-source|brush|src)[-:]\s?([A-Za-z][\w+#]*)")
_NOLANGUAGE = words("default none text plaintext plain notranslate source")
MOST_COLUMNS = 100
_SHORT = 100  # characters


def with_title(content: Node) -> Node:
    """The innermost element around it that holds the page's main heading, unless that is the whole page.

    JSDoc puts the title before the article, and both into one element.
    """
    node = content
    while node is not None and node.tag not in ("body", "html"):
        if node.css_first("h1"):
            return node
        node = node.parent
    return content


def children(node: Node) -> Iterator[Node]:
    child = node.first_child
    while child is not None:
        yield child
        child = child.next


def last_first(node: Node) -> list[Node]:
    """Its children, as a stack takes them."""
    found = []
    child = node.last_child
    while child is not None:
        found.append(child)
        child = child.prev
    return found


def is_named(attributes: Mapping[str, str | None], names: frozenset[str]) -> bool:
    """Whether one of these is a class or the id of the element."""
    said = f"{attributes.get('class') or ''} {attributes.get('id') or ''}"
    return _known(said, names) if len(said) < _SHORT else _holds(said, names)


def _holds(said: str, names: frozenset[str]) -> bool:
    return not names.isdisjoint(said.split())


_known = lru_cache(10_000)(_holds)  # a page has few classes


def is_figure(node: Node) -> bool:
    """A picture with its caption; a listing or table with a caption is read as such."""
    return bool(node.css_first("img, svg, video, canvas")) and not node.css_first(
        "pre, table, ul, ol, dl, figure figure, h1, h2, h3, h4, h5, h6"
    )


def is_layout(node: Node) -> bool:
    if node.attributes.get("role") in ("presentation", "none"):
        return True
    return bool(node.css_first("td table, th table, h1, h2, h3, h4, pre")) or len(node.css("tr")) < 2


def columns(node: Node) -> int:
    spanned = node.attributes.get("colspan") or ""
    return min(int(spanned), MOST_COLUMNS) if spanned.isdecimal() and len(spanned) < 4 else 1


def language(pre: Node) -> str | None:
    """Of code: named by a class of the element, of its only child or of what it stands in."""
    near = [pre, pre.css_first("code"), pre.parent, pre.parent.parent if pre.parent else None]
    classes = " ".join((node.attributes.get("class") or "") for node in near if node is not None)
    named = (found[1].lower() for found in LANGUAGE.finditer(classes))
    return next((name for name in named if name not in _NOLANGUAGE), None)
