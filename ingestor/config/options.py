"""Check of one part of a parsed config against its options, and explanations of mistakes.

No I/O, except that installed plugins are loaded, and the files of secrets are read that a config names.
"""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from os import fsencode
from os.path import normpath
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import ErrorDetails

from ingestor import registry
from ingestor.config.models import (
    DEFAULT_EMBEDDER,
    DEFAULT_STRATEGY,
    Choice,
    Problem,
    Settings,
    SourceSettings,
)
from ingestor.config.yaml_tree import ConfigTree, Where
from ingestor.registry import Group, Plugin

M = TypeVar("M", bound=BaseModel)
Mapped = dict[str, Any]

_CALLED = {"connectors": "connector", "parsers": "parser", "chunkers": "strategy", "embedders": "embedder"}


@dataclass(slots=True)
class Check:
    """The check of one config file, which collects the problems in ``problems``."""

    tree: ConfigTree
    folder: Path  # base of relative paths
    problems: list[Problem] = field(default_factory=list)

    def fault(self, where: Where, message: str) -> None:
        """Add a problem about the value at ``where``.

        Add none if the value was already reported as unreadable, so that each value has one problem.
        """
        if where not in self.tree.broken:
            self.problems.append(self.tree.problem(where, message))

    def choice(
        self,
        group: Group,
        data: Mapped,
        at: Where,
        kind: str,
        *,
        default: str = "",
        own: Iterable[str] = (),
    ) -> Choice | None:
        """Return the plugin that the key ``kind`` names, with its checked options; None if a check fails.

        ``data``: mapping with the key ``kind`` and the plugin's options. ``default``: name of the plugin if
        the key is missing. ``own``: keys of the mapping that belong to the caller, not to the plugin.
        """
        keys = {kind, *own}
        plugin = self.plugin(group, data.get(kind, default), (*at, kind))
        options = {key: value for key, value in data.items() if key not in keys}
        return self.options(plugin, options, at, keys) if plugin else None

    def plugin(self, group: Group, kind: object, at: Where) -> Plugin | None:
        """Return the installed plugin with the name ``kind``.

        If there is no such plugin, report a problem and return None.
        """
        if not isinstance(kind, str):
            self.fault(at, "must be text, the name of a " + _CALLED[group])
            return None
        try:
            return registry.find(group, kind)
        except registry.UnknownKind:
            name = self.tree.raw.get(at, kind)
            self.fault(at, unknown(_CALLED[group], name, registry.kinds(group), "installed"))
        except ImportError as error:
            self.fault(at, f"{_CALLED[group]} {kind!r} is installed but can't be loaded: {error}")
        return None

    def options(self, plugin: Plugin, data: Mapped, at: Where, own: Iterable[str] = ()) -> Choice | None:
        """Return a plugin with its checked options; None if a check fails.

        ``own``: keys beside the options that belong to the caller, not to the plugin (see ``choice``).
        """
        options = self.model(plugin.options, data, at, own)
        return None if options is None else Choice(plugin, options)

    def model(self, model: type[M], data: Mapped, at: Where, own: Iterable[str] = ()) -> M | None:
        """Validate data by a model, and return the model with absolute paths and secrets read from files.

        Report problems and return None if a check fails. ``own``: see ``choice``.
        """
        for name in data.keys() & model.model_fields.keys():
            # pydantic would accept true and false as 1 and 0
            if isinstance(data[name], bool) and is_number(model.model_fields[name].annotation):
                self.fault((*at, name), "must be a number, not true or false")
        try:
            return self.locate(model.model_validate(data), at)
        except ValidationError as error:
            self.problems += problems_of(error.errors(include_url=False), model, self.tree, at, tuple(own))
        except (OverflowError, RuntimeError) as error:  # a huge number, or ~ of an unknown user
            self.fault(at, f"can't be used: {error}")
        return None

    def locate(self, model: M, at: Where) -> M:
        """Return the model with absolute paths, and with each secret ``file:NAME`` read from that file."""
        if "secrets" in type(model).model_fields:
            self._report_misplaced(dict(model), at)
        values = {name: (value, self._value(value, (*at, name))) for name, value in model}
        return model.model_copy(update={name: new for name, (old, new) in values.items() if new is not old})

    def _value(self, value: Any, at: Where) -> Any:
        match value:
            case Path():
                return self._path(value, at) or value
            case SecretStr():
                return self._secret(value, at)
            case BaseModel():
                return self.locate(value, at)
            case tuple() | list():
                return type(value)(self._value(inner, (*at, index)) for index, inner in enumerate(value))
            case dict():
                return {key: self._value(inner, (*at, key)) for key, inner in value.items()}
        return value

    def _report_misplaced(self, data: Mapped, at: Where) -> None:
        """Report passwords in plain text, which belong into the mapping ``secrets``.

        A value counts as a password if the name of its key looks like that of a secret.
        """
        for name, value in data.items():
            if isinstance(value, dict):
                self._report_misplaced(value, (*at, name))
            elif (
                isinstance(value, str)
                and value
                and _SECRET.search(name)
                and not self.tree.is_filled((*at, name))
            ):
                self.fault((*at, name), _MISPLACED)

    def _path(self, path: Path, at: Where) -> Path | None:
        """Return the absolute path; None, after reporting it, if there can be no such path."""
        if not _is_possible(path):
            self.fault(at, "must be a path without NUL characters or lone surrogates")
            return None
        try:
            return Path(normpath(self.folder / path.expanduser()))
        except RuntimeError:
            self.fault(at, f"no home folder is known for {path.parts[0]!r}: write the whole path")
            return None

    def _secret(self, secret: SecretStr, at: Where) -> SecretStr:
        """Return a secret. The secret of ``file:NAME`` is the content of that file, without the line end."""
        kind, _, name = secret.get_secret_value().partition(":")
        if kind != "file":
            if secret and at in self.tree.lines and not self.tree.is_filled(at):  # otherwise a default
                self.fault(at, _PLAIN)
            return secret
        if (path := self._path(Path(name), at)) is None:
            return secret
        try:
            text = path.read_text("utf-8").rstrip("\r\n")
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or "not UTF-8 text"
            self.fault(at, f"the secret file {name!r} can't be read: {reason}")
            return secret
        if not text:
            self.fault(at, f"the secret file {name!r} is empty")
        return SecretStr(text)


