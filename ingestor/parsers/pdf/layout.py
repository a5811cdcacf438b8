"""The lines of a PDF's pages -> headings, paragraphs, lists and code. Pure.

All that a PDF tells of a line is its text, where it stands and how it is set. So this file holds rules of
thumb, each of them for documents that people have; none of them drops text but that of running headers and
footers.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from ingestor.parsers.pdf.headings import CAPTION, Headings, headings
from ingestor.parsers.pdf.lines import Bookmark, Divisions, Line, PageLines, prose, usual_leading
from ingestor.parsers.shared.compose import Composer
from ingestor.text.outline import heading_number

_LABEL = 100  # characters of a line that may be a label
_NAME = 5  # words of a company's name, which may end with a full stop
_TALL = 2.2  # times that: no further goes a paragraph that is not finished
_WIDE_GAP = 1.25  # times the usual distance between lines: a new paragraph
_MARKS = "•‣▪■●○◦∙·–—*▶►▸▹➢➤❖◆◇✓✔\uf0b7\uf0a7\uf0d8"
_BULLET = re.compile(rf"[{_MARKS}](?:\s+\S|$)|\(?(?:\d{{1,2}}|[a-z]|[ivx]{{2,4}})[.)]\s+\S")
_SENTENCE_END = (".", "!", "?", ":", "”", '"', "。", "！", "？")


def compose(pages: Sequence[PageLines], outline: Sequence[Bookmark]) -> Composer:
    """Compose the text, page by page; after each the descriptions of its pictures (once), and comments."""
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
        composer.add(kind, text, close=kind != "code" and is_close(composer, text))

    for group in _groups(lines, leading):
        kind = _kind(group)
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
    """Return the title of the table that follows: the heading above it, or what calls itself a table."""
    last = composer.blocks[-1] if composer.blocks else None
    if last is None or last.page != composer.page:
        return None
    if last.kind == "heading":
        return last.title
    text = composer.last
    return text if last.kind == "paragraph" and CAPTION.match(text) and len(text) <= 250 else None


def is_close(composer: Composer, text: str) -> bool:
    """Tell whether a block stands on the next line: no blank line but between two paragraphs of prose.

    Cuts by size look for blank lines first. They cut a statement to bits whose lines all stand alone.
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
    return "list" if _BULLET.match(group[0].text) else "paragraph"


# --- paragraphs --------------------------------------------------------------------------------------------


def _groups(lines: Sequence[Line], leading: float) -> Iterator[list[Line]]:
    """Lines that belong together."""
    group: list[Line] = []
    for line in lines:
        if group and _parts(group, line, leading):
            yield group
            group = []
        group.append(line)
    if group:
        yield group


def _parts(group: Sequence[Line], line: Line, leading: float) -> bool:
    """Whether a new paragraph begins with ``line``."""
    above = group[-1]
    if line.rows or above.rows:
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
        return finished or not (goes_on or _is_full(group))
    indented = line.left > above.left + 0.8 * line.size
    if goes_on and step < _TALL * leading * line.size and not indented:
        return False  # something tall stands in the line: a fraction, a root
    return wide or (indented and finished and not line.mono and not _BULLET.match(group[0].text))


def _is_full(group: Sequence[Line]) -> bool:
    """Whether its last line is as long as those above it: the paragraph goes on."""
    return len(group) > 1 and group[-1].right > max(line.right for line in group) - 1.5 * group[-1].size


def _code(lines: Sequence[Line]) -> str:
    """A line each, indented as it stands."""
    left = min(line.left for line in lines)
    wide = max(0.6 * lines[0].size, 1.0)
    return "\n".join(" " * min(round((line.left - left) / wide), 40) + line.text for line in lines)
