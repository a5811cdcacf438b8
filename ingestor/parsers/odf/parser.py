"""OpenDocument: texts (ODT), spreadsheets (ODS) and presentations (ODP), zipped or as one flat XML file.

The library anydoc reads texts and slides. Sheets are read here, row by row, because anydoc would hold all
cells of a sheet in memory at once. Sheets and slides become pages.
"""

import re
from collections.abc import Iterator
from itertools import chain
from posixpath import normpath
from xml.etree.ElementTree import Element

from pydantic import Field

from ingestor.model import Blob, Document
from ingestor.parsers.odf.marking import (
    DRAW,
    OFFICE,
    STYLE,
    TABLE,
    TEXT,
    OdfMarking,
    OdfStyles,
    chart_parts,
    comment_of,
    count_words,
)
from ingestor.parsers.office.tree import CHART, read_tree
from ingestor.parsers.shared.flow import Flow
from ingestor.parsers.shared.formulas import is_formula, linear
from ingestor.parsers.shared.numbers import parse_integer
from ingestor.parsers.shared.package import Package, count_odf_words, pack, pictures_only, stream, xml
from ingestor.parsers.shared.plugin import parser_plugin
from ingestor.parsers.shared.sheets import Row, add_sheet, in_columns
from ingestor.ports import BadDocument
from ingestor.registry import Options

_MANIFEST = "{urn:oasis:names:tc:opendocument:xmlns:manifest:1.0}"
_CONTENT, _MANIFEST_PART = "content.xml", "META-INF/manifest.xml"
_MIMETYPE = re.compile(rb"office:mimetype=[\"'](application/[\w.-]+)")
_START = 20_000  # bytes in which a flat file names its type
_WHOLE = (f"{OFFICE}styles", f"{OFFICE}automatic-styles", f"{OFFICE}spreadsheet")


class OdfOptions(Options):
    comments: bool = Field(default=False, description="read comments, as separate blocks")
    hidden_sheets: bool = Field(default=False, description="read hidden sheets")


def parse(blob: Blob, options: OdfOptions) -> Document:
    """Read an OpenDocument file. Raises BadDocument if it is damaged, encrypted or a zip bomb."""
    package = Package(blob.data) if blob.data.startswith(b"PK") else Flat(blob.data)
    if _MANIFEST_PART in package and b"encryption-data" in package.read(_MANIFEST_PART):
        raise BadDocument("is encrypted; save it without a password, or exclude it")
    content_type = _type_of(package)
    sheets = "spreadsheet" in content_type
    content = package.read(_CONTENT)
    if sheets:
        flow = _read_sheets(package, content, options)
    else:
        flow = _read_text(package, content, options, slides="presentation" in content_type)
    meta = chain.from_iterable(package.optional("meta.xml"))
    about = {element.tag.rpartition("}")[2]: plain_text(element) for element in meta}
    return flow.composer.document(
        content_type,
        title=about.get("title") or flow.title or (None if sheets else flow.composer.title),
        language=about.get("language"),
        extra={
            "author": about.get("initial-creator") or about.get("creator"),
            "created": about.get("creation-date"),
            "modified": about.get("date"),
        },
        raw_words=count_odf_words(content),
        lost=pictures_only(package, flow.composer),
    )


