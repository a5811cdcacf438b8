"""Rows of sheets that are written as nearly all are: paragraphs of plain text in cells. Pure."""

import re

from ingestor.parsers.odf.inline import TABLE, TEXT
from ingestor.parsers.shared import plain_rows
from ingestor.parsers.shared.plain_rows import SPACE, PlainRows, unescaped
from ingestor.parsers.shared.whole import whole

_TAG = "table:table-row"
_NAMESPACES = (f'xmlns:table="{TABLE[1:-1]}"', f'xmlns:text="{TEXT[1:-1]}"')
_ROW = re.compile(rf"{SPACE}<{_TAG}([^>]*+)(?<!/)>")
_CELL = re.compile(  # the attributes, and the text; or something else, then both are empty
    rf"<table:(?:covered-)?table-cell([^>]*+)>(?:(?<=/>)|<text:p>({plain_rows.TEXT})</text:p>"
    r"</table:(?:covered-)?table-cell>)|[^ \t\r\n]"
)
_ROWS, _COLUMNS = (re.compile(f' table:number-{name}-repeated="([^"]*)"') for name in ("rows", "columns"))
MOST = 1000  # times that a cell or a row which holds something is repeated

PlainRow = tuple[
    int, dict[int, str], str
]  # how often it stands there, its texts by column, and these once each


def plain_sheets() -> PlainRows[PlainRow]:
    return PlainRows(_TAG, _NAMESPACES, _read)


def _read(text: str) -> PlainRow | None:
    head = _ROW.match(text)
    if not head or "xmlns" in text:
        return None
    column, texts, all_said = 0, dict[int, str](), list[str]()
    for attributes, said in _CELL.findall(text, head.end()):
        if not attributes and not said:
            return None
        repeated = _count(_COLUMNS, attributes) if "-repeated" in attributes else 1
        shown = " ".join(unescaped(said).split()) if said else ""
        if shown:
            all_said.append(shown)
            texts[column] = shown
            for at in range(1, min(repeated, MOST)):
                texts[column + at] = shown
        column += repeated
    return _count(_ROWS, head[1]), texts, " ".join(all_said)


def _count(name: re.Pattern[str], attributes: str) -> int:
    found = name.search(attributes)
    return max(whole(found[1], 1), 1) if found else 1
