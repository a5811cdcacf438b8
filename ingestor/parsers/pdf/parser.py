"""PDF: the text layer in reading order, with pages, headings, lists and code.

Headings are those of the document's outline where it has one, else lines set larger than the rest. Running
headers and footers are left out, words that a line's end divides are put together. A page without text is a
picture of one: with `ocr: true` its text is recognised, else the document says that such pages are lost.

Read with pdfium, which is not safe to use from several threads: hence, too, the process of its own.
"""

import math
import re
from collections.abc import Iterator
from ctypes import POINTER, byref, c_double, c_int, cast, create_string_buffer
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median_low
from typing import TYPE_CHECKING

from pydantic import Field

from ingestor.model import Blob, Document, Scalar
from ingestor.parsers.pdf.drawn import tables, with_tables
from ingestor.parsers.pdf.headings import cover_title
from ingestor.parsers.pdf.layout import compose
from ingestor.parsers.pdf.lines import Bookmark, Line, Page
from ingestor.parsers.pdf.ocr import INSTALL, recognised
from ingestor.ports import BadDocument
from ingestor.registry import Options, Plugin

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument, PdfTextPage

_PAGES = 50_000
_FIXED_PITCH = 1  # flag of a font
_BOLD = 600  # weight
_BREAKS = "\r\n"
_HYPHENS = "\x02\ufffe"
_HYPHEN = re.compile(f"[{_HYPHENS}]+(.?)")
_BOLD_NAMES = ("bold", "cmbx")
_MONO_NAMES = ("mono", "courier", "cmtt", "consol")


class PdfOptions(Options):
    ocr: bool = Field(
        default=False,
        description="whether pages that are pictures of text are read by OCR: needs `pip install rapidocr` "
        "and some seconds a page ([more](formats.md#scanned-pages))",
    )


@dataclass(slots=True)
class _Read:
    """Pages read so far, and how many of them are pictures: ``unread`` ones, and those that OCR read."""

    pages: list[Page] = field(default_factory=list)
    unread: int = 0
    recognised: int = 0


class PdfParser:
    isolated = True

    def __init__(self, options: PdfOptions) -> None:
        self._ocr = options.ocr

    def parse(self, blob: Blob) -> Document:
        """Raises BadDocument when it is damaged, encrypted or too long."""
        document = _opened(blob.data)
        try:
            read = _read(document, self._ocr)
            pages = read.pages
            composed = compose(pages, list(_outline(document)))
            about = document.get_metadata_dict(skip_empty=True)
            language = _language(document)
        finally:
            document.close()
        return Document(
            text=composed.text,
            blocks=tuple(composed.blocks),
            content_type="application/pdf",
            title=_title(about) or cover_title(pages) or composed.title,
            language=language,
            extra=tuple(_extra(about, read)),
            lost=_lost(read, self._ocr),
        )


def _opened(data: bytes) -> "PdfDocument":
    from pypdfium2 import PdfDocument, PdfiumError

    try:
        document = PdfDocument(data)
    except PdfiumError as error:
        if "password" in str(error).lower():
            raise BadDocument("is encrypted; save it without a password, or exclude it") from None
        raise BadDocument(f"is a damaged or cut-off PDF ({error}); repair it, or exclude it") from None
    if len(document) > _PAGES:
        raise BadDocument(f"has {len(document):,} pages; {_PAGES:,} are read at most: split it")
    return document


def _lost(read: _Read, ocr: bool) -> tuple[str, ...]:
    """Pages that are pictures, and what would read them."""
    if not read.unread:
        return ()
    share = f"{read.unread:,} of its {len(read.pages):,} pages"
    if ocr:
        return (f"{share} hold pictures in which OCR finds no text that it can read",)
    return (
        f"{share} hold pictures and no text layer: OCR would read them: {INSTALL}, and"
        " `parsing: {pdf: {ocr: true}}` for its source; or run a tool such as ocrmypdf on it",
    )


def _read(document: "PdfDocument", ocr: bool) -> _Read:
    """Every page. One that holds something but no text is a picture."""
    from pypdfium2 import PdfiumError

    read = _Read()
    for index in range(len(document)):
        label = document.get_page_label(index) or str(index + 1)
        try:
            page = document[index]
        except PdfiumError:  # damaged: the others may be sound
            read.pages.append(Page(label, 0.0, ()))
            continue
        text = page.get_textpage()
        lines = tuple(with_tables(list(_lines(text)), tables(page, text)))
        if not lines and next(page.get_objects(max_depth=1), None) is not None:
            lines = recognised(page) if ocr else ()
            read.recognised += bool(lines)
            read.unread += not lines
        read.pages.append(Page(label, page.get_height(), lines))
        text.close()
        page.close()
    return read


def _lines(page: "PdfTextPage") -> Iterator[Line]:
    """The lines as they follow each other in the file, which is nearly always the order to read them in."""
    from pypdfium2 import raw

    count = raw.FPDFText_CountChars(page)
    characters = [chr(raw.FPDFText_GetUnicode(page, at)) for at in range(count)]
    begin = 0
    for at in range(count + 1):
        if at == count or characters[at] in _BREAKS:
            visible = [i for i in range(begin, at) if characters[i].strip(" \xa0" + _HYPHENS)]
            if visible:
                text = "".join(characters[begin:at])
                yield _line(page, text, visible[0], visible[-1])
            begin = at + 1


