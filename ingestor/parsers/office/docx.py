"""Word documents (DOCX): headings with their numbers, lists, tables, code, links, footnotes, charts.

The library anydoc reads the document. Before that, everything that anydoc's tree cannot represent is written
as text: formulas, symbols, superscript numbers, captions, comments, and parts in other formats (altChunk).
Hidden text is removed.
"""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from xml.etree.ElementTree import Element

from pydantic import Field

from ingestor.core.completeness import words
from ingestor.model import Blob, Document
from ingestor.parsers.office.drawing import choose_alternatives, mark_charts
from ingestor.parsers.office.symbols import readable, symbol
from ingestor.parsers.office.tree import TERM, TITLE, Asides, mark_counted, read_tree, style_mark
from ingestor.parsers.shared.formulas import M, linear
from ingestor.parsers.shared.numbers import is_known, parse_integer, raise_digits
from ingestor.parsers.shared.package import Package, count_office_words, office_properties, pack
from ingestor.parsers.shared.plugin import parser_plugin
from ingestor.registry import Options, find

_CONTENT_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_RUN, _TEXT, _PARAGRAPH = f"{W}r", f"{W}t", f"{W}p"
_LEFT_OUT = (f"{W}del", f"{W}moveFrom")
# Styles of numbers that the library knows.
_COUNTED = ("decimal", "lowerLetter", "upperLetter", "lowerRoman", "upperRoman")
_LONGEST = 20  # styles that inherit from each other
_LONGEST_TERM = 80  # characters of the term of a definition
_DEEPER = 200  # twentieths of a point by which a definition is indented below its term
_CHUNKS = (  # what Word takes as a part in another format: its suffixes and content type
    ((".html", ".htm", ".xhtml"), "text/html"),
    ((".mht", ".mhtml", ".eml"), "message/rfc822"),
    ((".docx", ".docm", ".dotx"), _CONTENT_TYPE),
    ((".rtf",), "application/rtf"),
    ((".txt",), "text/plain"),
)


class DocxOptions(Options):
    comments: bool = Field(default=False, description="read comments, as separate blocks")


def parse(blob: Blob, options: DocxOptions, *, inserts: bool = True) -> Document:
    """Read a Word document. ``inserts``: whether to read the parts in other formats that it contains.

    Raises BadDocument if the document is damaged, encrypted or a zip bomb.
    """
    package = Package(blob.data)
    part = package.main_part("word/document.xml")
    marking = _Marking(package, part, comments=options.comments, inserts=inserts)
    folder = part.partition("/")[0] if "/" in part else ""
    data = pack(package, marking.parts(), ("[Content_Types].xml", "_rels/", folder))
    flow = read_tree(data, "docx", marking.asides)
    flow.composer.left_out.update(marking.left_out)
    facts = office_properties(package, flow.composer)
    return flow.composer.document(
        _CONTENT_TYPE,
        title=facts.pop("title") or flow.title or flow.composer.title,
        language=facts.pop("language") or marking.styles.language,
        raw_words=count_office_words(package.read(part)),
        lost=(*marking.lost, *facts.pop("lost")),
        **facts,
    )


