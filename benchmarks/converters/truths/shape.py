"""Content of a document, and functions that readers of XML and of bytes share."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from lxml import etree


@dataclass
class Truth:
    text: list[str] = field(default_factory=list)
    headings: list[str] | None = None
    rows: list[list[str]] | None = None
    open: list[str] = field(default_factory=list)


def xml(data: bytes) -> Any:
    return etree.fromstring(data, etree.XMLParser(recover=True, resolve_entities=False, huge_tree=True))


def local(node: Any) -> str:
    return etree.QName(node).localname if isinstance(node.tag, str) else ""


def spoken(node: Any, take: set[str], skip: set[str]) -> str:
    """Return the text of the elements ``take`` below a node, in order."""
    if local(node) in skip:
        return ""
    own = (
        (node.text or "") if local(node) in take else {"tab": " ", "br": " ", "cr": " "}.get(local(node), "")
    )
    return own + "".join(spoken(child, take, skip) for child in node)


def tabular(rows: Iterator[list[str]]) -> list[list[str]]:
    kept = ([cell for cell in row if cell.strip()] for row in rows)
    return [row for row in kept if len(row) > 1]


_MARKS = {b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


def decoded(data: bytes) -> str:
    """Decode bytes by their mark, else as UTF-8 or Windows-1252."""
    for mark, encoding in _MARKS.items():
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")
