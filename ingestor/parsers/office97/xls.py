"""Workbooks of Excel before 2007 (.xls), read by xlrd: as those of XLSX."""

import io
from collections.abc import Iterator
from typing import Any

from ingestor.core.completeness import words
from ingestor.parsers.office.xlsx_format import bare, writer
from ingestor.parsers.shared.compose import Composer
from ingestor.parsers.shared.sheets import Row, add_sheet
from ingestor.ports import BadDocument

_TEXT, _NUMBER, _DATE, _BOOLEAN, _ERROR = 1, 2, 3, 4, 5
_CELLS = 20_000_000  # of a sheet, with the empty ones between others


def read(file: Any, data: bytes, composer: Composer) -> dict[str, Any]:
    """Raises BadDocument, and the errors of xlrd for damaged files."""
    del data  # xlrd gets the stream, as it refuses files whose folders Excel would mend
    import xlrd
    import xlrd.book
    import xlrd.sheet

    xlrd.book.evaluate_name_formula = xlrd.sheet.Sheet.handle_note = _unread
    stream = file.openstream("Workbook" if file.exists("Workbook") else "Book").read()
    try:
        book = xlrd.open_workbook(file_contents=stream, formatting_info=True, logfile=io.StringIO())
    except xlrd.XLRDError as error:
        if "encrypted" in str(error).lower():
            raise BadDocument("is encrypted; save it without a password, or exclude it") from None
        raise BadDocument(f"is damaged ({error}); save it again, or exclude it") from None
    raw = 0
    for at, sheet in enumerate(book.sheets()):
        if sheet.nrows * sheet.ncols > _CELLS:
            raise BadDocument(f"has more than {_CELLS:,} cells in a sheet; split it, or exclude it")
        rows = list(_rows(book, sheet))
        count = sum(words(text) > 0 for _, row in rows for text in row.values())
        raw += count
        if sheet.visibility:
            composer.leave_out("hidden sheets", count)
        else:
            add_sheet(composer, at, sheet.name, rows)
    return {"raw_words": raw}


def _unread(*_: object, **__: object) -> None:
    """Names of cells and comments are not read: xlrd gives up over some that Excel takes."""


def _rows(book: Any, sheet: Any) -> Iterator[Row]:
    for at in range(sheet.nrows):
        shown = ((cell, _shown(book, sheet.cell(at, cell))) for cell in range(sheet.row_len(at)))
        yield at + 1, {column: text for column, text in shown if text.strip()}


def _shown(book: Any, cell: Any) -> str:
    if cell.ctype == _BOOLEAN:
        return "TRUE" if cell.value else "FALSE"
    if cell.ctype not in (_NUMBER, _DATE):
        return cell.value if cell.ctype == _TEXT else ""
    form = book.format_map.get(book.xf_list[cell.xf_index].format_key) if cell.xf_index is not None else None
    try:
        return writer(bare(form.format_str or "") if form else "", book.datemode == 1)(float(cell.value))
    except (ValueError, OverflowError):
        return str(cell.value)
