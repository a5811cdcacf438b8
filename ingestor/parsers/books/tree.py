"""Books in XML (FictionBook, DocBook): a tree of elements as a flow of blocks.

A file that is not well-formed is read as plain XML, and says that it is incomplete.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
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


class _LocalNames(dict[object, str]):
    """Of elements, by their tags; each is found out once."""

    def __missing__(self, tag: object) -> str:
        if len(self) > _MOST_NAMES:
            self.clear()
        name = self[tag] = tag.rpartition("}")[2] if isinstance(tag, str) else ""
        return name


_MOST_NAMES = 10_000
LOCAL = _LocalNames()


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
        self._special = frozenset({*self._unsaid, *names.notes, *names.joined, "math"})
        self._boxes = names.tables | names.pictures
        self._apart_names = frozenset({*names.left_out, *names.notes, *inner})

    def block(self, element: Element, level: int = 1) -> None:
        """``level``: of a title that stands in the element."""
        names, name = self._names, LOCAL[element.tag]
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
        inner = [child for child in element if LOCAL[child.tag] in self._blocks]
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
        titles = [child for child in element if LOCAL[child.tag] in self._names.titles]
        others = [child for child in element if child not in titles]
        figure = any(LOCAL[inner.tag] in self._names.pictures for inner in element.iter())
        if not figure:
            self._titles(element)
        for child in others:
            self.block(child, level)
        for title in titles if figure else ():
            self.flow.caption(self._cell(title))

    def _titles(self, element: Element) -> None:
        for child in element:
            if LOCAL[child.tag] in self._names.titles and (said := self._cell(child)):
                self.flow.add("paragraph", said)

    def _picture(self, element: Element) -> None:
        self.flow.figure(*_picture(element))
        caption = next((one for one in element.iter() if LOCAL[one.tag] == "caption"), None)
        if caption is not None and (said := self._cell(caption)):
            self.flow.caption(said)

    def _parts(self, element: Element) -> list[str]:
        if between := self._names.joined.get(LOCAL[element.tag]):
            said = [element.text or ""]
            for child in element:
                said += self.text(child), child.tail or ""
            return [between.join(filter(None, map(str.strip, said)))]
        parts: list[str] = []
        self._gather(element, parts)
        return parts

    def _gather(self, element: Element, parts: list[str]) -> None:
        """Of an element whose parts are not joined in a way of its own."""
        if element.text:
            parts.append(element.text)
        special = self._special
        for child in element:
            if LOCAL[child.tag] in special:
                self._gather_special(child, parts)
            elif len(child):
                self._gather(child, parts)
            elif child.text:
                parts.append(child.text)
            if child.tail:
                parts.append(child.tail)

    def _gather_special(self, element: Element, parts: list[str]) -> None:
        name = LOCAL[element.tag]
        if name in self._unsaid:
            return
        if name in self._names.notes:
            parts.append(self.flow.cite(self.text(_copy(element))))
        elif is_formula(element):
            parts.append(linear(element))
        else:
            parts += self._parts(element)

    def _list(self, element: Element, level: int) -> None:
        numbered = self._names.lists[LOCAL[element.tag]] == "1"
        for count, item in enumerate(self._items(element), 1):
            inside, lists, apart = list[Element](), list[Element](), list[Element]()
            self._sort(item, inside, lists, apart)
            said = " ".join(filter(None, (self.text(item), *map(self.text, inside))))
            if said:
                self.flow.item(said, level, f"{count}." if numbered else "-")
            for inner in lists:
                self._list(inner, level + 1)
            for inner in apart:
                self.block(inner)
        self.flow.flush()

    def _items(self, element: Element) -> Iterator[Element]:
        for child in element:
            if LOCAL[child.tag] in self._names.items:
                yield child
            elif len(child) and LOCAL[child.tag] not in self._names.lists:
                yield from self._items(child)

    def _inside(self, element: Element) -> list[Element]:
        """Paragraphs in it and those in them, without those of lists, tables and pictures in it."""
        found: list[Element] = []
        self._sort(element, found, [], None)
        return found

    def _sort(
        self,
        element: Element,
        inside: list[Element] | None,
        lists: list[Element],
        apart: list[Element] | None,
    ) -> None:
        """Add to ``inside`` what ``_inside`` gives; to ``lists`` those in it, without those in them; to
        ``apart`` tables and pictures, without those of lists and in each other. None: no more of these.
        """
        for child in element:
            name = LOCAL[child.tag]
            if name in self._names.lists:
                lists.append(child)
                continue
            if inside is not None and name in self._names.paragraphs:
                inside.append(child)
            boxed = name in self._boxes
            if boxed and apart is not None:
                apart.append(child)
            if len(child):
                own = None if name in self._apart_names else inside
                self._sort(child, own, lists, None if boxed else apart)

    def _table(self, element: Element) -> None:
        rows = (row for row in element.iter() if LOCAL[row.tag] in self._names.rows)
        self.flow.table(
            [[self._cell(cell) for cell in row if LOCAL[cell.tag] in self._names.cells] for row in rows]
        )

    def _cell(self, cell: Element) -> str:
        """All that it says, in one line."""
        if not len(cell):
            return self.text(cell)
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
        (
            " ".join("".join(one.itertext()).split())
            for one in element.iter()
            if LOCAL[one.tag] == "textobject"
        ),
        "",
    )
    return attributes.get("fileref") or attributes.get("href") or "", attributes.get("alt") or said
