"""Workbooks of Excel before 2007 (.xls), read by xlrd: as those of XLSX."""

import io
import re
from collections.abc import Callable, Iterator
from typing import Any

from ingestor.parsers.office.number_format import writer
from ingestor.parsers.shared.compose import Composer
from ingestor.parsers.shared.sheets import Row, add_sheet
from ingestor.ports import BadDocument

_TEXT, _NUMBER, _DATE, _BOOLEAN, _ERROR = 1, 2, 3, 4, 5
_WORD = re.compile(r"\w")
_EXCEL_5 = 50  # as xlrd counts
_CELLS = 20_000_000  # of a sheet, with the empty ones between others


Writer = Callable[[float], str]


def read(file: Any, data: bytes, composer: Composer) -> dict[str, Any]:
    """Read a workbook. Raises BadDocument, and the errors of xlrd for damaged files."""
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
    raw, writers = 0, dict[int | None, Writer]()
    for at, sheet in enumerate(book.sheets()):
        if sheet.nrows * sheet.ncols > _CELLS:
            raise BadDocument(f"has more than {_CELLS:,} cells in a sheet; split it, or exclude it")
        rows = list(_rows(book, sheet, writers))
        count = sum(_WORD.search(text) is not None for _, row in rows for text in row.values())
        raw += count
        if sheet.visibility:
            composer.left_out["hidden sheets"] += count
        else:
            add_sheet(composer, at, sheet.name, rows)
    return {"raw_words": raw}


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
