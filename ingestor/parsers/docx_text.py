"""The running text of a DOCX paragraph, with its links and the marks of its notes. Pure."""

from collections.abc import Callable, Mapping
from xml.etree.ElementTree import Element

from ingestor.completeness import words
from ingestor.parsers.docx_styles import W
from ingestor.parsers.flow import Said
from ingestor.parsers.numbers import raised
from ingestor.parsers.office_math import M, linear

_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_CHARACTERS = {f"{W}tab": "\t", f"{W}ptab": "\t", f"{W}cr": "\n", f"{W}br": "\n", f"{W}noBreakHyphen": "-"}
_LEFT_OUT = {
    **dict.fromkeys((f"{W}del", f"{W}moveFrom"), "changes that took text away"),
    **dict.fromkeys((f"{W}pPr", f"{W}rPr"), "properties"),
    f"{_MC}Fallback": "second versions for old programs",
}
_NOTES = (f"{W}footnoteReference", f"{W}endnoteReference")


class Inline:
    """``links``: URLs by id; ``cite`` is given a note's text and returns the mark that stands for it.

    ``leave_out`` is told by which rule how many words are left out.
    """

    def __init__(
        self,
        links: Mapping[str, str],
        footnotes: Element,
        endnotes: Element,
        cite: Callable[[str], str],
        leave_out: Callable[[str, int], None],
    ) -> None:
        self._links, self._cite, self._leave_out = links, cite, leave_out
        self._notes = [{note.get(f"{W}id", ""): note for note in notes} for notes in (footnotes, endnotes)]

    def of(self, paragraph: Element) -> Said:
        said = Said()
        self._read(paragraph, said)
        return said

    def _read(self, element: Element, said: Said) -> None:
        for child in element:
            tag = child.tag
            if tag == f"{W}t":
                said.parts.append(child.text or "")
            elif tag == f"{M}oMath":
                said.parts.append(linear(child))
            elif tag in _CHARACTERS:
                said.parts.append(_CHARACTERS[tag])
            elif tag == f"{W}lastRenderedPageBreak":
                said.end_page()
            elif tag in _NOTES:
                said.parts.append(self._mark(child, _NOTES.index(tag)))
            elif tag == f"{W}txbxContent":
                said.frames.append(child)
            elif tag == f"{W}hyperlink":
                self._link(child, said)
            elif tag in _LEFT_OUT:
                self._leave_out(_LEFT_OUT[tag], count_words(child))
            else:
                self._run(child, said)

    def _run(self, element: Element, said: Said) -> None:
        begin = len(said.parts)
        self._read(element, said)
        if _is_raised(element):
            said.parts[begin:] = [raised("".join(said.parts[begin:]))]

    def _link(self, element: Element, said: Said) -> None:
        """Markdown's form, unless it leads to another place of the document, or is its own text."""
        begin = len(said.parts)
        self._read(element, said)
        text, url = "".join(said.parts[begin:]), self._links.get(element.get(f"{_R}id", ""), "")
        if url and text.strip() and text.strip() not in url:
            said.parts[begin:] = [f"[{text}]({url})"]

    def _mark(self, reference: Element, which: int) -> str:
        note = self._notes[which].get(reference.get(f"{W}id", ""))
        if note is None:
            return ""
        return self._cite(" ".join(self.of(paragraph).text for paragraph in note.iter(f"{W}p")))


def count_words(element: Element) -> int:
    return words("".join(text.text or "" for text in element.iter(f"{W}t")))


def _is_raised(run: Element) -> bool:
    placed = run.find(f"{W}rPr/{W}vertAlign")
    return placed is not None and placed.get(f"{W}val") == "superscript"
