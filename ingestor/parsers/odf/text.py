"""The blocks of an OpenDocument text: headings, lists, tables, code, frames."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from ingestor.parsers.odf.inline import (
    DRAW,
    OFFICE,
    STYLE,
    TABLE,
    TEXT,
    OdfInline,
    chart_titles,
    count_words,
    picture,
    rule_of,
)
from ingestor.parsers.odf.lists import STYLES, OdfLists
from ingestor.parsers.odf.table import row_texts
from ingestor.parsers.shared.flow import CAPTION, Flow, FlowText
from ingestor.parsers.shared.mathml import is_formula, linear
from ingestor.parsers.shared.whole import whole

_CHART = "{urn:oasis:names:tc:opendocument:xmlns:chart:1.0}chart"
_CODE = re.compile(r"code|source|preformatted|verbatim|listing")
_QUOTE = re.compile(r"quot")
_LONGEST = 20  # styles that inherit from each other


_PARAGRAPHS = (f"{TEXT}p", f"{TEXT}h")
_HEADING, _LIST, _TABLE = f"{TEXT}h", f"{TEXT}list", f"{TABLE}table"
_STYLE_NAME = f"{TEXT}style-name"


@dataclass(frozen=True, slots=True)
class OdfRole:
    """What a paragraph's style makes of it."""

    title: bool
    caption: bool
    kind: str  # of its block


class OdfStyles:
    """Programs make up styles; what counts is which named one such a style inherits from."""

    def __init__(self, styles: Iterable[Element]) -> None:
        self.lists = OdfLists()
        self._parents: dict[str, str] = {}
        self._roles: dict[str, OdfRole] = {}
        self._list_styles: dict[str, str] = {}  # of paragraphs' styles that say one; "" takes a number away
        self._hidden = set[str]()  # styles of sheets that are not shown
        for style in styles:
            self.add(style)

    def add(self, style: Element) -> None:
        name = style.get(f"{STYLE}name", "")
        self._roles.clear()
        if style.tag in STYLES:
            self.lists.add(style)
        else:
            self._parents[name] = style.get(f"{STYLE}parent-style-name", "")
            if (listed := style.get(f"{STYLE}list-style-name")) is not None:
                self._list_styles[name] = listed
            properties = style.find(f"{STYLE}table-properties")
            if properties is not None and properties.get(f"{TABLE}display") == "false":
                self._hidden.add(name)

    def role(self, paragraph: Element) -> OdfRole:
        """By the names of the paragraph's style and of all that it inherits from."""
        name = paragraph.get(_STYLE_NAME, "")
        if name not in self._roles:
            names = [each.replace("_20_", " ").lower() for each in self._chain(paragraph)]
            code, quote = any(map(_CODE.search, names)), any(map(_QUOTE.search, names))
            self._roles[name] = OdfRole(
                "title" in names,
                any(map(CAPTION.match, names)),
                "code" if code else "quote" if quote else "paragraph",
            )
        return self._roles[name]

    def is_numbered(self, heading: Element) -> bool:
        """Unless its style takes the number away."""
        told = (self._list_styles[name] for name in self._chain(heading) if name in self._list_styles)
        return next(told, None) != ""

    def _chain(self, paragraph: Element) -> Iterator[str]:
        name = paragraph.get(_STYLE_NAME, "")
        for _ in range(_LONGEST):
            if not name:
                return
            yield name
            name = self._parents.get(name, "")

    def displays(self, table: Element) -> bool:
        """Whether a sheet is shown."""
        return table.get(f"{TABLE}style-name", "") not in self._hidden


