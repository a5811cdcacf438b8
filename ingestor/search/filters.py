"""Checks the grammar of metadata filters, and the types of their keys, before a search. Pure."""

import json
import re
from collections.abc import Mapping

from ingestor.core.metadata_keys import KEYS, LISTS, NUMBERS, Profile, carries

_ORDERS = ("$gt", "$gte", "$lt", "$lte")
_SETS = ("$in", "$nin")
_PARTS = ("$contains", "$not_contains")
_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
# Keys with a text, and the key with a list of its parts.
_LIST_OF = {"path": "folders", "heading_path": "headings", "section_title": "headings"}
_COMPARISONS = ("$eq", "$ne", *_ORDERS, *_SETS, *_PARTS)


def find_mistake(where: object) -> str | None:
    """Return why Chroma would refuse a metadata filter, or why it never matches; None if it is right.

    The answer has the remedy.
    """
    if not isinstance(where, Mapping):
        return f"must consist of JSON objects, but {_show(where)} is not one"
    if len(where) != 1:
        if not where:
            return 'has an empty object: remove it, or name a key, as in {"language": "en"}'
        both = [{key: value} for key, value in where.items()]
        return f"has several keys in one object: write {_show({'$and': both})}"
    ((key, value),) = where.items()
    if key in ("$and", "$or"):
        if not isinstance(value, list):
            return f"needs a list of filters after {key!r}"
        return next(filter(None, map(find_mistake, value)), None)
    if key.startswith("$"):
        return f"has the unknown operator {key!r} in place of a key; known there: $and, $or"
    if not isinstance(value, Mapping):
        return _comparison_mistake(key, "$eq", value)
    if len(value) != 1:
        both = [{key: {operator: operand}} for operator, operand in value.items()]
        words = f"write {_show({'$and': both})}" if both else 'write one, as in {"page": {"$gt": 3}}'
        return f"needs exactly one operator for {key!r}: {words}"
    ((operator, operand),) = value.items()
    return _comparison_mistake(key, operator, operand)


def find_left_out(where: object, profile: Profile) -> str | None:
    """Return why a filter never matches records of this profile; None if it may match.

    Such a filter names a standard key that these records do not have.
    """
    if isinstance(where, list):
        return next(filter(None, (find_left_out(each, profile) for each in where)), None)
    if not isinstance(where, Mapping):
        return None
    for key, value in where.items():
        if key in ("$and", "$or") and (inner := find_left_out(value, profile)):
            return inner
        if key in KEYS and not carries(profile, key):
            shown = f"`metadata: {profile}`" if isinstance(profile, str) else "the list in `metadata`"
            return f"names {key!r}, which {shown} of the config leaves out of records: list it in `metadata`"
    return None


def _comparison_mistake(key: str, operator: str, operand: object) -> str | None:
    """Return why Chroma would refuse a comparison of a key, or why it never matches; None if it is right."""
    if operator not in _COMPARISONS:
        return f"has the unknown operator {operator!r} for {key!r}; known: {', '.join(_COMPARISONS)}"
    values = operand if operator in _SETS and isinstance(operand, list) else [operand]
    if operator in _SETS and (not isinstance(operand, list) or not operand):
        return f"needs a list of values after {operator!r} for {key!r}"
    if not all(isinstance(value, str | int | float) for value in values):
        return f"compares {key!r} with {_show(operand)}: write a text, a number, true or false instead"
    if len({type(value) for value in values}) > 1:
        return f"needs values of one type after {operator!r} for {key!r}"
    if operator in _ORDERS and key == "last_modified_date" and (day := _DAY.match(str(operand))):
        right = {"last_modified_day": {operator: int("".join(day.groups()))}}
        return f"needs a number after {operator!r}: write {_show(right)}"
    if operator in _ORDERS and (isinstance(operand, bool) or not isinstance(operand, int | float)):
        return f"needs a number after {operator!r} for {key!r}, not {_show(operand)}"
    return _type_mistake(key, operator, values[0]) if key in KEYS else None


def _type_mistake(key: str, operator: str, value: object) -> str | None:
    """Return why a comparison never matches, because the standard key has values of another type; None if it
    may."""
    if key in LISTS:
        if operator not in _PARTS:
            return f"compares the list {key!r} with {operator}: write {_show({key: {'$contains': value}})}"
        if not isinstance(value, str):
            return f"compares texts of {key!r} with {_show(value)}"
        if key != "folders" or not value.endswith("/"):
            return None
        return f"names a folder with a slash at its end: write {_show({key: {operator: value.rstrip('/')}})}"
    kind = "number" if key in NUMBERS else "text"
    if operator in _PARTS:
        whole = {_LIST_OF[key]: {operator: str(value).strip("/")}} if key in _LIST_OF else None
        remedy = f"write {_show(whole)}" if whole else "use $eq or $in"
        return f"asks {operator} of {key!r}, which is a {kind}, and only lists contain: {remedy}"
    if isinstance(value, str) != (kind == "text") or isinstance(value, bool):
        return f"compares {key!r}, which is a {kind}, with {_show(value)}"
    return None


def _show(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}…"
