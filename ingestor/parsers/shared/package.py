"""Reads zipped packages of XML parts (Office, OpenDocument, EPUB), and defends against malicious ones.

The sizes in the archive's directory are checked before anything is unpacked, and zipfile unpacks no more of a
member than the directory states. Parts that declare entities are refused. Nothing outside the package is
read.
"""

import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from html import unescape
from itertools import chain
from posixpath import dirname, normpath
from typing import Any, Protocol
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, ParseError
from xml.parsers import expat

from ingestor.core.completeness import words
from ingestor.parsers.shared.compose import Composer
from ingestor.ports import BadDocument

_ENTRIES = 50_000
_TOTAL = 8 * 10**9  # bytes, unpacked; pictures and films count
_PART = 500_000_000  # bytes of a part that is read
_RATIO = 300  # unpacked to packed; XML that people have comes to 50
_SMALL = 50_000_000  # bytes; below, any ratio will do
_DEEP = 300  # elements inside each other
_START = 4096  # bytes in which a part declares its namespaces
_ENCRYPTED = 1  # flag of a member
_MARKUP = (".xml", ".rels", ".vml")
_RELATIONS = "{http://schemas.openxmlformats.org/package/2006/relationships}"
_NO_DECLARATION = re.compile(  # the root element follows, in UTF-8: a tag begins where one is seen
    rb"""(?:\xef\xbb\xbf)?(?:<\?xml version="1\.0"(?: encoding="(?i:utf-8)")?"""
    rb"""(?: standalone="\w+")?\s*\?>)?\s*<[A-Za-z]"""
)
# Strict Open XML has namespaces and types of relations of its own, for the same elements.
_STRICT = re.compile(rb"""(?<==["'])http://purl\.oclc\.org/ooxml/(\w+)(?=/)""")
_STRICT_START = b"http://purl.oclc.org/ooxml/"
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError, RuntimeError)


class NamedParts(Protocol):
    """A container of parts that are read by name: a package, or a flat file that acts as one."""

    @property
    def names(self) -> list[str]: ...

    def read(self, name: str) -> bytes: ...


class Package:
    def __init__(self, data: bytes) -> None:
        """Open a package. Raises BadDocument if its directory is damaged, or it may be a zip bomb."""
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except _DAMAGE as error:
            raise BadDocument(f"is damaged or cut off ({error}); save it again, or exclude it") from None
        self._members = {info.filename: info for info in self._zip.infolist()}
        total = sum(info.file_size for info in self._zip.infolist())
        if len(self._zip.infolist()) > _ENTRIES or total > _TOTAL:
            raise BadDocument(
                f"unpacks to {total:,} bytes in {len(self._members):,} parts, so it is probably a "
                "decompression bomb; exclude it"
            )

    @property
    def names(self) -> list[str]:
        return list(self._members)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def read(self, name: str) -> bytes:
        """Return a part's bytes. Raises BadDocument if it is missing, damaged, encrypted or too large."""
        info = self._members.get(name)
        if info is None:
            raise BadDocument(f"is damaged: its part {name} is missing; save it again, or exclude it")
        if info.flag_bits & _ENCRYPTED:
            raise BadDocument("is encrypted; save it without a password, or exclude it")
        packed, size = info.compress_size, info.file_size
        if size > _PART or (size > _SMALL and size > _RATIO * packed):
            raise BadDocument(
                f"has a part of {size:,} bytes, compressed to {packed:,}, which "
                "is too large; split it, or exclude it"
            )
        try:
            return _transitional(self._zip.read(info))
        except _DAMAGE as error:
            raise BadDocument(f"is damaged: {error}; save it again, or exclude it") from None

    def xml(self, name: str) -> Element:
        """Return the root element of an XML part. Raises BadDocument if it is missing or damaged."""
        return xml(self.read(name), name)

    def optional(self, name: str) -> Element:
        """Return the root element of an XML part; an empty element if the package lacks the part."""
        return self.xml(name) if name in self else Element("none")

    def main_part(self, usual: str) -> str:
        """Return the name of the part with a document's content; ``usual`` if no relation names it."""
        targets = self.relations("").values()
        return next((name for kind, name in targets if kind == "officeDocument"), usual)

    def relations(self, part: str) -> dict[str, tuple[str, str]]:
        """Return the relations of an Office part: id -> (last word of the type, target).

        A target is the name of a part, or a URL.
        """
        folder, _, file = part.rpartition("/")
        root = self.optional(f"{folder}/_rels/{file}.rels" if folder else f"_rels/{file}.rels")
        return {
            relation.get("Id", ""): (relation.get("Type", "").rpartition("/")[2], _target(relation, part))
            for relation in root.iter(f"{_RELATIONS}Relationship")
        }


