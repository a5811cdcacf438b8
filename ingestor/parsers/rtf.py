r"""Rich Text Format: headings, lists, tables, code, quotes, links, footnotes.

The library anydoc reads the document. Before that, its source is rewritten: hidden and deleted text is
removed, and so is a ``\*`` that begins no destination. Numbers of headings, superscript numbers and tabs are
written as text, and headings get the outline level of their style.

A group in braces inherits the settings made before it, and its own settings end with it. Some groups are
destinations, such as the table of fonts, which hold no text of the document [Microsoft, Rich Text Format
Specification 1.9.1].
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ingestor.core.completeness import words
from ingestor.model import Blob, Document
from ingestor.parsers.office.tree import TAB, mark_number, read_tree, style_mark
from ingestor.parsers.shared.decode import code_page
from ingestor.parsers.shared.flow import Flow
from ingestor.parsers.shared.numbers import raise_digits
from ingestor.parsers.shared.plugin import parser_plugin

_CONTENT_TYPE = "application/rtf"
_TOKEN = re.compile(
    r"\\(?P<word>[a-zA-Z]{1,32})(?P<number>-?\d{1,9})? ?|\\'(?P<hex>[0-9a-fA-F]{2})|\\(?P<sign>.)"
    r"|(?P<brace>[{}])|(?P<text>[^\\{}\r\n]+)|[\r\n]+|\\",
    re.DOTALL,
)
_SILENT = frozenset(  # destinations without text of the document
    (
        *("fonttbl", "colortbl", "stylesheet", "info", "pict", "nonshppict", "header", "headerl", "headerr"),
        *("headerf", "footer", "footerl", "footerr", "footerf", "xe", "tc", "tcn", "rxe", "txe"),
        *("nonesttables", "fldinst", "listtext", "pntext"),
    )
)
_SPOKEN = ("footnote", "shpinst", "shptxt", "moMath", "moMathPara")  # destinations with text, though starred
_APART = ("par", "line", "tab", "cell", "row", "sect", "page", "nestcell", "nestrow", "softline")
_NUMBERS = ("listtext", "pntext")
_HIDING = {  # words that hide text -> the rule by which it is left out
    "v": "hidden text",
    "deleted": "changes that took text away",
    "shprslt": "second versions for old programs",
}
_STYLE = re.compile(r"\{\\s(\d{1,5})(?!\d)((?:[^{}\\;]|\\.)*+)", re.DOTALL)
_CONTROL = re.compile(r"\\[a-z]+-?\d* ?|\\'..|\\.", re.DOTALL)
_STYLES, _INFO = 2_000_000, 100_000  # bytes in which styles, and facts about the document, are looked for
_HEADING = re.compile(r"heading ([1-9])")
_DATES = (("creatim", "created"), ("revtim", "modified"))


@dataclass(frozen=True, slots=True)
class _State:
    """The settings that a group inherits. ``hidden``: reason why its text is left out; "" for visible text.

    ``silent``: whether the group is a destination without text of the document.
    """

    silent: bool = False
    hidden: str = ""
    is_raised: bool = False


def parse(blob: Blob) -> Document:
    """Read an RTF file as a document. Raises BadDocument if the file is damaged or too large."""
    source = blob.data.decode("latin-1")  # 7 bits; all other characters are in a code page that it names
    flow, raw_words = read_rtf(source)
    about = dict(_about(source))
    return flow.composer.document(
        _CONTENT_TYPE,
        title=about.get("title") or flow.title or flow.composer.title,
        extra={name: about.get(name) for name in ("author", "created", "modified")},
        raw_words=raw_words,
    )


def read_rtf(source: str) -> tuple[Flow, int]:
    """Return the blocks of an RTF document, and the number of words in its source.

    ``source``: its bytes, decoded as Latin-1. Raises BadDocument if it is damaged or too large.
    """
    preparation = _Preparation(source)
    for token in _tokens(source):
        preparation.take(token)
    flow = read_tree("".join(preparation.out).encode("latin-1"), "rtf")
    flow.composer.left_out.update({rule: words("".join(all_)) for rule, all_ in preparation.left_out.items()})
    return flow, words("".join(preparation.text))


class _Preparation:
    """Rewrites the source of an RTF document for anydoc, token by token.

    In word counts, a character that the source escapes counts as a letter.
    """

    def __init__(self, source: str) -> None:
        self.out: list[str] = []
        self.text: list[str] = []  # all that the document holds, to count its words
        self.left_out: dict[str, list[str]] = {}
        self._styles = _styles(source)
        self._state, self._outer = _State(), list[_State]()
        self._begins = self._starred = False  # the group
        self._number: list[str] | None = None  # the text of a number, while its group is open
        self._number_depth = 0
        self._style_mark = self._mark = ""  # of the paragraph's style; the second, until it has text

    def take(self, token: re.Match[str]) -> None:
        begins, self._begins = self._begins, False
        starred, self._starred = self._starred, False
        if token["brace"] == "{":
            self._outer.append(self._state)
            self._begins = True
            self.out.append("{")
        elif token["brace"]:
            self._end_group()
        elif token["sign"] == "*":
            if begins:  # else it begins no destination
                self._starred = True
                self.out.append(token[0])
        elif word := token["word"]:
            if begins and (word in _SILENT or (starred and word not in _SPOKEN)):
                self._begin_destination(word)
            self._word(word, token["number"], token[0])
        elif token["text"] or token["hex"]:
            self._text(token["text"], token[0])
        else:
            self.out.append(token[0])

    def _begin_destination(self, word: str) -> None:
        self._state = replace(self._state, silent=True)
        if word in _NUMBERS and not self._state.hidden:
            self._number, self._number_depth = [], len(self._outer)

    def _end_group(self) -> None:
        """End a group. Repeat the number of a heading or item as marked text: anydoc drops it in headings."""
        self._state = self._outer.pop() if self._outer else self._state
        self.out.append("}")
        if self._number is not None and len(self._outer) < self._number_depth:
            shown, self._number = "".join(self._number).strip(), None
            if any(map(str.isalnum, shown)):
                self.out.append(_unicode(mark_number(shown)))

    def _word(self, word: str, value: str | None, written: str) -> None:
        self._set(word, on=value != "0")
        state = self._state
        if state.silent:
            self.out.append(written)
            return
        self.text.append("x" if word == "u" else " " if word in _APART else "")
        if word == "u" and state.hidden:
            self.left_out.setdefault(state.hidden, []).append("x")
        elif word == "tab" and not state.hidden:
            self.out.append(_unicode(TAB))
        elif word == "s" and value:
            level, self._style_mark = self._styles.get(value, (None, ""))
            self._mark = self._style_mark
            self.out.append(written if level is None else f"{written}\\outlinelevel{level} ")
        else:
            self.out.append(written)

    def _set(self, word: str, *, on: bool) -> None:
        if word in _HIDING:
            self._state = replace(self._state, hidden=_HIDING[word] if on else "")
        elif word == "plain":
            self._state = replace(self._state, hidden="", is_raised=False)
        elif word in ("super", "nosupersub", "sub"):
            self._state = replace(self._state, is_raised=word == "super" and on)
        elif word == "pard":
            self._style_mark = self._mark = ""
        elif word == "par":
            self._mark = self._style_mark

    def _text(self, text: str | None, written: str) -> None:
        state, shown = self._state, text or "x"
        if state.silent:
            if self._number is not None and text:
                self._number.append(text)
            self.out.append(written)
            return
        self.text.append(shown)
        if state.hidden:
            self.left_out.setdefault(state.hidden, []).append(shown)
            return
        if self._mark:
            self.out.append(_unicode(self._mark))
            self._mark = ""
        high = raise_digits(shown) if state.is_raised else shown
        self.out.append(written if high == shown else _unicode(high))


def _tokens(source: str) -> Iterator[re.Match[str]]:
    r"""Yield the tokens of a source, without the binary data that follows a ``\bin``."""
    at = 0
    while at < len(source):
        for token in _TOKEN.finditer(source, at):
            at = token.end()
            if token["word"] == "bin":
                at += max(int(token["number"] or 0), 0)
                break
            yield token


def _unicode(text: str) -> str:
    signed = (int.from_bytes(text[at].encode("utf-16-le"), "little", signed=True) for at in range(len(text)))
    return "{\\uc1" + "".join(f"\\u{number}?" for number in signed) + "}"


def _styles(source: str) -> dict[str, tuple[int | None, str]]:
    """Return the outline level and the mark of each paragraph style, by the number of the style.

    The level counts from 0; None for a style that is no heading.
    """
    begin = source.find(r"{\stylesheet")
    known: dict[str, tuple[int | None, str]] = {}
    for match in _STYLE.finditer(source, begin, begin + _STYLES) if begin >= 0 else ():
        name = _CONTROL.sub("", match[2]).strip().lower()
        heading = _HEADING.fullmatch(name)
        known.setdefault(match[1], (int(heading[1]) - 1 if heading else None, style_mark([name])))
    return known


def _about(source: str) -> Iterator[tuple[str, str]]:
    begin = source.find(r"{\info")
    info = source[begin : begin + _INFO] if begin >= 0 else ""
    page = re.search(r"\\ansicpg(\d{1,5})", source[:_INFO])
    encoding = code_page(int(page[1]) if page else 1252)
    for name in ("title", "author"):
        if match := re.search(rf"\{{\\{name} ?((?:[^{{}}\\]|\\.)*)\}}", info, re.DOTALL):
            yield name, " ".join(_decode(match[1], encoding).split())
    for word, name in _DATES:
        if match := re.search(rf"\{{\\{word}((?:\\[a-z]+\d+)+)", info):
            parts = {part: int(number) for part, number in re.findall(r"\\([a-z]+)(\d{1,4})", match[1])}
            year, month, day, hour, minute = (parts.get(part, 0) for part in ("yr", "mo", "dy", "hr", "min"))
            if year and month and day:
                yield name, f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:00"


def _decode(text: str, encoding: str) -> str:
    """Decode the escaped characters of a text: bytes in ``encoding``, and Unicode numbers."""
    parts = re.split(r"\\u(-?\d{1,6}) ?(?:\\'..|[^\\])?", text)
    parts[1::2] = [chr(int(number) & 0xFFFF) for number in parts[1::2]]
    for at in range(0, len(parts), 2):
        raw = re.sub(r"\\'([0-9a-fA-F]{2})", lambda match: chr(int(match[1], 16)), parts[at])
        plain = re.sub(r"\\[a-z]+-?\d* ?|\\", "", raw).encode("latin-1", "replace")
        parts[at] = plain.decode(encoding, "replace")
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


PLUGIN = parser_plugin("rtf", 7, parse)
