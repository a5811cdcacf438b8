"""EPUB books: the chapters in reading order, each read as an HTML page."""

from dataclasses import replace
from posixpath import dirname, normpath
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from ingestor.model import Blob, Document
from ingestor.parsers.html.page import close_empty_elements
from ingestor.parsers.html.parser import add_page
from ingestor.parsers.shared.compose import Composer
from ingestor.parsers.shared.decode import decode
from ingestor.parsers.shared.package import Package, pictures_only
from ingestor.parsers.shared.plugin import parser_plugin
from ingestor.ports import BadDocument

_CONTENT_TYPE = "application/epub+zip"
_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_OPF = "{http://www.idpf.org/2007/opf}"
_DC = "{http://purl.org/dc/elements/1.1/}"
_PAGES = ("application/xhtml+xml", "text/html", "application/x-dtbook+xml")
_SUFFIXES = (".xhtml", ".html", ".htm")


def parse(blob: Blob) -> Document:
    """Read a book as a document. Raises BadDocument if the file is damaged, protected or a zip bomb."""
    package = Package(blob.data)
    name = _book(package)
    book = package.xml(name)
    composer = Composer()
    raw_words = 0
    for chapter in _chapters(package, book, name):
        first = len(composer.blocks)
        raw_words += add_page(composer, close_empty_elements(decode(package.read(chapter))))[1]
        for at, block in enumerate(composer.blocks[first:], first):
            if block.figure and ":" not in block.figure:  # an address relative to the chapter
                picture = normpath(f"{dirname(chapter)}/{unquote(block.figure)}").lstrip("/")
                composer.blocks[at] = replace(block, figure=picture)
    about = book.find(f"{_OPF}metadata")
    creators = () if about is None else about.findall(f"{_DC}creator")
    return composer.document(
        _CONTENT_TYPE,
        title=_text_of(about, "title") or composer.title,
        language=_text_of(about, "language"),
        extra={
            "author": ", ".join(_line(creator) for creator in creators),
            "created": _text_of(about, "date"),
        },
        raw_words=raw_words,
        lost=pictures_only(package, composer),
    )


def _book(package: Package) -> str:
    """Return the name of the part (``.opf``) that lists the chapters. Raises BadDocument if there is none."""
    roots = (root for root in package.optional(_CONTAINER).iter() if root.tag.endswith("}rootfile"))
    listed = [root.get("full-path", "") for root in roots]
    books = [name for name in [*listed, *package.names] if name.endswith(".opf") and name in package]
    if not books:
        raise BadDocument("is damaged: it has no list of its chapters; make it again, or exclude it")
    return books[0]


def _chapters(package: Package, book: Element, name: str) -> list[str]:
    """Return the names of the parts that hold the chapters, in reading order.

    ``book``: root of the part ``name``, which lists the chapters. If the list names no existing part, all
    HTML parts are returned. Raises BadDocument if a chapter is encrypted.
    """
    folder = dirname(name)
    pages = {
        item.get("id", ""): normpath(f"{folder}/{unquote(item.get('href', ''))}").lstrip("/")
        for item in book.iter(f"{_OPF}item")
        if (item.get("media-type") in _PAGES or item.get("href", "").endswith(_SUFFIXES))
        and "nav" not in item.get("properties", "").split()
    }
    order = [pages.get(entry.get("idref", ""), "") for entry in book.iter(f"{_OPF}itemref")]
    names = {name.lower(): name for name in package.names}  # some programs write names in another case
    known = [page if page in package else names[page.lower()] for page in order if page.lower() in names]
    known = known or sorted(page for page in package.names if page.endswith(_SUFFIXES))
    locked = package.optional(_ENCRYPTION).iter("{http://www.w3.org/2001/04/xmlenc#}CipherReference")
    if not {unquote(part.get("URI", "")) for part in locked}.isdisjoint(known):  # fonts do not matter
        raise BadDocument("is protected by digital rights management; use a free copy, or exclude it")
    return known


def _text_of(about: Element | None, name: str) -> str:
    element = None if about is None else about.find(f"{_DC}{name}")
    return "" if element is None else _line(element)


def _line(element: Element) -> str:
    return " ".join((element.text or "").split())


PLUGIN = parser_plugin("epub", 9, parse)
