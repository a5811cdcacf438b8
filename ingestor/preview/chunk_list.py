"""Chunks as a list in HTML, with what is said beside each: for every page that shows chunks. Pure.

Everything that comes from documents is escaped.
"""

from bisect import bisect_right
from collections.abc import Sequence
from html import escape
from operator import itemgetter

from ingestor.preview.view import Beside, Part, show_controls

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
    """A chunk as an element of the list.

    ``beside``: its margin. ``aligned``: tables and code of the document. ``anchor``: its id in the page.
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
        f'<div class="body" dir="auto">{"".join(_part(part, aligned) for part in text)}</div></li>'
    )


def _pairs(spans: Sequence[Run]) -> str:
    return " ".join(f"{start}-{end}" for start, end in spans)


def _part(part: Part, aligned: Sequence[Run]) -> str:
    text = _align(part, aligned)
    match part.role:
        case "before":
            return f'<mark title="also in the chunk before">{text}</mark>'
        case "after":
            return f'<mark title="also in the next chunk">{text}</mark>'
        case "gap":
            return f'<span class="gap">{text}</span>'
    return text


def _align(part: Part, aligned: Sequence[Run]) -> str:
    """The part with its tables and code in a font whose columns line up."""
    if part.start is None:
        return safe(part.text)
    start, end = part.start, part.start + len(part.text)
    made, at = "", start
    for first, last in aligned[bisect_right(aligned, start, key=itemgetter(1)) :]:
        if first >= end:
            break
        a, b = max(first, at), min(last, end)
        made += safe(part.text[at - start : a - start])
        made += f"<code>{safe(part.text[a - start : b - start])}</code>"
        at = b
    return made + safe(part.text[at - start :])


def safe(value: object) -> str:
    """Text for any place in HTML, with control characters and marks of direction spelt out."""
    return escape(show_controls(str(value)))
