"""Rows and tables of a PDF's page: by its tags, by drawn lines, by figures and texts that stand in columns.

A table becomes one line with rows. Words are taken from the lines that they stand in, so none is lost or
read twice. Before that, lines that stand beside each other are put in the order in which they are read.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from ingestor.parsers.pdf.lines import Line, Word, is_columns, is_units
from ingestor.parsers.pdf.page import PageText, line_of, split

if TYPE_CHECKING:
    from ingestor.parsers.pdf.rules import Grid
    from ingestor.parsers.pdf.structure import Cell

Row = tuple[str, ...]
_LEVEL = 0.3  # sizes of the type between baselines of one row
_PART = 0.9  # sizes of the type between two parts of a line
_EDGE = 4.0  # points between the ends of figures of one column
_STEP = 3.0  # times the usual distance between lines: the end of a table
_BETWEEN = 6  # lines without figures between two rows
_HEADER = 6  # lines above the first row of figures
_LEAST = 3  # rows of a table of texts, and lines side by side
_CELL = 60  # characters of a cell of such a table, on average
_PROSE = 18  # characters of a line of a column of prose, on average
_CUT = 0.3  # share of a drawn table's lines that go on outside of it, at most
_GAP = 12.0  # points: wider than prose has between words
_GUTTER = 4  # lines that a gutter between columns of prose divides
_FIGURE = re.compile(
    r"[^\w\s]{0,3}\d[\d.,:/'’]*[%)\]]{0,2}(?:\(\w{1,2}\))?[*†‡]?|[-–—]+%?|\(?[$€£¥]\)?|[%)]+|N/?[AM]|nm|\("
)
_NUMBER = re.compile(r"\d|^[-–—]+$")
_DATED = re.compile(r"(?:19|20)\d\d")
_LEADER = re.compile(r"(?:\s?[._]){3,}\s*")
_MARK = re.compile(r"[•‣▪■●○◦∙·–—*▶►➢❖◆✓\uf0b7\uf0a7-]|\(?\w{1,4}[.)]")


# --- tables of tags and of drawn lines ---------------------------------------------------------------------


@dataclass(slots=True)
class PageTable:
    rows: list[Row]
    header: int
    words: list[Word]


def tagged(
    words: Sequence[Word], cells: Mapping[int, "Cell"], mark: Mapping[int, int]
) -> Iterator[PageTable]:
    """Yield the tables of a page's tags; ``mark``: the marked content of a word, by its first character."""
    of: dict[int, list[tuple[Cell, Word]]] = defaultdict(list)
    for word in words:
        if cell := cells.get(mark.get(word.first, -1)):
            of[cell.table].append((cell, word))
    for placed in of.values():
        said: dict[tuple[int, int], list[Word]] = defaultdict(list)
        for cell, word in placed:
            said[cell.row, cell.column].append(word)
        wide = max(column for _, column in said) + 1
        numbers = sorted({row for row, _ in said})
        if wide < 2 or len(numbers) < 2:
            continue
        rows = [tuple(_joined(said.get((row, column), ())) for column in range(wide)) for row in numbers]
        heads = {cell.row for cell, _ in placed} - {cell.row for cell, _ in placed if not cell.head}
        header = next((at for at, row in enumerate(numbers) if row not in heads), len(numbers))
        yield PageTable(rows, header if 0 < header < len(rows) else header_rows(rows), [w for _, w in placed])


def apart(tables: Iterable[PageTable]) -> list[PageTable]:
    """Return tables that share no word: where tags and lines tell of one table, that with more words."""
    taken, found = set[int](), list[PageTable]()
    for table in sorted(tables, key=lambda table: -len(table.words)):
        own = {word.first for word in table.words}
        if not own & taken:
            found.append(table)
            taken |= own
    return found


def ruled(text: PageText, words: Sequence[Word], grids: Iterable["Grid"]) -> Iterator[PageTable]:
    """Yield the tables that are drawn with lines, if enough of their cells hold words."""
    for grid in grids:
        left, bottom, right, top = grid.box
        inside = [
            word for word in words
            if bottom <= word.baseline + 1.5 <= top and left <= (word.left + word.right) / 2 <= right
        ]  # fmt: skip
        levels = {round(word.baseline) for word in inside}
        cut = {round(word.baseline) for word in words if word.right < left or word.left > right}
        if len(levels & cut) > _CUT * len(levels):
            continue  # rules below figures, whose labels stand outside
        rows: list[Row] = []
        for boxes in grid.rows:
            low, high = next((box[1], box[3]) for box in boxes if box)
            rows += _cells(text, boxes, [word for word in inside if low <= word.baseline + 1.5 < high])
        filled = sum(bool(cell) for row in rows for cell in row)
        if rows and filled >= max(4, 0.3 * len(rows) * len(rows[0])):
            yield PageTable(rows, header_rows(rows), inside)