class Flat:
    """An OpenDocument in one XML file, which can be read like a package of parts."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.names: list[str] = [_CONTENT]

    def __contains__(self, name: str) -> bool:
        return name == _CONTENT

    def read(self, name: str) -> bytes:
        """Return the whole file, whatever part is asked for: it is the only part."""
        return self._data

    def optional(self, name: str) -> Element:
        """Return the metadata or the styles as the root of a part; an empty element for any other part."""
        root = Element("none")
        if wanted := {"meta.xml": f"{OFFICE}meta", "styles.xml": f"{OFFICE}styles"}.get(name):
            group = Element(wanted)
            group.extend(stream(self._data, name, lambda above: above.tag == wanted))
            root.append(group)
        return root


def _type_of(package: Package | Flat) -> str:
    """Return the content type that a document states in ``mimetype``, its manifest or its root.

    The manifest is needed because some programs omit the part ``mimetype``.
    """
    if isinstance(package, Flat):
        match = _MIMETYPE.search(package.read(_CONTENT), 0, _START)
        return match[1].decode() if match else "application/vnd.oasis.opendocument.text"
    if "mimetype" in package:
        return package.read("mimetype").decode("ascii", "replace").strip()
    entries = package.optional(_MANIFEST_PART)
    types = {entry.get(f"{_MANIFEST}full-path"): entry.get(f"{_MANIFEST}media-type") for entry in entries}
    return types.get("/") or "application/vnd.oasis.opendocument.text"


def _read_text(package: Package | Flat, content: bytes, options: OdfOptions, *, slides: bool) -> Flow:
    """Read a text document, or a presentation if ``slides``, with the library anydoc.

    ``content``: bytes of the part with the text.
    """
    root, styles = xml(content, _CONTENT), package.optional("styles.xml")
    marking = _build_marking(package, styles, options)
    marking.styles.add(root.iter(f"{STYLE}style"))
    marking.rewrite(root)
    root.tag = f"{OFFICE}document-content"
    styles.tag = f"{OFFICE}document-styles"
    changed: dict[str, Element | bytes] = {_CONTENT: root, "styles.xml": styles}
    folders = ("META-INF/", "Pictures/")
    data = pack(package, changed, folders)
    flow = read_tree(data, "odp" if slides else "odt", marking.asides, slides=slides)
    flow.composer.left_out.update(marking.left_out)
    return flow


def _build_marking(package: Package | Flat, styles: Element, options: OdfOptions) -> OdfMarking:
    def read_embedded(name: str) -> Element:
        return package.optional(f"{normpath(name)}/{_CONTENT}") if name else Element("none")

    known = OdfStyles()
    known.add(styles.iter(f"{STYLE}style"))
    return OdfMarking(known, read_embedded, with_comments=options.comments)


def _read_sheets(package: Package | Flat, content: bytes, options: OdfOptions) -> Flow:
    marking, flow, number = _build_marking(package, package.optional("styles.xml"), options), Flow(), 0
    for element in stream(content, _CONTENT, lambda above: above.tag in _WHOLE):
        if element.tag == f"{STYLE}style":
            marking.styles.add([element])
        elif element.tag == f"{TABLE}table":
            if options.hidden_sheets or marking.styles.shows_table(element):
                _read_sheet(flow, marking, element, number, comments=options.comments)
            else:
                flow.composer.left_out["hidden sheets"] += count_words(element)
            number += 1
    flow.flush()
    flow.composer.left_out.update(marking.left_out)
    return flow


def _read_sheet(
    flow: Flow,
    marking: OdfMarking,
    sheet: Element,
    number: int,
    *,
    comments: bool,
) -> None:
    """Add a sheet to ``flow``: its cells, then its drawings, then its comments if ``comments``.

    ``number``: position of the sheet in the document, from 0; it becomes the page.
    """
    add_sheet(flow.composer, number, sheet.get(f"{TABLE}name", ""), rows_of(sheet))
    for shape in _elements_of_drawings(sheet):
        for frame in shape.iter(f"{DRAW}frame"):
            root = marking.object_in(frame)
            if root is not None and is_formula(root):
                flow.add("paragraph", linear(root))
            elif root is not None:
                parts = chart_parts(root)
                rows = [row for table in parts if table.tag == f"{TABLE}table" for _, row in rows_of(table)]
                titles = [(one.text or "").removeprefix(CHART) for one in parts if one.tag == f"{TEXT}p"]
                flow.chart(titles, in_columns(rows))
        for paragraph in shape.iter(f"{TEXT}p"):
            flow.add("paragraph", plain_text(paragraph))
    for annotation in sheet.iter(f"{OFFICE}annotation"):
        author, text = comment_of(annotation)
        if comments:
            flow.comment(author, text)
        else:
            flow.composer.left_out["comments"] += count_words(annotation)
    flow.flush()


def _elements_of_drawings(sheet: Element) -> Iterator[Element]:
    """Yield the outermost drawn elements of a sheet: frames, shapes and groups."""
    inside = set[Element]()
    for element in sheet.iter():
        if element.tag.startswith(DRAW) and element not in inside:
            inside.update(element.iter())
            yield element


# --- rows of a sheet ----------------------------------------------------------------------------------------

_REPEATED = {name: f"{TABLE}number-{name}-repeated" for name in ("rows", "columns")}
_CELLS = (f"{TABLE}table-cell", f"{TABLE}covered-table-cell")
_PARAGRAPH = f"{TEXT}p"
_GROUPS = (f"{TABLE}table-row-group", f"{TABLE}table-rows", f"{TABLE}table-header-rows")
_MOST = 1000  # times that a cell or a row which holds something is repeated
_MOST_SPACES = 100
_VALUES = ("string-value", "date-value", "time-value", "boolean-value", "value")


def rows_of(table: Element) -> Iterator[Row]:
    """Yield each row of a table that holds text, with the row's number, from 1."""
    number = 1
    for row in _rows(table):
        repeated, texts = _count(row, "rows"), dict(_cells(row))
        for at in range(min(repeated, _MOST) if texts else 0):
            yield number + at, texts
        number += repeated


