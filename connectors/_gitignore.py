"""Patterns as gitignore(5) defines them, matched one directory level at a time. Pure.

Git decides level by level: a directory that is ignored is not entered, and what lies in one that is not is
judged by patterns that match *it*, not its parents. Libraries that judge a whole path at once get
``foo/**`` with ``!foo/keep.md``, and names with a newline, wrong. Unlike git, ``?`` matches a character
rather than a byte.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r" \t\n\r\f\v",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
_TOKEN = re.compile(
    r"(?P<anywhere>(?:^|(?<=/))(?:\*\*+/)+)"  # ** as a whole component: any directories, or none
    r"|(?P<below>(?:^|(?<=/))\*\*+\Z)"
    r"|(?P<star>\*+)"
    r"|(?P<one>\?)"
    r"|\[(?P<negated>[!^]?)(?P<set>(?:\]|\[:\w*:\]|\\.|[^\]\\])(?:\[:\w*:\]|\\.|[^\]\\])*)\]"
    r"|(?P<bad>\[|\\\Z)"
    r"|\\?(?P<char>.)",
    re.DOTALL,
)
_MEMBER = re.compile(r"\[:(?P<name>\w*):\]|(?P<low>\\?.)(?:-(?P<high>\\?.))?", re.DOTALL)
_NEVER = "(?!)"
_UNPADDED = re.compile(r"((?:\\(?:.|\Z)|[^\\])*?) *", re.DOTALL)  # an escaped space at the end stays


@dataclass(frozen=True, slots=True)
class _Line:
    pattern: re.Pattern[str]
    whole_path: bool  # else it is matched against the last component
    directories_only: bool
    negated: bool


@dataclass(frozen=True, slots=True)
class Rules:
    """The patterns of one file or list; the last that matches decides."""

    lines: tuple[_Line, ...]  # last first
    names: re.Pattern[str]  # matches wherever one of the name patterns does
    paths: re.Pattern[str]

    @property
    def negates(self) -> bool:
        return any(line.negated for line in self.lines)

    def verdict(self, path: str, name: str, *, directory: bool) -> bool | None:
        """Whether the entry itself is matched: True, False by a negation, None when nothing matches.

        ``path`` is relative to where the patterns live and ends in ``name``, without a trailing slash.
        """
        if not self.names.fullmatch(name) and not self.paths.fullmatch(path):
            return None
        for line in self.lines:
            if line.directories_only and not directory:
                continue
            if line.pattern.fullmatch(path if line.whole_path else name):
                return not line.negated
        return None


def rules(patterns: Iterable[str]) -> Rules:
    """Compile patterns; blank ones, comments and those that git finds invalid match nothing."""
    lines = [line for pattern in patterns if (line := _line(pattern))]
    return Rules(
        tuple(reversed(lines)),
        _union(line.pattern.pattern for line in lines if not line.whole_path),
        _union(line.pattern.pattern for line in lines if line.whole_path),
    )


def selects(include: Rules, exclude: Rules, names: Sequence[str]) -> bool:
    """Whether a file is included, and neither it nor what holds it excluded; ``names``: its path."""
    taken = False
    for depth, name in enumerate(names, 1):
        path, is_directory = "/".join(names[:depth]), depth < len(names)
        if exclude.verdict(path, name, directory=is_directory):
            return False
        verdict = include.verdict(path, name, directory=is_directory)
        taken = taken if verdict is None else verdict
    return taken


@lru_cache(maxsize=1024)
def rules_of_file(text: str) -> Rules:
    return rules(line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n"))


def _union(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns) or _NEVER, re.DOTALL)


def _line(text: str) -> _Line | None:
    if text.startswith("#"):
        return None
    unpadded = _UNPADDED.fullmatch(text)
    text = unpadded[1] if unpadded else text
    negated = text.startswith("!")
    text = text.removeprefix("!")
    directories_only = text.endswith("/")
    text = text.removesuffix("/")
    if not text:
        return None
    whole_path = "/" in text
    regex = _translate(text.removeprefix("/"))
    return _Line(re.compile(regex, re.DOTALL), whole_path, directories_only, negated)


def _translate(glob: str) -> str:
    return "".join(_token(match) for match in _TOKEN.finditer(glob))


def _token(match: re.Match[str]) -> str:
    if match["anywhere"]:
        return "(?:.*/)?"
    if match["below"]:
        return ".+"
    if match["star"]:
        return "[^/]*"
    if match["one"]:
        return "[^/]"
    if match["set"]:
        return _set(match["set"], negated=bool(match["negated"]))
    return _NEVER if match["bad"] else re.escape(match["char"])


def _set(members: str, *, negated: bool) -> str:
    parts = [_member(match) for match in _MEMBER.finditer(members)]
    if None in parts:
        return _NEVER
    inside = "".join(part for part in parts if part)
    if not inside:
        return "[^/]" if negated else _NEVER
    return f"(?!/)[{'^' * negated}{inside}]"


def _member(match: re.Match[str]) -> str | None:
    """A class, a range (a reversed one is empty) or a character; None for a class that does not exist."""
    if match["name"] is not None:
        return _CLASSES.get(match["name"])
    low = match["low"][-1]
    high = match["high"][-1] if match["high"] else low
    return f"{re.escape(low)}-{re.escape(high)}" if low <= high else ""
