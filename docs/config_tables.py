"""Writes the tables of docs/config.md from the models that check a config: `python docs/config_tables.py`.

A table stands between `<!-- table NAME -->` and `<!-- end -->`. tests/config/test_config_docs.py fails when
one is out of date.
"""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from functools import reduce
from operator import or_
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import BaseModel, BeforeValidator, SecretStr
from pydantic.fields import FieldInfo

from ingestor import units
from ingestor.chunkers.options import ChunkerOptions
from ingestor.config import models, quotas, servers, workers
from ingestor.llm.options import Endpoint
from ingestor.registry import Group, Plugin, find, kinds

PAGE = Path(__file__).with_name("config.md")
_NAMES: dict[Any, str] = {
    str: "",  # as is a mapping or a path: the meaning says it
    Path: "",
    dict: "",
    int: "",
    float: "",
    bool: "",
    date: "day",
    SecretStr: "secret",
    NoneType: "`null`",
}
_BOUNDS = {
    Ge: ("ge", "≥ {}"),
    Gt: ("gt", "> {}"),
    Le: ("le", "≤ {}"),
    Lt: ("lt", "< {}"),
    MinLen: ("min_length", "{} or more"),
    MaxLen: ("max_length", "{} or fewer"),
}
_SHARED = {"language_model": Endpoint}  # keys that several sections have, by the section that explains them
_LONG = 9  # words of a meaning that is not repeated
_PARSED: dict[Callable[..., Any], str] = {units.seconds: "duration", units.size: "size"}
_UNITS: dict[str, dict[str, float]] = {
    "duration": {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400},
    "size": {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9},
}


def page(text: str) -> str:
    """The page with its tables written anew."""
    return re.sub(
        r"(?s)<!-- table (\S+) -->\n.*?<!-- end -->",
        lambda match: f"<!-- table {match[1]} -->\n{_section(match[1])}<!-- end -->",
        text,
    )


def _section(name: str) -> str:
    if name == "shared":
        return _table(ChunkerOptions)
    if name == "parsers":
        return _parsers()
    for group in get_args(Group):
        if name == group:
            return _refer("\n".join(_plugin(find(group, kind)) for kind in kinds(group)))
    return _table(
        next(getattr(each, name) for each in (models, servers, quotas, workers) if hasattr(each, name))
    )


def _refer(section: str) -> str:
    """Replace the long meaning of a key that an earlier plugin of the section explains by a link to it."""
    rows, kind, explained = list[str](), "", dict[tuple[str, str], str]()
    for row in section.split("\n"):
        kind = row.removeprefix("### `").rstrip("`") if row.startswith("### ") else kind
        cells = row.split(" | ")
        if len(cells) == 3 and len(cells[2].split()) > _LONG:
            known = explained.setdefault((cells[0], cells[2]), kind)
            cells[2] = cells[2] if known == kind else f"see [`{known}`](#{known}) |"
        rows.append(" | ".join(cells))
    return "\n".join(rows)


def _parsers() -> str:
    """Return the names of all parsers, followed by the options of those that have any."""
    plugins = [find("parsers", kind) for kind in kinds("parsers")]
    names = ", ".join(f"`{plugin.kind}`" for plugin in plugins)
    options = [
        f"\n### `{plugin.kind}`\n\n{_table(plugin.options)}"
        for plugin in plugins
        if plugin.options.model_fields
    ]
    return f"{names}.\n{''.join(options)}"


def _plugin(plugin: Plugin) -> str:
    """Return the section of a plugin. Keys that another section explains are named with a link."""
    fields = plugin.options.model_fields
    known = set(ChunkerOptions.model_fields) if issubclass(plugin.options, ChunkerOptions) else set()
    known = {name for name in known if repr(fields[name]) == repr(ChunkerOptions.model_fields[name])}
    more = ""
    for section, model in {**_SHARED, **_leading(plugin)}.items():
        alike = [name for name in fields if repr(fields[name]) == repr(model.model_fields.get(name))]
        if len(set(alike) - known) > 2:
            keys = ", ".join(f"`{name}`" for name in alike if name not in known)
            more += f"\nFurther keys, explained under [`{section}`](#{section}): {keys}.\n"
            known |= {*alike}
    own = [name for name in fields if name not in known]
    return f"### `{plugin.kind}`\n\n{_about(plugin)}\n\n{_table(plugin.options, own)}{more}"


