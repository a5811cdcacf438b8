"""Workbooks of Excel before 2007 (.xls), read by xlrd: as those of XLSX."""

import io
import re
import struct
from collections.abc import Callable, Iterator
from typing import Any

from ingestor.parsers.office.number_format import writer
from ingestor.parsers.office97.streams import stream
from ingestor.parsers.shared.compose import Composer
from ingestor.parsers.shared.sheets import Row, add_sheet
from ingestor.ports import BadDocument

_TEXT, _NUMBER, _DATE, _BOOLEAN, _ERROR = 1, 2, 3, 4, 5
_WORD = re.compile(r"\w")
_EXCEL_5 = 50  # as xlrd counts
_CELLS = 20_000_000  # of a sheet, with the empty ones between others


Writer = Callable[[float], str]


def read(file: Any, data: bytes, composer: Composer) -> dict[str, Any]:
    """Raises BadDocument, and the errors of xlrd for damaged files."""
    import xlrd
    import xlrd.book
    import xlrd.formatting
    import xlrd.sheet

    xlrd.book.evaluate_name_formula = xlrd.sheet.Sheet.handle_note = _unread
    xlrd.formatting.check_colour_indexes_in_obj = _unread
    xlrd.formatting.upkbits = xlrd.formatting.upkbitsL = _unread
    xlrd.formatting.initialise_book = _begin
    # xlrd gets the stream, as it refuses files whose folders Excel would mend
    book_stream = stream(file, data, "Workbook" if file.exists("Workbook") else "Book")
    try:
        book = xlrd.open_workbook(file_contents=book_stream, formatting_info=True, logfile=io.StringIO())
    except xlrd.XLRDError as error:
        if "encrypted" in str(error).lower():
            raise BadDocument("is encrypted; save it without a password, or exclude it") from None
        raise BadDocument(f"is damaged ({error}); save it again, or exclude it") from None
    raw, writers = 0, dict[int | None, Writer]()
    for at, sheet in enumerate(book.sheets()):
        if sheet.nrows * sheet.ncols > _CELLS:
            raise BadDocument(f"has more than {_CELLS:,} cells in a sheet; split it, or exclude it")
        rows = list(_rows(book, sheet, writers))
        count = sum(_WORD.search(text) is not None for _, row in rows for text in row.values())
        raw += count
        if sheet.visibility:
            composer.leave_out("hidden sheets", count)
        else:
            add_sheet(composer, at, sheet.name, rows)
    return {"raw_words": raw}


def _unread(*_: object, **__: object) -> None:
    """Names of cells and comments are not read, as xlrd gives up over some that Excel takes; nor are borders,
    colours and the like.
    """


def _begin(book: Any) -> None:
    """Set the functions that read formats on the class of ``book``, as xlrd's own function does."""
    from xlrd import formatting

    formatting.initialise_colour_map(book)
    of = type(book)
    of.handle_font = of.handle_efont = of.handle_palette = of.palette_epilogue = of.handle_style = _unread
    of.handle_format, of.is_date_format_string = formatting.handle_format, formatting.is_date_format_string
    of.handle_xf, of.xf_epilogue = _cell_format, formatting.xf_epilogue


def _cell_format(book: Any, data: bytes) -> None:
    """Read only the number format of a cell format, from Excel 5 on."""
    from xlrd import formatting

    if book.biff_version < _EXCEL_5:
        formatting.handle_xf(book, data)
        return
    if not book.xfcount:
        formatting.fill_in_standard_formats(book)
    form = formatting.XF()
    (form.format_key,) = struct.unpack_from("<H", data, 2)
    if form.format_key not in book.format_map:
        form.format_key = 0
    form.xf_index, form.is_style = book.xfcount, True  # styles are compared with no other
    book.xf_list.append(form)
    book.xfcount += 1


def _rows(book: Any, sheet: Any, writers: dict[int | None, Writer]) -> Iterator[Row]:
    """Yield the rows of a sheet, numbered from 1.

    ``writers``: writers of numbers, by the index of the cell's format; missing writers are added.
    """
    for at in range(sheet.nrows):
        row: dict[int, str] = {}
        for column, (kind, value) in enumerate(zip(sheet.row_types(at), sheet.row_values(at), strict=True)):
            if kind in (_NUMBER, _DATE):
                form = sheet.cell_xf_index(at, column)
                if form not in writers:
                    writers[form] = _writer(book, form)
                try:
                    row[column] = writers[form](float(value))
                except (ValueError, OverflowError):
                    row[column] = str(value)
            elif kind == _BOOLEAN:
                row[column] = "TRUE" if value else "FALSE"
            elif kind == _TEXT and value.strip():
                row[column] = value
        yield at + 1, row


def _writer(book: Any, at: int | None) -> Writer:
    form = book.format_map.get(book.xf_list[at].format_key) if at is not None else None
    return writer((form.format_str or "") if form else "", book.datemode == 1)