def _cells(text: PageText, boxes: Sequence[tuple[float, ...] | None], words: Iterable[Word]) -> list[Row]:
    """Return the rows between two rules: one, or one for each line of short entries."""
    held: list[list[Word]] = [[] for _ in boxes]
    begins = [(at, box[0]) for at, box in enumerate(boxes) if box]
    for word in words:
        wall = next((x for _, x in begins[1:] if word.left + 1 < x < word.right - 1), None)
        for part in (word,) if wall is None else split(text, word, wall):
            middle = (part.left + part.right) / 2
            held[max((at for at, x in begins if x <= middle), default=begins[0][0])].append(part)
    levels: list[float] = []
    for baseline in sorted({word.baseline for cell in held for word in cell}, reverse=True):
        if not levels or levels[-1] - baseline > 4:
            levels.append(baseline)
    lines = [
        tuple(_joined([word for word in cell if level - 4 <= word.baseline <= level]) for cell in held)
        for level in levels
    ]
    said = [cell for line in lines for cell in line if cell]
    own = (
        len(begins) == len(boxes)
        and len(lines) >= _LEAST
        and all(line[0] for line in lines)
        and len(said) >= 0.8 * len(lines) * len(boxes)
        and sum(map(len, said)) <= 30 * len(said)
    )
    return lines if own else [tuple(map(_joined, held))]


def _joined(words: Iterable[Word]) -> str:
    return "".join(word.text + ("" if word.divided else " ") for word in words).strip()


def header_rows(rows: Sequence[Row]) -> int:
    """Count the rows at the top that name columns, years and units."""
    count = 0
    for row in rows[:_HEADER]:
        said = [cell for cell in row if cell]
        rest = said[1:] if len(said) > 1 else said
        if any(_NUMBER.search(cell) and not is_columns(cell) and not _DATED.search(cell) for cell in rest):
            break
        count += 1
    if count == len(rows[:_HEADER]):  # a table of texts
        return 1 if len(rows) > 2 and all(rows[0][1:]) else 0
    while count and sum(map(bool, rows[count - 1])) == 1 and rows[count - 1][0]:
        if is_units(rows[count - 1][0]) or is_columns(rows[count - 1][0]):
            break
        count -= 1  # a label: "Current assets:"
    return count


# --- lines in the order in which they are read -------------------------------------------------------------


def arranged(text: PageText, lines: Sequence[Sequence[Word]], tables: Sequence[PageTable]) -> list[Line]:
    """Return the lines of a page, with their tables. ``lines``: words in the order of the file."""
    owner = {word.first: table for table in tables for word in table.words}
    placed = set[int]()
    found: list[Line] = []
    for words in lines:
        rest = list[Word]()
        for word in words:
            table = owner.get(word.first)
            if table is None:
                rest.append(word)
            elif id(table) not in placed:
                placed.add(id(table))
                found += [line_of(text, rest)] if rest else []
                rest = []
                found.append(table_line(line_of(text, table.words), table.rows, table.header))
        found += [line_of(text, rest)] if rest else []
    return aligned(list(_columns(text, _rows(text, found))))


def table_line(like: Line, rows: Sequence[Row], header: int) -> Line:
    return replace(like, rows=tuple(rows), header=header, words=(), hyphen=False)


def _level(line: Line, other: Line) -> bool:
    return (
        abs(line.baseline - other.baseline) < _LEVEL * max(line.size, other.size)
        and not line.rows and not other.rows and line.slanted == other.slanted
    )  # fmt: skip


def _rows(text: PageText, lines: Sequence[Line]) -> list[Line]:
    """Join lines that are parts of one row: they follow each other, or the file gives columns."""
    found: list[list[Line]] = []
    for line in lines:
        if found and _level(found[-1][-1], line) and line.left >= found[-1][-1].right - 0.5:
            found[-1].append(line)
        else:
            found.append([line])
    rows = [
        line_of(text, [word for line in row for word in line.words]) if len(row) > 1 else row[0]
        for row in found
    ]
    return _stacked(text, rows)


