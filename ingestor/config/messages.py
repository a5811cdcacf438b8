"""Turn pydantic's errors into messages for people. Pure.

A message quotes a value as the file has it, never the content of a variable. It quotes no value of a wrong
type where text was expected, because that may be a secret.
"""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from ingestor.config.models import Problem
from ingestor.config.yaml_tree import ConfigTree, Where

_WANTED = {  # error type -> expected value; the given one is quoted
    "bool_parsing": "true or false",
    "float_parsing": "a number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than": "less than {lt:g}",
    "less_than_equal": "at most {le:g}",
    "literal_error": "{expected}",
    "enum": "{expected}",
}
_WANTED_TYPE = {  # error type -> expected type; the given type is named
    "string_type": "text",
    "path_type": "a path",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
}


def problems_of(
    errors: Sequence[ErrorDetails],
    model: type[BaseModel],
    tree: ConfigTree,
    at: Where,
    also: Collection[str] = (),
) -> list[Problem]:
    """The errors that ``model`` raised on the tree at ``at``, those of one value joined.

    ``also``: keys that are allowed there besides the model's own.
    """
    at_one_place: dict[Where, list[ErrorDetails]] = defaultdict(list)
    for error in errors:
        at_one_place[_place(error, tree, at)].append(error)
    return [
        _problem(where, found, model, tree, at, also)
        for where, found in at_one_place.items()
        if where not in tree.broken
    ]


def _place(error: ErrorDetails, tree: ConfigTree, at: Where) -> Where:
    """The place of an error in the tree, without pydantic's own marks of unions and validators."""
    *steps, last = error["loc"] or [""]
    where = at
    for step in steps:
        where = (*where, step) if (*where, step) in tree.lines else where
    return (*where, last) if (*where, last) in tree.lines or error["type"] == "missing" else where


def unknown(what: str, name: str, known: Iterable[str], label: str) -> str:
    """``unknown key 'exlude'; did you mean 'exclude'? Allowed: ...``."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1)
    guess = f"did you mean {near[0]!r}? " if near else ""
    return f"unknown {what} {short(name)}; {guess}{label}: {', '.join(names) or 'none'}"


def is_number(annotation: Any) -> bool:
    """Whether a field of that type accepts a number."""
    return annotation in (int, float) or any(is_number(part) for part in get_args(annotation))


def short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:56]}...{text[-1]}"


def _problem(
    where: Where,
    errors: list[ErrorDetails],
    model: type[BaseModel],
    tree: ConfigTree,
    at: Where,
    also: Collection[str],
) -> Problem:
    first = errors[0]
    if first["type"] == "extra_forbidden":
        allowed = {*_fields(model, where[len(at) : -1]), *(also if where[:-1] == at else ())}
        message = unknown("key", str(where[-1]), allowed, "allowed")
        return Problem(tree.line(where), tree.problem(where[:-1], "").key, message)
    if first["type"] == "missing":
        return tree.problem(where, "is required")
    return tree.problem(where, _message(errors, tree.raw.get(where)))


def _message(errors: list[ErrorDetails], raw: str | None) -> str:
    """Word the errors of one value. ``raw``: the value as the file has it, if it holds a variable."""
    value = errors[0]["input"]
    own = [
        str(error["ctx"]["error"]) for error in errors if error["type"] in ("value_error", "assertion_error")
    ]
    if own:
        return own[0].replace(repr(value), repr(raw)).replace(str(value), raw) if raw and value else own[0]
    first, *others = dict.fromkeys(_describe_wanted(error) for error in errors)
    must = " or ".join(["must " + first, *(other.removeprefix("be ") for other in others)])
    kinds = {error["type"] for error in errors}
    if kinds & set(_WANTED):
        return f"{must}, not {_quote(raw or value)}"
    if kinds & set(_WANTED_TYPE):
        return f"{must}, not {_type(value)}{_advice(kinds, value)}"
    return must


def _describe_wanted(error: ErrorDetails) -> str:
    kind = error["type"]
    template = _WANTED.get(kind) or _WANTED_TYPE.get(kind)
    if template is None:  # pydantic's own words: "String should have at least 3 characters"
        return re.sub(r"^\w+ should | after validation.*", "", error["msg"])
    return "be " + template.format_map(error.get("ctx", {}))


def _quote(value: object) -> str:
    if value is None or isinstance(value, list | dict | bool):
        return _type(value)
    return short(value)


def _type(value: object) -> str:
    names: Mapping[type, str] = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "text",
        list: "a list",
        dict: "a mapping",
    }
    return "empty" if value is None else names.get(type(value), type(value).__name__)


def _advice(kinds: set[str], value: object) -> str:
    if "string_type" in kinds and isinstance(value, int | float):
        return " (put it in quotes)"
    if "list_type" in kinds and isinstance(value, str) and "${" not in value:
        return f": write {json.dumps([short(value)[1:-1]], ensure_ascii=False)}"
    return ""


def _fields(model: type[BaseModel], steps: Where) -> set[str]:
    """The keys of the model at ``steps`` below ``model``."""
    for step in steps:
        field = model.model_fields.get(str(step)) if isinstance(step, str) else None
        inner = _models(field.annotation) if field else [model]
        if not inner:
            return set()
        model = inner[0]
    return set(model.model_fields)


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]