class OdfReader:
    """``embedded`` gives the root of an object by its name; ``comments``: whether they are read."""

    def __init__(self, styles: OdfStyles, embedded: Callable[[str], Element], *, comments: bool) -> None:
        self.flow = Flow()
        self.styles = styles
        comment = self.flow.comment if comments else None
        self.inline = OdfInline(self.flow.cite, self.flow.composer.leave_out, comment, embedded)

    def block(self, element: Element) -> None:
        """A paragraph, a heading, a list, a table, or what stands around some."""
        tag = element.tag
        if tag in _PARAGRAPHS:
            self._paragraph(element)
        elif tag == _LIST:
            style = element.get(_STYLE_NAME, "")
            self._list(element, self.styles.lists.begin(element, style), 0)
        elif tag == _TABLE:
            self._table(element)
        elif tag == f"{TEXT}soft-page-break":
            self.flow.turn(1)
        elif tag == f"{DRAW}frame" and element.find(f"{DRAW}text-box") is None:
            self._frame(element)
        elif tag == _CHART:
            self.chart(element)
        elif tag == f"{OFFICE}annotation":
            self.inline.say_comment(element)
        elif rule := rule_of(tag):
            self.flow.composer.leave_out(rule, count_words(element))
        else:
            for child in element:
                self.block(child)

    def _paragraph(self, element: Element, number: str = "") -> None:
        """``number``: that of the list in which a heading stands."""
        said = self.inline.of(element)
        self.flow.turn(said.pages_before)
        captions, text = self.styles.role(element).caption, said.text
        has_text = bool(text.strip())
        if not has_text or captions:
            self._add_pictures(said)
        if has_text:
            self._add(element, text, number)
        elif not said.pictures:
            self.flow.blank()
        if has_text and not captions:
            self._add_pictures(said)
        self.flow.turn(said.pages_after)
        for frame in said.frames:
            self.block(frame)

    def _add_pictures(self, said: FlowText) -> None:
        for name, description in said.pictures:
            self.flow.figure(name, description)

    def _frame(self, frame: Element) -> None:
        """One that stands beside paragraphs, as on slides: a formula, a chart, a table, a picture."""
        root = self.inline.object_in(frame)
        if root is not None and is_formula(root):
            self.flow.add("paragraph", linear(root))
        elif root is not None:
            self.chart(root)
        elif frame.find(f"{TABLE}table") is None and frame.find(f"{DRAW}image") is not None:
            self.flow.figure(*picture(frame))
        else:
            for child in frame:
                self.block(child)

    def chart(self, chart: Element) -> None:
        tables = (list(row_texts(table, self.inline)) for table in chart.iter(f"{TABLE}table"))
        rows = [row for _, row in next(tables, [])]
        columns = sorted({column for row in rows for column in row})
        self.flow.chart(chart_titles(chart), [[row.get(at, "") for at in columns] for row in rows])

    def _add(self, element: Element, text: str, number: str) -> None:
        if element.tag == _HEADING:
            level = whole(element.get(f"{TEXT}outline-level", "1"), 1)
            if not number and self.styles.is_numbered(element):
                number = self.styles.lists.of_heading(level)
            number = next((child.text or "" for child in element.iter(f"{TEXT}number")), number)
            self.flow.heading(text, level, number.strip())
            return
        role = self.styles.role(element)
        if role.title:
            self.flow.main_title(text)
        elif role.caption:
            self.flow.caption(text)
        else:
            self.flow.add(role.kind, text)

    def _list(self, element: Element, name: str, level: int) -> None:
        """A heading in a list is a numbered heading, and no item. ``name``: that of the outermost list."""
        lists = self.styles.lists
        lists.style_level(name, element.get(_STYLE_NAME, ""), level)
        for item in element:
            lists.restart(name, level, item)
            marker = " " if item.tag == f"{TEXT}list-header" else ""
            for child in item:
                if child.tag == _LIST:
                    self._list(child, name, level + 1)
                elif child.tag in _PARAGRAPHS:
                    shown = marker or lists.marker(name, level)
                    if child.tag == _HEADING:
                        self._paragraph(child, shown.strip())
                    else:
                        self._item(child, level, shown or "-")
                    marker = " "
                else:
                    self.block(child)

    def _item(self, element: Element, level: int, marker: str) -> None:
        said = self.inline.of(element)
        self.flow.turn(said.pages_before)
        if said.text.strip():
            self.flow.item(said.text, level, marker)
        self.flow.turn(said.pages_after)
        self._add_pictures(said)
        for frame in said.frames:
            self.block(frame)

    def _table(self, table: Element) -> None:
        rows = [row for _, row in row_texts(table, self.inline)]
        columns = sorted({column for row in rows for column in row})
        pages = sum(1 for _ in table.iter(f"{TEXT}soft-page-break"))
        self.flow.table([row.get(column, "") for column in columns] for row in rows)
        self.flow.turn(pages)