_PLAIN = "is a secret and must not be in plain text: write ${NAME} and set that variable, or file:/path"
_MISPLACED = "looks like a secret: write ${NAME}, or put it into `secrets`, which also takes file:/path"
# Names that packages use for secrets. A bare "token" may be no secret: a word ("anon") or the name of a file.
_SECRET = re.compile(
    r"(?:^|[._-])(?:pass(?:word|wd|phrase)|client_secret|secret_?(?:access_?)?key|secret|api_?key|private_key|connection_string"
    r"|(?:access|account|api|auth|bearer|integration|personal|refresh|sas|session)_?(?:key|token))$",
    re.IGNORECASE,
)


def _is_possible(path: Path) -> bool:
    try:
        return b"\0" not in fsencode(path)
    except UnicodeEncodeError:
        return False


_WANTED = {  # type of pydantic's error: expected value; the message quotes the given value
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
_WANTED_TYPE = {  # type of pydantic's error: expected type; the message names the given type
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
    """Turn the errors of a model into one problem for each wrong value.

    ``at``: place in the config of the data that the model validated. ``also``: keys that are allowed at that
    place although the model lacks them.
    """
    at_one_place: dict[Where, list[ErrorDetails]] = defaultdict(list)
    for error in errors:
        at_one_place[_place(error, tree, at)].append(error)
    problems = []
    for where, faults in at_one_place.items():
        if where in tree.broken:
            continue
        if faults[0]["type"] == "extra_forbidden":
            allowed = {*_fields(model, where[len(at) : -1]), *(also if where[:-1] == at else ())}
            message = unknown("key", str(where[-1]), allowed, "allowed", _homes(where))
            problems.append(Problem(tree.line(where), tree.problem(where[:-1], "").key, message))
        elif faults[0]["type"] == "missing":
            problems.append(tree.problem(where, "is required"))
        else:
            problems.append(tree.problem(where, _message(faults, tree.raw.get(where))))
    return problems


def _place(error: ErrorDetails, tree: ConfigTree, at: Where) -> Where:
    """Return the place in the config that an error of pydantic is about.

    Pydantic's path to the value also has the names of unions and validators, which are left out.
    """
    *steps, last = error["loc"] or [""]
    where = at
    for step in steps:
        where = (*where, step) if (*where, step) in tree.lines else where
    return (*where, last) if (*where, last) in tree.lines or error["type"] == "missing" else where


def unknown(what: str, name: str, known: Iterable[str], label: str, homes: Sequence[str] = ()) -> str:
    """Return a message such as ``unknown key 'exlude'; did you mean 'exclude'? allowed: exclude, include``.

    ``what``: what the name stands for, such as "key". ``known``: the possible names. ``label``: the word
    before the list of possible names, such as "allowed". ``homes``: other places of the config that have the
    key.
    """
    names = sorted(known)
    near = get_close_matches(name, names, cutoff=0.7)  # below that, most guesses are unrelated
    near.sort(key=lambda each: not each.startswith(name))
    guess = f"did you mean {near[0]!r}? " if near else ""
    guess = f"it belongs in {' or '.join(homes)}; " if homes else guess
    return f"unknown {what} {short(name)}; {guess}{label}: {', '.join(names) or 'none'}"


def _homes(where: Where) -> list[str]:
    """Return where the config has the key at the end of ``where``, which is unknown at that place.

    Only keys of the top level, of its ``parsing`` and of sources are looked up.
    """
    *above, key = where
    of_source = len(above) == 2 and above[0] == "sources"
    if above not in ([], ["parsing"]) and not of_source:
        return []
    sections = {
        f"`{name}`": {key for model in _models(each.annotation) for key in model.model_fields}
        for name, each in Settings.model_fields.items()
    }
    folder = registry.find("connectors", "folder").options.model_fields
    places: dict[str, Collection[str]] = {
        "the top level": Settings.model_fields,
        **sections,
        "`embedding`": {"kind", *registry.find("embedders", DEFAULT_EMBEDDER).options.model_fields},
        "`chunking`": {"strategy", *registry.find("chunkers", DEFAULT_STRATEGY).options.model_fields},
        "a source": () if of_source else {*SourceSettings.model_fields, *folder},
        "`parsing` of a source": registry.kinds("parsers"),
    }
    return [place for place, keys in places.items() if key in keys]


def is_number(annotation: Any) -> bool:
    """Return whether a field with that type annotation accepts a number."""
    return annotation in (int, float) or any(is_number(part) for part in get_args(annotation))


def short(value: object) -> str:
    """Format a value as in Python code, truncated to about 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:56]}...{text[-1]}"


def _message(errors: list[ErrorDetails], raw: str | None) -> str:
    """Combine the errors about one value into a message.

    ``raw``: the value as the file writes it, before environment variables are replaced; None if it has none.
    """
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
        advice = "" if raw else _advice(kinds, value, errors[0]["loc"][-1:])  # a variable may be a secret
        return f"{must}, not {_type(value)}{advice}"
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


# The key that a person means who writes a text in place of a part of the config.
_FIRST_KEYS: Mapping[int | str, str] = {
    "cache": "size", "chroma": "path", "chunking": "strategy", "embedding": "model", "log": "level",
}  # fmt: skip


def _advice(kinds: set[str], value: object, key: tuple[int | str, ...]) -> str:
    """Return what to write in place of a value of the wrong type; "" if that is not known."""
    first = _FIRST_KEYS.get(key[0]) if len(key) == 1 else None
    if kinds & {"dict_type", "model_type"} and isinstance(value, str) and first is not None:
        if key == ("embedding",) and value in registry.kinds("embedders"):
            first = "kind"
        return f": write {{{first}: {short(value)[1:-1]}}}"
    if "string_type" in kinds and isinstance(value, int | float):
        return " (put it in quotes)"
    if "list_type" in kinds and isinstance(value, str):
        return f": write {json.dumps([short(value)[1:-1]], ensure_ascii=False)}"
    return ""


def _fields(model: type[BaseModel], steps: Where) -> set[str]:
    """Return the keys that are allowed in a part of a model.

    ``steps``: path of keys and indices to that part.
    """
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
