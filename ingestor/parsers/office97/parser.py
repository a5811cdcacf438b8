"""Files of Office before 2007 and of Outlook (.doc, .xls, .ppt, .msg), told apart by their streams.

The library anydoc reads texts and presentations, xlrd reads workbooks, and msg.py reads messages.
"""

import re
import struct
from collections.abc import Callable, Iterator
from datetime import datetime
from io import BytesIO, StringIO
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ingestor.core.completeness import words
from ingestor.model import Blob, Document
from ingestor.parsers.office.number_format import Writer, writer
from ingestor.parsers.office.tree import read_tree
from ingestor.parsers.office97 import msg
from ingestor.parsers.shared.compose import Composer
from ingestor.parsers.shared.decode import code_page
from ingestor.parsers.shared.plugin import parser_plugin
from ingestor.parsers.shared.sheets import Row, add_sheet
from ingestor.ports import BadDocument

if TYPE_CHECKING:
    from olefile import OleFileIO

# Errors of the libraries for bytes that contradict themselves.
_DAMAGE = (
    *(OSError, ValueError, LookupError, EOFError, AttributeError, TypeError, ArithmeticError, AssertionError),
    struct.error,
)
_CODE_PAGE, _EDITING = 1, 10  # numbers of properties of a document
_ABOUT = {2: "title", 4: "author", 12: "created", 13: "modified"}
_FIRST_YEAR = 1981


def parse(blob: Blob) -> Document:
    """Read a binary file of Office or Outlook.

    Raises BadDocument if it is damaged, encrypted or too old, or holds no document that can be read.
    """
    from olefile import OleFileIO

    try:
        with OleFileIO(BytesIO(blob.data)) as file:
            for name, content_type, read in _KINDS:
                if file.exists(name):
                    composer, facts = read(file, blob.data)
                    if read is not msg.read:
                        about = _about(file)
                        facts["title"] = about.pop("title", "") or facts.get("title")
                        facts["extra"] = about
                    return composer.document(content_type, **facts)
    except _DAMAGE as error:
        reason = str(error) or type(error).__name__
        raise BadDocument(f"is damaged or cut off ({reason}); save it again, or exclude it") from error
    raise BadDocument("contains no document of Word, Excel, PowerPoint or Outlook; convert it, or exclude it")


def _about(file: "OleFileIO") -> dict[str, str]:
    """Return title, author and dates from a file's summary; {} if the summary is missing or damaged."""
    try:
        properties = file.getproperties("\x05SummaryInformation", convert_time=True, no_conversion=[_EDITING])
    except OSError:
        return {}
    page = properties.get(_CODE_PAGE)
    encoding = code_page(page & 0xFFFF if isinstance(page, int) else 1252)
    about = dict[str, str]()
    for number, name in _ABOUT.items():
        value = properties.get(number)
        if isinstance(value, bytes):
            value = value.decode(encoding, "replace")
        if isinstance(value, str):
            about[name] = " ".join(value.replace("\0", " ").split())
        elif isinstance(value, datetime) and value.year >= _FIRST_YEAR:
            about[name] = value.isoformat()
    return about


# --- presentations (.ppt) -----------------------------------------------------------------------------------

_TOKENS = (b"\x5f\xc0\x91\xe3", b"\xdf\xc4\xd1\xf3")  # since 1997; the second is of encrypted files


def _read_slides(file: "OleFileIO", data: bytes) -> tuple[Composer, dict[str, Any]]:
    """Return the blocks of a presentation, and the further fields of its document by name.

    Slides are no pages, because anydoc does not report where they begin. Raises BadDocument for files before
    1997.
    """
    user = file.openstream("Current User").read() if file.exists("Current User") else b""
    if user[12:16] not in _TOKENS:
        raise BadDocument("is damaged, or a presentation from before 1997: save it as .pptx")
    composer = read_tree(data, "ppt").composer
    return composer, {"title": composer.title}


# --- texts (.doc) -------------------------------------------------------------------------------------------
# The library leaves text boxes out. They are read here, and words are counted to find out whether any is
# missing. The text is in pieces, each in UTF-16 or Windows-1252. [MS-DOC]

_WORD97 = 0xC0  # the first version of this format
_ENCRYPTED, _SECOND_TABLE = 0x0100, 0x0200  # flags
_LENGTHS, _PIECES = 0x4C, 0x01A2  # places in the header
_FIELD = re.compile("\x13[^\x13\x14\x15]*+\x14?([^\x13\x14\x15]*+)\x15")
_ENDS = re.compile("[\r\x07\x0c]")
_SIGNS = {0x0B: "\n", 0x1E: "-", 0xA0: " ", **dict.fromkeys((*range(1, 9), 0x13, 0x14, 0x15, 0x1F), "")}


def _read_text(file: Any, data: bytes) -> tuple[Composer, dict[str, Any]]:
    """Return the blocks of a Word document, and the further fields of its document by name.

    Raises BadDocument if the file is encrypted, damaged or from before 1997.
    """
    main = file.openstream("WordDocument").read()
    ident, version = struct.unpack_from("<HH", main, 0)
    (flags,) = struct.unpack_from("<H", main, 0x0A)
    if flags & _ENCRYPTED:
        raise BadDocument("is encrypted; save it without a password, or exclude it")
    if ident != 0xA5EC or version < _WORD97:
        raise BadDocument("is a Word document from before 1997: save it as .docx")
    flow = read_tree(data, "doc")
    title = flow.title or flow.composer.title
    table = file.openstream("1Table" if flags & _SECOND_TABLE else "0Table").read()
    start, size = struct.unpack_from("<II", main, _PIECES)
    text = "".join(_pieces(table[start : start + size], main))
    body, notes, headers, macros, comments, endnotes, boxes = struct.unpack_from("<7i", main, _LENGTHS)
    at = body + notes + headers + macros + comments + endnotes
    boxed = _without_fields(text[at : at + boxes])
    for paragraph in _ENDS.split(boxed):
        flow.add("paragraph", paragraph.translate(_SIGNS))
    flow.flush()
    raw_words = words(_ENDS.sub(" ", _without_fields(text[:body])).translate(_SIGNS)) + words(boxed)
    return flow.composer, {"raw_words": raw_words, "title": title}


