"""Composes the text of a PDF from the lines of its pages: headings, paragraphs, lists and code. Pure.

A PDF holds only the text, the position and the type of a line, so this module holds rules of thumb. Only
running headers, footers and watermarks are dropped. Running headers are lines at the edge of several pages,
unless they make up most of these pages. A watermark is a slanted line that several pages repeat, wherever it
stands.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ingestor.parsers.pdf.headings import CAPTION, Headings, headings
from ingestor.parsers.pdf.lines import (
    LARGE,
    Bookmark,
    Divisions,
    Line,
    PageLines,
    body_size,
    prose,
    usual_leading,
)
from ingestor.parsers.shared.compose import Composer
from ingestor.text.outline import heading_number

_LABEL = 100  # characters of a line that may be a label
_DEEPER = 1.5  # sizes of the type by which a definition is indented below its term
_SHORT_TERM = 0.7  # of the first line of its definition, at most
_NAME = 5  # words of a company's name, which may end with a full stop
_TALL = 2.2  # times that: no further goes a paragraph that is not finished
_WIDE_GAP = 1.25  # times the usual distance between lines: a new paragraph
_MARKS = "•‣▪■●○◦∙·–—*▶►▸▹➢➤❖◆◇✓✔\uf0b7\uf0a7\uf0d8"
_BULLET = re.compile(rf"[{_MARKS}](?:\s+\S|$)|\(?(?:\d{{1,2}}|[a-z]|[ivx]{{2,4}})[.)]\s+\S")
_SENTENCE_END = (".", "!", "?", ":", "”", '"', "。", "！", "？")
_MARGIN = 0.12  # of the page's height, at the top and at the bottom
_REPEATED = 3  # pages with the same line in the same place: no text
_MOST = 0.5  # of a page's characters: what is more is its text
_NEAR = 4  # points between places that are one
_NUMBERED = re.compile(  # "38", "F-12", "Page 3 of 80"
    r"(?:page\s+)?[-–—]?\s?([A-Z]{1,2}-)?(\d{1,4})(?:\s+(?:of|/)\s+\d{1,4})?\s?[-–—]?", re.IGNORECASE
)
_PAGE = re.compile(r"(?:page|seite|página)\s+\d+(?:\s+(?:of|von|de|/)\s+\d+)?", re.IGNORECASE)
_ROMAN = re.compile(r"[ivxlc]+")
_DIGITS = re.compile(r"\d+")

_Key = tuple[str, int]  # words of a line of the margin, and its place


def compose(pages: Sequence[PageLines], outline: Sequence[Bookmark]) -> Composer:
    """Return the blocks of a document, page by page.

    After each page come the descriptions of its pictures, unless an earlier page had the same, and its
    annotations.
    """
    leading, mend = usual_leading(pages), Divisions(pages).mend
    placed = headings(pages, outline, leading)
    composer, described = Composer(), set[str]()
    for number, page in enumerate(pages):
        composer.page, composer.page_label = number, page.label
        _compose_page(composer, page.lines, placed[number], leading, mend)
        for figure in page.figures:
            if figure not in described:
                composer.add("figure", figure)
            described.add(figure)
        for comment in page.comments:
            composer.add("comment", comment)
    return composer


def _compose_page(
    composer: Composer, lines: Sequence[Line], placed: Headings, leading: float, mend: Callable[[str], str]
) -> None:
    at = 0
    for begin in sorted({*placed, len(lines)}):
        _compose_text(composer, lines[at:begin], leading, mend)
        at = max(at, begin)
        for heading in placed.get(begin, ()):
            title = mend(heading.title)
            composer.heading(title, heading.level, heading_number(title), close=is_close(composer, title))
            at = max(at, begin + heading.count)


def _compose_text(
    composer: Composer, lines: Sequence[Line], leading: float, mend: Callable[[str], str]
) -> None:
    items: list[str] = []

    def add(kind: str, text: str) -> None:
        composer.add(kind, text, close=kind not in ("code", "definition") and is_close(composer, text))

    for kind, group in _groups(lines, leading):
        if kind == "list":
            items.append(mend(prose(group)))
            continue
        add("list", "\n".join(items))
        items = []
        if kind == "table":
            close = is_close(composer, "")
            rows = [[mend(cell) for cell in row] for row in group[0].rows]
            composer.bare_table(rows, group[0].header, caption(composer), close=close)
        else:
            add(kind, mend(_code(group) if kind == "code" else prose(group)))
    add("list", "\n".join(items))


def caption(composer: Composer) -> str | None:
    """Return the title of the table to be added: the heading or caption directly above it, or None."""
    last = composer.blocks[-1] if composer.blocks else None
    if last is None or last.page != composer.page:
        return None
    if last.kind == "heading":
        return last.title
    text = composer.last
    return text if last.kind == "paragraph" and CAPTION.match(text) and len(text) <= 250 else None


def is_close(composer: Composer, text: str) -> bool:
    """Return whether a block with this text follows the last block without a blank line between.

    Blank lines separate only paragraphs of prose, code and pages. Chunkers cut at blank lines first, and
    would divide a statement of figures if all its lines were separated so.
    """
    last = composer.blocks[-1] if composer.blocks else None
    if last is None or last.page != composer.page or last.kind == "code":
        return False
    return not (_is_prose(composer.last) and _is_prose(text))


def _is_prose(text: str) -> bool:
    line = text.rpartition("\n")[2]
    return len(line) > _LABEL or (line.endswith((".", "!", "?")) and len(line.split()) > _NAME)


def _kind(group: Sequence[Line]) -> str:
    if group[0].rows:
        return "table"
    if all(line.mono for line in group):
        return "code"
    return "list" if group[0].item or _BULLET.match(group[0].text) else "paragraph"


# --- paragraphs --------------------------------------------------------------------------------------------


def _groups(lines: Sequence[Line], leading: float) -> Iterator[tuple[str, list[Line]]]:
    """Yield the kind and the lines of each block."""
    terms = {at for at in range(len(lines)) if _is_term(lines, at, leading)}
    group: list[Line] = []
    for at, line in enumerate(lines):
        if group and (at in terms or at - 1 in terms or _begins_paragraph(group, line, leading)):
            yield "definition" if at - 1 in terms else _kind(group), group
            group = []
        group.append(line)
    if group:
        yield _kind(group), group


def _is_term(lines: Sequence[Line], at: int, leading: float) -> bool:
    """Return whether line ``at`` is the term of a definition, whose text is indented below it.

    A line that ends because the next word would not have fitted is the first line of a paragraph instead.
    """
    if at + 1 == len(lines):
        return False
    line, below, above = lines[at], lines[at + 1], lines[at - 1] if at else None
    step, far = line.baseline - below.baseline, _DEEPER * line.size
    if (
        len(line.text) > _LABEL
        or line.text.endswith((*_SENTENCE_END, ",", ";"))
        or any(
            one.rows or one.mono or one.item or one.slanted or _BULLET.match(one.text)
            for one in (line, below)
        )
        or not 0.85 < line.size / (below.size or 1.0) < 1.18
        or not 0 < step < _TALL * leading * line.size
        or below.left - line.left <= far
        or line.right - line.left >= _SHORT_TERM * (below.right - line.left)
    ):
        return False
    rise = above.baseline - line.baseline if above else 0.0
    return above is None or above.left - line.left > far or not 0 <= rise <= _WIDE_GAP * leading * line.size


def _begins_paragraph(group: Sequence[Line], line: Line, leading: float) -> bool:
    """Return whether a line begins a new paragraph. ``group``: lines of the paragraph above it."""
    above = group[-1]
    if line.rows or above.rows or line.item != above.item:
        return True
    step = above.baseline - line.baseline
    if abs(step) < 0.5 * above.size:
        return False
    wide = step > _WIDE_GAP * leading * line.size
    finished = above.text.endswith(_SENTENCE_END)
    if line.mono != above.mono and (finished or wide or abs(line.left - above.left) > 2):
        return True
    if not 0.85 < line.size / (above.size or 1.0) < 1.18:
        return True
    if _BULLET.match(line.text) and not line.mono:
        return True
    goes_on = not finished and (above.hyphen or line.text[:1].islower())
    if step < 0:  # the next column
        widest = max(line.right for line in group)
        is_full = len(group) > 1 and above.right > widest - 1.5 * above.size  # as long as those above it
        return finished or not (goes_on or is_full)
    indented = line.left > above.left + 0.8 * line.size
    if goes_on and step < _TALL * leading * line.size and not indented:
        return False  # something tall stands in the line: a fraction, a root
    return wide or (indented and finished and not line.mono and not _BULLET.match(group[0].text))


def _code(lines: Sequence[Line]) -> str:
    """Return code as text, line by line, with its indentation."""
    left = min(line.left for line in lines)
    wide = max(0.6 * lines[0].size, 1.0)
    return "\n".join(" " * min(round((line.left - left) / wide), 40) + line.text for line in lines)


# --- running headers and footers ---------------------------------------------------------------------------


def without_running_headers(pages: Sequence[PageLines]) -> list[PageLines]:
    """Return the pages without those lines in their margins that repeat on several pages.

    The outermost line of a margin is removed if some pages repeat it. Another line, a line in large type and
    a table must repeat on half of the pages.
    """
    pages, body = _without_numbers(pages), body_size(pages)
    keys = [_keys_of(page) for page in pages]
    counts, most = Counter[_Key](), Counter[_Key]()
    for page, own in zip(pages, keys, strict=True):
        every = set[_Key]().union(*own)
        counts.update(every)
        size = sum(len(line.text) for line in page.lines)
        if sum(len(line.text) for line, one in zip(page.lines, own, strict=True) if one) > _MOST * size:
            most.update(every)
    some, half = max(_REPEATED, len(pages) // 50), max(_REPEATED, len(pages) // 2)
    kept = []
    for page, own in zip(pages, keys, strict=True):
        lines, outermost = list[Line](), _outermost(page)
        for at, (line, one) in enumerate(zip(page.lines, own, strict=True)):
            plain = not line.rows and line.size <= LARGE * body
            enough = some if line.slanted or (plain and at in outermost) else half
            if not any(counts[key] >= enough and 2 * most[key] <= counts[key] for key in one):
                lines.append(line)
        kept.append(replace(page, lines=tuple(lines)))
    return kept


def _without_numbers(pages: Sequence[PageLines]) -> list[PageLines]:
    """Return the pages without page numbers.

    A page number is the first or last line of a page, and grows by one from page to page.
    """
    places: list[dict[int, tuple[str, int]]] = []
    for number, page in enumerate(pages):
        own: dict[int, tuple[str, int]] = {}
        for at in {0, len(page.lines) - 1} if page.lines else ():
            line = page.lines[at]
            if not line.rows and (match := _NUMBERED.fullmatch(line.text)):
                own[at] = (match[1] or "", int(match[2]) - number)
        places.append(own)
    counts = Counter(key for own in places for key in set(own.values()))
    return [
        replace(
            page,
            lines=tuple(
                line for at, line in enumerate(page.lines) if at not in own or counts[own[at]] < _REPEATED
            ),
        )
        for page, own in zip(pages, places, strict=True)
    ]


def _outermost(page: PageLines) -> set[int]:
    """Return the positions of the highest and the lowest lines of a page."""
    heights = [round(line.baseline) for line in page.lines]
    ends = {max(heights, default=0), min(heights, default=0)}
    return {at for at, height in enumerate(heights) if height in ends}


def _keys_of(page: PageLines) -> list[set[_Key]]:
    """Return, for each line in the margins, keys that are equal on all pages that repeat the line.

    Lines inside the page have no keys, unless they are slanted like watermarks.
    """
    top, bottom = (1 - _MARGIN) * page.height, _MARGIN * page.height
    return [
        _keys(line, page.label) if line.slanted or not bottom < line.baseline < top else set()
        for line in page.lines
    ]


def _keys(line: Line, label: str) -> set[_Key]:
    if line.rows:  # figures of a table are its content
        shapes = {_PAGE.sub("#", "\n".join(" ".join(row) for row in line.rows))}
    else:
        words = line.text.split()
        shapes = {"#" if _ROMAN.fullmatch(line.text.lower()) else _DIGITS.sub("#", line.text)}
        shapes |= {""} if label in (words[0], words[-1]) else set()
    place = line.baseline / _NEAR
    return {(shape, int(place + half)) for shape in shapes for half in (0.0, 0.5)}
