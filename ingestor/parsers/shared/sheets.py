"""Turns the cells of a spreadsheet's sheet into headings, tables and paragraphs. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ingestor.parsers.shared.compose import Composer
from ingestor.ports import BadDocument

Row = tuple[int, dict[int, str]]  # its number, and its texts by column; nothing for empty cells

_CELLS = 5_000_000


def add_sheet(composer: Composer, number: int, name: str, rows: Iterable[Row]) -> None:
    """Add a sheet, unless it is empty: its name becomes a heading, its rows become paragraphs and tables.

    ``number``: position of the sheet, from 0, which becomes the page; its ``name`` becomes the label of the
    page. Raises BadDocument if the sheet is far too large.
    """
    composer.page, composer.page_label = number, name
    for number, group in enumerate(_groups(rows)):
        if number == 0:
            composer.heading(name, 1)
        # Rows of one cell above a table are its title. A short group of such rows is text.
        wide = next((at for at, row in enumerate(group) if len(row) > 1), len(group))
        titles = wide if wide < len(group) or len(group) < 4 else 0
        composer.add("paragraph", "\n".join(text for row in group[:titles] for text in row.values()))
        composer.table(in_columns(group[titles:]))


def in_columns(table: Sequence[Mapping[int, str]]) -> Iterator[list[str]]:
    """Yield each row as a list of texts. Columns that are empty in the whole table are left out."""
    columns = sorted(set[int]().union(*table))
    for row in table:
        yield [*row.values()] if [*row] == columns else [row.get(column, "") for column in columns]


def _groups(rows: Iterable[Row]) -> Iterator[list[dict[int, str]]]:
    """Yield groups of rows, divided at blank rows. Raises BadDocument if there are too many cells."""
    group: list[dict[int, str]] = []
    last, cells = 0, 0
    for number, row in rows:
        if not row:
            continue
        cells += len(row)
        if cells > _CELLS:
            raise BadDocument(f"has more than {_CELLS:,} cells in a sheet; split it, or exclude it")
        if group and number > last + 1:
            yield group
            group = []
        group.append(row)
        last = number
    if group:
        yield group
