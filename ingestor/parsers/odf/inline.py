"""The running text of an OpenDocument paragraph. Pure."""

from collections.abc import Callable
from xml.etree.ElementTree import Element

from ingestor.parsers.shared.flow import Said
from ingestor.parsers.shared.whole import whole

_NAMESPACE = "{{urn:oasis:names:tc:opendocument:xmlns:{}:1.0}}"
OFFICE, STYLE, TEXT, TABLE, DRAW = (
    _NAMESPACE.format(name) for name in ("office", "style", "text", "table", "drawing")
)
_HREF = "{http://www.w3.org/1999/xlink}href"
_FRAMES = {f"{DRAW}text-box", f"{TABLE}table", f"{TEXT}list"}
_LEFT_OUT = {f"{TEXT}ruby-text", f"{OFFICE}annotation", f"{TEXT}number"}
_CHARACTERS = {f"{TEXT}tab": "\t", f"{TEXT}line-break": "\n"}
_MOST_SPACES = 100

Cite = Callable[[str], str]


def said_in(paragraph: Element, cite: Cite | None = None) -> Said:
    """``cite`` is given a note's text and returns the mark that stands for it; else notes are left out."""
    said = Said()
    _read(paragraph, said, cite)
    return said


def plain(paragraph: Element) -> str:
    """Its text in one line, without notes."""
    return " ".join(said_in(paragraph).text.split())


def _read(element: Element, said: Said, cite: Cite | None) -> None:
    said.parts.append(element.text or "")
    for child in element:
        tag = child.tag
        if tag == f"{TEXT}s":
            count = child.get(f"{TEXT}c", "1")
            said.parts.append(" " * min(whole(count, 1), _MOST_SPACES))
        elif tag in _CHARACTERS:
            said.parts.append(_CHARACTERS[tag])
        elif tag == f"{TEXT}soft-page-break":
            said.end_page()
        elif tag in _FRAMES:
            said.frames.append(child)
        elif tag == f"{TEXT}note":
            said.parts.append(_mark(child, cite))
        elif tag == f"{TEXT}a":
            _link(child, said, cite)
        elif tag not in _LEFT_OUT and not _describes(tag):
            _read(child, said, cite)
        said.parts.append(child.tail or "")


def _describes(tag: str) -> bool:
    """A picture's title or description."""
    return tag.startswith("{urn:oasis:names:tc:opendocument:xmlns:svg")


def _link(element: Element, said: Said, cite: Cite | None) -> None:
    """Markdown's form, unless it leads to another place of the document, or is its own text."""
    begin = len(said.parts)
    _read(element, said, cite)
    text, url = "".join(said.parts[begin:]), element.get(_HREF, "")
    if text.strip() and not url.startswith("#") and text.strip() not in url:
        said.parts[begin:] = [f"[{text}]({url})"]


def _mark(note: Element, cite: Cite | None) -> str:
    body = note.find(f"{TEXT}note-body")
    if cite is None or body is None:
        return ""
    return cite(" ".join(plain(paragraph) for paragraph in body.iter(f"{TEXT}p")))
