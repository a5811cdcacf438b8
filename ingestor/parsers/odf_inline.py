"""The running text of an OpenDocument paragraph. Pure."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from xml.etree.ElementTree import Element

from ingestor.completeness import words
from ingestor.parsers.flow import Said
from ingestor.parsers.whole import whole

_NAMESPACE = "{{urn:oasis:names:tc:opendocument:xmlns:{}:1.0}}"
OFFICE, STYLE, TEXT, TABLE, DRAW, PRESENTATION = (
    _NAMESPACE.format(name) for name in ("office", "style", "text", "table", "drawing", "presentation")
)
_HREF = "{http://www.w3.org/1999/xlink}href"
_FRAMES = {f"{DRAW}text-box", f"{TABLE}table", f"{TEXT}list"}
LEFT_OUT = {
    f"{TEXT}ruby-text": "pronunciations",
    f"{OFFICE}annotation": "comments",
    f"{TEXT}number": "numbers of headings",
    f"{TEXT}tracked-changes": "changes that took text away",
    f"{OFFICE}forms": "forms",
    **dict.fromkeys(
        (f"{PRESENTATION}footer-decl", f"{PRESENTATION}header-decl", f"{PRESENTATION}date-time-decl"),
        "dates, footers and numbers of slides",
    ),
}
_CHARACTERS = {f"{TEXT}tab": "\t", f"{TEXT}line-break": "\n"}
_MOST_SPACES = 100
_SVG = "{urn:oasis:names:tc:opendocument:xmlns:svg"

LeaveOut = Callable[[str, int], None]


@dataclass(frozen=True, slots=True)
class Inline:
    """Reads running text. ``cite`` is given a note's text and returns the mark that stands for it.

    ``leave_out`` is told by which rule how many words are left out. Without ``cite`` notes are left out.
    """

    cite: Callable[[str], str] | None = None
    leave_out: LeaveOut = lambda rule, count: None

    def of(self, paragraph: Element) -> Said:
        said = Said()
        self._read(paragraph, said)
        return said

    def plain(self, paragraph: Element) -> str:
        """Its text in one line, with that of the frames in it."""
        said = self.of(paragraph)
        framed = (self.plain(inner) for frame in said.frames for inner in paragraphs(frame))
        return " ".join(" ".join((said.text, *framed)).split())

    def _read(self, element: Element, said: Said) -> None:
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
                said.parts.append(self._mark(child))
            elif tag == f"{TEXT}a":
                self._link(child, said)
            elif rule := rule_of(tag):
                self.leave_out(rule, count_words(child))
            else:
                self._read(child, said)
            said.parts.append(child.tail or "")

    def _link(self, element: Element, said: Said) -> None:
        """Markdown's form, unless it leads to another place of the document, or is its own text."""
        begin = len(said.parts)
        self._read(element, said)
        text, url = "".join(said.parts[begin:]), element.get(_HREF, "")
        if text.strip() and not url.startswith("#") and text.strip() not in url:
            said.parts[begin:] = [f"[{text}]({url})"]

    def _mark(self, note: Element) -> str:
        body = note.find(f"{TEXT}note-body")
        if self.cite is None or body is None:
            self.leave_out("notes of tables", count_words(note))
            return ""
        inner = replace(self, cite=None)
        return self.cite(" ".join(inner.plain(paragraph) for paragraph in body.iter(f"{TEXT}p")))


def paragraphs(element: Element) -> Iterator[Element]:
    """Paragraphs and headings below it, but for those of comments and those inside others."""
    for child in element:
        if child.tag in (f"{TEXT}p", f"{TEXT}h"):
            yield child
        elif child.tag not in LEFT_OUT:
            yield from paragraphs(child)


def rule_of(tag: str) -> str | None:
    """By which text in such an element is left out."""
    return "descriptions of pictures" if tag.startswith(_SVG) else LEFT_OUT.get(tag)


def count_words(element: Element) -> int:
    return words("".join(element.itertext()))