def _stacked(text: PageText, lines: list[Line]) -> list[Line]:
    """Join the columns of a table that the file gives one after the other."""
    stacks: list[list[Line]] = []
    for line in lines:
        last = stacks[-1][-1] if stacks else None
        below = last and not last.rows and not line.rows and 0 < last.baseline - line.baseline < 3 * line.size
        if (
            below
            and line.left < max(one.right for one in stacks[-1])
            and line.right > min(one.left for one in stacks[-1])
        ):
            stacks[-1].append(line)
        else:
            stacks.append([line])
    at = 0
    while at + 1 < len(stacks):
        joined = _beside(
            text, *sorted(stacks[at : at + 2], key=lambda stack: median(line.left for line in stack))
        )
        if joined:
            stacks[at : at + 2] = [joined]
        else:
            at += 1
    return [line for stack in stacks for line in stack]


def _beside(text: PageText, left: Sequence[Line], right: Sequence[Line]) -> list[Line]:
    """Return the rows of two columns of figures or short lines, if most of the right ones have a left one."""
    partners = [
        next((one for one in left if _level(one, line) and one.right < line.left), None) for line in right
    ]
    matched = sum(one is not None for one in partners)
    figures = sum(all(map(_FIGURE.fullmatch, line.text.split())) for line in right)
    short = max(median(len(line.text) for line in left), median(len(line.text) for line in right)) <= 20
    if matched < max(_LEAST, 0.6 * len(right)) or not (2 * figures >= len(right) or short):
        return []
    after = {id(one): line for one, line in zip(partners, right, strict=True) if one is not None}
    rows = [line_of(text, [*one.words, *after[id(one)].words]) if id(one) in after else one for one in left]
    rows += [line for one, line in zip(partners, right, strict=True) if one is None]
    return sorted(rows, key=lambda line: -line.baseline)


def parts(line: Line) -> list[list[Word]]:
    """Return the words of a line between its wide gaps."""
    found: list[list[Word]] = []
    for word in line.words:
        if found and word.left - found[-1][-1].right <= _PART * line.size:
            found[-1].append(word)
        else:
            found.append([word])
    return found


def _columns(text: PageText, lines: Sequence[Line]) -> Iterator[Line]:
    """Read columns of prose one after the other, where the file gives them line by line."""
    split_up = [parts(line) for line in lines]
    at = 0
    while at < len(lines):
        end, gutter = _gutter(lines, split_up, at)
        if not gutter:
            yield lines[at]
            at += 1
            continue
        sides: tuple[list[Line], list[Line]] = [], []
        for line in lines[at:end]:
            for side, words in zip(sides, _sides(line, gutter), strict=True):
                side.extend([line_of(text, words)] if words else [])
        yield from (*sides[0], *sides[1])
        at = end


def _sides(line: Line, gutter: tuple[float, float]) -> tuple[list[Word], list[Word]]:
    wall = (gutter[0] + gutter[1]) / 2 + 1
    return [word for word in line.words if word.right <= wall], [w for w in line.words if w.right > wall]


def _gutter(
    lines: Sequence[Line], split_up: Sequence[list[list[Word]]], begin: int
) -> tuple[int, tuple[float, float] | None]:
    """Return where the columns end that begin with this line, and the gap between them, if any."""
    best: tuple[int, tuple[float, float] | None] = begin + 1, None
    for one, other in pairwise(split_up[begin]):
        if not any(word.text.isalpha() for word in other):
            continue  # figures
        low, high, end, both = one[-1].right, other[0].left, begin, 0
        for line, own in zip(lines[begin:], split_up[begin:], strict=True):
            if line.rows or not line.words:
                break
            crossed = [(a[-1].right, b[0].left) for a, b in pairwise(own)]
            if line.left >= low or line.right <= high:
                gap: tuple[float, float] | None = (
                    line.right if line.right <= high else low,
                    line.left if line.left >= low else high,
                )
            else:
                gap = next(
                    (gap for gap in crossed if min(gap[1], high) - max(gap[0], low) >= 0.6 * line.size), None
                )
                both += gap is not None
            if gap is None:
                break
            low, high, end = max(low, gap[0]), min(high, gap[1]), end + 1
            if high - low < 0.6 * line.size:
                break
        if both >= _GUTTER and end > best[0] and _are_prose(lines[begin:end], (low, high)):
            best = end, (low, high)
    return best


