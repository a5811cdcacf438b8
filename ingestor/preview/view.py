"""Shows chunks to people: marks text that neighbours share, and renders the chunks as lists in HTML. Pure."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import takewhile
from operator import itemgetter
from typing import Literal

from ingestor.core.escape import escape_invisible, line
from ingestor.model import Chunk, Document, Metadata

Role = Literal["own", "before", "after", "gap"]  # before, after: a neighbour has it, too; gap: omitted text


_SOFT = re.compile(r"(?<=[^\s\\])\n(?=\S)")  # a line end that is no hard break


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a chunk as it is shown.

    ``role``: whether a neighbour has the part, too, or text is omitted here. ``start``: offset of the part in
    the document; None if the document does not contain it.
    """

    text: str
    role: Role
    start: int | None = None


@dataclass(frozen=True, slots=True)
class Beside:
    """Facts about a chunk that are shown in the margin beside its text."""

    tokens: str  # "120 tokens"
    lines: str  # "lines 3-9", or "page iv, lines 3-9"
    headings: tuple[str, ...]  # outermost first
    notes: tuple[str, ...]  # "level: sentences"


def flow_lines(document: Document) -> str:
    """Return the text of a document in which line breaks inside Markdown paragraphs are replaced by spaces.

    The text keeps its length, so offsets stay valid.
    """
    if document.content_type != "text/markdown":
        return document.text
    pieces, at, text = list[str](), 0, document.text
    for block in document.blocks:
        if block.kind == "paragraph":
            pieces += [text[at : block.start], _SOFT.sub(" ", text[block.start : block.end])]
            at = block.end
    return "".join([*pieces, text[at:]])


def parts(text: str, chunks: Sequence[Chunk]) -> list[list[Part]]:
    """Divide each chunk into parts, by the text that it shares with its neighbours.

    ``text``: the document's text, or another text of the same length.
    """
    around = [None, *chunks, None]
    return [
        list(_parts(text, chunk, before, after))
        for before, chunk, after in zip(around, chunks, around[2:], strict=False)
    ]


def _parts(text: str, chunk: Chunk, before: Chunk | None, after: Chunk | None) -> Iterator[Part]:
    if chunk.rewritten:
        yield Part(chunk.text, "own")
    elif chunk.spans:
        reached = chunk.spans[0][0]
        for start, end in chunk.spans:
            if text[reached:start].strip():
                yield Part("\n⋯\n", "gap")
            else:
                yield from _part(text, reached, start, "own")
            yield from _part(text, start, end, "own")
            reached = end
    else:
        head = min(max(before.end, chunk.start), chunk.end) if before else chunk.start
        tail = min(max(after.start, head), chunk.end) if after else chunk.end
        yield from _part(text, chunk.start, head, "before")
        yield from _part(text, head, tail, "own")
        yield from _part(text, tail, chunk.end, "after")


def _part(text: str, start: int, end: int, role: Role) -> Iterator[Part]:
    if end > start:
        yield Part(text[start:end], role, start)


def beside(chunk: Chunk, meta: Metadata) -> Beside:
    """Return the facts that are shown beside a chunk. ``meta``: metadata of the chunk's record."""
    path = meta.get("heading_path")
    first, last = meta.get("start_line"), meta.get("end_line")
    page = meta.get("page_label")
    lines = "" if first is None else f"line {first}" if first == last else f"lines {first}-{last}"
    count = meta.get("token_count")
    return Beside(
        tokens=f"{count} token{'' if count == 1 else 's'}",
        lines=", ".join(filter(None, (f"page {line(str(page))}" if page is not None else "", lines))),
        headings=tuple(line(str(path)).split(" > ")) if path else (),
        notes=tuple(
            line(f"{key}: {value}")
            for key, value in chunk.extra
            if value is not None and len(str(value)) <= 40
        ),
    )


def show_controls(text: str) -> str:
    """Return a text with line feeds as its only line ends, and with visible names for control characters."""
    return escape_invisible(text.replace("\r\n", "\n").replace("\r", "\n"))


Run = tuple[int, int]  # from, to

_ALIKE = "mean similarity of its parts with each other, and with those of the next chunk"


def item(
    number: int,
    beside: Beside,
    text: Sequence[Part],
    aligned: Sequence[Run] = (),
    spans: Sequence[Run] = (),
    units: Sequence[Run] = (),
    alike: str = "",
    anchor: str = "",
) -> str:
    """Render a chunk as an item of an HTML list.

    ``number``: number of the chunk, from 1. ``beside``: facts for the margin. ``text``: parts of the chunk.
    ``aligned``: spans of the document's tables and code. ``spans``, ``units``: characters and units of the
    chunk, by which the page's script links the text with the plots. ``alike``: similarities, as text.
    ``anchor``: id of the HTML element.
    """
    path = "".join(f"<span>{safe(title)}</span>" for title in beside.headings)
    notes = "".join(f"<span>{safe(note)}</span>" for note in beside.notes)
    near = f'<span class="alike-inside" title="{_ALIKE}">{alike}</span>' if alike else ""
    named = f' id="{safe(anchor)}"' if anchor else ""
    return (
        f'<li{named} class="{"even" if number % 2 else "odd"}" tabindex="{0 if number == 1 else -1}"'
        f' data-spans="{_pairs(spans)}" data-units="{_pairs(units)}">'
        f'<div class="beside"><b>{number}</b> <span>{beside.tokens}</span> <span>{safe(beside.lines)}</span> '
        f'<span class="path" title="{safe(" › ".join(beside.headings))}">{path}</span>{notes}{near}</div>'
        f'<div class="body" dir="auto">{"".join(_part_html(part, aligned) for part in text)}</div></li>'
    )


def _pairs(spans: Sequence[Run]) -> str:
    return " ".join(f"{start}-{end}" for start, end in spans)


_TAGS: Mapping[Role, tuple[str, str]] = {
    "own": ("", ""),
    "before": ('<mark title="also in the chunk before">', "</mark>"),
    "after": ('<mark title="also in the next chunk">', "</mark>"),
    "gap": ('<span class="gap">', "</span>"),
}


def _part_html(part: Part, aligned: Sequence[Run]) -> str:
    """Render a part, with its tables and code in a fixed-width font. ``aligned``: spans of these."""
    start = part.start or 0
    inside = () if part.start is None else aligned[bisect_right(aligned, start, key=itemgetter(1)) :]
    made, at, end = "", start, start + len(part.text)
    for first, last in takewhile(lambda span: span[0] < end, inside):
        a, b = max(first, at), min(last, end)
        made += safe(part.text[at - start : a - start])
        made += f"<code>{safe(part.text[a - start : b - start])}</code>"
        at = b
    opening, closing = _TAGS[part.role]
    return f"{opening}{made}{safe(part.text[at - start :])}{closing}"


def safe(value: object) -> str:
    """Escape a value for any place in HTML.

    Control characters and marks of direction become visible names.
    """
    return escape(show_controls(str(value)))
