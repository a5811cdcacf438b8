"""OpenDocument: texts (ODT), spreadsheets (ODS) and presentations (ODP), also flat.

Texts give headings, lists, tables, code, links and footnotes, and pages where the writing program noted them.
Sheets and slides become pages as those of XLSX and PPTX do.
"""

import re
from collections.abc import Iterator
from posixpath import normpath
from xml.etree.ElementTree import Element

from pydantic import Field

from ingestor.core.completeness import words
from ingestor.model import Blob, Document, Scalar
from ingestor.parsers.odf.inline import DRAW, OFFICE, PRESENTATION, STYLE, TABLE, TEXT, OdfInline, count_words
from ingestor.parsers.odf.lists import STYLES
from ingestor.parsers.odf.plain import PlainRow, plain_sheets
from ingestor.parsers.odf.table import row_texts
from ingestor.parsers.odf.text import OdfReader, OdfStyles
from ingestor.parsers.office.properties import pictures_only
from ingestor.parsers.shared.flow import Flow
from ingestor.parsers.shared.package import Package, stream
from ingestor.parsers.shared.plain_rows import PlainRows
from ingestor.parsers.shared.raw_xml import of_odf
from ingestor.parsers.shared.sheets import add_sheet
from ingestor.ports import BadDocument
from ingestor.registry import Options, Plugin

_MANIFEST = "{urn:oasis:names:tc:opendocument:xmlns:manifest:1.0}"
_CONTENT = "content.xml"
_MIMETYPE = re.compile(rb"office:mimetype=[\"'](application/[\w.-]+)")
_START = 20_000  # bytes in which a flat file names its type
_WHOLE = (
    f"{OFFICE}styles",
    f"{OFFICE}automatic-styles",
    f"{OFFICE}text",
    f"{OFFICE}presentation",
    f"{OFFICE}spreadsheet",
)
_STYLES = frozenset((f"{STYLE}style", *STYLES))
_HIDDEN = b'table:display="false"'
_TITLE = "title"  # of a slide, as presentations class their shapes
_ABOUT = {"initial-creator": "author", "creator": "author", "creation-date": "created", "date": "modified"}


class OdfOptions(Options):
    comments: bool = Field(default=False, description="whether comments are read, as blocks of their own")
    hidden_sheets: bool = Field(default=False, description="whether sheets that are not shown are read")


class OdfParser:
    isolated = True

    def __init__(self, options: OdfOptions) -> None:
        self._options = options

    def parse(self, blob: Blob) -> Document:
        """Raises BadDocument when it is damaged, encrypted or a bomb."""
        package = Package(blob.data) if blob.data.startswith(b"PK") else Flat(blob.data)
        if "META-INF/manifest.xml" in package and b"encryption-data" in package.read("META-INF/manifest.xml"):
            raise BadDocument("is encrypted; save it without a password, or exclude it")
        content_type = _declared(package)
        sheets = "spreadsheet" in content_type
        content, plain = package.read(_CONTENT), plain_sheets()
        if sheets and _HIDDEN not in content:  # of hidden ones, the words are counted
            content = b"".join(plain.fold(content))
        raw_words = of_odf(content) + words("\n".join(said for _, _, said in plain))
        flow = _read(package, content, self._options, plain if sheets else None)
        about = {element.tag.rpartition("}")[2]: OdfInline().plain(element) for element in _meta(package)}
        composer = flow.composer
        return Document(
            text=composer.text,
            blocks=tuple(composer.blocks),
            content_type=content_type,
            title=about.get("title") or flow.title or (None if sheets else composer.title),
            language=about.get("language") or None,
            extra=tuple(_extra(about)),
            raw_words=raw_words,
            left_out=composer.left_out,
            lost=pictures_only(package, composer),
        )