def _are_prose(lines: Sequence[Line], gutter: tuple[float, float]) -> bool:
    """Tell whether both sides of a gutter read as prose: long lines of letters without wide gaps."""
    for side in zip(*(_sides(line, gutter) for line in lines), strict=True):
        said = [words for words in side if words]
        text = "".join(word.text for words in said for word in words)
        if len(text) + sum(map(len, said)) < _PROSE * len(said):
            return False
        wide = [words[-1].right - words[0].left for words in said]
        gaps = sum(any(b.left - a.right > _GAP for a, b in pairwise(words)) for words in said)
        if (
            sum(w >= 0.6 * max(wide) for w in wide) < 0.5 * len(wide)
            or sum(map(str.isalpha, text)) < 0.7 * len(text)
            or gaps > 0.4 * len(said)
        ):
            return False
    return True


# --- tables without lines ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Figures:
    """A row's cells, the right edges of its figures, and the left end of the first one."""

    cells: Row
    edges: tuple[float, ...]
    left: float


def _figures(line: Line) -> _Figures | None:
    words = [word for word in line.words if word.text.strip("._… ") or not word.text.strip()]
    at = len(words)
    while at and _FIGURE.fullmatch(words[at - 1].text):
        at -= 1
    wide = [
        n for n in range(max(at, 1), len(words)) if words[n].left - words[n - 1].right > _PART * line.size
    ]
    if at and wide and _NUMBER.search(" ".join(word.text for word in words[wide[0] :])):
        at = wide[0]  # what stands close behind the label belongs to it: "(Note 14)"
    tail = words[at:]
    numbers = [word for word in tail if _NUMBER.search(word.text)]
    if not numbers or line.rows or line.slanted:
        return None
    label = words[:at]
    gap = tail[0].left - label[-1].right if label else 99.0
    led = len(words) < len(line.words) or bool(label and _LEADER.search(label[-1].text))
    if len(numbers) < 2 and gap <= _PART * line.size and not led:
        return None
    cells: list[str] = []
    open_ = False  # whether a currency sign or a bracket waits for its number
    for word in tail:
        closes = bool(cells) and word.text in ("%", ")", ")%", "%)")
        if closes or (open_ and cells):
            cells[-1] += word.text
        else:
            cells.append(word.text)
        open_ = not _NUMBER.search(word.text) and not closes
    said = _LEADER.sub(" ", " ".join(word.text for word in label)).strip()
    return _Figures((said, *cells), tuple(word.right for word in numbers), tail[0].left)


def aligned(lines: Sequence[Line]) -> list[Line]:
    """Put the rows of tables without lines together: figures in columns, else short texts in columns."""
    figures = [_figures(line) for line in lines]
    found: list[Line] = []
    at = 0
    leading = _leading(lines)
    while at < len(lines):
        end = _figures_end(lines, figures, at, leading)
        if end:
            rows = [_row(lines[n], figures[n]) for n in range(at, end)]
            above = _header_above(found, lines[at], figures[at], leading)
            head = [_row(line, _figures(line)) for line in found[len(found) - above :]] if above else []
            if above:
                del found[-above:]
            first = lines[at - above] if above else lines[at]
            header = max(header_rows(_even([*head, *rows])), above)
            like = replace(
                first,
                left=min(line.left for line in lines[at - above : end]),
                right=max(line.right for line in lines[at - above : end]),
            )
            found.append(
                table_line(
                    replace(like, text=" ".join(filter(None, first.text.split()))), [*head, *rows], header
                )
            )
            at = end
            continue
        texts, end = _texts(lines, at, leading)
        if texts:
            found.append(table_line(lines[at], texts, 1 if len(texts) > _LEAST - 1 else 0))
            at = end
            continue
        found.append(lines[at])
        at += 1
    return found


