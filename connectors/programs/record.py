"""Turn a record of a stream into a document, as the options say."""

import json
from base64 import b64decode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from ingestor.connectors.programs.spool import Given
from ingestor.connectors.shared.template import as_text, filled, written
from ingestor.connectors.shared.typed import scalar, text
from ingestor.model import Scalar
from ingestor.ports import NeedsHuman

_NAMED = 20  # fields that a message lists


@dataclass(frozen=True, slots=True)
class Stream:
    """``key``: fields that identify a record; ``fields``: JSON schemas of its fields, if known."""

    name: str
    key: Sequence[str]
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StreamRecord:
    stream: Stream
    values: Mapping[str, Any]


class TapOptions(Protocol):
    """The options about documents."""

    key: list[str]
    text: str
    file_name: str
    uri: str | None
    metadata: list[str]


def document(record: StreamRecord, wanted: TapOptions) -> Given:
    """Raises NeedsHuman if an option names a missing field, or a record has no key."""
    key = f"{record.stream.name}/{_key(record, wanted.key or record.stream.key)}"

    def value(name: str) -> object:
        return key if name == "key" and name not in record.values else shown(field(record, name))

    return Given(
        key,
        filled(wanted.text, value),
        written(wanted.file_name, value).rpartition("/")[2],
        written(wanted.uri, value) if wanted.uri else key,
        tuple((name, _scalar(field(record, name))) for name in wanted.metadata),
    )


def _key(record: StreamRecord, names: Sequence[str]) -> str:
    stream = record.stream.name
    if not names:
        raise NeedsHuman(f"stream {stream} does not say which fields identify a record: set `key`")
    values = [field(record, name) for name in names]
    if any(value in (None, "") for value in values):
        raise NeedsHuman(f"a record of {stream} has no {' or '.join(names)}: choose another `key`")
    parts = [text(as_text(shown(value))) for value in values]
    return parts[0] if len(parts) == 1 else "/".join(part.replace("/", "%2F") for part in parts)


def field(record: StreamRecord, name: str) -> object:
    """The value; None if this record lacks a field that others may have. Raises NeedsHuman."""
    values, known = record.values, record.stream.fields
    if name in values:
        return _decoded(values[name], known.get(name))
    first, _, rest = name.partition(".")
    if known and first not in known and first not in values:
        has = ", ".join(list(known)[:_NAMED])
        raise NeedsHuman(f"stream {record.stream.name} has no field {first!r}; it has {has}")
    found: Any = values.get(first)
    for part in rest.split(".") if rest else []:
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def shown(value: object) -> object:
    """Text for people; bytes stay bytes."""
    if isinstance(value, list) and not any(isinstance(inner, list | dict) for inner in value):
        return ", ".join(str(shown(inner)) for inner in value)
    if isinstance(value, bool | list | dict):
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    return value


def _decoded(value: object, schema: object) -> object:
    """Decode text that stands for bytes, as JSON schema's ``contentEncoding`` says."""
    if isinstance(value, str) and isinstance(schema, dict) and schema.get("contentEncoding") == "base64":
        with suppress(ValueError):  # it is plain text
            return b64decode("".join(value.split()), validate=True)
    return value


def _scalar(value: object) -> Scalar:
    return scalar(value if value is None or isinstance(value, str | int | float) else str(shown(value)))
