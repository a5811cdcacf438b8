"""Rows of sheets that are written as nearly all are: paragraphs of plain text in cells. Pure."""

import re
from functools import lru_cache

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
        if said:
            shown = said if said.isalnum() else " ".join(unescaped(said).split())
            if shown:
                all_said.append(shown)
                texts[column] = shown
        elif attributes:
            shown = ""
        else:
            return None
        if "-repeated" not in attributes:  # as in nearly all
            column += 1
            continue
        repeated = _columns(attributes)
        if shown:
            texts.update(dict.fromkeys(range(column + 1, column + min(repeated, MOST)), shown))
        column += repeated
    return _count(_ROWS, head[1]) if "-repeated" in head[1] else 1, texts, " ".join(all_said)


@lru_cache(1000)
def _columns(attributes: str) -> int:
    return _count(_COLUMNS, attributes)


def _count(name: re.Pattern[str], attributes: str) -> int:
    found = name.search(attributes)
    return max(whole(found[1], 1), 1) if found else 1
