"""Metadata that a source's config gives to its documents. Pure.

``values`` hold for all documents of the source, ``paths`` for those that a pattern takes;
``front_matter`` names fields of Markdown files with their types. The more specific value wins: values,
patterns in their order, what source and format know, front matter.
"""

import math
from collections.abc import Iterator, Mapping
from datetime import date
from functools import cache

from ingestor.config.models import FieldType, OwnMetadata
from ingestor.connectors.shared.gitignore import IgnoreRules, rules, selects
from ingestor.model import INSIDE, Document, Value
from ingestor.parsers.markup.front_matter import fields_of

_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off")
_NOTHING = rules(())
_rules = cache(lambda pattern: rules([pattern]))


def by_path(own: OwnMetadata, key: str) -> dict[str, Value]:
    """Return the values that the config gives to the document with this key."""
    found, names = dict(own.values), key.replace(INSIDE, "/").split("/")
    for pattern, values in own.paths:
        taken: IgnoreRules = _rules(pattern)
        if selects(taken, _NOTHING, names):
            found |= values
    return found


def by_front_matter(own: OwnMetadata, document: Document) -> tuple[dict[str, Value], list[str]]:
    """Return the named fields of the document's front matter, and what is wrong with the others."""
    if not own.front_matter or not any(block.kind == "front_matter" for block in document.blocks[:1]):
        return {}, []
    fields, found, wrong = fields_of(document.text) or {}, dict[str, Value](), list[str]()
    for name, kind in own.front_matter:
        texts = list(_texts(fields.get(name)))
        if not texts:
            continue
        value = _typed(texts, kind)
        if value is None:
            wrong.append(f"front matter: {name} is no {kind}: {', '.join(texts)[:80]}")
        else:
            found[name] = value
    return found, wrong


def day_of(text: str | None) -> int | None:
    """``20261122`` of ``2026-11-22`` and of a time on that day; None if the text begins with no date."""
    try:
        return int(date.fromisoformat((text or "")[:10]).strftime("%Y%m%d"))
    except ValueError:
        return None


def _texts(value: object) -> Iterator[str]:
    """Yield a field's texts, without empty ones. Aliases can nest lists endlessly: one level is read."""
    for each in value if isinstance(value, list) else [value]:
        text = "" if each is None or isinstance(each, list | Mapping) else " ".join(str(each).split())
        if text and text.lower() not in ("~", "null"):
            yield text


def _typed(texts: list[str], kind: FieldType) -> Value:
    """The value of that type; None if the texts have none."""
    if kind == "list":
        parts = [part.strip() for part in texts[0].split(",")] if len(texts) == 1 else texts
        return [part for part in parts if part] or None
    text = ", ".join(texts)
    if kind == "text":
        return text
    if kind == "day":
        return day_of(text)
    if kind == "boolean":
        return True if text.lower() in _TRUE else False if text.lower() in _FALSE else None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