def pack(package: NamedParts, changed: Mapping[str, Element | bytes], folders: tuple[str, ...]) -> bytes:
    """Return a new package for a library to read: the parts below ``folders``, and the ``changed`` parts.

    Every part in it has passed the checks. Pictures and films are emptied, since only their names are needed.
    Raises BadDocument if the parts are damaged or too large.
    """
    file, left = io.BytesIO(), _PART
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in dict.fromkeys(("mimetype", *package.names, *changed)):
            if name in changed:
                part = changed[name]
                data = part if isinstance(part, bytes) else ElementTree.tostring(part, "unicode").encode()
            elif not name.endswith("/") and name.startswith(folders):
                data = package.read(name) if name.endswith(_MARKUP) or "." not in name else b"\0"
            else:
                continue
            left -= len(data)
            if left < 0:
                raise BadDocument(f"unpacks to more than {_PART:,} bytes of text; split it, or exclude it")
            archive.writestr(name, data)
    return file.getvalue()


def _transitional(part: bytes) -> bytes:
    """Return a part of Strict Open XML (ISO/IEC 29500-1) with the namespaces of nearly all Office files."""
    if _STRICT_START not in part[:_START]:
        return part
    return _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006", part)


def xml(data: bytes, name: str) -> Element:
    """Parse XML and return its root.

    Raises BadDocument if it is damaged, declares entities or is nested too deep. ``name``: name of the part
    in messages.
    """
    _refuse_declarations(data, name)
    with _report_damage(name):
        root = ElementTree.fromstring(data)  # noqa: S314 - entities need a declaration, refused above
    level = [root]
    for _ in range(_DEEP):
        level = [*chain.from_iterable(level)]
        if not level:
            return root
    raise _too_deep(name)


def stream(data: bytes, name: str, wanted: Callable[[Element], bool]) -> Iterator[Element]:
    """Yield each element directly inside those for which ``wanted`` is true, and free it afterwards.

    So a large part never is in memory as a whole. Raises BadDocument as ``xml`` does, possibly after some
    elements.
    """
    _refuse_declarations(data, name)
    path, outer = list[Element](), _DEEP  # open elements, and how deep the one that is wanted stands
    with _report_damage(name):
        for event, element in ElementTree.iterparse(io.BytesIO(data), ("start", "end")):  # noqa: S314 - as above
            if event == "start":
                path.append(element)
                if len(path) >= _DEEP:
                    raise _too_deep(name)
                if outer == _DEEP and wanted(element):
                    outer = len(path)
                continue
            path.pop()
            if len(path) > outer:
                continue
            if len(path) == outer:
                yield element
            elif len(path) < outer:
                outer = _DEEP
            if path:
                path[-1].remove(element)


def _too_deep(name: str) -> BadDocument:
    return BadDocument(f"is nested too deeply ({name}); exclude it")


@contextmanager
def _report_damage(name: str) -> Iterator[None]:
    try:
        yield
    except ParseError as error:
        raise BadDocument(f"is damaged: {name}: {error}; save it again, or exclude it") from None


class _Begun(Exception):
    """Signal: the parser reached the root element, so no declaration can follow."""


def _refuse_declarations(data: bytes, name: str) -> None:
    if _NO_DECLARATION.match(data):
        return

    def refuse(root: str, system: str | None, public: str | None, inside: bool) -> None:
        if inside:
            raise BadDocument(
                f"declares entities ({name}), which could fill the memory or read other files; exclude it"
            )

    def begin(*element: object) -> None:
        raise _Begun

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = begin
    with suppress(_Begun, expat.ExpatError):  # what is not well-formed is said when it is parsed
        parser.Parse(data[:_START])  # after an exception it would go on to the end of what it is given
        parser.Parse(data[_START:], True)


