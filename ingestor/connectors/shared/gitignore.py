"""Matches patterns as gitignore(5) defines them, one directory level at a time. Pure.

Git decides level by level. An ignored directory is not entered. Inside other directories a pattern must match
the entry itself, not its parents. Libraries that judge a whole path at once get ``foo/**`` with
``!foo/keep.md``, and names with a newline, wrong. Unlike git, ``?`` matches a character rather than a byte.

Patterns may come from untrusted people, so a match never backtracks. Each star ends at the first position
where the characters behind it match, and never moves on (an atomic group). The number of these characters is
fixed, so a later position would only leave less of the name for the rest.
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
_STAR = "[^/]*"
_ANYWHERE = "(?:[^/]*+/)*?"
_LONGEST = 1000  # characters of a line
_MOST = 5000  # lines of a file
_SMALL = 4096  # characters; many files up to this size are cached, and few larger files


@dataclass(frozen=True, slots=True)
class _Line:
    """A pattern, translated to a regular expression."""

    expression: str
    whole_path: bool  # whether it is matched against the path, or against the last component alone
    directories_only: bool
    negated: bool

    @property
    def pattern(self) -> re.Pattern[str]:
        """Compile the regular expression at its first use. Most patterns of a long file are never used."""
        return _compile(self.expression)


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The patterns of one ignore file or option. The last pattern that matches an entry decides."""

    lines: tuple[_Line, ...]  # last first
    names: re.Pattern[str]  # matches if one of the name patterns matches
    paths: re.Pattern[str]

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def negates(self) -> bool:
        return any(line.negated for line in self.lines)

    def verdict(self, path: str, name: str, *, directory: bool) -> bool | None:
        """Match an entry: return True for a match, False for a match of a negated pattern, None for no match.

        ``path``: path of the entry below the directory of the patterns, without a trailing slash. ``name``:
        last component of the path. Matches of directories above the entry do not count.
        """
        if not self.names.fullmatch(name) and not self.paths.fullmatch(path):
            return None
        for line in self.lines:
            if line.directories_only and not directory:
                continue
            if line.pattern.fullmatch(path if line.whole_path else name):
                return not line.negated
        return None


def rules(patterns: Iterable[str]) -> IgnoreRules:
    """Parse patterns. Blank lines, comments, and patterns that git considers invalid match nothing."""
    lines = [line for pattern in patterns if (line := _line(pattern))]
    return IgnoreRules(
        tuple(reversed(lines)),
        _union(line.expression for line in lines if not line.whole_path),
        _union(line.expression for line in lines if line.whole_path),
    )


def selects(include: IgnoreRules, exclude: IgnoreRules, names: Sequence[str]) -> bool:
    """Return whether a file is included, and neither the file nor a folder above it is excluded.

    ``names``: components of the file's path.
    """
    included = False
    for depth, name in enumerate(names, 1):
        path, is_directory = "/".join(names[:depth]), depth < len(names)
        if exclude.verdict(path, name, directory=is_directory):
            return False
        verdict = include.verdict(path, name, directory=is_directory)
        included = included if verdict is None else verdict
    return included


def rules_of_file(text: str) -> IgnoreRules:
    """Parse the text of an ignore file. Raises ValueError if there are too many lines, or too long ones."""
    return _remembered(text) if len(text) <= _SMALL else _large(text)


def _of_file(text: str) -> IgnoreRules:
    lines = [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]
    if len(lines) > _MOST:
        raise ValueError(f"has more than {_MOST:,} lines")
    for number, line in enumerate(lines, 1):
        if (wrong := too_long(line)) and not line.startswith("#"):
            raise ValueError(f"line {number} {wrong}")
    return rules(lines)


_remembered = lru_cache(maxsize=1024)(_of_file)
_large = lru_cache(maxsize=32)(_of_file)


def too_long(pattern: str) -> str | None:
    """Return the problem if a pattern is too long, as a predicate such as "has more than …"; else None."""
    return f"has more than {_LONGEST:,} characters" if len(pattern) > _LONGEST else None


@lru_cache(maxsize=_MOST * 2)
def _compile(expression: str) -> re.Pattern[str]:
    return re.compile(expression, re.DOTALL)


def _union(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns) or _NEVER, re.DOTALL)


def _line(text: str) -> _Line | None:
    if text.startswith("#"):
        return None
    text = _strip_end(text)
    negated = text.startswith("!")
    text = text.removeprefix("!")
    directories_only = text.endswith("/")
    text = text.removesuffix("/")
    if not text:
        return None
    whole_path = "/" in text
    regex = _translate(text.removeprefix("/"))
    return _Line(regex, whole_path, directories_only, negated)


def _strip_end(text: str) -> str:
    """Remove the spaces at the end of a pattern; an escaped space stays."""
    bare = text.rstrip(" ")
    escaped = (len(bare) - len(bare.rstrip("\\"))) % 2 == 1
    return f"{bare} " if escaped and bare != text else bare


def _translate(glob: str) -> str:
    tokens: list[str] = []
    for match in _TOKEN.finditer(glob):
        tokens.append(_token(match))
        if tokens[-1] == _NEVER:
            return _NEVER
    first, *more = [_split_at(run, _STAR) for run in _split_at(tokens, _ANYWHERE)]
    if not more:
        return _to_the_end(first)
    between = "".join(f"(?>{_ANYWHERE}{_earliest(run)})" for run in more[:-1])
    return f"{_earliest(first)}{between}{_ANYWHERE}{_to_the_end(more[-1])}"


def _split_at(tokens: Sequence[str], mark: str) -> list[list[str]]:
    """Split a list of tokens at each ``mark``, and return the parts."""
    parts: list[list[str]] = [[]]
    for token in tokens:
        if token == mark:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _earliest(parts: Sequence[Sequence[str]]) -> str:
    """Return a regular expression that matches the parts of a pattern, with any text between them.

    ``parts``: the parts between the stars. Each matches at the first possible position.
    """
    first, *more = ["".join(part) for part in parts]
    return first + "".join(f"(?>{_STAR}?{part})" for part in more)


def _to_the_end(parts: Sequence[Sequence[str]]) -> str:
    if len(parts) == 1:
        return _earliest(parts)
    return f"{_earliest(parts[:-1])}{_STAR}{''.join(parts[-1])}"


def _token(match: re.Match[str]) -> str:
    if match["anywhere"]:
        return _ANYWHERE
    if match["below"]:
        return ".+"
    if match["star"]:
        return _STAR
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
    """Translate a member of a bracket expression: a character class, a range or a character.

    Return "" for a range in descending order, and None for an unknown class.
    """
    if match["name"] is not None:
        return _CLASSES.get(match["name"])
    low = match["low"][-1]
    high = match["high"][-1] if match["high"] else low
    return f"{re.escape(low)}-{re.escape(high)}" if low <= high else ""