class _Styles:
    """The styles of a document, by identifier. A style inherits from the style on which it is based."""

    def __init__(self, root: Element) -> None:
        self.root = root
        self._styles = {style.get(f"{W}styleId", ""): style for style in root.iter(f"{W}style")}
        self._hides: dict[str, bool] = {}
        self._marks: dict[str, str] = {}
        language = root.find(f"{W}docDefaults/{W}rPrDefault/{W}rPr/{W}lang")
        self.language = language.get(f"{W}val") if language is not None else None
        for name in self._styles:  # the library refuses styles that inherit in a circle
            chain = list(self._chain(name))
            if len(chain) == _LONGEST and (based := chain[-1].find(f"{W}basedOn")) is not None:
                chain[-1].remove(based)

    def mark(self, style: str) -> str:
        """Return the mark of a paragraph in ``style``; "" if none is needed, as for a title."""
        if style not in self._marks:
            mark = style_mark([_value(one, "name") for one in self._chain(style)])
            self._marks[style] = "" if mark == TITLE else mark
        return self._marks[style]

    def hides(self, style: str) -> bool:
        if style not in self._hides:
            settings = (_is_hidden(one.find(f"{W}rPr")) for one in self._chain(style))
            self._hides[style] = next((hidden for hidden in settings if hidden is not None), False)
        return self._hides[style]

    def indentation(self, paragraph: Element) -> int | None:
        """Return the left indentation of a paragraph in twentieths of a point; None for a list item."""
        properties = paragraph.find(f"{W}pPr")
        own = [] if properties is None else [properties]
        inherited = (style.find(f"{W}pPr") for style in self._chain(_value(properties, "pStyle")))
        settings = [*own, *(each for each in inherited if each is not None)]
        if any(each.find(f"{W}numPr") is not None for each in settings):
            return None
        indents = (each.find(f"{W}ind") for each in settings)
        sides = (
            indent.get(f"{W}left") or indent.get(f"{W}start") for indent in indents if indent is not None
        )
        return parse_integer(next(filter(None, sides), "0"), 0)

    def _chain(self, name: str) -> Iterator[Element]:
        for _ in range(_LONGEST):
            if (style := self._styles.get(name)) is None:
                return
            yield style
            name = _value(style, "basedOn")