class Flat:
    """A document in one XML file, with the parts of a package."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.names: list[str] = [_CONTENT]

    def __contains__(self, name: str) -> bool:
        return name == _CONTENT

    def read(self, name: str) -> bytes:
        """All of it, whatever is asked for."""
        return self._data

    def optional(self, name: str) -> Element:
        """Its metadata; it has no other part of its own."""
        root = Element("none")
        if name == "meta.xml":
            group = Element("group")
            group.extend(stream(self._data, name, lambda above: above.tag == f"{OFFICE}meta"))
            root.append(group)
        return root


def _declared(package: Package | Flat) -> str:
    """Its content type; the manifest says it, too, for programs that leave the part ``mimetype`` out."""
    if isinstance(package, Flat):
        found = _MIMETYPE.search(package.read(_CONTENT), 0, _START)
        return found[1].decode() if found else "application/vnd.oasis.opendocument.text"
    if "mimetype" in package:
        return package.read("mimetype").decode("ascii", "replace").strip()
    entries = package.optional("META-INF/manifest.xml")
    types = {entry.get(f"{_MANIFEST}full-path"): entry.get(f"{_MANIFEST}media-type") for entry in entries}
    return types.get("/") or "application/vnd.oasis.opendocument.text"


def _read(
    package: Package | Flat, content: bytes, options: OdfOptions, plain: PlainRows[PlainRow] | None
) -> Flow:
    """``plain``: of spreadsheets, the rows that are not in the content."""

    def embedded(name: str) -> Element:
        return package.optional(f"{normpath(name)}/{_CONTENT}") if name else Element("none")

    reader = OdfReader(OdfStyles(_styles(package)), embedded, comments=options.comments)
    if b":soft-page-break" in content:
        reader.flow.begin_page(0)
    pages = 0
    for element in stream(content, _CONTENT, lambda above: above.tag in _WHOLE):
        if element.tag in _STYLES:
            reader.styles.add(element)
        elif element.tag == f"{DRAW}page":
            _read_slide(reader, element, pages)
            pages += 1
        elif element.tag == f"{TABLE}table" and plain is not None:
            if options.hidden_sheets or reader.styles.displays(element):
                _read_sheet(reader, element, pages, plain)
            else:
                reader.flow.composer.leave_out("hidden sheets", count_words(element))
            pages += 1
        else:
            reader.block(element)
    reader.flow.flush()
    return reader.flow


def _styles(package: Package | Flat) -> Iterator[Element]:
    root = package.optional("styles.xml")
    return (element for element in root.iter() if element.tag in _STYLES)


def _read_sheet(reader: OdfReader, sheet: Element, number: int, plain: PlainRows[PlainRow]) -> None:
    rows = row_texts(sheet, reader.inline, shapes=False, plain=plain)
    add_sheet(reader.flow.composer, number, sheet.get(f"{TABLE}name", ""), rows)
    for drawn in _drawn(sheet):
        reader.block(drawn)
    reader.flow.flush()


def _drawn(sheet: Element) -> Iterator[Element]:
    """Frames, shapes with text and groups of both, the outermost of each."""
    inside = set[Element]()
    for element in sheet.iter():
        if element.tag.startswith(DRAW) and element not in inside:
            inside.update(element.iter())
            yield element


def _read_slide(reader: OdfReader, slide: Element, number: int) -> None:
    reader.flow.begin_page(number)
    shapes = [shape for shape in slide if shape.tag != f"{PRESENTATION}notes"]
    for shape in shapes:
        if shape.get(f"{PRESENTATION}class") == _TITLE:
            reader.flow.composer.heading(" ".join(reader.inline.plain(p) for p in shape.iter(f"{TEXT}p")), 1)
    for shape in shapes:
        if shape.get(f"{PRESENTATION}class") != _TITLE:
            reader.block(shape)
    reader.flow.flush()
    for notes in slide.iter(f"{PRESENTATION}notes"):
        reader.flow.composer.add("notes", "\n".join(reader.inline.plain(p) for p in notes.iter(f"{TEXT}p")))


def _meta(package: Package | Flat) -> Iterator[Element]:
    for group in package.optional("meta.xml"):
        yield from group


def _extra(about: dict[str, str]) -> Iterator[tuple[str, Scalar]]:
    found = {name: about[said] for said, name in reversed(_ABOUT.items()) if about.get(said)}
    return ((name, found[name]) for name in ("author", "created", "modified") if name in found)


PLUGIN = Plugin(kind="odf", version=5, options=OdfOptions, build=OdfParser)