def plain_text(element: Element) -> str:
    """Return the text of an element, such as a cell, on one line, without frames and comments inside."""
    return " ".join("".join(_pieces(element)).split())


def _pieces(element: Element) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if child.tag == f"{TEXT}s":
            yield " " * min(parse_integer(child.get(f"{TEXT}c", "1"), 1), _MOST_SPACES)
        elif child.tag in (f"{TEXT}tab", f"{TEXT}line-break"):
            yield " "
        elif child.tag != f"{OFFICE}annotation" and (
            not child.tag.startswith(DRAW) or child.tag == f"{DRAW}a"
        ):
            yield from _pieces(child)
        yield child.tail or ""
    if element.tag in (f"{TEXT}p", f"{TEXT}h"):
        yield " "


def _rows(element: Element) -> Iterator[Element]:
    for child in element:
        if child.tag == f"{TABLE}table-row":
            yield child
        elif child.tag in _GROUPS:
            yield from _rows(child)


def _cells(row: Element) -> Iterator[tuple[int, str]]:
    column = 0
    for cell in row:
        if cell.tag not in _CELLS:
            continue
        repeated = _count(cell, "columns")
        if len(cell) == 1 and cell[0].tag == _PARAGRAPH and not len(cell[0]):  # as in nearly all
            text = " ".join((cell[0].text or "").split())
        else:
            text = plain_text(cell) if len(cell) else ""
        if not text:
            text = _value(cell)
        for at in range(min(repeated, _MOST) if text else 0):
            yield column + at, text
        column += repeated


def _value(cell: Element) -> str:
    """Return the stored value of a cell as text, for a cell that states no displayed text."""
    value = next((text for name in _VALUES if (text := cell.get(f"{OFFICE}{name}"))), "")
    kind = cell.get(f"{OFFICE}value-type")
    if kind == "percentage":
        try:
            return f"{float(value) * 100:.10g}%"
        except (ValueError, OverflowError):
            return value
    if kind == "boolean":
        return value.upper()
    return f"{value} {cell.get(f'{OFFICE}currency', '')}".strip()


def _count(element: Element, name: str) -> int:
    text = element.get(_REPEATED[name])
    return 1 if text is None else max(parse_integer(text, 1), 1)


PLUGIN = parser_plugin("odf", 8, parse, OdfOptions)
