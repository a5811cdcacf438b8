"""Hits as people read them: Markdown and tables as HTML, with the words of a question marked.

Elements come from a list of ours without attributes, and every text is escaped: markup of a document stays
text. Links and pictures are their words alone, so that no hit leads anywhere or loads anything.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from markupsafe import Markup
from pyromark import Options as Dialect
from pyromark import events_with_range

from ingestor.lexical.terms import places
from ingestor.preview.view import show_controls

Span = tuple[int, int]

_DIALECT = Dialect.ENABLE_TABLES | Dialect.ENABLE_STRIKETHROUGH
_TAGS: Mapping[str, str] = {
    "Paragraph": "p", "Heading": "p", "BlockQuote": "blockquote", "Item": "li", "Emphasis": "em",
    "Strong": "strong", "Strikethrough": "del", "TableHead": "tr", "TableRow": "tr", "CodeBlock": "pre",
}  # fmt: skip
_TABLE = re.compile(r"(?:^\|.*\|[ \t]*(?:\n|\Z))+", re.MULTILINE)
_FRONT = re.compile(r"\A---\n(?:.*\n)*?---\n")


def rendered(text: str, markdown: bool, language: str | None, wanted: Set[str], most: int) -> Markup:
    """Render about ``most`` characters of a text from the first word of ``wanted`` on.

    ``markdown``: whether the whole text is Markdown; of other texts only tables are.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    front = _FRONT.match(text) if markdown else None
    begin = front.end() if front and text[front.end() :].strip() else 0
    found = [span for span in places(text, language, wanted) if span[0] >= begin]
    start = _start(text, begin, found[0][0] if found else begin, most)
    end = _end(text, start, most)
    made = list(_markdown(text, start, end, found) if markdown else _plain(text, start, end, found))
    before = Markup('<span class="cut">… </span>') if start > begin else Markup()
    after = Markup('<span class="cut"> …</span>') if end < len(text.rstrip()) else Markup()
    return before + Markup().join(made) + after


def _start(text: str, begin: int, first: int, most: int) -> int:
    """Where an excerpt begins that shows the first marked word: at the top, a paragraph, or a word."""
    if len(text) - begin <= most or first - begin < most * 2 // 3:
        return begin
    near = min(first - most // 3, len(text) - most)
    paragraph = text.rfind("\n\n", max(begin, first - most * 2 // 3), first)
    if paragraph >= 0:
        return paragraph + 2
    gap = text.find(" ", near, first)
    return near if gap < 0 else gap + 1


def _end(text: str, start: int, most: int) -> int:
    if len(text) - start <= most:
        return len(text)
    line = text.rfind("\n", start + most // 2, start + most)
    gap = text.rfind(" ", start + most // 2, start + most)
    return next((at for at in (line, gap) if at > 0), start + most)


def _plain(text: str, start: int, end: int, found: Sequence[Span]) -> Iterator[Markup]:
    at = start
    for table in _TABLE.finditer(text, start, end):
        rows = list(_markdown(text, table.start(), table.end(), found))
        if rows and rows[0].startswith("<div"):
            yield Markup('<div class="as-is">{}</div>').format(_marked(text, at, table.start(), found))
            yield from rows
            at = table.end()
    yield Markup('<div class="as-is">{}</div>').format(_marked(text, at, end, found))


def _markdown(text: str, start: int, end: int, found: Sequence[Span]) -> Iterator[Markup]:
    """Elements nest as the events of the parser do, which end whatever they begin."""
    part = text[start:end]
    raw = part.encode()  # the parser counts bytes
    closing, head = list[str](), False
    parsed: Iterable[tuple[Any, Any]] = events_with_range(part, options=_DIALECT)
    for event, place in parsed:
        if isinstance(event, str):
            yield Markup("<br>") if event == "HardBreak" else Markup("\n")
            continue
        kind, about = next(iter(event.items()))
        if kind == "Start":
            name = about if isinstance(about, str) else next(iter(about))
            head = name == "TableHead" or (head and name != "TableRow")
            opened, close = _element(name, about, head)
            closing.append(close)
            yield opened
        elif kind == "End":
            yield Markup(closing.pop())  # noqa: S704 - of our own list
        else:
            first, last = (start + len(raw[: place[at]].decode()) for at in ("start", "end"))
            at = text.find(str(about), first, last)  # no entity or escape stands for it
            shows = at >= 0
            said = (
                _marked(text, at, at + len(about), found)
                if shows
                else Markup("{}").format(show_controls(about))
            )
            yield Markup("<code>{}</code>").format(said) if kind == "Code" else said


def _element(name: str, about: Any, head: bool) -> tuple[Markup, str]:
    """The tags that open and close an element; none where its content alone is shown."""
    if name == "Table":
        return Markup(
            '<div class="wide-table"><table><caption class="unseen">Table</caption>'
        ), "</table></div>"
    if name == "TableCell":
        return (Markup('<td class="head">') if head else Markup("<td>")), "</td>"
    if name == "Heading":
        return Markup('<p class="title-of-part">'), "</p>"
    tag = _TAGS.get(name)
    if name == "List":
        tag = "ul" if about["List"] is None else "ol"
    return (Markup("<{}>").format(tag), f"</{tag}>") if tag else (Markup(), "")


def _marked(text: str, start: int, end: int, found: Iterable[Span]) -> Markup:
    made, at = Markup(), start
    for a, b in found:
        if a >= at and b <= end:
            made += Markup("{}<mark>{}</mark>").format(show_controls(text[at:a]), show_controls(text[a:b]))
            at = b
    return made + Markup("{}").format(show_controls(text[at:end]))
