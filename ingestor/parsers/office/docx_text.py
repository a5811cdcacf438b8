"""The running text of a DOCX paragraph, with its links and the marks of its notes. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from ingestor.core.completeness import words
from ingestor.parsers.office import drawing
from ingestor.parsers.office.docx_styles import W
from ingestor.parsers.office.symbols import readable, symbol
from ingestor.parsers.shared.flow import Flow, FlowText
from ingestor.parsers.shared.numbers import raised
from ingestor.parsers.shared.office_math import M, linear

_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_CHARACTERS = {f"{W}tab": "\t", f"{W}ptab": "\t", f"{W}cr": "\n", f"{W}br": "\n", f"{W}noBreakHyphen": "-"}
_LEFT_OUT = {
    **dict.fromkeys((f"{W}del", f"{W}moveFrom"), "changes that took text away"),
    **dict.fromkeys((f"{W}pPr", f"{W}rPr"), "properties"),
    f"{_MC}Fallback": "second versions for old programs",
}
_NOTES = {f"{W}footnoteReference": "footnotes", f"{W}endnoteReference": "endnotes"}
_TEXT, _FORMAT, _PLACED = f"{W}t", f"{W}rPr", f"{W}vertAlign"


@dataclass(frozen=True, slots=True)
class Related:
    """What paragraphs refer to: URLs and pictures by relation; other parts.

    ``note`` gives one of the footnotes, endnotes or comments by its id, ``part`` the root of the chart or
    diagram that a relation leads to.
    """

    links: Mapping[str, str]
    pictures: Mapping[str, str]
    note: Callable[[str, str], Element | None]
    part: Callable[[str], Element]


class DocxInline:
    """``flow`` takes footnotes, comments and what is left out."""

    def __init__(self, related: Related, flow: Flow) -> None:
        self._related, self._flow = related, flow

    def of(self, paragraph: Element) -> FlowText:
        said = FlowText()
        self._read(paragraph, said)
        return said

    def _read(self, element: Element, said: FlowText) -> None:
        for child in element:
            tag = child.tag
            if tag == _TEXT:
                text = child.text or ""
                said.parts.append(text if text.isascii() else readable(text, _font(element)))
            elif tag in _CHARACTERS:
                said.parts.append(_CHARACTERS[tag])
            elif tag in _LEFT_OUT:
                self._flow.composer.leave_out(_LEFT_OUT[tag], count_words(child))
            elif tag in _READERS:
                _READERS[tag](self, child, said)
            elif not self._refers(child, said):
                self._run(child, said)

    def _refers(self, element: Element, said: FlowText) -> bool:
        """Whether it leads to a chart or a diagram."""
        relation = drawing.part_of(element)
        if relation:
            said.frames.append(self._related.part(relation))
        return bool(relation)

    def _drawing(self, element: Element, said: FlowText) -> None:
        """A picture has no text in its place, but what else is drawn may have."""
        relation, description = drawing.picture(element)
        if relation or description:
            said.pictures.append((self._related.pictures.get(relation, ""), description))
        self._read(element, said)

    def _comment(self, reference: Element, said: FlowText) -> None:
        comment = self._related.note("comments", reference.get(f"{W}id", ""))
        if comment is not None:
            text = " ".join(self.of(paragraph).text for paragraph in comment.iter(f"{W}p"))
            self._flow.comment(comment.get(f"{W}author", ""), text)

    def _run(self, element: Element, said: FlowText) -> None:
        begin = len(said.parts)
        self._read(element, said)
        if _is_raised(element):
            said.parts[begin:] = [raised("".join(said.parts[begin:]))]

    def _link(self, element: Element, said: FlowText) -> None:
        """Markdown's form, unless it leads to another place of the document, or is its own text."""
        begin = len(said.parts)
        self._read(element, said)
        text, url = "".join(said.parts[begin:]), self._related.links.get(element.get(f"{_R}id", ""), "")
        if url and text.strip() and text.strip() not in url:
            said.parts[begin:] = [f"[{text}]({url})"]

    def _mark(self, reference: Element, said: FlowText) -> None:
        note = self._related.note(_NOTES[reference.tag], reference.get(f"{W}id", ""))
        if note is not None:
            text = " ".join(self.of(paragraph).text for paragraph in note.iter(f"{W}p"))
            said.parts.append(self._flow.cite(text))


_READERS: dict[str, Callable[[DocxInline, Element, FlowText], None]] = {
    f"{M}oMath": lambda inline, element, said: said.parts.append(linear(element)),
    f"{W}sym": lambda inline, element, said: said.parts.append(_symbol(element)),
    f"{W}lastRenderedPageBreak": lambda inline, element, said: said.end_page(),
    f"{W}txbxContent": lambda inline, element, said: said.frames.append(element),
    f"{W}hyperlink": DocxInline._link,
    **dict.fromkeys((f"{W}drawing", f"{W}pict", f"{W}object"), DocxInline._drawing),
    f"{W}commentReference": DocxInline._comment,
    **dict.fromkeys(_NOTES, DocxInline._mark),
}


def _symbol(element: Element) -> str:
    try:
        return symbol(element.get(f"{W}font", ""), int(element.get(f"{W}char", ""), 16))
    except ValueError:
        return ""


def _font(run: Element) -> str:
    format_ = run.find(_FORMAT)
    fonts = None if format_ is None else format_.find(f"{W}rFonts")
    return "" if fonts is None else fonts.get(f"{W}ascii") or fonts.get(f"{W}hAnsi") or ""


def count_words(element: Element) -> int:
    return words("".join([text.text or "" for text in element.iter(_TEXT)]))


def _is_raised(run: Element) -> bool:
    format_ = run.find(_FORMAT)
    placed = None if format_ is None else format_.find(_PLACED)
    return placed is not None and placed.get(f"{W}val") == "superscript"