def _line(page: "PdfTextPage", text: str, first: int, last: int) -> Line:
    from pypdfium2 import raw

    hyphen = raw.FPDFText_IsHyphen(page, last) == 1 or text.rstrip()[-1:] in _HYPHENS
    plain = _HYPHEN.sub(_rejoined, text.strip())
    left, right = _edges(page, first)[0], _edges(page, last)[1]
    middle = (first + last) // 2
    looked_at = (first, middle, last)  # one of them may be the mark of a note: smaller, and raised
    fonts = [_font(page, at) for at in looked_at]
    weight = raw.FPDFText_GetFontWeight(page, middle)
    return Line(
        plain.removesuffix("-") if hyphen else plain,
        left,
        right,
        median_low(_baseline(page, at) for at in looked_at),
        median_low(_size(page, at) for at in looked_at),
        bold=weight >= _BOLD or any(part in fonts[1][0] for part in _BOLD_NAMES),
        mono=sum(map(_is_mono, fonts)) >= 2,
        hyphen=hyphen,
    )


def _rejoined(hyphen: re.Match[str]) -> str:
    """pdfium may already have put the halves of a word together, and have left a mark between them."""
    return hyphen[1] if hyphen[1].islower() else f"-{hyphen[1]}"


def _edges(page: "PdfTextPage", at: int) -> tuple[float, float]:
    """Left and right of a character, in points."""
    from pypdfium2 import raw

    left, right, bottom, top = c_double(), c_double(), c_double(), c_double()
    raw.FPDFText_GetCharBox(page, at, byref(left), byref(right), byref(bottom), byref(top))
    return left.value, right.value


def _baseline(page: "PdfTextPage", at: int) -> float:
    from pypdfium2 import raw

    x, y = c_double(), c_double()
    raw.FPDFText_GetCharOrigin(page, at, byref(x), byref(y))
    return float(y.value)


def _size(page: "PdfTextPage", at: int) -> float:
    """Of the type in which a character is set, in points."""
    from pypdfium2 import raw

    matrix = raw.FS_MATRIX()
    raw.FPDFText_GetMatrix(page, at, byref(matrix))
    size = float(raw.FPDFText_GetFontSize(page, at))
    return round(size * (math.hypot(matrix.c, matrix.d) or 1.0), 1)


def _font(page: "PdfTextPage", at: int) -> tuple[str, int]:
    from pypdfium2 import raw

    flags, name = c_int(), create_string_buffer(128)
    raw.FPDFText_GetFontInfo(page, at, name, 128, byref(flags))
    return name.value.decode("utf-8", "replace").lower(), flags.value


def _is_mono(font: tuple[str, int]) -> bool:
    name, flags = font
    return bool(flags & _FIXED_PITCH) or any(part in name for part in _MONO_NAMES)


def _outline(document: "PdfDocument") -> Iterator[Bookmark]:
    """Entries that lead to a page of this document."""
    for entry in document.get_toc():
        target = entry.get_dest()
        page = target.get_index() if target else None
        title = " ".join(entry.get_title().split())
        if title and page is not None:
            yield Bookmark(title, entry.level + 1, page)


def _language(document: "PdfDocument") -> str | None:
    from pypdfium2 import raw

    size = raw.FPDFCatalog_GetLanguage(document, None, 0)
    told = create_string_buffer(size)
    raw.FPDFCatalog_GetLanguage(document, cast(told, POINTER(raw.FPDF_WCHAR)), size)
    return told.raw.decode("utf-16-le", "replace").strip("\0 ") or None


def _title(about: dict[str, str]) -> str | None:
    """The document's own, unless a program put a file name there."""
    title = " ".join(about.get("Title", "").split())
    junk = title.lower().startswith(("microsoft word", "untitled", "powerpoint")) or title.endswith(
        (".doc", ".docx", ".dvi", ".tex", ".indd", ".pdf", ".qxd", ".ppt", ".pptx")
    )
    return None if junk else title or None


def _extra(about: dict[str, str], read: _Read) -> Iterator[tuple[str, Scalar]]:
    yield "pages", len(read.pages)
    if read.unread:
        yield "pages_without_text", read.unread
    if read.recognised:
        yield "pages_recognised", read.recognised
    if about.get("Author", "").strip():
        yield "author", " ".join(about["Author"].split())
    for key, name in (("CreationDate", "created"), ("ModDate", "modified")):
        if date := _date(about.get(key, "")):
            yield name, date


def _date(written: str) -> str | None:
    """``D:20240131120000+01'00'`` -> ``2024-01-31T12:00:00+01:00``."""
    plain = written.removeprefix("D:").replace("'", "").replace("Z", "+0000")
    for form in ("%Y%m%d%H%M%S%z", "%Y%m%d%H%M%S", "%Y%m%d"):
        try:
            return datetime.strptime(plain[:19], form).isoformat()
        except ValueError:
            continue
    return None


PLUGIN = Plugin(kind="pdf", version=3, options=PdfOptions, build=PdfParser)
