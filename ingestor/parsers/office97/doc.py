"""Documents of Word 97 to 2003 (.doc): headings, lists, tables, links, notes, text boxes.

[MS-DOC] The text is in pieces, each in UTF-16 or Windows-1252; what a paragraph is, stands in pages of 512
bytes that are found by the place of the paragraph in the file.
"""

import re
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from ingestor.core.completeness import words
from ingestor.parsers.office97.doc_styles import (
    DocStyle,
    ParagraphStyle,
    lists,
    paragraph,
    styles,
    with_style,
)
from ingestor.parsers.office97.streams import stream
from ingestor.parsers.shared.compose import Composer
from ingestor.parsers.shared.flow import Flow
from ingestor.ports import BadDocument

_WORD97 = 0xC0  # version of the format from which on it is this one
_TITLE = 62  # number of the built-in style
_PAGE = 512
_PATTERNS, _LISTS = 0x02E2, 0x02EA  # their places in the header
_LINK = re.compile(r'HYPERLINK\s+"([^"]+)"')
_FIELD = re.compile("\x13([^\x13\x14\x15]*+)\x14?([^\x13\x14\x15]*+)\x15")
_NOTE = re.compile("\x02")
_FIELD_MARK = re.compile("[\x13-\x15\0]")
_END = re.compile("[\r\x07\x0c]")
_SIGNS = {"\x0b": "\n", "\x1e": "-", "\xa0": " ", **dict.fromkeys("\x01\x03\x04\x05\x08\x1f", "")}
_SIGN = re.compile(f"[{''.join(_SIGNS)}]")


@dataclass(frozen=True, slots=True)
class _Piece:
    """``start``: in characters; ``place``: in bytes of the stream."""

    start: int
    end: int
    place: int
    wide: bool

    def at(self, position: int) -> int:
        return self.place + (position - self.start) * (2 if self.wide else 1)


def read(file: Any, data: bytes, composer: Composer) -> dict[str, Any]:
    """Raises BadDocument."""
    main = stream(file, data, "WordDocument")
    ident, version = struct.unpack_from("<HH", main, 0)
    (flags,) = struct.unpack_from("<H", main, 0x0A)
    if flags & 0x0100:
        raise BadDocument("is encrypted; save it without a password, or exclude it")
    if ident != 0xA5EC or version < _WORD97:
        raise BadDocument("is a Word document from before 1997: save it as .docx")
    table = stream(file, data, "1Table" if flags & 0x0200 else "0Table")
    reader = _Reader(main, table, Flow())
    reader.flow.composer = composer
    reader.read()
    return {"raw_words": reader.raw_words, "title": reader.flow.title or composer.title}


