"""Rich Text Format, token by token, into a flow of headings, paragraphs, lists, tables and notes.

[Microsoft, Rich Text Format Specification 1.9.1] A group inherits what was set before it, and what it sets
ends with it. Some groups are *destinations*: what they hold goes elsewhere than into the text, and those
marked with ``\\*`` that nobody knows go nowhere.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from ingestor.core.completeness import words as words_in
from ingestor.parsers.html.tags import words
from ingestor.parsers.office.docx_styles import DocxStyle, kind
from ingestor.parsers.rtf.tables import Finish, State, Tables
from ingestor.parsers.rtf.tokens import CHARACTERS, SIGNS, tokens
from ingestor.parsers.shared.decode import codec
from ingestor.parsers.shared.flow import Flow
from ingestor.parsers.shared.numbers import raised

_NOWHERE = words(
    "colortbl pict nonshppict shprslt header headerl headerr headerf footer footerl footerr footerf "
    "xe tc tcn rxe txe nonesttables"
)
_KNOWN = words("footnote fldinst shpinst shptxt moMath moMathPara listtext pntext")
_SETTINGS = words("pard plain v deleted super nosupersub sub intbl s outlinelevel ilvl li f uc deff ansicpg")
_TABLES = {"fonttbl": "fonts", "stylesheet": "styles", "info": "info"}
_ITEM = re.compile(r"\s*([•·▪‣–○*-]|\(?(?:\d{1,3}|[A-Za-z]|[ivxIVX]{1,5})[.)])\t+(?=\S)")
_LINK = re.compile(r'\s*HYPERLINK\s+"([^"]+)"')
_INDENT = 360  # twentieths of a point; of a level of a list that is only indented
_LEVELS = 9


@dataclass(slots=True)
class _Link:
    """A field that is open: where its text goes and begins, and in which paragraph."""

    out: list[str] | None
    begin: int
    paragraph: int
    instruction: str = ""


@dataclass(slots=True)
class RtfReader:
    flow: Flow = field(default_factory=Flow)
    tables: Tables = field(default_factory=Tables)
    said: list[str] = field(default_factory=list)  # all that belongs to the text, as it stands in the file
    _body: list[str] = field(default_factory=list)
    _state: State = field(init=False)
    _finish: Callable[[], None] | None = None  # when this group ends
    _outer: list[tuple[State, Callable[[], None] | None]] = field(default_factory=list)
    _starred: bool = False
    _font: int = 0
    _links: list[_Link] = field(default_factory=list)
    _marker: str | None = None  # of a list's item
    _mono: bool = True  # all of the paragraph is
    _frames: list[str] = field(default_factory=list)
    _cells: list[str] = field(default_factory=list)
    _rows: list[list[str]] = field(default_factory=list)
    _paragraph: int = 0

    def __post_init__(self) -> None:
        self._state = State(self._body)

    def read(self, source: str) -> None:
        """``source``: its bytes as Latin-1."""
        pending, skip = bytearray(), 0
        for word, number, digits, sign, brace, text in tokens(source):
            if text or digits:
                data = text.encode("latin-1", "replace") or bytes.fromhex(digits)
                if skip:
                    data, skip = data[skip:], max(skip - len(data), 0)
                pending += data
                if digits:  # perhaps half a character
                    continue
            if pending:
                self._say(pending.decode(self._state.codec, "replace"))
                pending.clear()
            if word:
                skip = self._state.skip if word == "u" else 0
                if word in _MEANING or self._starred or self._state.place:  # few are
                    self._word(word, int(number) if number else None)
            elif brace:
                skip = 0
                self._open() if brace == "{" else self._close()
            elif sign:
                skip = 0
                self._sign(sign)
        self._say(pending.decode(self._state.codec, "replace"))
        self._end_paragraph()
        self._end_table()
        self.flow.flush()

    def _open(self) -> None:
        self._outer.append((self._state, self._finish))
        self._state, self._finish = self._state.inherited(), None
        if self._state.place == "styles" and self._state.out is None:
            self._collect(self.tables.begin_style(self._state))

    def _close(self) -> None:
        if self._outer:
            if self._finish:
                self._finish()
            self._state, self._finish = self._outer.pop()

    def _sign(self, sign: str) -> None:
        if sign == "*":
            self._starred = True
        elif sign in "\r\n":
            self._end_paragraph()
        else:
            self._say(SIGNS.get(sign, ""))

    def _say(self, text: str) -> None:
        out = self._state.out
        if text and out is not None and not self._state.unseen:
            out.append(raised(text) if self._state.raised else text)
            if not self._state.place:
                self.said.append(text)
            if out is self._body and text.strip():
                self._mono = self._mono and self._state.mono

    def _word(self, word: str, number: int | None) -> None:
        starred, self._starred = self._starred, False
        if word in _NOWHERE or (starred and word not in _KNOWN):
            self._state.out, self._state.place = None, ""
        elif word in CHARACTERS:
            self._say(CHARACTERS[word])
        elif word == "u" and number is not None:
            self._say(chr(number & 0xFFFF))
        elif word in _ENDS:
            _ENDS[word](self)
        elif word in _TABLES:
            self._state.out, self._state.place = None, _TABLES[word]
        elif word in _DESTINATIONS:
            _DESTINATIONS[word](self)
        elif not self._state.place:
            if word in _SETTINGS:
                self._set(word, number)
        elif (then := self.tables.entry(self._state, word, number)) is not None:
            self._collect(then)

    # --- what a word sets ----------------------------------------------------------------------------------

    def _set(self, word: str, number: int | None) -> None:
        state, on = self._state, number != 0
        if word == "pard":
            state.style, state.level, state.list_level, state.indent, state.in_table = 0, None, 0, 0, False
        elif word == "plain":
            state.unseen = state.raised = False
            state.codec, state.mono = self.tables.font(self._font)
        elif word in ("v", "deleted"):
            state.unseen = on
        elif word in ("super", "nosupersub", "sub"):
            state.raised = word == "super" and on
        elif word == "intbl":
            state.in_table = True
        elif number is not None:
            self._set_to(word, number)

    def _set_to(self, word: str, number: int) -> None:
        state = self._state
        if word == "s":
            state.style = number
        elif word == "outlinelevel":
            state.level = number
        elif word == "ilvl":
            state.list_level = number
        elif word == "li":
            state.indent = number
        elif word == "f":
            state.codec, state.mono = self.tables.font(number)
        elif word == "uc":
            state.skip = max(number, 0)
        elif word == "deff":
            self._font = number
        elif word == "ansicpg":
            name = codec("utf-8" if number == 65001 else f"cp{number}")
            self.tables.codec = state.codec = name or state.codec

    # --- destinations --------------------------------------------------------------------------------------

    def _collect(self, then: Finish) -> None:
        """Redirect the text of this group, unless it is discarded."""
        collected: list[str] = []
        if self._state.out is not None or self._state.place:
            self._state.out = collected
            self._finish = lambda: then("".join(collected))

    def _note(self) -> None:
        above = self._state.out

        def cite(text: str) -> None:
            if above is not None:
                above.append(self.flow.cite(_sound(text)))

        self._collect(cite)

    def _mark(self) -> None:
        def mark(text: str) -> None:
            self._marker = text.strip()

        self._collect(mark)

    def _shape(self) -> None:
        self._state.unseen = True

    def _frame(self) -> None:
        self._state.unseen = False
        self._collect(self._frames.append)

    def _link(self) -> None:
        out = self._state.out
        self._links.append(_Link(out, len(out or ()), self._paragraph))
        self._finish = self._end_link

    def _instruct(self) -> None:
        def instruct(text: str) -> None:
            self.flow.composer.leave_out("instructions of fields", words_in(text))
            if self._links:
                self._links[-1].instruction = text

        self._collect(instruct)

    def _end_link(self) -> None:
        """In Markdown's form, unless it leads to a place in the document, or its text is the address."""
        link = self._links.pop()
        address = _LINK.match(link.instruction)
        if link.out is not None and address and link.paragraph == self._paragraph:
            text = "".join(link.out[link.begin :]).strip()
            if text and text not in address[1]:
                link.out[link.begin :] = [f"[{text}]({address[1]})"]

    # --- what ends -----------------------------------------------------------------------------------------

    def _end_paragraph(self) -> None:
        state = self._state
        self.said.append("\n")
        if state.out is not self._body:
            self._say("\n")
        elif state.in_table:
            self._body.append(" ")
        else:
            text, mono = self._taken()
            self._end_table()
            self._add(text, mono)
            for frame in self._frames:
                self.flow.add("paragraph", _sound(frame))
            self._frames.clear()

    def _taken(self) -> tuple[str, bool]:
        """The paragraph's text, and whether all of it is set in type of one width."""
        text, mono = _sound("".join(self._body)), self._mono
        self._body.clear()
        self._mono = True
        self._paragraph += 1
        return text, mono

    def _add(self, text: str, mono: bool) -> None:
        state, (style, level) = self._state, self.tables.style(self._state.style)
        marker, self._marker = self._marker, None
        level = level if state.level is None else state.level
        if not text.strip():
            self.flow.blank()
        elif level is not None and 0 <= level < _LEVELS:
            self.flow.heading(text, level + 1, _shown(marker))
        elif style == "title":
            self.flow.main_title(text)
        elif marker is not None:
            self.flow.item(text, state.list_level, _shown(marker) or "-")
        elif found := _ITEM.match(text):
            at = max(state.indent // _INDENT - 1, 0)
            self.flow.item(text[found.end() :], at, _shown(found[1]) or "-")
        elif mono or kind(DocxStyle(style)) == "code":
            self.flow.add("code", text)
        else:
            self.flow.add(kind(DocxStyle(style)), text.strip())

    def _end_cell(self) -> None:
        if self._state.out is self._body:
            self._cells.append(self._taken()[0])
            self.said.append("\n")
            self._marker = None

    def _end_row(self) -> None:
        self._rows.append(self._cells)
        self._cells = []

    def _end_table(self) -> None:
        if self._cells:
            self._end_row()
        if self._rows:
            self.flow.table(self._rows)
        self._rows = []


_ENDS: dict[str, Callable[[RtfReader], None]] = {
    **dict.fromkeys(("par", "sect", "page"), RtfReader._end_paragraph),
    "cell": RtfReader._end_cell,
    "row": RtfReader._end_row,
}
_DESTINATIONS: dict[str, Callable[[RtfReader], None]] = {
    "footnote": RtfReader._note,
    "listtext": RtfReader._mark,
    "pntext": RtfReader._mark,
    "field": RtfReader._link,
    "fldinst": RtfReader._instruct,
    "shpinst": RtfReader._shape,
    "shptxt": RtfReader._frame,
}
_MEANING = frozenset(("u", *_NOWHERE, *_SETTINGS, *_TABLES, *CHARACTERS, *_ENDS, *_DESTINATIONS))


def _shown(marker: str | None) -> str:
    """A number or a letter; "" is a bullet."""
    return marker if marker and any(map(str.isalnum, marker)) else ""


def _sound(text: str) -> str:
    """Surrogates put together, for characters beyond the first plane are written as two."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