def _leading(lines: Sequence[Line]) -> float:
    steps = [
        a.baseline - b.baseline
        for a, b in pairwise(lines)
        if 0.5 * a.size < a.baseline - b.baseline < 3 * a.size
    ]
    return sorted(steps)[len(steps) // 4] if steps else 12.0


def _row(line: Line, figures: _Figures | None) -> Row:
    if figures:
        return figures.cells
    return tuple(_LEADER.sub(" ", " ".join(word.text for word in part)).strip() for part in parts(line))


def _even(rows: Sequence[Row]) -> list[Row]:
    wide = max(map(len, rows))
    return [(*row, *[""] * (wide - len(row))) for row in rows]


def _figures_end(lines: Sequence[Line], figures: Sequence[_Figures | None], at: int, leading: float) -> int:
    """Return where the table of figures ends that begins with this line; 0 if none does."""
    if not figures[at]:
        return 0
    end, shared, count = at + 1, 0, 1
    edges = list(figures[at].edges)  # type: ignore[union-attr]
    left = figures[at].left  # type: ignore[union-attr]
    number = at + 1
    while number < len(lines) and number - end <= _BETWEEN:
        line, own = lines[number], figures[number]
        step = lines[number - 1].baseline - line.baseline
        if line.rows or line.slanted or not -0.5 * line.size < step <= _STEP * leading or not line.words:
            break
        if own:
            matches = any(abs(edge - other) <= _EDGE for edge in own.edges for other in edges)
            if not matches and (own.left < left - 60 or len(line.words) == 1):
                own = None
        if own:
            shared, count, end = shared + matches, count + 1, number + 1
            edges += own.edges
            left = min(left, own.left)
        elif line.right > left + 0.1 * (max(edges) - left) and len(parts(line)) < 2 and len(line.text) > 40:
            break  # prose
        elif line.size > 1.3 * lines[at].size:
            break
        number += 1
    return end if count >= 2 and shared >= 0.5 * (count - 1) else 0


def _header_above(found: Sequence[Line], first: Line, figures: _Figures | None, leading: float) -> int:
    """Count the lines above a table that name its columns and units."""
    count = labels = 0
    below = first
    left = figures.left if figures else first.left
    for number, line in enumerate(reversed(found[-_HEADER:]), 1):
        step = line.baseline - below.baseline
        if line.rows or line.slanted or not line.words or not -0.5 * line.size < step <= 2.2 * leading:
            break
        over = (
            line.left > left - 6 * line.size
            and line.left > first.left + 2 * line.size
            and len(line.text) <= 90
        )
        some = (
            len(parts(line)) > 1 and parts(line)[1][0].left > left - 6 * line.size and len(line.text) <= 120
        )
        names = (over or some or is_units(line.text) or is_columns(line.text)) and not line.text.endswith(".")
        labels += not names
        if labels > 2 or not (names or len(line.text) <= _CELL):
            break
        count, below = number if names else count, line
    return count


def _texts(lines: Sequence[Line], at: int, leading: float) -> tuple[list[Row], int]:
    """Return the rows of a table of short texts that begins with this line, and where it ends."""
    first = parts(lines[at])
    if len(first) < 2 or lines[at].slanted or lines[at].mono or _MARK.fullmatch(first[0][0].text):
        return [], at
    lefts = [part[0].left for part in first]
    rows: list[list[str]] = [[_said(part) for part in first]]
    number = at + 1
    while number < len(lines):
        line, step = lines[number], lines[number - 1].baseline - lines[number].baseline
        columns = _columns_of(line, lefts)
        close = step <= 1.4 * leading
        if not columns or not 0.5 * line.size < step <= 2.5 * leading:
            break
        goes_on = columns[0] > 0 and len(columns) < len(lefts) and close
        if len(columns) < 2 and not goes_on:
            break
        if not goes_on:
            rows.append([""] * len(lefts))
        for column, part in zip(columns, parts(line), strict=True):
            rows[-1][column] = f"{rows[-1][column]} {_said(part)}".strip()
        number += 1
    cells = [cell for row in rows for cell in row if cell]
    full = len(cells) >= 0.6 * len(rows) * len(lefts) and all(row[0] for row in rows[1:])
    if len(rows) < _LEAST or not full or sum(map(len, cells)) > _CELL * len(cells):
        return [], at
    return [tuple(row) for row in rows], number


def _said(words: Iterable[Word]) -> str:
    return " ".join(word.text for word in words)


def _columns_of(line: Line, lefts: Sequence[float]) -> list[int]:
    """Return the column of each part of a line; nothing if one stands in none, or two in one."""
    own = [] if line.rows or line.slanted else parts(line)
    found = [
        next((at for at, left in enumerate(lefts) if _fits(part, left, lefts[at + 1 :], line.size)), -1)
        for part in own
    ]
    return found if -1 not in found and len(set(found)) == len(found) else []


def _fits(part: Sequence[Word], left: float, after: Sequence[float], size: float) -> bool:
    """Tell whether words stand in a column: they begin with it, and end before the next one."""
    end = after[0] if after else float("inf")
    return part[0].left >= left - 0.6 * size and part[-1].right <= end + 0.3 * size