def _leading(plugin: Plugin) -> dict[str, type[BaseModel]]:
    """Return connectors whose options explain those of similar connectors."""
    leaders = ("files", "python", "web") if plugin.kind in kinds("connectors") else ()
    return {kind: find("connectors", kind).options for kind in leaders if kind != plugin.kind}


def _about(plugin: Plugin) -> str:
    module = sys.modules[plugin.build.__module__]
    alone = getattr(module, "PLUGIN", None) is plugin
    return _paragraph((None if alone else plugin.build.__doc__) or module.__doc__)


def _paragraph(docstring: str | None) -> str:
    """The first one, with Markdown's code marks."""
    text = " ".join((docstring or "").split("\n\n")[0].split()).replace("``", "`")
    text = re.sub(r"^(Connectors?|Embedder|Strategy) [^:]*`: ", "", text)  # the heading has the kind
    return text[:1].upper() + text[1:]


def _table(model: type[BaseModel], names: Iterable[str] | None = None) -> str:
    rows = ["| Key | Default | Meaning |", "|---|---|---|"]
    fields = model.model_fields
    for name in sorted(fields if names is None else names, key=lambda name: not fields[name].is_required()):
        field = model.model_fields[name]
        cells = (f"`{name}`", _default(field), _meaning(field))
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def _meaning(field: FieldInfo) -> str:
    """Return the description, with the allowed values unless the description or the default shows them."""
    words, allowed = field.description or "", _allowed(_given(field), field.metadata)
    if _default(field).startswith("`"):
        allowed = re.sub("^(duration|size) ?", "", allowed)
    named = re.findall("`([^`]+)`", allowed)
    if allowed and not (named and all(f"`{each}" in words for each in named)):
        return f"{words} ({allowed})" if words else allowed
    return words


def _given(field: FieldInfo) -> Any:
    """The field's type, less None where that is the default: leaving the key out says it."""
    if field.default is not None:
        return field.annotation
    return reduce(or_, (part for part in get_args(field.annotation) if part is not NoneType))


def _allowed(annotation: Any, metadata: Iterable[Any] = ()) -> str:
    marks = list(metadata)
    limits = ", ".join(_limits(marks))
    parsed = _parsed(marks)
    return " ".join(part for part in (parsed or _type(annotation), limits) if part)


def _parsed(metadata: Iterable[Any]) -> str:
    """What is written where the value is not written as it is: a duration or a size."""
    found = (_PARSED.get(mark.func, "") for mark in metadata if isinstance(mark, BeforeValidator))
    return next(found, "")


def _limits(metadata: Iterable[Any]) -> Iterator[str]:
    """Yield the bounds of a value; two bounds as a range."""
    marks = list(metadata)
    least, most = (next((each for each in marks if type(each) is kind), None) for kind in (Ge, Le))
    if least and most:
        yield f"{least.ge} to {most.le}"
        marks = [each for each in marks if each not in (least, most)]
    for mark in marks:
        if isinstance(mark, FieldInfo):
            yield from _limits(mark.metadata)
        elif type(mark) in _BOUNDS and mark not in (Ge(0), Ge(1), MinLen(1)):  # as everybody expects
            attribute, template = _BOUNDS[type(mark)]
            yield template.format(getattr(mark, attribute))


def _type(annotation: Any) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _allowed(parts[0], parts[1:])
    if origin is Literal:
        return ", ".join(f"`{part}`" for part in parts)
    if origin in (list, tuple):
        return ""
    if origin is dict or (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return ""
    if annotation in _NAMES:
        return _NAMES[annotation]
    return " or ".join(words for part in parts if (words := _type(part)))


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if field.is_required():
        return "required"
    if value is None or value == {} or isinstance(value, BaseModel):
        return ""
    parsed = _parsed(field.metadata)
    return f"`{_written(value, _UNITS[parsed]) if parsed else _plain(value)}`"


def _written(value: float, names: Mapping[str, float]) -> str:
    """In the largest unit that leaves a number of one digit after the point at most."""
    fitting = [unit for unit, worth in names.items() if value >= worth and value * 10 % worth == 0]
    return f"{value / names[fitting[-1]]:g}{fitting[-1]}" if fitting else f"{value:g}"


def _plain(value: Any) -> str:
    if isinstance(value, Path):
        return f"{value}" if str(value)[0] in "~/" else f"./{value}"
    if isinstance(value, str) and value:
        return value
    return json.dumps(value, ensure_ascii=False, default=lambda inner: inner.model_dump(mode="json"))


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
