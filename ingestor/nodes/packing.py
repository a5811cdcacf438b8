"""A part of a config as bytes for a process on a node, which finds the plugins in its own packages."""

import pickle
from io import BytesIO
from typing import Any, get_args

from pydantic import BaseModel, SecretStr

from ingestor.ports import NeedsHuman
from ingestor.registry import Group, Plugin, UnknownKind, find, kinds

_REMOVED = SecretStr("removed")


def pack(value: object) -> bytes:
    """The value; a plugin in it goes as its name."""
    stream = BytesIO()
    _Packer(stream, 5).dump(value)
    return stream.getvalue()


def without_secrets(value: Any) -> Any:
    """Return options without their secrets: fingerprints are the same."""
    if isinstance(value, SecretStr):
        return _REMOVED
    if isinstance(value, BaseModel):
        return value.model_copy(update={name: without_secrets(inner) for name, inner in value})
    if isinstance(value, dict):
        return {name: without_secrets(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(without_secrets, value))
    return value


class _Packer(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Plugin):
            return installed_plugin, (_group(value), value.kind)
        return NotImplemented


def _group(plugin: Plugin) -> Group:
    groups: tuple[Group, ...] = get_args(Group)
    return next(
        group for group in groups if plugin.kind in kinds(group) and find(group, plugin.kind) is plugin
    )


def installed_plugin(group: Group, kind: str) -> Plugin:
    """The plugin of that name where this is called. Raises NeedsHuman if there is none."""
    try:
        return find(group, kind)
    except (UnknownKind, ImportError) as error:
        raise NeedsHuman(
            f"has no usable plugin {kind!r} of the group {group} ({error}): install the same packages on "
            "every node"
        ) from None