class _Marking:
    """Rewrites the parts of a document so that anydoc can represent them (see tree.py)."""

    def __init__(self, package: Package, part: str, *, comments: bool, inserts: bool) -> None:
        self.asides = Asides()
        self.left_out = Counter[str]()
        self.lost: list[str] = []
        self._package, self._part, self._inserts = package, part, inserts
        self._relations = package.relations(part)
        self._named = dict(self._relations.values())
        root = package.optional(self._named.get("comments", "") if comments else "")
        self._comments = {comment.get(f"{W}id", ""): comment for comment in root.iter(f"{W}comment")}
        self.styles = _Styles(package.optional(self._named.get("styles", "")))
        self._fields: list[str] = []  # of each open field, what it shows if it has no text
        self._initial: list[Element] = []  # runs of a letter set large; the rest of its word follows

    def parts(self) -> dict[str, Element | bytes]:
        changed: dict[str, Element | bytes] = {}
        if styles := self._named.get("styles"):
            changed[styles] = self.styles.root
        if (numbering := self._named.get("numbering", "")) in self._package:
            changed[numbering] = root = self._package.xml(numbering)
            for pattern in root.iter(f"{W}abstractNum"):
                _mark_counting(pattern)
        for name in (self._part, self._named.get("footnotes", ""), self._named.get("endnotes", "")):
            if name == self._part or name in self._package:
                changed[name] = root = self._package.xml(name)
                for other in choose_alternatives(root):
                    self.left_out["second versions for old programs"] += _count(other)
                self._children(root)
        changed |= mark_charts(self._package, self._relations)
        return changed

    def _children(self, parent: Element, *, hidden: bool = False) -> None:
        kept: list[Element] = []
        for child in parent:
            kept += self._element(child, kept[-1] if kept else None, hidden=hidden)
        parent[:] = kept
        for term, definition in pairwise(kept):
            if self._is_term(term, definition):
                term.insert(1 if term[0].tag == f"{W}pPr" else 0, _run(TERM))

    def _is_term(self, paragraph: Element, following: Element) -> bool:
        """Return whether a paragraph is the term of a definition.

        Such a paragraph is short, ends without a full stop, and is less indented than the ``following`` one.
        """
        if paragraph.tag != _PARAGRAPH or following.tag != _PARAGRAPH:
            return False
        text = "".join(part.text or "" for part in paragraph.iter(_TEXT)).strip()
        if not 0 < len(text) <= _LONGEST_TERM or text.endswith((".", ",", ";", "!", "?")):
            return False
        own, other = self.styles.indentation(paragraph), self.styles.indentation(following)
        return own is not None and other is not None and other >= own + _DEEPER

    def _element(self, element: Element, before: Element | None, *, hidden: bool) -> list[Element]:
        """Return the elements that replace ``element``. ``before``: the element kept in front of it.

        ``hidden``: whether the style of the paragraph hides its text.
        """
        tag = element.tag
        if tag == _RUN:
            return self._run(element, hidden=hidden)
        if tag == _PARAGRAPH:
            return self._paragraph(element)
        if tag == f"{M}oMath":
            apart = before is not None and before.get("formula") is not None
            return [_run(f" {linear(element)}" if apart else linear(element), formula="")]
        if tag == f"{M}oMathPara":
            lines = [_run(linear(one)) for one in element.iter(f"{M}oMath")]
            for line in lines[1:]:
                line.insert(0, Element(f"{W}br"))
            return lines
        if tag in _LEFT_OUT:
            self.left_out["changes that took text away"] += _count(element)
            return []
        if tag == f"{W}altChunk":
            return self._chunk(element)
        if tag == f"{W}sdt" and (content := element.find(f"{W}sdtContent")) is not None:
            # anydoc does not look for rows in it
            self._children(content, hidden=hidden)
            return list(content)
        self._children(element, hidden=hidden)
        return [element]

    def _paragraph(self, paragraph: Element) -> list[Element]:
        properties = paragraph.find(f"{W}pPr")
        style = _value(properties, "pStyle")
        self._children(paragraph, hidden=self.styles.hides(style))
        frame = None if properties is None else properties.find(f"{W}framePr")
        if frame is not None and frame.get(f"{W}dropCap") in ("drop", "margin"):
            self._initial += paragraph.findall(_RUN)
            return []
        at = 0 if properties is None else 1
        paragraph[at:at], self._initial = self._initial, []
        if mark := self.styles.mark(style):
            paragraph.insert(at, _run(mark))
        return [paragraph]

    def _run(self, run: Element, *, hidden: bool) -> list[Element]:
        properties = run.find(f"{W}rPr")
        own = _is_hidden(properties)
        if self.styles.hides(_value(properties, "rStyle")) if own is None else own:
            hidden = True
        elif own is False:
            hidden = False
        if hidden:
            self.left_out["hidden text"] += _count(run)
            return []
        fonts = None if properties is None else properties.find(f"{W}rFonts")
        font = "" if fonts is None else fonts.get(f"{W}ascii") or fonts.get(f"{W}hAnsi") or ""
        is_raised = _value(properties, "vertAlign") == "superscript"
        for at, child in enumerate(list(run)):
            if child.tag == _TEXT and child.text:
                if self._fields:
                    self._fields[-1] = ""
                text = readable(child.text, font)
                child.text = raise_digits(text) if is_raised else text
                child.set(_SPACE, "preserve")
            elif child.tag == f"{W}fldChar":
                run.extend(self._field(child))
            elif (shown := self._text_for(child)) is not None:
                run[at] = _text(shown)
            elif child.tag != f"{W}rPr" and len(child):
                self._children(child)
        return [run]

    def _text_for(self, element: Element) -> str | None:
        """Return the text that stands for an element of a run; None if anydoc can represent the element."""
        if element.tag == f"{W}sym":
            return _symbol(element)
        if element.tag == f"{W}noBreakHyphen":
            return "-"
        if element.tag == f"{W}commentReference":
            return self._comment(element.get(f"{W}id", ""))
        if element.tag == f"{W}ruby":
            self.left_out["pronunciations"] += sum(map(_count, element.findall(f"{W}rt")))
            bases = element.findall(f"{W}rubyBase")
            return "".join(text.text or "" for base in bases for text in base.iter(_TEXT))
        return None

    def _field(self, mark: Element) -> list[Element]:
        """Return the elements to insert behind a mark of a field: what a form without a text shows there."""
        kind = mark.get(f"{W}fldCharType")
        if kind == "begin":
            self._fields.append(_form_field(mark))
        shown = self._fields.pop() if kind == "end" and self._fields else ""
        return [_text(shown)] if shown else []

    def _comment(self, identifier: str) -> str:
        comment = self._comments.get(identifier)
        if comment is None:
            return ""
        text = " ".join("".join(t.text or "" for t in p.iter(_TEXT)) for p in comment.iter(_PARAGRAPH))
        return self.asides.comment(comment.get(f"{W}author", ""), text)

    def _chunk(self, element: Element) -> list[Element]:
        """Read a part in another format (altChunk); return a paragraph that marks where it is inserted.

        Return nothing, and report the part as lost, if no parser for it is known.
        """
        _, name = self._relations.get(element.get(f"{_R}id", ""), ("", ""))
        kind = next((kind for suffixes, kind in _CHUNKS if name.lower().endswith(suffixes)), "")
        if not kind or name not in self._package or not self._inserts:
            self.lost.append(
                f"a part in another format ({name or 'missing'}) is not read: save it again with Word"
            )
            return []
        document = _read_chunk(Blob(self._package.read(name), name, kind), kind)
        self.lost += document.lost
        paragraph = Element(_PARAGRAPH)
        paragraph.append(_run(self.asides.insert(document)))
        return [paragraph]


