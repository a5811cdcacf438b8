"""Spreadsheets (XLSX): a sheet is a page with its name as heading, its cells are tables as they are shown.

A blank row ends a table; the first row of each is its header. Formulas appear as their last result, dates as
ISO dates. Hidden sheets are left out, unless they are asked for, and columns with nothing in them.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from xml.etree.ElementTree import Element

from pydantic import Field

from ingestor.model import Blob, Document
from ingestor.parsers.office import drawing
from ingestor.parsers.office.properties import about, pictures_only
from ingestor.parsers.office.xlsx_format import Shown, shown
from ingestor.parsers.shared.compose import Composer
from ingestor.parsers.shared.flow import described
from ingestor.parsers.shared.package import Package
from ingestor.parsers.shared.raw_xml import of_cells
from ingestor.parsers.shared.sheets import Row, add_sheet
from ingestor.parsers.shared.whole import whole
from ingestor.ports import BadDocument
from ingestor.registry import Options, Plugin

_CONTENT_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_CELL, _VALUE = f"{_S}c", f"{_S}v"
_WORD = re.compile(r"\w")


class XlsxOptions(Options):
    hidden_sheets: bool = Field(default=False, description="whether sheets that are not shown are read")
    comments: bool = Field(default=False, description="whether comments are read, below their sheet")


class XlsxParser:
    isolated = True

    def __init__(self, options: XlsxOptions) -> None:
        self._options = options

    def parse(self, blob: Blob) -> Document:
        """Raises BadDocument when it is damaged, encrypted, a bomb or far too large."""
        package = Package(blob.data)
        part = package.main_part("xl/workbook.xml")
        composer = Composer()
        sheets = _sheets(package, part, composer, hidden=self._options.hidden_sheets)
        for number, (name, sheet, rows) in enumerate(sheets):
            add_sheet(composer, number, name, rows)
            _add_drawings(composer, package, sheet)
            if self._options.comments:
                _add_comments(composer, package, sheet)
        properties = about(package)
        return Document(
            text=composer.text,
            blocks=tuple(composer.blocks),
            content_type=_CONTENT_TYPE,
            title=properties.title,
            language=properties.language,
            extra=properties.extra,
            raw_words=sum(of_cells(package.read(name)) for name in _worksheets(package, part)),
            left_out=composer.left_out,
            lost=pictures_only(package, composer),
        )


def _worksheets(package: Package, part: str) -> list[str]:
    return [
        name for kind, name in package.relations(part).values() if kind == "worksheet" and name in package
    ]


def _add_drawings(composer: Composer, package: Package, sheet: str) -> None:
    """Charts, and what is said of pictures; texts of shapes."""
    for kind, part in package.relations(sheet).values():
        relations = package.relations(part) if kind == "drawing" else {}
        for anchor in package.optional(part if kind == "drawing" else ""):
            relation, description = drawing.picture(anchor)
            picture = relations.get(relation, ("", ""))[1]
            if picture:
                composer.add("figure", described(description), figure=picture)
            for chart in filter(None, map(drawing.part_of, anchor.iter())):
                root = package.optional(relations.get(chart, ("", ""))[1])
                composer.add("figure", "\n".join(drawing.titles(root)))
            composer.add("paragraph", drawing.text(anchor))


def _add_comments(composer: Composer, package: Package, sheet: str) -> None:
    for kind, part in package.relations(sheet).values():
        for comment in package.optional(part if kind == "comments" else "").iter(f"{_S}comment"):
            said = " ".join("".join(text.text or "" for text in comment.iter(f"{_S}t")).split())
            composer.add("comment", f"{comment.get('ref', '')}: {said}" if said else "")


def _sheets(
    package: Package, part: str, composer: Composer, *, hidden: bool
) -> Iterator[tuple[str, str, Iterator[Row]]]:
    """Name, part and rows of each."""
    workbook, relations = package.xml(part), package.relations(part)
    named = dict(relations.values())
    strings = list(_strings(package, named.get("sharedStrings", "")))
    properties = workbook.find(f"{_S}workbookPr")
    from_1904 = properties is not None and properties.get("date1904") in ("1", "true")
    formats = shown(package.optional(named.get("styles", "")), from_1904)
    for sheet in workbook.iter(f"{_S}sheet"):
        kind, name = relations.get(sheet.get(f"{_R}id", ""), ("", ""))
        if kind != "worksheet":
            continue
        if hidden or sheet.get("state", "visible") == "visible":
            yield sheet.get("name", ""), name, _rows(package, name, strings, formats, composer)
        else:
            composer.leave_out("hidden sheets", of_cells(package.read(name)))


def _strings(package: Package, part: str) -> Iterator[str]:
    if part in package:
        for item in package.stream(part, lambda above: above.tag == f"{_S}sst"):
            yield _text(item)


def _text(item: Element) -> str:
    """Less what says how it is pronounced."""
    parts = [child for child in item if child.tag != f"{_S}rPh"]
    return "".join(text.text or "" for part in parts for text in part.iter(f"{_S}t"))


def _rows(
    package: Package, part: str, strings: list[str], formats: Shown, composer: Composer
) -> Iterator[Row]:
    number = 0
    for row in package.stream(part, lambda above: above.tag == f"{_S}sheetData"):
        given = row.get("r", "")
        number = whole(given, number + 1)
        cells = _cells(row, strings, formats)
        odd = [text for text in cells.values() if not text[:1].isalnum()]
        if odd:
            composer.leave_out("cells without a letter or digit", sum(not _WORD.search(text) for text in odd))
            cells = {column: text for column, text in cells.items() if text and not text.isspace()}
        yield number, cells


def _cells(row: Element, strings: list[str], formats: Shown) -> dict[int, str]:
    cells: dict[int, str] = {}
    column = -1
    for cell in row.iter(_CELL):
        letters = cell.get("r", "").rstrip("0123456789")
        column = _column(letters) if letters else column + 1
        if (text := _shown(cell, strings, formats)) is not None:
            cells[column] = text
    return cells


def _shown(cell: Element, strings: list[str], formats: Shown) -> str | None:
    """None where it has a style, but no value: such a cell is not counted in the raw content either."""
    kind = cell.get("t", "n")
    if kind == "inlineStr":
        return "".join(_text(item) for item in cell.iter(f"{_S}is"))
    found = cell.find(_VALUE)
    text = "" if found is None or found.text is None else found.text
    if kind == "n":
        return formats(text, cell.get("s", "")) if text else None
    if kind == "s":
        index = whole(text, len(strings))
        if index >= len(strings):
            raise BadDocument("is damaged: a cell's text is missing; save it again, or exclude it")
        return strings[index]
    if kind == "b":
        return "TRUE" if text in ("1", "true") else "FALSE"
    if kind == "d":
        text = text.removesuffix("T00:00:00").replace("T", " ")
    return text or None


@lru_cache(20_000)  # Excel has 16,384
def _column(letters: str) -> int:
    """A is 0."""
    number = 0
    for letter in letters[:4].upper():
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1


PLUGIN = Plugin(kind="xlsx", version=3, options=XlsxOptions, build=XlsxParser)
