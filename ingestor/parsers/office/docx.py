"""Word documents (DOCX): headings with their numbers, lists, tables, code, links, footnotes, figures, charts.

Page numbers are those that Word noted when it last laid the document out; other programs note none.
"""

import re
from collections.abc import Iterator
from functools import cache, cached_property
from xml.etree.ElementTree import Element

from pydantic import Field

from ingestor.model import Blob, Document
from ingestor.parsers.office.docx_styles import DocxStyle, DocxStyles, W, kind, lists
from ingestor.parsers.office.docx_text import DocxInline, Related, count_words
from ingestor.parsers.office.drawing import CHART, DIAGRAM, lines, rows, titles
from ingestor.parsers.office.properties import about, pictures_only
from ingestor.parsers.shared.flow import CAPTION, Flow, FlowText
from ingestor.parsers.shared.numbers import ListNumbers
from ingestor.parsers.shared.package import Package, stream, xml
from ingestor.parsers.shared.raw_xml import of_office
from ingestor.parsers.shared.whole import whole
from ingestor.registry import Options, Plugin

_CONTENT_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_AROUND = {
    *(f"{W}sdt", f"{W}sdtContent", f"{W}customXml", f"{W}ins", f"{W}moveTo", f"{W}txbxContent"),
    *(f"{_MC}AlternateContent", f"{_MC}Choice"),
}
_LATENT = re.compile(rb"<w:latentStyles\b.*?</w:latentStyles>", re.DOTALL)
_PARAGRAPH, _PROPERTIES = f"{W}p", f"{W}pPr"
_PAGE_BREAK = b"lastRenderedPageBreak"


class DocxOptions(Options):
    comments: bool = Field(default=False, description="whether comments are read, as blocks of their own")


class DocxParser:
    isolated = True

    def __init__(self, options: DocxOptions) -> None:
        self._comments = options.comments

    def parse(self, blob: Blob) -> Document:
        """Raises BadDocument when it is damaged, encrypted or a bomb."""
        package = Package(blob.data)
        part = package.main_part("word/document.xml")
        content = package.read(part)
        reader = _Reader(package, part, comments=self._comments)
        reader.read(content)
        properties = about(package)
        composer = reader.flow.composer
        return Document(
            text=composer.text,
            blocks=tuple(composer.blocks),
            content_type=_CONTENT_TYPE,
            title=properties.title or reader.flow.title or composer.title,
            language=properties.language or reader.styles.language,
            extra=properties.extra,
            raw_words=of_office(content),
            left_out=composer.left_out,
            lost=pictures_only(package, composer),
        )