def _target(relation: Element, part: str) -> str:
    target = relation.get("Target", "")
    if relation.get("TargetMode") == "External":
        return target
    return normpath(target.lstrip("/") if target.startswith("/") else f"{dirname(part)}/{target}").lstrip("/")


# --- facts about a document --------------------------------------------------------------------------------

_PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".gif", ".bmp", ".webp", ".emf", ".wmf")
_DEFAULTS = ("PowerPoint Presentation", "Word Document", "Microsoft Word - ")  # nobody chose these


def pictures_only(package: NamedParts, composer: Composer) -> tuple[str, ...]:
    """Return a message if a document has pictures but no text: its content is lost without OCR."""
    pictures = sum(
        name.lower().endswith(_PICTURES) and "thumbnail" not in name.lower() for name in package.names
    )
    if composer.blocks or not pictures:
        return ()
    return (f"holds only pictures ({pictures:,}): save the document as PDF, so that OCR reads them",)


def office_properties(package: Package, composer: Composer) -> dict[str, Any]:
    """Return title, language, author and dates of an Office document as fields of Document.

    The field ``lost`` reports a document with nothing but pictures. Raises BadDocument if the properties are
    damaged.
    """
    root = package.optional("docProps/core.xml")
    texts = {element.tag.rpartition("}")[2]: " ".join((element.text or "").split()) for element in root}
    title = texts.get("title", "")
    return {
        "title": None if title.startswith(_DEFAULTS) else title,
        "language": texts.get("language"),
        "extra": {
            "author": texts.get("creator"),
            "created": texts.get("created"),  # dates in ISO 8601, as the format has them
            "modified": texts.get("modified"),
        },
        "lost": pictures_only(package, composer),
    }


# --- words of XML parts, in any namespace ------------------------------------------------------------------
# Words are counted without the parsers' own knowledge of the format, so that a gap in a parser shows.
# Counting takes about 50 ms a megabyte.

_OFFICE = re.compile(
    rb"<(?:[\w.-]+:)?t(?:\s[^<>]*)?>([^<]+)</|</(?:[\w.-]+:)?(?:p|si|is)>|<(?:[\w.-]+:)?(?:tab|br|cr)[\s/>]"
)
_CELL = re.compile(rb"<(?:v|is|[\w.-]+:(?:v|is))>(?!\s*</)")
_ODF_BODY = re.compile(rb"<[\w.-]+:body[\s>]")
_ODF_BREAK = re.compile(rb"</[\w.-]+:(?:p|h)>|<[\w.-]+:(?:s|tab|line-break)[\s/>][^<>]*>?")
_NO_TEXT = re.compile(  # pictures; of a chart inside a flat document, who made it, and its numbers' places
    rb"<office:binary-data>[^<]*|<office:meta>.*?</office:meta>|<draw:g>\s*<svg:desc>[^<]*", re.DOTALL
)
_NO_TEXT_MARKS = (b"<office:binary-data>", b"<office:meta>", b"<svg:desc>")
_TEXT = re.compile(rb">([^<]+)")


def count_office_words(part: bytes) -> int:
    """Count the words in ``t`` elements of DOCX or PPTX. Texts of one paragraph are joined first."""
    return _count(b"".join([text or b" " for text in _OFFICE.findall(part)]))


def count_cells(sheet: bytes) -> int:
    """Count the cells of an XLSX sheet that have a value. Each has at least one word."""
    return len(_CELL.findall(sheet))


def count_odf_words(content: bytes) -> int:
    """Count the words in the text of an OpenDocument's body."""
    body = _ODF_BODY.search(content)
    if not body:
        return 0
    body_part = content[body.start() :]
    if any(mark in body_part for mark in _NO_TEXT_MARKS):
        body_part = _NO_TEXT.sub(b"", body_part)
    return _count(b"".join(_TEXT.findall(_ODF_BREAK.sub(b" ", body_part))))


def _count(text: bytes) -> int:
    return words(unescape(text.decode("utf-8", "ignore")))
