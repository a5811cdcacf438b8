"""Prepares texts and slides of OpenDocument for the library anydoc, which reads them afterwards.

Parts that the library cannot represent are written as text with marks (see office/tree.py). These are titles,
captions, code and quotes, which their styles show, formulas, charts, comments, and the beginnings of slides.
Hidden and deleted text and ruby readings are removed.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element, SubElement

from ingestor.core.completeness import words
from ingestor.parsers.office.tree import CHART, PAGE, Asides, mark_number, style_mark
from ingestor.parsers.shared.formulas import is_formula, linear

_NAMESPACE = "{{urn:oasis:names:tc:opendocument:xmlns:{}:1.0}}"
OFFICE, STYLE, TEXT, TABLE, DRAW, PRESENTATION, CHARTS = (
    _NAMESPACE.format(name)
    for name in ("office", "style", "text", "table", "drawing", "presentation", "chart")
)
_HREF = "{http://www.w3.org/1999/xlink}href"
_DC = "{http://purl.org/dc/elements/1.1/}"
_STYLE_NAME = f"{TEXT}style-name"
_LONGEST = 20  # styles that inherit from each other
_LEFT_OUT = {
    f"{TEXT}ruby-text": "pronunciations",
    f"{TEXT}tracked-changes": "changes that took text away",
    f"{OFFICE}forms": "forms",
    **dict.fromkeys(
        (f"{PRESENTATION}footer-decl", f"{PRESENTATION}header-decl", f"{PRESENTATION}date-time-decl"),
        "dates, footers and numbers of slides",
    ),
}
_HIDING = (f"{TEXT}hidden-text", f"{TEXT}hidden-paragraph")  # fields that hide themselves, and a paragraph
_HIDDEN = "hidden text"
_INLINE = (f"{TEXT}p", f"{TEXT}h", f"{TEXT}span", f"{TEXT}a")
_IN_LINE = (f"{DRAW}frame", f"{DRAW}a", f"{DRAW}image", f"{DRAW}object")  # no shapes with a text of their own


@dataclass(slots=True)
class OdfStyles:
    """The styles of a document, by name. A style inherits the properties of its parent style."""

    _parents: dict[str, str] = field(default_factory=dict)
    _shows: dict[str, bool] = field(default_factory=dict)  # text
    _sheets: dict[str, bool] = field(default_factory=dict)
    _lists: dict[str, str] = field(default_factory=dict)

    def add(self, styles: Iterable[Element]) -> None:
        for style in styles:
            if style.tag != f"{STYLE}style":
                continue
            name = style.get(f"{STYLE}name", "")
            self._parents[name] = style.get(f"{STYLE}parent-style-name", "")
            for properties in style:
                display = properties.get(f"{TEXT}display")
                if display is not None:
                    self._shows[name] = display != "none"
                if properties.get(f"{TABLE}display") is not None:
                    self._sheets[name] = properties.get(f"{TABLE}display") != "false"
            if (listed := style.get(f"{STYLE}list-style-name")) is not None:
                self._lists[name] = listed

    def mark(self, name: str) -> str:
        """Return the mark of a paragraph in the style ``name``, by ``style_mark``."""
        return style_mark([each.replace("_20_", " ") for each in self._chain(name)])

    def shows(self, name: str) -> bool:
        return next((self._shows[one] for one in self._chain(name) if one in self._shows), True)

    def shows_table(self, table: Element) -> bool:
        return self._sheets.get(table.get(f"{TABLE}style-name", ""), True)

    def numbers(self, name: str) -> bool:
        """Return whether a heading in the style ``name`` shows its number."""
        return next((self._lists[one] for one in self._chain(name) if one in self._lists), None) != ""

    def _chain(self, name: str) -> Iterator[str]:
        for _ in range(_LONGEST):
            if not name:
                return
            yield name
            name = self._parents.get(name, "")


@dataclass(slots=True)
class OdfMarking:
    """Rewrites the elements of a document in place, so that anydoc can represent them.

    ``embedded``: returns the root of an embedded object, such as a chart, by the object's name.
    """

    styles: OdfStyles
    embedded: Callable[[str], Element]
    with_comments: bool = False
    asides: Asides = field(default_factory=Asides)
    left_out: Counter[str] = field(default_factory=Counter)  # words by rule

    def rewrite(self, parent: Element) -> None:
        """Rewrite the children of an element. A child that becomes text joins the text in front of it."""
        children = list(parent)
        parent[:] = []
        for child in children:
            tail, child.tail = child.tail, None
            for made in (*self._convert(child, parent), tail):
                if isinstance(made, Element):
                    parent.append(made)
                elif made and len(parent):
                    parent[-1].tail = (parent[-1].tail or "") + made
                elif made:
                    parent.text = (parent.text or "") + made

    def _convert(self, element: Element, parent: Element) -> "tuple[Element | str, ...]":
        tag = element.tag
        if rule := self._rule(element):
            self.left_out[rule] += count_words(element)
            return ()
        if tag == f"{OFFICE}annotation":
            return self._comment(element, parent)
        if tag == f"{TEXT}number":
            return (mark_number((element.text or "").strip()),)
        if tag == f"{DRAW}frame" and (root := self.object_in(element)) is not None:
            if is_formula(root) and parent.tag in _INLINE:
                return (linear(root),)
            parts = [_paragraph(linear(root))] if is_formula(root) else chart_parts(root)
            return tuple(_frame(parts, parent))
        self._mark(element)
        self.rewrite(element)
        apart = tag.startswith(DRAW) and tag not in _IN_LINE and parent.tag in (*_INLINE, f"{DRAW}g")
        return (" ", element, " ") if apart else (element,)

    def _mark(self, element: Element) -> None:
        tag, name = element.tag, element.get(_STYLE_NAME, "")
        if tag == f"{TEXT}p":
            element.text = self.styles.mark(name) + (element.text or "")
        elif tag == f"{TEXT}h" and not self.styles.numbers(name):
            element.set(f"{TEXT}is-list-header", "true")
        elif tag == f"{DRAW}page":
            _mark_page(element)

    def _rule(self, element: Element) -> str:
        """Return why an element is left out, such as "hidden text"; "" if it is read."""
        tag = element.tag
        hidden = element.get(f"{TEXT}is-hidden") == "true"
        if tag == f"{TEXT}section":
            display = element.get(f"{TEXT}display", "true")
            return _HIDDEN if display == "none" or (display == "condition" and hidden) else ""
        if tag in _HIDING:
            return _HIDDEN if hidden else ""
        if tag in (f"{TEXT}p", f"{TEXT}h", f"{TEXT}span") and (
            not self.styles.shows(element.get(_STYLE_NAME, ""))
            or any(one.tag == _HIDING[1] and one.get(f"{TEXT}is-hidden") == "true" for one in element)
        ):
            return _HIDDEN
        if tag == f"{TABLE}table" and not self.styles.shows_table(element):
            return _HIDDEN
        return _LEFT_OUT.get(tag, "")

    def _comment(self, annotation: Element, parent: Element) -> "tuple[Element | str, ...]":
        if not self.with_comments:
            self.left_out["comments"] += count_words(annotation)
            return ()
        mark = self.asides.comment(*comment_of(annotation))
        return (mark,) if parent.tag in _INLINE else tuple(_frame([_paragraph(mark)], parent))

    def object_in(self, frame: Element) -> Element | None:
        """Return the formula or the chart in a frame; None if the frame holds neither.

        The frame names a separate part of the package with the object, or in a flat file contains the object
        itself.
        """
        for element in frame.iter(f"{DRAW}object"):
            named = element.get(_HREF, "")  # LibreOffice may write an empty paragraph beside the name
            root = self.embedded(named) if named else next(iter(element), None)
            if root is None:
                continue
            if is_formula(root):
                return root
            chart = next(root.iter(f"{CHARTS}chart"), None)
            if chart is not None:
                return chart
        return None


def _mark_page(page: Element) -> None:
    """Mark the beginning of a slide in its title, which anydoc moves to the front.

    A slide without a title gets a new first paragraph with the mark.
    """
    frames = (frame for frame in page if frame.get(f"{PRESENTATION}class") == "title")
    title = next((one for frame in frames for one in frame.iter(f"{TEXT}p")), None)
    if title is None:
        page.insert(0, _box([_paragraph(PAGE)]))
    else:
        title.text = PAGE + (title.text or "")


def chart_parts(chart: Element) -> list[Element]:
    """Return elements that stand for a chart: a paragraph with titles, and a table with numbers."""
    titles = (one for one in chart.iter() if one.tag in (f"{CHARTS}title", f"{CHARTS}subtitle"))
    caption = "; ".join(filter(None, (" ".join("".join(title.itertext()).split()) for title in titles)))
    tables = list(chart.iter(f"{TABLE}table"))[:1]
    return [*([_paragraph(CHART + caption)] if caption else ()), *tables]


def comment_of(annotation: Element) -> tuple[str, str]:
    """Return the author and the text of a comment."""
    author = annotation.find(f"{_DC}creator")
    text = " ".join("".join(paragraph.itertext()) for paragraph in annotation.iter(f"{TEXT}p"))
    return "" if author is None else author.text or "", text


def count_words(element: Element) -> int:
    return words("".join(_apart(element)))


def _apart(element: Element) -> Iterator[str]:
    """Yield the pieces of an element's text, with a space behind each paragraph."""
    yield element.text or ""
    for child in element:
        yield from _apart(child)
        yield child.tail or ""
    if element.tag in (f"{TEXT}p", f"{TEXT}h"):
        yield " "


def _paragraph(text: str) -> Element:
    element = Element(f"{TEXT}p")
    element.text = text
    return element


def _box(content: Iterable[Element]) -> Element:
    frame = Element(f"{DRAW}frame")
    SubElement(frame, f"{DRAW}text-box").extend(content)
    return frame


def _frame(content: list[Element], parent: Element) -> list[Element]:
    """Return blocks inside a frame, unless their new parent can hold blocks itself."""
    return content if parent.tag in (f"{OFFICE}text", f"{TEXT}section") else [_box(content)]
