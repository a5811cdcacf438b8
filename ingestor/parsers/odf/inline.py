"""The running text of an OpenDocument paragraph. Pure."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from xml.etree.ElementTree import Element

from ingestor.core.completeness import words
from ingestor.parsers.shared.flow import FlowText
from ingestor.parsers.shared.mathml import is_formula, linear
from ingestor.parsers.shared.whole import whole

_NAMESPACE = "{{urn:oasis:names:tc:opendocument:xmlns:{}:1.0}}"
OFFICE, STYLE, TEXT, TABLE, DRAW, PRESENTATION = (
    _NAMESPACE.format(name) for name in ("office", "style", "text", "table", "drawing", "presentation")
)
_HREF = "{http://www.w3.org/1999/xlink}href"
_PLAIN = {f"{TEXT}span", f"{TEXT}bookmark-start", f"{TEXT}bookmark-end", f"{TEXT}bookmark"}  # most elements
_FRAMES = {f"{DRAW}text-box", f"{TABLE}table", f"{TEXT}list"}
_LINKED = (f"{DRAW}a", f"{DRAW}frame")  # a link around a frame
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
_CHART = _NAMESPACE.format("chart")
_DC = "{http://purl.org/dc/elements/1.1/}"
_SVG = "{urn:oasis:names:tc:opendocument:xmlns:svg"

LeaveOut = Callable[[str, int], None]


@dataclass(frozen=True, slots=True)
class OdfInline:
    """Reads running text. ``cite`` is given a note's text and returns the mark that stands for it.

    ``leave_out`` is told by which rule how many words are left out, ``comment`` of comments by author and
    text; without ``cite`` notes are left out, without ``comment`` comments. ``embedded`` gives the root of an
    object that the document names.
    """

    cite: Callable[[str], str] | None = None
    leave_out: LeaveOut = lambda rule, count: None
    comment: Callable[[str, str], None] | None = None
    embedded: Callable[[str], Element] = Element

    def of(self, paragraph: Element) -> FlowText:
        said = FlowText()
        self._read(paragraph, said)
        return said

    def plain(self, paragraph: Element) -> str:
        """Its text in one line, with that of the frames in it."""
        if not len(paragraph):  # as in nearly all cells
            return " ".join((paragraph.text or "").split())
        said = self.of(paragraph)
        framed = (self.plain(inner) for frame in said.frames for inner in paragraphs(frame))
        return " ".join(" ".join((said.text, *framed)).split())

    def _read(self, element: Element, said: FlowText) -> None:
        if element.text:
            said.parts.append(element.text)
        for child in element:
            tag = child.tag
            if tag in _PLAIN:
                self._read(child, said)
            elif tag in _CHARACTERS:
                said.parts.append(_CHARACTERS[tag])
            elif tag in _FRAMES:
                said.frames.append(child)
            elif tag in _READERS:
                _READERS[tag](self, child, said)
            elif rule := rule_of(tag):
                self.leave_out(rule, count_words(child))
            elif tag.startswith(DRAW) and tag not in _LINKED:
                said.frames.append(child)  # a shape, or several: their text is beside the paragraph's
            else:
                self._read(child, said)
            if child.tail:
                said.parts.append(child.tail)

    def say_comment(self, annotation: Element) -> None:
        if self.comment is None:
            self.leave_out(LEFT_OUT[annotation.tag], count_words(annotation))
            return
        author = annotation.find(f"{_DC}creator")
        inner = replace(self, comment=None)
        text = " ".join(inner.plain(paragraph) for paragraph in paragraphs(annotation))
        self.comment("" if author is None else author.text or "", text)

    def _drawn(self, frame: Element, said: FlowText) -> None:
        """A frame with a formula, a chart, a picture or something else."""
        if frame.find(f"{DRAW}text-box") is not None:
            self._read(frame, said)
            return
        root = self.object_in(frame)
        if root is not None and is_formula(root):
            said.parts.append(linear(root))
        elif root is not None:
            said.frames.append(root)
        elif frame.find(f"{DRAW}image") is not None:
            said.pictures.append(picture(frame))
        else:
            self._read(frame, said)

    def object_in(self, frame: Element) -> Element | None:
        """The formula or chart in a frame: its own part, or in a flat file in its place."""
        for element in frame.iter(f"{DRAW}object"):
            named = element.get(_HREF, "")  # LibreOffice may write an empty paragraph beside the name
            root = self.embedded(named) if named else next(iter(element), None)
            if root is None:
                continue
            if is_formula(root):
                return root
            chart = next(root.iter(f"{_CHART}chart"), None)
            if chart is not None:
                return chart
        return None

    def _link(self, element: Element, said: FlowText) -> None:
        """Markdown's form, unless it leads to another place of the document, or is its own text."""
        begin = len(said.parts)
        self._read(element, said)
        text, url = "".join(said.parts[begin:]), element.get(_HREF, "")
        if text.strip() and not url.startswith("#") and text.strip() not in url:
            said.parts[begin:] = [f"[{text}]({url})"]

    def _mark(self, note: Element, said: FlowText) -> None:
        body = note.find(f"{TEXT}note-body")
        if self.cite is None or body is None:
            self.leave_out("notes of tables", count_words(note))
            return
        inner = replace(self, cite=None)
        said.parts.append(self.cite(" ".join(inner.plain(paragraph) for paragraph in body.iter(f"{TEXT}p"))))


