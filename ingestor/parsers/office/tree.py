"""Turns the tree that the library anydoc reads from a document into blocks, in order, with exact offsets.

The tree cannot represent some facts: where a slide begins, a caption, a comment. So the parser of each format
writes such facts into the document as marks before anydoc reads it, and this module removes them again. Marks
are noncharacters of Unicode, which documents do not contain.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Literal

from ingestor.core.completeness import words
from ingestor.model import Document
from ingestor.parsers.shared.flow import CAPTION as CAPTION_STYLE
from ingestor.parsers.shared.flow import Flow
from ingestor.parsers.shared.numbers import write_number
from ingestor.ports import BadDocument

if TYPE_CHECKING:
    from anydoc import Block, Inline, List, Table

Format = Literal["doc", "docx", "odt", "ppt", "pptx", "odp", "rtf"]
CAPTION, CHART, CODE, PAGE = "\ufdd1", "\ufdd2", "\ufdd3", "\ufdd4"
QUOTE, TITLE, TAB, TERM = "\ufdd5", "\ufdd6", "\ufdd7", "\ufdd8"
_COUNTED_AS, _COMMENT, _INSERT, _NUMBER, _END = "\ufddb", "\ufddc", "\ufddd", "\ufdde", "\ufddf"
_STYLED = re.compile(f"{_COUNTED_AS}([A-Za-z]+):([0-9]{{1,6}}){_END}")
_SPAN = re.compile(f"([{_COMMENT}{_INSERT}{_NUMBER}])([^{_COMMENT}-{_END}]*){_END}")
_MARK = re.compile("[\ufdd0-\ufdef]")
_STEP = "(?>[0-9]{1,4}|[ivxlcdm]{1,8}|[IVXLCDM]{1,8}|[A-Za-z])"
_COUNTED = re.compile(rf"(?=.*[0-9.):])\(?{_STEP}(?:[.-]{_STEP})*[.):]*\s+")
_CODE_STYLE = re.compile(
    r"(?:(?:source|program|html|computer)[ _-]?)?(?:code|listing|preformatted|verbatim)"
    r"(?:[ _-]?(?:block|text|listing|example|sample|snippet|line)s?)?[ _]?\d*"
    r"|(?:source|macro) text|quell(?:code|text)"
)
_QUOTE_STYLE = re.compile(
    r"(?:intense |block )?quot(?:e|es|ation|ations)|block text|(?:intensives )?zitat|citation"
)
_TERM_STYLE = re.compile(r"definition term|list heading")  # of pandoc and LibreOffice
_TYPED = re.compile(rf"\s*([•·▪‣–○*-]|\(?{_STEP}[.)])\t+(?=\S)")
_ROUND_BULLETS = ("o", "")  # in Word, letters of Courier New and Symbol
_FAMILIES = {  # of lists -> the style in which their numbers are written
    "decimal": "decimal", "lower_alpha": "lowerLetter", "upper_alpha": "upperLetter",
    "lower_roman": "lowerRoman", "upper_roman": "upperRoman",
}  # fmt: skip


def style_mark(names: Sequence[str]) -> str:
    """Return the mark of a paragraph by its style; "" if the style has no meaning here.

    ``names``: names of the style and of the styles that it inherits from. A whole name must match:
    "Resources", "Table Source" and "Postcode" are not styles of program code.
    """
    known = [name.strip().lower() for name in names]
    if "title" in known:
        return TITLE
    if any(map(CAPTION_STYLE.match, known)):
        return CAPTION
    if any(map(_CODE_STYLE.fullmatch, known)):
        return CODE
    if any(map(_TERM_STYLE.fullmatch, known)):
        return TERM
    return QUOTE if any(map(_QUOTE_STYLE.fullmatch, known)) else ""


def mark_counted(place: str, style: str) -> str:
    """Return a mark that gives a number its style, although anydoc counts it in decimals.

    ``place``: the placeholder of the number, such as ``%1``. ``style``: Word's name of the style.
    """
    return f"{_COUNTED_AS}{style}:{place}{_END}"


def mark_number(text: str) -> str:
    """Return a mark with the number that stands in front of a heading or a list item."""
    return f"{_NUMBER}{text}{_END}"


@dataclass(slots=True)
class Asides:
    """Collector of comments and inserted documents, which the tree cannot hold.

    Each method stores one, and returns the mark to write in its place.
    """

    comments: list[tuple[str, str]] = field(default_factory=list)  # author and text
    documents: list[Document] = field(default_factory=list)

    def comment(self, author: str, text: str) -> str:
        self.comments.append((author, text))
        return f"{_COMMENT}{len(self.comments) - 1}{_END}"

    def insert(self, document: Document) -> str:
        self.documents.append(document)
        return f"{_INSERT}{len(self.documents) - 1}{_END}"


@dataclass(slots=True)
class _Line:
    """The text of a paragraph without its marks, and the facts that the marks state."""

    text: str = ""
    marks: str = ""
    number: str = ""
    figures: list[tuple[str, str]] = field(default_factory=list)  # name and description
    inserts: list[Document] = field(default_factory=list)


def read_tree(data: bytes, kind: Format, asides: Asides | None = None, *, slides: bool = False) -> Flow:
    """Read a document with the library anydoc. ``asides``: comments and documents to insert at their marks.

    ``slides``: whether slides are marked; then titles move to the front of their slide, and quotes are the
    speaker's notes. Raises BadDocument if the document is damaged, encrypted or too large.
    """
    import anydoc

    try:
        tree = anydoc.to_document(data, kind)
    except anydoc.EncryptedError:
        raise BadDocument("is encrypted; save it without a password, or exclude it") from None
    except anydoc.ResourceLimitError as error:
        raise BadDocument(f"is too large, or nested too deeply ({error}); split it, or exclude it") from None
    except anydoc.ConvertError as error:
        raise BadDocument(f"is damaged ({error}); save it again, or exclude it") from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # Rust's, which no other handler takes
            raise
        raise BadDocument(f"is damaged ({error}); save it again, or exclude it") from None
    pictures = {asset.id: asset.origin_part for asset in tree.assets}
    reader = _Reader(asides or Asides(), pictures, slides=slides or kind == "ppt")
    reader.notes = {note.id: reader.plain(note.blocks) for note in tree.notes}
    for block in chain.from_iterable(map(_titles_first, _pages(tree.blocks))) if slides else tree.blocks:
        reader.block(block)
    reader.flow.flush()
    return reader.flow


class _Reader:
    def __init__(self, asides: Asides, pictures: Mapping[int, str], *, slides: bool) -> None:
        self.flow = Flow()
        self.notes: Mapping[str, str] = {}
        self._asides, self._pictures, self._slides = asides, pictures, slides

    def block(self, block: "Block", counted: str = "") -> None:
        """Add a block of the tree to the flow. ``counted``: number of the list item around a heading."""
        if block.kind in ("heading", "paragraph"):
            self._paragraph(block, counted)
        elif block.list is not None:
            self._list(block.list, 0)
        elif block.table is not None:
            self._table(block.table)
        elif block.kind == "block_quote":
            self.flow.flush()
            kind = "notes" if self._slides else "quote"
            for text in map(self._texts, block.blocks or ()):
                self.flow.add(kind, "\n".join(text))
        elif block.kind == "code_block":
            for line in (block.text or "").split("\n"):
                self._code(_MARK.sub("", line))
        else:
            self.flow.add("paragraph", block.text or "")

    def _code(self, line: str) -> None:
        if line.strip():
            self.flow.add("code", line)
        else:
            self.flow.blank()

    def _paragraph(self, block: "Block", counted: str) -> None:
        line = self._line(block.content or ())
        if PAGE in line.marks:
            page = self.flow.composer.page
            self.flow.begin_page(0 if page is None else page + 1)
        is_blank = not line.text.strip()
        if is_blank or CAPTION in line.marks:
            self._draw(line)
        if is_blank:
            self.flow.blank()
        elif block.kind == "heading":
            self._heading(block, line, line.number or counted)
        else:
            self._add(line)
        if not is_blank and CAPTION not in line.marks:
            self._draw(line)
        for document in line.inserts:
            self.flow.flush()
            self.flow.composer.include(document.text, document.blocks)

    def _add(self, line: _Line) -> None:
        """Add a paragraph as a block. Its marks decide the block's kind, or a typed bullet or number does."""
        typed = _TYPED.match(line.text)
        if TITLE in line.marks:
            self.flow.main_title(line.text)
        elif CAPTION in line.marks:
            self.flow.caption(line.text)
        elif CHART in line.marks:
            self.flow.chart([line.text], ())
        elif CODE in line.marks:
            self._code(line.text)
        elif line.number:
            self.flow.item(line.text, 0, _show_marker(line.number) or "-")
        elif typed:
            self.flow.item(line.text[typed.end() :], 0, _show_marker(typed[1]) or "-")
        else:
            kind = "definition" if TERM in line.marks else "quote" if QUOTE in line.marks else "paragraph"
            self.flow.add(kind, line.text.strip())

    def _heading(self, block: "Block", line: _Line, number: str) -> None:
        """Add a heading. If anydoc gives its number as the first text, split it from the title."""
        text, level = line.text, (block.level or 1) - (1 if self._slides else 0)
        first = (block.content[0].text or "") if block.content else ""
        shown = _in_style(first)
        if shown != text and (shown != first or _COUNTED.fullmatch(shown)):
            number, text = number or shown, text[len(shown) :]
        self.flow.heading(text.strip(), max(level, 1), number.strip())

    def _draw(self, line: _Line) -> None:
        for name, description in line.figures:
            self.flow.figure(name, description)

    def _list(self, listed: "List", level: int) -> None:
        """Add a list; ``level`` 0 is the outermost. A heading inside an item becomes a numbered heading."""
        style = _FAMILIES.get(listed.marker)
        for at, item in enumerate(listed.items):
            counted = f"{write_number(listed.start + at, style)}." if style else ""
            marker = (
                _show_marker(counted if item.marker_label is None else _in_style(item.marker_label)) or "-"
            )
            for block in item.blocks:
                if block.list is not None:
                    self._list(block.list, level + 1)
                elif block.kind == "paragraph":
                    line = self._line(block.content or ())
                    if line.text.strip():
                        self.flow.item(line.text, level, marker)
                        marker = " "
                    self._draw(line)
                else:
                    self.block(block, "" if level else marker.strip("- "))

    def _table(self, table: "Table") -> None:
        """Add a table.

        A table with a single cell, or with one column for layout only, is a frame: the blocks inside it are
        added instead.
        """
        grid = table.grid
        cells = [slot.cell for row in grid for slot in row if slot.cell is not None]
        if len(cells) == 1 or (table.kind == "layout" and max(map(len, grid), default=0) == 1):
            for block in chain.from_iterable(cell.blocks for cell in cells):
                self.block(block)
        else:
            self.flow.table(
                [self.plain(slot.cell.blocks) if slot.cell else "" for slot in row] for row in grid
            )

    def plain(self, blocks: "Iterable[Block]") -> str:
        """Return the text of blocks on one line."""
        return " ".join(" ".join(chain.from_iterable(map(self._texts, blocks))).split())

    def _texts(self, block: "Block") -> Iterator[str]:
        if block.content is not None:
            yield self._line(block.content).text.rstrip("\n")
        elif block.list is not None:
            for item in block.list.items:
                yield from chain.from_iterable(map(self._texts, item.blocks))
        elif block.table is not None:
            for slot in chain.from_iterable(block.table.grid):
                yield from chain.from_iterable(map(self._texts, slot.cell.blocks if slot.cell else ()))
        else:
            yield _MARK.sub("", block.text or "")
            yield from chain.from_iterable(map(self._texts, block.blocks or ()))

    def _line(self, content: "Iterable[Inline]") -> _Line:
        line = _Line()

        def span(match: re.Match[str]) -> str:
            kind, value = match[1], match[2]
            if kind == _NUMBER:
                line.number = _MARK.sub("", value).strip()
            elif value.isdecimal() and kind == _COMMENT and int(value) < len(self._asides.comments):
                self.flow.comment(*self._asides.comments[int(value)])
            elif value.isdecimal() and kind == _INSERT and int(value) < len(self._asides.documents):
                line.inserts.append(self._asides.documents[int(value)])
            return ""

        text = "".join(self._pieces(content, line))
        if _MARK.search(text):
            text = _SPAN.sub(span, _in_style(text)).replace(TAB, "\t")
            line.marks = "".join(_MARK.findall(text))
            text = _MARK.sub("", text)
        line.text = text
        return line

    def _pieces(self, content: "Iterable[Inline]", line: _Line) -> Iterator[str]:
        for inline in content:
            if inline.kind == "link":
                text = "".join(self._pieces(inline.content or (), line))
                url = inline.target.value if inline.target and inline.target.kind != "anchor" else ""
                linked = text.strip() and url and text.strip() not in url
                yield f"[{text}]({url})" if linked else text
            elif inline.kind == "image":
                source = inline.source
                name = (
                    (source.url or self._pictures.get(-1 if source.asset_id is None else source.asset_id, ""))
                    if source
                    else ""
                )
                line.figures.append((name, inline.alt or ""))
            elif inline.kind == "note_ref":
                note = self.notes.get(inline.note_id or "", "")
                yield self.flow.cite(note) if note else ""
            elif inline.kind == "line_break":
                yield "\n"
            elif inline.kind == "checkbox":
                yield "[x] " if inline.checked else "[ ] "
            elif inline.style and inline.style.strike and not _MARK.search(inline.text or ""):
                self.flow.composer.left_out["struck-out text"] += words(inline.text or "")
            else:
                yield inline.text or ""


def _pages(blocks: "Iterable[Block]") -> "Iterator[list[Block]]":
    page: list[Block] = []
    for block in blocks:
        if any(PAGE in (inline.text or "") for inline in block.content or ()):
            yield page
            page = []
        page.append(block)
    yield page


def _titles_first(page: "Sequence[Block]") -> "list[Block]":
    """Return the blocks of a slide: the mark of its beginning, its titles, then the other blocks in order."""
    return [*page[:1], *sorted(page[1:], key=lambda block: block.kind != "heading")]


def _in_style(text: str) -> str:
    return (
        _STYLED.sub(lambda match: write_number(int(match[2]), match[1]), text)
        if _COUNTED_AS in text
        else text
    )


def _show_marker(marker: str) -> str:
    """Return the number or letter in front of a list item; "" if the marker is a bullet."""
    marker = marker.strip()
    return marker if any(map(str.isalnum, marker)) and marker not in _ROUND_BULLETS else ""
