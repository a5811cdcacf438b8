"""Spreadsheets (XLSX): a sheet is a page with its name as heading, and its cells become tables as displayed.

A blank row ends a table, and the first row of a table is its header. A formula appears as its last result, a
date in ISO 8601. Empty columns are left out, and so are hidden sheets, unless the option ``hidden_sheets`` is
set.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from xml.etree.ElementTree import Element

from pydantic import Field

from ingestor.model import Blob, Document
from ingestor.parsers.office import drawing
from ingestor.parsers.office.number_format import Formats, formats
from ingestor.parsers.shared.compose import Composer
from ingestor.parsers.shared.flow import clean_description
from ingestor.parsers.shared.numbers import parse_integer, raise_digits
from ingestor.parsers.shared.package import Package, count_cells, office_properties, stream
from ingestor.parsers.shared.plugin import parser_plugin
from ingestor.parsers.shared.sheets import Row, add_sheet
from ingestor.ports import BadDocument
from ingestor.registry import Options

_CONTENT_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_CELL, _VALUE = f"{_S}c", f"{_S}v"
_WORDLESS = "cells without a letter or digit"
_WORD = re.compile(r"\w")
_ESCAPE = re.compile(r"_x([0-9A-Fa-f]{4})_")


class XlsxOptions(Options):
    hidden_sheets: bool = Field(default=False, description="read hidden sheets")
    comments: bool = Field(default=False, description="read comments, below their sheet")


def parse(blob: Blob, options: XlsxOptions) -> Document:
    """Read a workbook. Raises BadDocument if the file is damaged, encrypted, a zip bomb or far too large."""
    package = Package(blob.data)
    part = package.main_part("xl/workbook.xml")
    composer, counted = Composer(), dict[str, int]()
    sheets = _sheets(package, part, composer, counted, hidden=options.hidden_sheets)
    for number, (name, sheet, rows) in enumerate(sheets):
        add_sheet(composer, number, name, rows)
        _add_drawings(composer, package, sheet)
        if options.comments:
            _add_comments(composer, package, sheet)
    for kind, name in package.relations(part).values():  # also those that the workbook does not list
        if kind == "worksheet" and name in package and name not in counted:
            counted[name] = count_cells(package.read(name))
    facts = office_properties(package, composer)
    return composer.document(_CONTENT_TYPE, raw_words=sum(counted.values()), **facts)


def _add_drawings(composer: Composer, package: Package, sheet: str) -> None:
    """Add the charts, pictures and texts of shapes that are drawn on a sheet.

    ``sheet``: name of the sheet's part.
    """
    for kind, part in package.relations(sheet).values():
        relations = package.relations(part) if kind == "drawing" else {}
        for anchor in package.optional(part if kind == "drawing" else ""):
            relation, description = drawing.picture(anchor)
            picture = relations.get(relation, ("", ""))[1]
            if picture:
                composer.add("figure", clean_description(description), figure=picture)
            for chart in filter(None, map(drawing.chart_of, anchor.iter())):
                root = package.optional(relations.get(chart, ("", ""))[1])
                composer.add("figure", "\n".join(drawing.titles(root)))
            composer.add("paragraph", drawing.text(anchor))


def _add_comments(composer: Composer, package: Package, sheet: str) -> None:
    for kind, part in package.relations(sheet).values():
        for comment in package.optional(part if kind == "comments" else "").iter(f"{_S}comment"):
            words = " ".join(
                _without_escapes("".join(text.text or "" for text in comment.iter(f"{_S}t"))).split()
            )
            composer.add("comment", f"{comment.get('ref', '')}: {words}" if words else "")


def _sheets(
    package: Package, part: str, composer: Composer, counted: dict[str, int], *, hidden: bool
) -> Iterator[tuple[str, str, Iterator[Row]]]:
    """Yield the name, the name of the part, and the rows of each sheet that is to be read.

    The number of cells in each worksheet is stored in ``counted`` by part, also for hidden sheets.
    """
    workbook, relations = package.xml(part), package.relations(part)
    named = dict(relations.values())
    shared = named.get("sharedStrings", "")
    data = package.read(shared) if shared in package else b"<none/>"
    items = stream(data, shared, lambda above: above.tag == f"{_S}sst")
    strings = {str(at): _text(item) for at, item in enumerate(items)}
    properties = workbook.find(f"{_S}workbookPr")
    from_1904 = properties is not None and properties.get("date1904") in ("1", "true")
    cells = _Cells(strings, formats(package.optional(named.get("styles", "")), from_1904))
    for sheet in workbook.iter(f"{_S}sheet"):
        kind, name = relations.get(sheet.get(f"{_R}id", ""), ("", ""))
        if kind != "worksheet":
            continue
        data = package.read(name)
        counted[name] = count_cells(data)
        if hidden or sheet.get("state", "visible") == "visible":
            yield sheet.get("name", ""), name, _rows(data, name, cells, composer)
        else:
            composer.left_out["hidden sheets"] += counted[name]


def _text(item: Element) -> str:
    """Return the text of a shared or inline string without its phonetic reading."""
    parts = [item, *(child for child in item if child.tag != f"{_S}rPh")]
    texts = (("".join(text.text or "" for text in part.findall(f"{_S}t")), part) for part in parts)
    return _without_escapes("".join(raise_digits(text) if _is_raised(part) else text for text, part in texts))


def _is_raised(run: Element) -> bool:
    align = run.find(f"{_S}rPr/{_S}vertAlign")
    return align is not None and align.get("val") == "superscript"


def _without_escapes(text: str) -> str:
    """Decode each escape ``_xHHHH_``, which Excel writes for a character that XML cannot hold."""
    if "_x" not in text:
        return text
    text = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _rows(data: bytes, part: str, cells: "_Cells", composer: Composer) -> Iterator[Row]:
    number = 0
    for row in stream(data, part, lambda above: above.tag == f"{_S}sheetData"):
        number, texts = parse_integer(row.get("r", ""), number + 1), cells.of(row)
        odd = [text for text in texts.values() if not text[:1].isalnum()]
        if odd:
            composer.left_out[_WORDLESS] += sum(not _WORD.search(text) for text in odd)
            texts = {column: text for column, text in texts.items() if text and not text.isspace()}
        yield number, texts


@dataclass(frozen=True, slots=True)
class _Cells:
    """Turns cells into text. ``strings``: shared texts, by their index in digits.

    ``formats``: functions that write numbers, by the cell's style (see ``number_format.formats``).
    """

    strings: dict[str, str]
    formats: Formats

    def of(self, row: Element) -> dict[int, str]:
        cells: dict[int, str] = {}
        column = -1
        for cell in row.iter(_CELL):
            letters = cell.get("r", "").rstrip("0123456789")
            column = _column(letters) if letters else column + 1
            if (text := self._show(cell)) is not None:
                cells[column] = text
        return cells

    def _show(self, cell: Element) -> str | None:
        """Return the text that a cell shows; None if the cell has a style, but no value.

        Cells without a value are not counted in the raw content either.
        """
        kind = cell.get("t", "n")
        if kind == "inlineStr":
            return "".join(_text(item) for item in cell.iter(f"{_S}is"))
        element = cell.find(_VALUE)
        value = "" if element is None or element.text is None else element.text
        if kind != "n":
            return self._text_of(kind, value)
        try:
            return self.formats.get(cell.get("s", ""), self.formats[""])(float(value)) if value else None
        except (ValueError, OverflowError):
            return value

    def _text_of(self, kind: str, value: str) -> str | None:
        """Return the text of a cell that holds no number; ``kind``: the cell's type in XML.

        Raises BadDocument if the cell refers to a shared text that is missing.
        """
        if kind == "s":
            text = self.strings.get(str(parse_integer(value, -1)))
            if text is None:
                raise BadDocument("is damaged: a cell's text is missing; save it again, or exclude it")
            return text
        if kind == "b":
            return "TRUE" if value in ("1", "true") else "FALSE"
        if kind == "d":
            value = value.removesuffix("T00:00:00").replace("T", " ")
        return _without_escapes(value) or None


@lru_cache(20_000)  # Excel has 16,384
def _column(letters: str) -> int:
    """Return the number of a column from its letters; A is 0."""
    number = 0
    for letter in letters[:4].upper():
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1


PLUGIN = parser_plugin("xlsx", 5, parse, XlsxOptions)