def _pieces(clx: bytes, main: bytes) -> Iterator[str]:
    at = 0
    while at + 3 <= len(clx) and clx[at] == 1:
        at += 3 + struct.unpack_from("<H", clx, at + 1)[0]
    if at + 5 > len(clx) or clx[at] != 2:
        raise ValueError("the text can't be located")
    (size,) = struct.unpack_from("<I", clx, at + 1)
    table = clx[at + 5 : at + 5 + size]
    count = max(0, (len(table) - 4) // 12)
    bounds = struct.unpack_from(f"<{count + 1}I", table)
    for number, (begin, end) in enumerate(pairwise(bounds)):
        if not begin <= end <= len(main):
            raise ValueError("text pieces overlap, or are longer than the file")
        (place,) = struct.unpack_from("<I", table, 4 * (count + 1) + 8 * number + 2)
        narrow, place = bool(place & 0x40000000), place & 0x3FFFFFFF
        if narrow:
            piece = main[place // 2 : place // 2 + end - begin].decode("cp1252", "replace")
        else:
            piece = main[place : place + 2 * (end - begin)].decode("utf-16-le", "replace")
        yield piece.ljust(end - begin, "\0")[: end - begin]


def _without_fields(text: str) -> str:
    """Return a text in which each field shows only its result, without the instruction that computes it."""
    for _ in range(5):
        text, count = _FIELD.subn(r"\1", text)
        if not count:
            break
    return text


# --- workbooks (.xls) ---------------------------------------------------------------------------------------

_TEXT, _NUMBER, _DATE, _BOOLEAN = 1, 2, 3, 4  # xlrd's kinds of cells
_WORD = re.compile(r"\w")
_CELLS = 20_000_000  # of a sheet, with the empty cells between others


def _read_workbook(file: Any, data: bytes) -> tuple[Composer, dict[str, Any]]:
    """Return the blocks of a workbook, and the further fields of its document by name.

    Raises BadDocument if the file is encrypted, damaged or too large, and xlrd's errors for some damage.
    """
    import xlrd
    import xlrd.book
    import xlrd.sheet

    # Formulas of names and comments are not read: xlrd gives up over some that Excel takes.
    xlrd.book.evaluate_name_formula = xlrd.sheet.Sheet.handle_note = lambda *_, **__: None
    # xlrd gets the stream, because it refuses files whose folders Excel would repair.
    book_stream = file.openstream("Workbook" if file.exists("Workbook") else "Book").read()
    try:
        book = xlrd.open_workbook(file_contents=book_stream, formatting_info=True, logfile=StringIO())
    except xlrd.XLRDError as error:
        if "encrypted" in str(error).lower():
            raise BadDocument("is encrypted; save it without a password, or exclude it") from None
        raise BadDocument(f"is damaged ({error}); save it again, or exclude it") from None
    composer, raw_words, writers = Composer(), 0, dict[int | None, Writer]()
    for at, sheet in enumerate(book.sheets()):
        if sheet.nrows * sheet.ncols > _CELLS:
            raise BadDocument(f"has more than {_CELLS:,} cells in a sheet; split it, or exclude it")
        rows = list(_rows(book, sheet, writers))
        count = sum(_WORD.search(text) is not None for _, row in rows for text in row.values())
        raw_words += count
        if sheet.visibility:
            composer.left_out["hidden sheets"] += count
        else:
            add_sheet(composer, at, sheet.name, rows)
    return composer, {"raw_words": raw_words}


def _rows(book: Any, sheet: Any, writers: dict[int | None, Writer]) -> Iterator[Row]:
    """Yield the rows of a sheet, each with its number, from 1.

    ``writers``: functions that write numbers, by the index of the cell's format; missing ones are added.
    """
    for at in range(sheet.nrows):
        row: dict[int, str] = {}
        for column, (kind, value) in enumerate(zip(sheet.row_types(at), sheet.row_values(at), strict=True)):
            if kind in (_NUMBER, _DATE):
                form = sheet.cell_xf_index(at, column)
                if form not in writers:
                    known = book.format_map.get(book.xf_list[form].format_key) if form is not None else None
                    writers[form] = writer((known.format_str or "") if known else "", book.datemode == 1)
                try:
                    row[column] = writers[form](float(value))
                except (ValueError, OverflowError):
                    row[column] = str(value)
            elif kind == _BOOLEAN:
                row[column] = "TRUE" if value else "FALSE"
            elif kind == _TEXT and value.strip():
                row[column] = value
        yield at + 1, row


_KINDS: tuple[tuple[str, str, Callable[[Any, bytes], tuple[Composer, dict[str, Any]]]], ...] = (
    ("__properties_version1.0", "application/vnd.ms-outlook", msg.read),
    ("WordDocument", "application/msword", _read_text),
    ("PowerPoint Document", "application/vnd.ms-powerpoint", _read_slides),
    ("Workbook", "application/vnd.ms-excel", _read_workbook),
    ("Book", "application/vnd.ms-excel", _read_workbook),
)

PLUGIN = parser_plugin("office97", 9, parse)
