"""The header of a Rich Text document: fonts, styles, title, author and dates. Pure."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from ingestor.parsers.rtf.tokens import CHARACTER_SETS

_HEADING = re.compile(r"heading ([1-9])")
_LONGEST = 20  # styles that inherit from each other
_DATES = {"creatim": "created", "revtim": "modified"}


@dataclass(slots=True)
class State:
    """State that a group inherits. ``out``: destination of text; None discards it."""

    out: list[str] | None
    place: str = ""  # fonts, styles, info: the tables of this file
    entry: int = 0  # the font or style that a table speaks of
    codec: str = "cp1252"
    skip: int = 1  # characters after each \u that stand for it where it is not understood
    mono: bool = False
    unseen: bool = False  # hidden, or deleted
    raised: bool = False
    style: int = 0
    level: int | None = None  # 0 to 8 of a heading, 9 of text; None as its style has it
    list_level: int = 0
    indent: int = 0
    in_table: bool = False

    def inherited(self) -> "State":
        return State(
            self.out, self.place, self.entry, self.codec, self.skip, self.mono, self.unseen, self.raised,
            self.style, self.level, self.list_level, self.indent, self.in_table,
        )  # fmt: skip


@dataclass(slots=True)
class RtfStyle:
    name: str = ""
    level: int | None = None
    based_on: int | None = None


Finish = Callable[[str], None]  # is given what a group said, when it ends


@dataclass(slots=True)
class Tables:
    """``about``: title, author, created, modified. ``codec``: the document's own."""

    codec: str = "cp1252"
    about: dict[str, str] = field(default_factory=dict)
    _fonts: dict[int, tuple[str, bool]] = field(default_factory=dict)
    _styles: dict[int, RtfStyle] = field(default_factory=dict)
    _style: RtfStyle = field(default_factory=RtfStyle)
    _date: dict[str, int] = field(default_factory=dict)

    def font(self, number: int) -> tuple[str, bool]:
        """Its codec, and whether all its characters are of one width."""
        return self._fonts.get(number, (self.codec, False))

    def style(self, number: int) -> tuple[str, int | None]:
        """Its name, and the level of the heading that it makes, its own or inherited."""
        style = named = self._styles.get(number, RtfStyle())
        for _ in range(_LONGEST):
            by_name = _HEADING.fullmatch(style.name)
            if style.level is not None or by_name:
                return named.name, int(by_name[1]) - 1 if by_name and style.level is None else style.level
            if style.based_on not in self._styles:
                break
            style = self._styles[style.based_on]
        return named.name, None

    def begin_style(self, state: State) -> Finish:
        """A group of the table of styles; its text is the style's name."""
        style = self._style = RtfStyle()

        def finish(said: str) -> None:
            style.name = said.strip().rstrip(";").lower()
            self._styles.setdefault(state.entry, style)

        return finish

    def entry(self, state: State, word: str, number: int | None) -> Finish | None:
        """A control word of a table; returns the destination of its group's text, if there is one."""
        if state.place == "fonts":
            self._of_font(state, word, number)
        elif state.place == "styles" and number is not None:
            self._of_style(state, word, number)
        elif state.place == "info":
            return self._of_document(word, number)
        return None

    def _of_font(self, state: State, word: str, number: int | None) -> None:
        known, mono = self.font(state.entry)
        if word == "f" and number is not None:
            state.entry = number
        elif word == "fcharset":
            self._fonts[state.entry] = CHARACTER_SETS.get(number or 0, self.codec), mono
        elif word == "fmodern":
            self._fonts[state.entry] = known, True

    def _of_style(self, state: State, word: str, number: int) -> None:
        if word == "s":
            state.entry = number
        elif word == "outlinelevel":
            self._style.level = number
        elif word == "sbasedon":
            self._style.based_on = number

    def _of_document(self, word: str, number: int | None) -> Finish | None:
        if word in ("title", "author"):
            return lambda said: self.about.update({word: " ".join(said.split())})
        if word in _DATES:
            self._date = {}
            return lambda _: self._dated(_DATES[word])
        if number is not None:
            self._date[word] = number
        return None

    def _dated(self, name: str) -> None:
        year, month, day, hour, minute = (self._date.get(part, 0) for part in ("yr", "mo", "dy", "hr", "min"))
        if year and month and day:
            self.about[name] = f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:00"
