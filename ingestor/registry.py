"""Loads plugins by entry points. The built-in connectors, parsers, chunkers and embedders are plugins, too.

A plugin is a module with one ``Plugin`` value. Its kind is its name in the config, and also the name of the
module.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ingestor.ports import NeedsHuman

Group = Literal["connectors", "parsers", "chunkers", "embedders"]


class Options(BaseModel):
    """Base class of the options of every plugin. Values are frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def require_match(pattern: str, problem: str) -> AfterValidator:
    """Return a validator for pydantic that requires a whole text to match a pattern.

    ``problem``: the error message otherwise, such as "must be a file name".
    """
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(problem)
        return text

    return AfterValidator(check)


Host = Annotated[
    str, require_match(r"[^/\s]+", "must be a host name or an address alone, without http:// or a path")
]


def tuning(default: Any, **kwargs: Any) -> Any:
    """Declare an option that changes speed only, never the result. Fingerprints do not include it."""
    return Field(default, json_schema_extra={"tuning": True}, **kwargs)


def pinned(default: Any, **kwargs: Any) -> Any:
    """Declare an option of an embedder whose effect is already part of the embedder's identity (see
    ports.Pinned).

    Fingerprints do not include it. So the folder in `model: some/folder` may be moved if its content stays
    the same.
    """
    return Field(default, json_schema_extra={"pinned": True}, **kwargs)


def added(default: Any, *, before: Any, **kwargs: Any) -> Any:
    """Declare an option that earlier versions did not have. They behaved as with the value ``before``.

    Fingerprints do not include the option while it has that value. If a stored recipe lacks the option, it
    has that value.
    """
    return Field(default, json_schema_extra={"before": before}, **kwargs)


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin. ``version``: must be changed whenever the same input and options give another result.

    ``build``: called with the checked options, and with further arguments that depend on the group.
    """

    kind: str
    version: int | str
    options: type[Options]
    build: Callable[..., Any]


class UnknownKind(LookupError):
    """Error: no plugin of the requested kind is installed."""


def entries(group: Group) -> EntryPoints:
    """Return the entry points of a group, such as parsers, in all installed packages."""
    plugins: EntryPoints = all_entries().select(group=f"ingestor.{group}")
    return plugins


@cache
def all_entries():  # type: ignore[no-untyped-def]  # of another type in each version of Python
    """Return the entry points of all groups.

    They are read once, because reading takes as long as starting Python.
    """
    return entry_points()


@cache
def kinds(group: Group) -> tuple[str, ...]:
    """Return the kinds of all installed plugins of a group, sorted."""
    return tuple(sorted({entry.name for entry in entries(group)}))


@cache
def find(group: Group, kind: str) -> Plugin:
    """Return the plugin of this kind in a group.

    Raises UnknownKind, whose message has the installed kinds. Raises NeedsHuman if the plugin cannot be
    loaded.
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
                raise NeedsHuman(f"{group[:-1]} {kind!r} ({entry.value}) is not an ingestor Plugin: {remedy}")
            return plugin
    raise UnknownKind(f"unknown {group[:-1]} {kind!r}; installed: {', '.join(kinds(group))}")
