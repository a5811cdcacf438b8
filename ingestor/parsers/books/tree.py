"""Books in XML (FictionBook, DocBook): a tree of elements as a flow of blocks.

A file that is not well-formed is read as plain XML, and says that it is incomplete.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any
from xml.etree.ElementTree import Element

from ingestor.model import Blob, Document
from ingestor.parsers.books.declarations import without_declarations
from ingestor.parsers.data.xml import XmlParser
from ingestor.parsers.shared.flow import Flow
from ingestor.parsers.shared.mathml import is_formula, linear
from ingestor.parsers.shared.package import xml
from ingestor.parsers.shared.raw_xml import of_markup
from ingestor.ports import BadDocument
from ingestor.registry import Options


@dataclass(frozen=True, slots=True)
class Names:
    """Local names of elements by their role. ``links``: attributes that hold the address of a link."""

    sections: frozenset[str]
    titles: frozenset[str]
    paragraphs: Mapping[str, str]  # to the kind of block
    lists: Mapping[str, str]  # to "-" or "1"
    items: frozenset[str]
    rows: frozenset[str]
    cells: frozenset[str]
    tables: frozenset[str]
    pictures: frozenset[str]
    notes: frozenset[str]
    left_out: frozenset[str]
    formal: frozenset[str] = frozenset()  # their title is a caption, and no heading
    joined: Mapping[str, str] = field(default_factory=dict)  # to what stands between their parts


def local(element: Element) -> str:
    return _local(element.tag)


@lru_cache(10_000)
def _local(tag: object) -> str:
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def parsed(blob: Blob, read: Callable[[Element], Document]) -> Document:
    """The document that ``read`` makes of the root; plain XML if ``read`` fails."""
    data = without_declarations(blob.data)
    try:
        document = read(xml(data, blob.name or "file"))
    except BadDocument as error:
        plain = XmlParser(Options()).parse(blob)
        return replace(plain, lost=(f"its structure: {error}",))
    return replace(document, raw_words=of_markup(data))


class BookTree:
    """Adds an element's blocks to ``flow``."""

    def __init__(self, names: Names, flow: Flow) -> None:
        self._names, self.flow = names, flow
        inner = {*names.lists, *names.tables, *names.pictures}
        self._blocks = frozenset({*names.paragraphs, *inner})
        self._unsaid = names.left_out | self._blocks
        self._apart_names = frozenset({*names.left_out, *names.notes, *inner})

    def block(self, element: Element, level: int = 1) -> None:
        """``level``: of a title that stands in the element."""
        names, name = self._names, local(element)
        if name in names.left_out:
            return
        if name in names.titles:
            self.flow.heading(self._cell(element), min(level, 9))
        elif name in names.paragraphs:
            self._paragraph(element, names.paragraphs[name], level)
        elif name in names.lists:
            self._titles(element)
            self._list(element, 0)
        elif name in names.tables:
            self._titles(element)
            self._table(element)
        elif name in names.pictures:
            self._picture(element)
        elif name in names.formal:
            self._formal(element, level)
        else:
            deeper = level + (name in names.sections)
            for child in element:
                self.block(child, deeper)

    def text(self, element: Element) -> str:
        """In one line, unless it is code."""
        if not len(element):  # as of most
            return " ".join((element.text or "").split())
        return " ".join("".join(self._parts(element)).split())

    def _paragraph(self, element: Element, kind: str, level: int) -> None:
        """Lists, tables and the like may stand inside it."""
        if kind == "code":
            self.flow.add(kind, "".join(self._parts(element)))
            self.flow.flush()
            return
        inner = [child for child in element if self._is_block(child)]
        if kind == "quote" and inner:
            self.flow.add(kind, "\n".join(filter(None, map(self.text, self._inside(element)))))
            return
        text = self.text(element)
        if text:
            self.flow.add(kind, text)
        for child in inner:
            self.block(child, level)

    def _formal(self, element: Element, level: int) -> None:
        """A figure's title stands below it, other titles above what they name."""
        titles = [child for child in element if local(child) in self._names.titles]
        others = [child for child in element if child not in titles]
        figure = any(local(inner) in self._names.pictures for inner in element.iter())
        if not figure:
            self._titles(element)
        for child in others:
            self.block(child, level)
        for title in titles if figure else ():
            self.flow.caption(self._cell(title))

    def _titles(self, element: Element) -> None:
        for child in element:
            if local(child) in self._names.titles and (said := self._cell(child)):
                self.flow.add("paragraph", said)

    def _picture(self, element: Element) -> None:
        self.flow.figure(*_picture(element))
        caption = next((one for one in element.iter() if local(one) == "caption"), None)
        if caption is not None and (said := self._cell(caption)):
            self.flow.caption(said)

    def _is_block(self, element: Element) -> bool:
        return local(element) in self._blocks

    def _parts(self, element: Element) -> Iterator[str]:
        if between := self._names.joined.get(local(element)):
            said = [
                element.text or "",
                *(part for child in element for part in (self.text(child), child.tail or "")),
            ]
            yield between.join(filter(None, map(str.strip, said)))
            return
        yield element.text or ""
        for child in element:
            name = local(child)
            if name in self._unsaid:
                pass
            elif name in self._names.notes:
                yield self.flow.cite(self.text(_copy(child)))
            elif is_formula(child):
                yield linear(child)
            elif len(child) or name in self._names.joined:
                yield from self._parts(child)
            else:
                yield child.text or ""
            yield child.tail or ""

    def _list(self, element: Element, level: int) -> None:
        numbered = self._names.lists[local(element)] == "1"
        for count, item in enumerate(self._items(element), 1):
            said = " ".join(filter(None, (self.text(item), *map(self.text, self._inside(item)))))
            if said:
                self.flow.item(said, level, f"{count}." if numbered else "-")
            for inner in self._lists(item):
                self._list(inner, level + 1)
            for inner in self._apart(item):
                self.block(inner)
        self.flow.flush()

    def _items(self, element: Element) -> Iterator[Element]:
        for child in element:
            if local(child) in self._names.items:
                yield child
            elif len(child) and local(child) not in self._names.lists:
                yield from self._items(child)

    def _lists(self, item: Element) -> Iterator[Element]:
        """Those in an item, without those in them."""
        for child in item:
            if local(child) in self._names.lists:
                yield child
            elif len(child):
                yield from self._lists(child)

    def _inside(self, item: Element) -> Iterator[Element]:
        """Paragraphs of an item and those in them, without those of lists, tables and pictures in it."""
        for child in item:
            if local(child) in self._names.paragraphs:
                yield child
            if len(child) and local(child) not in self._apart_names:
                yield from self._inside(child)

    def _apart(self, item: Element) -> Iterator[Element]:
        """Tables and pictures of an item, without those of lists in it."""
        for child in item:
            if local(child) in self._names.tables or local(child) in self._names.pictures:
                yield child
            elif len(child) and local(child) not in self._names.lists:
                yield from self._apart(child)

    def _table(self, element: Element) -> None:
        rows = (row for row in element.iter() if local(row) in self._names.rows)
        self.flow.table(
            [[self._cell(cell) for cell in row if local(cell) in self._names.cells] for row in rows]
        )

    def _cell(self, cell: Element) -> str:
        """All that it says, in one line."""
        return " ".join(filter(None, (self.text(cell), *map(self.text, self._inside(cell)))))


def _copy(element: Element) -> Element:
    """The inner text only: the paragraphs of a note become one line."""
    inner = Element("note")
    inner.text = " ".join("".join(element.itertext()).split())
    return inner


def _picture(element: Element) -> tuple[str, str]:
    attributes: dict[str, Any] = {
        name.rpartition("}")[2]: value for one in element.iter() for name, value in one.attrib.items()
    }
    said = next(
        (" ".join("".join(one.itertext()).split()) for one in element.iter() if local(one) == "textobject"),
        "",
    )
    return attributes.get("fileref") or attributes.get("href") or "", attributes.get("alt") or said