class _Reader:
    def __init__(self, main: bytes, table: bytes, flow: Flow) -> None:
        self.flow, self._main, self._table = flow, main, table
        self._pieces = list(_pieces(self._part(0x01A2), len(main)))
        self._text = within_paragraphs("".join(map(self._decoded, self._pieces)), self._lengths())
        self._starts = [piece.start for piece in self._pieces]
        self._runs = sorted(self._paragraph_runs(), key=lambda run: run[0])
        self._run_starts = [start for start, _, _ in self._runs]
        self._styles = styles(self._part(0x00A2))
        self._lists = lists(self._table[struct.unpack_from("<I", main, _PATTERNS)[0] :], self._part(_LISTS))
        self._notes = {**self._noted(0x00AA, 0x00B2, 1), **self._noted(0x020A, 0x0212, 5)}
        self._cells: list[str] = []
        self._cell: list[str] = []
        self._rows: list[list[str]] = []
        self.raw_words = 0

    def _part(self, at: int) -> bytes:
        """A part of the table stream, at the position in the file's header."""
        start, size = struct.unpack_from("<II", self._main, at)
        return self._table[start : start + size]

    def _decoded(self, piece: _Piece) -> str:
        raw = self._main[piece.place : piece.at(piece.end)]
        text = raw.decode("utf-16-le", "replace") if piece.wide else raw.decode("cp1252", "replace")
        return text.ljust(piece.end - piece.start, "\0")[: piece.end - piece.start]

    def _lengths(self) -> tuple[int, ...]:
        """Characters of the text, footnotes, headers, macros, comments, endnotes, text boxes."""
        found: tuple[int, ...] = struct.unpack_from("<7i", self._main, 0x4C)
        return found

    def read(self) -> None:
        text, notes, headers, macros, comments, endnotes, boxes = self._lengths()
        self._read(0, text)
        start = text + notes + headers + macros + comments + endnotes
        self._read(start, start + boxes)

    def _read(self, start: int, end: int) -> None:
        """Paragraphs between two characters."""
        at = start
        for mark in _END.finditer(self._text, start, min(end, len(self._text))):
            self._paragraph(at, mark.start(), mark[0])
            at = mark.end()
        if at < end:
            self._paragraph(at, min(end, len(self._text)), "\r")
        self._end_table()
        self.flow.flush()

    def _paragraph(self, start: int, end: int, mark: str) -> None:
        found = self._properties(end)
        if mark == "\x07" or found.in_table:
            self._in_table(self._said(start, end), mark, found)
            return
        self._end_table()
        text = self._said(start, end)
        style = self._styles.get(found.style, DocStyle())
        found = with_style(found, style.said)
        if not text.strip():
            self.flow.blank()
        elif style.built_in == _TITLE:
            self.flow.main_title(text)
        elif level := _heading_level(found, style):
            self.flow.heading(text, level, self._marker(found))
        elif found.list_number:
            self.flow.item(text, min(found.list_level or 0, 8), self._marker(found) or "-")
        else:
            self.flow.add("paragraph", text)

    def _marker(self, found: ParagraphStyle) -> str:
        level = min(found.list_level or 0, 8)
        return self._lists.marker(str(found.list_number), level) if found.list_number else ""

    def _in_table(self, text: str, mark: str, found: ParagraphStyle) -> None:
        if found.row_end:
            self._rows.append(self._cells)
            self._cells = []
            return
        self._cell.append(text)
        if mark == "\x07":
            self._cells.append(" ".join(self._cell))
            self._cell = []

    def _end_table(self) -> None:
        if self._cells or self._cell:
            self._rows.append([*self._cells, " ".join(self._cell)])
            self._cells, self._cell = [], []
        if self._rows:
            self.flow.table(self._rows)
        self._rows = []

    def _said(self, start: int, end: int) -> str:
        """Without the instructions of fields, and with marks of notes."""
        text = self._text[start:end]
        if "\x02" in text:
            text = _NOTE.sub(lambda mark: self._cited(start + mark.start()), text)
        self.raw_words += words(without_fields(text, r"\2"))
        return _SIGN.sub(lambda found: _SIGNS[found[0]], without_fields(text))

    def _cited(self, mark: int) -> str:
        note = self._notes.pop(mark, None)
        return self.flow.cite(note) if note else "" if note is None else "\x02"

    def _noted(self, references: int, texts: int, before: int) -> dict[int, str]:
        """Texts of notes by the place of their marks. ``before``: which part of the text they are."""
        places, ends = self._part(references), self._part(texts)
        start = sum(self._lengths()[:before])
        count = (len(places) - 4) // 6
        if count <= 0 or len(ends) < 4 * (count + 1):
            return {}
        marks = struct.unpack_from(f"<{count}I", places)
        bounds = struct.unpack_from(f"<{count + 1}I", ends)
        return {
            mark: re.sub("[\x00-\x1f]", " ", without_fields(self._text[start + begin : start + end])).strip()
            for mark, (begin, end) in zip(marks, pairwise(bounds), strict=True)
        }

    def _properties(self, position: int) -> ParagraphStyle:
        at = bisect_right(self._starts, position) - 1
        if at < 0 or not self._runs:
            return ParagraphStyle()
        place = self._pieces[at].at(position)
        run = self._runs[max(0, bisect_right(self._run_starts, place) - 1)]
        return run[2] if run[0] <= place < run[1] else ParagraphStyle()

    def _paragraph_runs(self) -> Iterator[tuple[int, int, ParagraphStyle]]:
        """Begin and end in the file, and the kind of the paragraph."""
        bins = self._part(0x0102)
        count = (len(bins) - 4) // 8
        if count <= 0:
            return
        for number in struct.unpack_from(f"<{count}I", bins, 4 * (count + 1)):
            page = self._main[number * _PAGE : (number + 1) * _PAGE]
            if len(page) == _PAGE:
                yield from _page(page)