def picture(frame: Element) -> tuple[str, str]:
    """Name of the picture in the document, and what is said of it: its description, else its title."""
    image = frame.find(f"{DRAW}image")
    said = {child.tag.rpartition("}")[2]: child.text or "" for child in frame if child.tag.startswith(_SVG)}
    return "" if image is None else image.get(_HREF, ""), said.get("desc") or said.get("title") or ""


def chart_titles(chart: Element) -> list[str]:
    plain = OdfInline().plain
    found = (element for element in chart.iter() if element.tag in (f"{_CHART}title", f"{_CHART}subtitle"))
    return [text for title in found if (text := " ".join(plain(p) for p in paragraphs(title)))]


def paragraphs(element: Element, left_out: str = "") -> Iterator[Element]:
    """Paragraphs and headings below it, but for those of comments and those inside others.

    ``left_out``: a namespace whose elements are not looked into.
    """
    for child in element:
        if child.tag in (f"{TEXT}p", f"{TEXT}h"):
            yield child
        elif child.tag not in LEFT_OUT and not (left_out and child.tag.startswith(left_out)):
            yield from paragraphs(child, left_out)


def _spaces(element: Element) -> str:
    return " " * min(whole(element.get(f"{TEXT}c", "1"), 1), _MOST_SPACES)


_READERS: dict[str, Callable[[OdfInline, Element, FlowText], None]] = {
    f"{TEXT}s": lambda inline, element, said: said.parts.append(_spaces(element)),
    f"{TEXT}soft-page-break": lambda inline, element, said: said.end_page(),
    f"{TEXT}note": OdfInline._mark,
    f"{TEXT}a": OdfInline._link,
    f"{DRAW}frame": OdfInline._drawn,
    f"{OFFICE}annotation": lambda inline, element, said: inline.say_comment(element),
}


def rule_of(tag: str) -> str | None:
    """By which text in such an element is left out."""
    return "descriptions of pictures" if tag.startswith(_SVG) else LEFT_OUT.get(tag)


def count_words(element: Element) -> int:
    return words("".join(_apart(element)))


def _apart(element: Element) -> Iterator[str]:
    """Its text, with space behind paragraphs."""
    yield element.text or ""
    for child in element:
        yield from _apart(child)
        yield child.tail or ""
    if element.tag in (f"{TEXT}p", f"{TEXT}h"):
        yield " "
