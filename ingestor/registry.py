"""Plugins, found by entry points: the built-in kinds come through the same door as anyone else's.

A plugin module holds one ``Plugin`` value; its kind is the name that a config uses, and the file's name.
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
    """Base of every option model: frozen, and a key it does not know is an error."""

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
    """A field that changes speed, never the result: left out of fingerprints."""
    return Field(default, json_schema_extra={"tuning": True}, **kwargs)


def pinned(default: Any, **kwargs: Any) -> Any:
    """A field of an embedder whose effect on the vectors its identity tells (see ports.Pinned).

    Only the identity counts then: `model: some/folder` may be moved, where the identity is of its content.
    """
    return Field(default, json_schema_extra={"pinned": True}, **kwargs)


def added(default: Any, *, before: Any, **kwargs: Any) -> Any:
    """A field that earlier versions did not have, and did as ``before`` does.

    With that value a recipe is theirs, and a stored recipe without the field means that value.
    """
    return Field(default, json_schema_extra={"before": before}, **kwargs)


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin. ``version``: must change whenever the same input and options give another result."""

    kind: str
    version: int | str
    options: type[Options]
    build: Callable[..., Any]  # called with the validated options, then what its group is given


class UnknownKind(LookupError):
    """Error: no plugin of a kind is installed."""


def entries(group: Group) -> EntryPoints:
    """Return the plugins of a group in all installed packages."""
    found: EntryPoints = all_entries().select(group=f"ingestor.{group}")
    return found


@cache
def all_entries():  # type: ignore[no-untyped-def]  # of another type in each version of Python
    """The entry points of all groups, read once: that takes as long as starting Python."""
    return entry_points()


@cache
def kinds(group: Group) -> tuple[str, ...]:
    """The installed kinds of a group, sorted."""
    return tuple(sorted({entry.name for entry in entries(group)}))


@cache
def find(group: Group, kind: str) -> Plugin:
    """Return the plugin of that name.

    Raises UnknownKind, naming the known ones, and NeedsHuman for a plugin that cannot be loaded.
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
