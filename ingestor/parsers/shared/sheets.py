"""The cells of a sheet -> headings, tables and lines of text. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ingestor.parsers.shared.compose import Composer
from ingestor.ports import BadDocument

Row = tuple[int, dict[int, str]]  # its number, and its texts by column; nothing for empty cells

_CELLS = 5_000_000


def add_sheet(composer: Composer, number: int, name: str, rows: Iterable[Row]) -> None:
    """Add a sheet, unless it is empty: its name as heading, its rows as paragraphs and tables.

    ``number`` counts from 0 and becomes the page; ``name`` becomes the page's label. Raises BadDocument if
    the sheet is far too large.
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
    """Yield the rows with a text for each column that any of them has."""
    columns = sorted(set[int]().union(*table))
    for row in table:
        yield [*row.values()] if [*row] == columns else [row.get(column, "") for column in columns]


def _groups(rows: Iterable[Row]) -> Iterator[list[dict[int, str]]]:
    """Yield rows without a blank one between them."""
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
