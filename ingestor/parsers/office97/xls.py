"""Workbooks of Excel before 2007 (.xls), read by xlrd: as those of XLSX."""

import io
import re
from collections.abc import Iterator
from typing import Any

from ingestor.parsers.office.number_format import Number, NumberFormats
from ingestor.parsers.shared.compose import Composer
from ingestor.parsers.shared.sheets import add_sheet
from ingestor.ports import BadDocument

_TEXT, _NUMBER, _DATE, _BOOLEAN, _ERROR = 1, 2, 3, 4, 5
_WORD = re.compile(r"\w")
_EXCEL_5 = 50  # as xlrd counts
_CELLS = 20_000_000  # of a sheet, with the empty ones between others


def read(file: Any, data: bytes, composer: Composer) -> dict[str, Any]:
    """Raises BadDocument, and the errors of xlrd for damaged files."""
    import xlrd
    import xlrd.book
    import xlrd.sheet

    # Formulas of names and comments are not read: xlrd gives up over some that Excel takes.
    xlrd.book.evaluate_name_formula = xlrd.sheet.Sheet.handle_note = lambda *_, **__: None
    # xlrd gets the stream, as it refuses files whose folders Excel would mend
    book_stream = file.openstream("Workbook" if file.exists("Workbook") else "Book").read()
    try:
        book = xlrd.open_workbook(file_contents=book_stream, formatting_info=True, logfile=io.StringIO())
    except xlrd.XLRDError as error:
        if "encrypted" in str(error).lower():
            raise BadDocument("is encrypted; save it without a password, or exclude it") from None
        raise BadDocument(f"is damaged ({error}); save it again, or exclude it") from None
    known = {str(at): book.format_map.get(form.format_key) for at, form in enumerate(book.xf_list)}
    codes = {style: form.format_str or "" for style, form in known.items() if form}
    raw, formats = 0, NumberFormats(codes, book.datemode == 1)
    for at, sheet in enumerate(book.sheets()):
        if sheet.nrows * sheet.ncols > _CELLS:
            raise BadDocument(f"has more than {_CELLS:,} cells in a sheet; split it, or exclude it")
        rows = list(formats.fill(_rows(sheet, formats)))
        count = sum(_WORD.search(text) is not None for _, row in rows for text in row.values())
        raw += count
        if sheet.visibility:
            composer.leave_out("hidden sheets", count)
        else:
            add_sheet(composer, at, sheet.name, rows)
    return {"raw_words": raw}


def _rows(sheet: Any, formats: NumberFormats) -> "Iterator[tuple[int, dict[int, str | Number]]]":
    """Yield the rows of a sheet, numbered from 1."""
    for at in range(sheet.nrows):
        row: dict[int, str | Number] = {}
        for column, (kind, value) in enumerate(zip(sheet.row_types(at), sheet.row_values(at), strict=True)):
            if kind in (_NUMBER, _DATE):
                number = Number(str(sheet.cell_xf_index(at, column)), repr(float(value)))
                row[column] = formats.plain(number) or number
            elif kind == _BOOLEAN:
                row[column] = "TRUE" if value else "FALSE"
            elif kind == _TEXT and value.strip():
                row[column] = value
        yield at + 1, row
