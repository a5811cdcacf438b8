"""PDF: the text layer in reading order, with pages, headings, lists, tables and code.

Headings come from tags, else from the outline, else from lines in larger or bolder type. Tables come from
tags and drawn lines, list items from tags and bullets. Running headers and footers are left out, and words
that the end of a line divides are joined. A page with content but no text counts as a picture. With the
option ``ocr`` its text is recognised, else the document reports that such pages are lost.

The library pdfium is not safe to use from several threads, which is one more reason to parse in a process.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from pydantic import Field

from ingestor.core.completeness import words
from ingestor.model import Blob, Document
from ingestor.parsers.pdf.lines import SOFT, Bookmark, Line, PageLines, words_in
from ingestor.parsers.pdf.ocr import INSTALL, recognise
from ingestor.parsers.shared.plugin import parser_plugin
from ingestor.ports import BadDocument
from ingestor.registry import Options
from ingestor.units import quantity

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument, PdfPage

    from ingestor.parsers.pdf.structure import Tags

_PAGES = 50_000
_MOST_UNMAPPED = 0.3  # share of the characters
_ENCRYPTION = 600  # bytes on either side of the name of the usual encryption, which hold its dictionary
_KEY_LENGTH = re.compile(rb"(/Length\s+)\d{1,3}(?=\s*(?:/[A-Z]|>>))")


class PdfOptions(Options):
    ocr: bool = Field(
        default=False,
        description="read pages that are pictures of text by OCR; needs `pip install rapidocr` "
        "and some seconds a page ([scanned pages](formats.md#scanned-pages))",
    )


@dataclass(slots=True)
class Read:
    """The result of reading pages. ``unread``: number of pages that are pictures and were not read.

    ``recognised``: number of pages read by OCR. ``words``, ``characters``: numbers in the text layer.
    ``unmapped``: number of characters without a Unicode value.
    """

    pages: list[PageLines] = field(default_factory=list)
    unread: int = 0
    recognised: int = 0
    words: int = 0
    characters: int = 0
    unmapped: int = 0


def parse(blob: Blob, options: PdfOptions) -> Document:
    """Read a PDF as a document. Raises BadDocument if it is damaged, encrypted or too long."""
    from pypdfium2 import raw

    from ingestor.parsers.pdf.layout import (  # slow to import, as the next ones
        compose,
        without_running_headers,
    )
    from ingestor.parsers.pdf.page import text_of
    from ingestor.parsers.pdf.title import title_of

    document = open_document(blob.data)
    try:
        read = read_pages(document, options.ocr)
        pages = read.pages
        kept = without_running_headers(pages)
        composed = compose(kept, list(_outline(document)))
        lost = _describe_losses(read, options.ocr)
        if raw.FPDF_GetFormType(document) == raw.FORMTYPE_XFA_FULL:
            lost += ("its form is XML (XFA), which is not read: print it to a PDF with Adobe Reader",)
        about = document.get_metadata_dict(skip_empty=True)
        language = text_of(raw.FPDFCatalog_GetLanguage, document).strip()
    finally:
        document.close()
    composed.left_out["running headers and footers"] = words_in(pages) - words_in(kept)
    return composed.document(
        "application/pdf",
        title=(title_of(pages, about.get("Title", "")) or composed.title or "").replace(SOFT, ""),
        language=language,
        extra={
            "pages": len(pages),
            "pages_without_text": read.unread or None,
            "pages_recognised": read.recognised or None,
            "author": " ".join(about.get("Author", "").split()),
            "created": _date(about.get("CreationDate", "")),
            "modified": _date(about.get("ModDate", "")),
        },
        raw_words=read.words,
        lost=lost,
    )


def open_document(data: bytes) -> "PdfDocument":
    """Open a PDF. Raises BadDocument if it needs a password, is damaged or has too many pages."""
    from pypdfium2 import PdfDocument, PdfiumError

    reason = ""
    for attempt in _attempts(data):
        try:
            document = PdfDocument(attempt)
        except PdfiumError as error:
            reason = reason or str(error).rstrip(".")
            if "password" in reason.lower():
                continue
            break
        if len(document) > _PAGES:
            raise BadDocument(
                f"has {quantity(len(document), 'page')}, but at most {_PAGES:,} are read; split it"
            )
        return document
    if "password" in reason.lower() or "security" in reason.lower():
        raise BadDocument("is encrypted; save it without a password, or exclude it")
    raise BadDocument(f"is a damaged or cut-off PDF ({reason}); repair it, or exclude it")


def _attempts(data: bytes) -> Iterator[bytes]:
    """Yield the file, then versions of it with other lengths of the encryption key.

    Some programs state the length in bytes instead of bits, or none, and pdfium then refuses the file.
    """
    yield data
    at = data.rfind(b"/Standard")
    begin, end = max(at - _ENCRYPTION, 0), at + _ENCRYPTION
    for bits in (b"256", b"128", b"40") if at >= 0 else ():
        yield data[:begin] + _KEY_LENGTH.sub(rb"\g<1>" + bits, data[begin:end]) + data[end:]


def _describe_losses(read: Read, ocr: bool) -> tuple[str, ...]:
    """Return a message, with advice, for each kind of content that could not be read."""
    losses = []
    if read.unread:
        where = f"on {read.unread:,} of {quantity(len(read.pages), 'page')}"
        losses.append(
            f"only pictures {where}, in which OCR finds no text that it can read" if ocr else
            f"only pictures and no text layer {where}: OCR would read them: {INSTALL}, and"
            " `parsing: {pdf: {ocr: true}}` for its source; or run a tool such as ocrmypdf on it"
        )  # fmt: skip
    if read.unmapped > _MOST_UNMAPPED * read.characters:
        share = f"{read.unmapped:,} of {read.characters:,} characters"
        losses.append(f"the fonts give no Unicode value for {share}")
    return tuple(losses)


def read_pages(document: "PdfDocument", ocr: bool) -> Read:
    """Read every page of a document. ``ocr``: whether to read pages that are pictures by OCR.

    A page with content but without text is a picture. A damaged page is empty.
    """
    from pypdfium2 import PdfiumError

    read = Read()
    document.init_forms()
    for index in range(len(document)):
        label = document.get_page_label(index) or str(index + 1)
        try:
            page = document[index]
        except PdfiumError:  # damaged: the others may be sound
            read.pages.append(PageLines(label, 0.0, ()))
            continue
        read.pages.append(_page(document, page, label, ocr, read))
        page.close()
    return read


def _page(document: "PdfDocument", page: "PdfPage", label: str, ocr: bool, read: Read) -> PageLines:
    from ingestor.parsers.pdf import drawn, forms, structure, tables
    from ingestor.parsers.pdf import words as by_words

    textpage = page.get_textpage()
    text = by_words.read(page, textpage)
    read.words += words(" ".join(word.text for line in text.lines for word in line).replace(SOFT, ""))
    read.characters += len(text.chars)
    read.unmapped += text.unmapped
    fields, comments = forms.fields_and_comments(document, page, text)
    upright = [word for line in text.lines if not by_words.is_slanted(text, line[0]) for word in line]
    structured = structure.tags(page)
    mark = (
        {word.first: structure.content_number(text.handle, word.first) for word in upright}
        if structured.has_tags
        else {}
    )
    filled = forms.place(fields, upright)
    if filled.values:
        text.lines = [[filled.fill(word) for word in line] for line in text.lines]
        upright = [filled.fill(word) for word in upright]
    grids = drawn.grids(*drawn.edges(drawn.segments(page, text.upright)))
    drawn_tables = drawn.without_overlaps(
        [*drawn.tables_by_tags(upright, structured.cells, mark), *drawn.tables_by_lines(upright, grids)]
    )
    lines = (*tables.arrange(text, text.lines, drawn_tables), *filled.lines)
    if structured.has_tags:
        lines = tuple(_add_tags(line, mark, structured) for line in lines)
    if not lines and next(page.get_objects(max_depth=1), None) is not None:
        lines = recognise(page) if ocr else ()
        read.recognised += bool(lines)
        read.unread += not lines
    textpage.close()
    return PageLines(label, text.height, tuple(lines), comments, structured.figures)


def _add_tags(line: Line, mark: Mapping[int, int], tags: "Tags") -> Line:
    """Return the line with its list item, and its heading if the tags put the whole line into one.

    ``mark``: number of the marked content that holds a word, by the position of the word's first character.
    """
    if not line.words:
        return line
    first, last = (mark.get(word.first, -1) for word in (line.words[0], line.words[-1]))
    heading = tags.headings.get(first)
    whole = heading is not None and heading == tags.headings.get(last)
    return replace(line, tagged=heading if whole else None, item=tags.items.get(first, 0))


def _outline(document: "PdfDocument") -> Iterator[Bookmark]:
    """Yield the entries of the outline that have a title and lead to a page of the document."""
    for entry in document.get_toc():
        target = entry.get_dest()
        page = target.get_index() if target else None
        title = " ".join(entry.get_title().split())
        if title and page is not None:
            yield Bookmark(title, entry.level + 1, page)


def _date(written: str) -> str | None:
    """Return a PDF date in ISO 8601: ``D:20240131120000+01'00'`` is ``2024-01-31T12:00:00+01:00``."""
    plain = written.removeprefix("D:").replace("'", "").replace("Z", "+0000")
    for form in ("%Y%m%d%H%M%S%z", "%Y%m%d%H%M%S", "%Y%m%d"):
        try:
            return datetime.strptime(plain[:19], form).isoformat()
        except ValueError:
            continue
    return None


PLUGIN = parser_plugin("pdf", 15, parse, PdfOptions)