class _Reader:
    def __init__(self, package: Package, part: str, *, comments: bool) -> None:
        self.flow = Flow()
        relations = package.relations(part)
        named = dict(relations.values())
        self.styles = DocxStyles(_styles(package, named.get("styles", "")))
        self._package, self._numbering = package, named.get("numbering", "")
        self._inline = DocxInline(_related(package, relations, comments=comments), self.flow)
        self._part = part
        self._initial: list[str] = []  # a letter set large, while the rest of its word is below it

    @cached_property
    def _lists(self) -> ListNumbers:
        return lists(self._package.optional(self._numbering))

    def read(self, content: bytes) -> None:
        if _PAGE_BREAK in content:
            self.flow.begin_page(0)
        for element in stream(content, self._part, lambda above: above.tag == f"{W}body"):
            self._block(element)
        self.flow.add("paragraph", "".join(self._initial))
        self.flow.flush()

    def _block(self, element: Element) -> None:
        """A paragraph, a table, or what stands around some."""
        tag = element.tag
        if tag == _PARAGRAPH:
            self._paragraph(element)
        elif tag == f"{W}tbl":
            self._table(element)
        elif tag in _AROUND:
            for child in element:
                self._block(child)
        elif tag == f"{CHART}chartSpace":
            self.flow.chart(titles(element), rows(element))
        elif tag == f"{DIAGRAM}dataModel":
            for line in lines(element):
                self.flow.item(line, 0, "-")

    def _paragraph(self, element: Element) -> None:
        said = self._inline.of(element)
        self.flow.turn(said.pages_before)
        said.parts[:0] = self._initial
        properties = element.find(_PROPERTIES)
        self._initial = said.parts if _is_initial(properties) else []
        if self._initial:
            return
        if said.text.strip():
            self._add(said, self.styles.of(properties))
        elif said.pictures:
            self._add_pictures(said)
        else:
            self.flow.blank()
        self.flow.turn(said.pages_after)
        for frame in said.frames:
            self._block(frame)

    def _add_pictures(self, said: FlowText) -> None:
        for name, description in said.pictures:
            self.flow.figure(name, description)

    def _add(self, said: FlowText, style: DocxStyle) -> None:
        """Pictures beside text follow it, unless it is their caption."""
        text, captions = said.text, bool(CAPTION.match(style.name))
        if captions:
            self._add_pictures(said)
        self._add_text(text, style, captions=captions)
        if not captions:
            self._add_pictures(said)

    def _add_text(self, text: str, style: DocxStyle, *, captions: bool) -> None:
        level = style.list_level or 0
        listed = style.list_id not in ("", "0")
        marker = self._lists.marker(style.list_id, level) if listed else ""
        if style.level:
            self.flow.heading(text, style.level, marker)
        elif style.name == "title":
            self.flow.main_title(text)
        elif listed:
            self.flow.item(text, level, marker or "-")
        elif captions:
            self.flow.caption(text)
        else:
            self.flow.add(kind(style), text)

    def _table(self, table: Element) -> None:
        """A table of one cell is a frame around blocks."""
        rows = [list(_inside(row, f"{W}tc")) for row in _inside(table, f"{W}tr")]
        if len(rows) == 1 and len(rows[0]) == 1:
            for child in rows[0][0]:
                self._block(child)
            return
        pages = sum(1 for _ in table.iter(f"{W}lastRenderedPageBreak"))
        self.flow.table([cell for tc in row for cell in self._cells(tc)] for row in rows)
        self.flow.turn(pages)

    def _cells(self, cell: Element) -> Iterator[str]:
        """The cell's text, and empty cells for the other columns that it spans."""
        properties = cell.find(f"{W}tcPr")
        merged = None if properties is None else properties.find(f"{W}vMerge")
        goes_on = merged is not None and merged.get(f"{W}val", "continue") == "continue"
        text = " ".join(self._inline.of(p).text for p in cell.iter(f"{W}p"))
        if goes_on:
            self.flow.composer.leave_out("cells that others cover", count_words(cell))
        yield "" if goes_on else text
        span = None if properties is None else properties.find(f"{W}gridSpan")
        width = "1" if span is None else span.get(f"{W}val", "1")
        yield from [""] * (min(whole(width, 1), 100) - 1)


def _related(package: Package, relations: dict[str, tuple[str, str]], *, comments: bool) -> Related:
    named = dict(relations.values())

    @cache
    def noted(kind: str) -> dict[str, Element]:
        return {note.get(f"{W}id", ""): note for note in package.optional(named.get(kind, ""))}

    return Related(
        links={id_: target for id_, (kind, target) in relations.items() if kind == "hyperlink"},
        pictures={id_: target for id_, (kind, target) in relations.items() if kind == "image"},
        note=lambda kind, id_: noted(kind).get(id_) if comments or kind != "comments" else None,
        part=lambda relation: package.optional(relations.get(relation, ("", ""))[1]),
    )


def _styles(package: Package, part: str) -> Element:
    """Without the long list of what styles would look like that the document does not have."""
    if part not in package:
        return package.optional(part)
    data = package.read(part)
    return xml(data if b"<!" in data else _LATENT.sub(b"", data), part)


def _is_initial(properties: Element | None) -> bool:
    """Whether a paragraph is the large first letter of the one below it."""
    frame = None if properties is None else properties.find(f"{W}framePr")
    return frame is not None and frame.get(f"{W}dropCap") in ("drop", "margin")


def _inside(element: Element, tag: str) -> Iterator[Element]:
    """Children of that tag, also those in content controls."""
    for child in element:
        if child.tag == tag:
            yield child
        elif child.tag in _AROUND:
            yield from _inside(child, tag)


PLUGIN = Plugin(kind="docx", version=5, options=DocxOptions, build=DocxParser)
