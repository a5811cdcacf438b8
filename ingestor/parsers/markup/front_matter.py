"""Front matter: YAML between two lines ``---``, or TOML between ``+++``, that may open a Markdown file. Pure.

Title, author, date, tags and language are used. All YAML values are read as strings, so that a date or a
version stays as it was written. Invalid YAML still counts as front matter if its first line looks like
``key:``. Then its lines are read one by one.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import yaml

_LIMIT = 16_384  # characters; PyYAML is slow, and no real front matter is longer
_FRONT = re.compile(r"---[ \t]*(?:\r\n?|\n)(.*?)(?<=[\r\n])(?:---|\.\.\.)[ \t]*(?:\r\n?|\n|\Z)", re.DOTALL)
_TOML = re.compile(r"\+{3}[ \t]*(?:\r\n?|\n)(.*?)(?<=[\r\n])\+{3}[ \t]*(?:\r\n?|\n|\Z)", re.DOTALL)
_KEY = re.compile(r"(?:\s|#[^\r\n]*)*+(?:[\w\"'][^\r\n]*:|\Z)")
_LINE = re.compile(r"^(\w+):[ \t]+(\S.*)$", re.MULTILINE)
_LINE_END = re.compile(r"\r\n?")
_SURROGATES = re.compile("[\ud800-\udfff]")
_NOTHING = {"", "~", "null"}


@dataclass(frozen=True, slots=True)
class FrontMatter:
    end: int  # the start of the line after it
    visible_end: int  # the end of its closing mark
    title: str | None
    language: str | None
    extra: Mapping[str, str | None]  # author, date, tags; lists joined by ", "


def front_matter(text: str) -> FrontMatter | None:
    """Return the front matter that opens a text; None if the text has none. Never raises."""
    match, fields = _match(text)
    if match is None or fields is None:
        return None
    return FrontMatter(
        end=match.end(),
        visible_end=len(match[0].rstrip()),
        title=_value(fields, "title"),
        language=_value(fields, "lang", "language"),
        extra={
            "author": _value(fields, "author", "authors"),
            "date": _value(fields, "date"),
            "tags": _value(fields, "tags", "keywords"),
        },
    )


def fields_of(text: str) -> Mapping[Any, Any] | None:
    """Return all fields of the front matter that opens a text; None if the text has none. Never raises.

    Values in YAML are strings, or lists and mappings of strings.
    """
    return _match(text)[1]


def _match(text: str) -> tuple[re.Match[str] | None, Mapping[Any, Any] | None]:
    match = _FRONT.match(text, 0, _LIMIT) or _TOML.match(text, 0, _LIMIT)
    if not match or match.end() == _LIMIT < len(text):
        return None, None
    source = _LINE_END.sub("\n", match[1])
    if text[0] == "+":
        return match, _toml(source)
    return match, _fields(source) if _KEY.match(source) else None


def _fields(source: str) -> Mapping[Any, Any]:
    """Parse YAML into a mapping. If it is invalid, use its lines of the form ``name: value``.

    BaseLoader makes strings, lists and mappings only, and ignores tags, so no object is ever constructed.
    """
    try:
        loaded = yaml.load(source, Loader=yaml.BaseLoader)  # noqa: S506 - safer than SafeLoader
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError):
        return dict(_LINE.findall(source))  # most often a colon in an unquoted title
    return loaded if isinstance(loaded, Mapping) else {}


def _toml(source: str) -> Mapping[str, Any] | None:
    """Parse TOML into a mapping; return None if the source is invalid."""
    try:
        return tomllib.loads(source)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None


def _value(fields: Mapping[Any, Any], *names: str) -> str | None:
    """Return the first named field that is not empty, as one line of text; None if all are empty."""
    return next(filter(None, (_scalar(fields.get(name)) for name in names)), None)


def _scalar(value: Any) -> str | None:
    """Return the value of a field as one line of text; None if it is empty.

    Lists are read one level deep only, because aliases can nest lists without end.
    """
    values = value if isinstance(value, list) else [value]
    values = [item.isoformat() if isinstance(item, date) else item for item in values]
    named = (item.get("name") if isinstance(item, Mapping) else item for item in values)
    texts = (_SURROGATES.sub("", " ".join(item.split())) for item in named if isinstance(item, str))
    return ", ".join(text for text in texts if text.lower() not in _NOTHING) or None