def _mark_counting(pattern: Element) -> None:
    """Make anydoc count in decimals wherever a list uses a number style that anydoc does not know.

    ``pattern``: definition of the list. Marks in its texts record the style in which to write each number
    later.
    """
    levels = {level.get(f"{W}ilvl", ""): level for level in pattern.iter(f"{W}lvl")}
    styles = {
        str(int(at) + 1): style
        for at, level in levels.items()
        if at.isdecimal()
        and len(at) < 2
        and (style := _value(level, "numFmt")) not in _COUNTED
        and is_known(style)
    }
    for level in levels.values() if styles else ():
        text, form = level.find(f"{W}lvlText"), level.find(f"{W}numFmt")
        if text is not None and level.find(f"{W}isLgl") is None:
            shown = re.sub(
                r"%([1-9])",
                lambda match: mark_counted(match[0], styles[match[1]]) if match[1] in styles else match[0],
                text.get(f"{W}val", ""),
            )
            text.set(f"{W}val", shown)
        if form is not None and form.get(f"{W}val") in styles.values():
            form.set(f"{W}val", "decimal")


def _read_chunk(blob: Blob, kind: str) -> Document:
    if kind == _CONTENT_TYPE:
        return parse(blob, DocxOptions(), inserts=False)
    from ingestor.parsers.shared.detect import parser_of

    plugin = find("parsers", parser_of(blob))
    options = {"mode": "full"} if plugin.kind == "html" else {}  # all of it was put there by its author
    document: Document = plugin.build(plugin.options(**options)).parse(blob)
    return document


def _value(element: Element | None, tag: str) -> str:
    """Return ``w:val`` of the child ``tag`` of an element; "" if the element or the child is missing."""
    child = None if element is None else element.find(f"{W}{tag}")
    return "" if child is None else child.get(f"{W}val", "")


def _is_hidden(properties: Element | None) -> bool | None:
    """Return whether the properties of a run or a style hide text; None if they do not say."""
    mark = None if properties is None else properties.find(f"{W}vanish")
    return None if mark is None else _is_on(mark)


def _is_on(setting: Element) -> bool:
    return setting.get(f"{W}val", "1") not in ("0", "false", "off")


def _form_field(begin: Element) -> str:
    """Return what a check box or a list of choices of a form shows; "" for other fields.

    ``begin``: first mark of the field.
    """
    box, choices = begin.find(f"{W}ffData/{W}checkBox"), begin.find(f"{W}ffData/{W}ddList")
    if box is not None:
        settings = (box.find(f"{W}{name}") for name in ("checked", "default"))
        setting = next((one for one in settings if one is not None), None)
        return "\u2612" if setting is not None and _is_on(setting) else "\u2610"
    if choices is not None:
        chosen = parse_integer(_value(choices, "result") or _value(choices, "default"), 0)
        names = [entry.get(f"{W}val", "") for entry in choices.findall(f"{W}listEntry")]
        return "".join(names[chosen : chosen + 1])
    return ""


def _symbol(element: Element) -> str:
    try:
        return symbol(element.get(f"{W}font", ""), int(element.get(f"{W}char", ""), 16))
    except ValueError:
        return ""


def _text(text: str) -> Element:
    element = Element(_TEXT, {_SPACE: "preserve"})
    element.text = text
    return element


def _run(text: str, **attributes: str) -> Element:
    run = Element(_RUN, attributes)
    run.append(_text(text))
    return run


def _count(element: Element) -> int:
    return words("".join(text.text or "" for text in element.iter(_TEXT)))


PLUGIN = parser_plugin("docx", 10, parse, DocxOptions)