def _heading_level(found: ParagraphStyle, style: DocStyle) -> int:
    """From 1; 0 of body text."""
    if found.level is not None and found.level < 9:
        return found.level + 1
    return style.built_in if 1 <= style.built_in <= 9 else 0


def _page(page: bytes) -> Iterator[tuple[int, int, ParagraphStyle]]:
    count = min(page[511], 29)
    places = struct.unpack_from(f"<{count + 1}I", page)
    for at in range(count):
        offset = 2 * page[4 * (count + 1) + 13 * at]
        size = page[offset] if offset else 0
        begin, size = (offset + 1, 2 * size - 1) if size else (offset + 2, 2 * page[offset + 1])
        found = paragraph(page[begin : begin + size]) if offset and size >= 2 else ParagraphStyle()
        yield places[at], places[at + 1], found


def _pieces(clx: bytes, most: int) -> Iterator[_Piece]:
    """``most``: characters that the file can hold."""
    at = 0
    while at + 3 <= len(clx) and clx[at] == 1:
        at += 3 + struct.unpack_from("<H", clx, at + 1)[0]
    if at + 5 > len(clx) or clx[at] != 2:
        raise ValueError("its text can't be found")
    (size,) = struct.unpack_from("<I", clx, at + 1)
    table = clx[at + 5 : at + 5 + size]
    count = max(0, (len(table) - 4) // 12)
    bounds = struct.unpack_from(f"<{count + 1}I", table)
    if bounds[-1] > most:
        raise ValueError("its text is longer than the file")
    for number in range(count):
        (place,) = struct.unpack_from("<I", table, 4 * (count + 1) + 8 * number + 2)
        narrow = bool(place & 0x40000000)
        place &= 0x3FFFFFFF
        if not bounds[number] <= bounds[number + 1] <= most:
            raise ValueError("its pieces overlap")
        yield _Piece(bounds[number], bounds[number + 1], place // 2 if narrow else place, not narrow)


def within_paragraphs(text: str, lengths: Iterable[int]) -> str:
    """NUL for the instructions of fields that go over several paragraphs, as tables of contents do."""
    bounds = [0, *accumulate(lengths), len(text)]
    return "".join(_one_part(text[begin:end]) for begin, end in pairwise(bounds))


def _one_part(text: str) -> str:
    open_fields: list[tuple[int, int]] = []  # where each begins, and where its instruction ends
    said = list(text)
    for mark in re.finditer("[\x13-\x15]", text):
        at = mark.start()
        if mark[0] == "\x13":
            open_fields.append((at, -1))
        elif open_fields and mark[0] == "\x14":
            open_fields.append((open_fields.pop()[0], at))
        elif open_fields:
            begin, end = open_fields.pop()
            if _END.search(text, begin, at):
                end = at if end < 0 else end
                said[begin : end + 1] = "\0" * (end + 1 - begin)
    return "".join(said)


def without_fields(text: str, shown: Callable[[re.Match[str]], str] | str | None = None) -> str:
    """What fields show, also those in each other; ``shown``: of one, else as Markdown."""
    if not _FIELD_MARK.search(text):
        return text
    for _ in range(5):
        text, count = _FIELD.subn(shown or _field, text)
        if not count:
            break
    return _FIELD_MARK.sub("", text)


def _field(found: re.Match[str]) -> str:
    """The visible text; links in the form of Markdown."""
    instruction, shown = found[1], found[2]
    link = _LINK.search(instruction)
    return f"[{shown}]({link[1]})" if link and shown.strip() and shown.strip() not in link[1] else shown
