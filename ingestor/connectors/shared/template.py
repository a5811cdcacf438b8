"""Texts with names of columns in braces, as in ``# {title}``. Pure.

A name may hold dots, ``{user.name}``: the source of the value decides what they mean.
"""

import re
from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator

_COLUMN = re.compile(r"\{(\w+(?:\.\w+)*)\}")
Lookup = Callable[[str], object]


def columns(template: str) -> list[str]:
    """The names of the columns in a template, in order."""
    return _COLUMN.findall(template)


def fill(template: str, value: Lookup) -> bytes:
    """The filled template in UTF-8; of a template that is one column alone, its bytes, if it holds bytes."""
    alone = _COLUMN.fullmatch(template)
    content = value(alone[1]) if alone else None
    return content if isinstance(content, bytes) else fill_text(template, value).encode()


def fill_text(template: str, value: Lookup) -> str:
    """The filled template as text, without lone surrogates."""
    text = _COLUMN.sub(lambda column: as_text(value(column[1])), template)
    return text.encode("utf-8", "replace").decode()


def as_text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)


def _template(text: str) -> str:
    if not columns(text):
        raise ValueError("must name a column in braces, as in {title}")
    return text


Template = Annotated[str, AfterValidator(_template)]
