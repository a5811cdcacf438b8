"""Check one part of a parsed tree, and return it as options.

Pure, except that it loads installed plugins and reads the files of secrets that a config names.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from os import fsencode
from os.path import normpath
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, SecretStr, ValidationError

from ingestor import registry
from ingestor.config.messages import is_number, problems_of, unknown
from ingestor.config.models import Choice, Problem
from ingestor.config.yaml_tree import ConfigTree, Where
from ingestor.registry import Group, Plugin

M = TypeVar("M", bound=BaseModel)
Mapped = dict[str, Any]

_CALLED = {"connectors": "connector", "parsers": "parser", "chunkers": "strategy", "embedders": "embedder"}


@dataclass(slots=True)
class Check:
    """The check of one tree, with the problems found so far."""

    tree: ConfigTree
    folder: Path  # where relative paths begin
    problems: list[Problem] = field(default_factory=list)

    def fault(self, where: Where, message: str) -> None:
        if where not in self.tree.broken:
            self.problems.append(self.tree.problem(where, message))

    def choice(
        self,
        group: Group,
        data: Mapped,
        at: Where,
        selector: str,
        default: str = "",
        own: Iterable[str] = (),
    ) -> Choice | None:
        """The plugin that ``selector`` names, with the rest of the data as its options.

        ``own``: keys beside the options that are not options.
        """
        keys = {selector, *own}
        plugin = self.plugin(group, data.get(selector, default), (*at, selector))
        options = {key: value for key, value in data.items() if key not in keys}
        return self.options(plugin, options, at, keys) if plugin else None

    def plugin(self, group: Group, kind: object, at: Where) -> Plugin | None:
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
        options = self.model(plugin.options, data, at, own)
        return None if options is None else Choice(plugin, options)

    def model(self, model: type[M], data: Mapped, at: Where, own: Iterable[str] = ()) -> M | None:
        """The data as that model, with absolute paths and secrets read; None if a check fails."""
        for name in data.keys() & model.model_fields.keys():
            if isinstance(data[name], bool) and is_number(model.model_fields[name].annotation):
                self.fault((*at, name), "must be a number, not true or false")  # pydantic takes it for 1 or 0
        try:
            return self.locate(model.model_validate(data), at)
        except ValidationError as error:
            self.problems += problems_of(error.errors(include_url=False), model, self.tree, at, tuple(own))
        except (OverflowError, RuntimeError) as error:  # a huge number, or ~ of an unknown user
            self.fault(at, f"can't be used: {error}")
        return None

    def locate(self, model: M, at: Where) -> M:
        """The model with absolute paths, and secrets read from the files that they name."""
        if "secrets" in type(model).model_fields:
            self._report_misplaced(dict(model), at)
        values = {name: (value, self._value(value, (*at, name))) for name, value in model}
        return model.model_copy(update={name: new for name, (old, new) in values.items() if new is not old})

    def _value(self, value: Any, at: Where) -> Any:
        match value:
            case Path():
                return self._path(value, at)
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
        """Report keys that look like secrets in a mapping other than ``secrets``."""
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

    def _path(self, path: Path, at: Where) -> Path:
        if not _is_possible(path):
            self.fault(at, "must be a path without NUL characters and lone surrogates")
        try:
            return Path(normpath(self.folder / path.expanduser()))
        except RuntimeError:
            self.fault(at, f"no home folder is known for {path.parts[0]!r}")
            return path

    def _secret(self, secret: SecretStr, at: Where) -> SecretStr:
        """``file:NAME`` is replaced by the content of that file without the line end."""
        kind, _, name = secret.get_secret_value().partition(":")
        if kind != "file":
            if secret and at in self.tree.lines and not self.tree.is_filled(at):  # else written elsewhere
                self.fault(at, _PLAIN)
            return secret
        try:
            text = self._path(Path(name), at).read_text("utf-8").rstrip("\r\n")
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or "not UTF-8 text"
            self.fault(at, f"the secret file {name!r} can't be read: {reason}")
            return secret
        if not text:
            self.fault(at, f"the secret file {name!r} is empty")
        return SecretStr(text)


_PLAIN = "is a secret and must not be in plain text: write ${NAME} and set that variable, or file:/path"
_MISPLACED = "looks like a secret: write ${NAME}, or put it into `secrets`, which also takes file:/path"
# Names that packages use for secrets. A bare "token" may be a word ("anon") or the name of a file.
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
