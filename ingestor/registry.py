"""Loads plugins by entry points; built-in connectors, parsers, chunkers and embedders are plugins, too.

A plugin module holds one ``Plugin`` value. Its kind is the name in the config and the name of the module.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from typing import Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ingestor.ports import NeedsHuman

Group = Literal["connectors", "parsers", "chunkers", "embedders"]


class Options(BaseModel):
    """Base of every option model: frozen; an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def require_match(pattern: str, problem: str) -> AfterValidator:
    """Check that a pattern matches a whole text. ``problem``: the error, such as "must be a file name"."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(problem)
        return text

    return AfterValidator(check)


def tuning(default: Any, **kwargs: Any) -> Any:
    """Declare an option that changes only speed, never the result: fingerprints omit the option."""
    return Field(default, json_schema_extra={"tuning": True}, **kwargs)


def pinned(default: Any, **kwargs: Any) -> Any:
    """Declare an option of an embedder whose effect is part of the embedder's identity (see ports.Pinned).

    Fingerprints omit the option: the folder in `model: some/folder` may be moved if its content stays.
    """
    return Field(default, json_schema_extra={"pinned": True}, **kwargs)


def added(default: Any, *, before: Any, **kwargs: Any) -> Any:
    """Declare an option that earlier versions lacked; they behaved as with the value ``before``.

    Fingerprints omit that value, and a stored recipe without the option has that value.
    """
    return Field(default, json_schema_extra={"before": before}, **kwargs)


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin. ``version``: must change whenever the same input and options give another result.

    ``build``: called with the checked options, then with further arguments that depend on the group.
    """

    kind: str
    version: int | str
    options: type[Options]
    build: Callable[..., Any]


class UnknownKind(LookupError):
    """Error: no plugin of a kind is installed."""


def entries(group: Group) -> EntryPoints:
    """Return the plugins of a group in all installed packages."""
    plugins: EntryPoints = all_entries().select(group=f"ingestor.{group}")
    return plugins


@cache
def all_entries():  # type: ignore[no-untyped-def]  # of another type in each version of Python
    """Return the entry points of all groups, read once: reading takes as long as starting Python."""
    return entry_points()


@cache
def kinds(group: Group) -> tuple[str, ...]:
    """Return the installed kinds of a group, sorted."""
    return tuple(sorted({entry.name for entry in entries(group)}))


@cache
def find(group: Group, kind: str) -> Plugin:
    """Return the plugin of this kind.

    Raises UnknownKind, with the installed kinds, and NeedsHuman for a plugin that cannot be loaded.
    """
    for entry in entries(group):
        if entry.name == kind:
            package = f"package {entry.dist.name}" if entry.dist else "its package"
            remedy = f"repair or uninstall {package}"
            try:
                plugin = entry.load()
            except Exception as error:
                raise NeedsHuman(f"{group[:-1]} {kind!r} cannot be loaded ({error}): {remedy}") from error
            if not isinstance(plugin, Plugin):
                raise NeedsHuman(f"{group[:-1]} {kind!r} ({entry.value}) is no ingestor Plugin: {remedy}")
            return plugin
    raise UnknownKind(f"unknown {group[:-1]} {kind!r}; installed: {', '.join(kinds(group))}")
