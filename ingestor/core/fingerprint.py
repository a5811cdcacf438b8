"""Digests of content, of texts and of recipes. Pure; the same on every machine and Python."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Any

from pydantic.fields import FieldInfo

from ingestor.model import Digest, Fingerprint, Metadata
from ingestor.registry import Options, Plugin

if TYPE_CHECKING:
    from ingestor.model import Vector

_SORTED = json.JSONEncoder(
    sort_keys=True, ensure_ascii=False
)  # made once: making an encoder costs as much as using it


def digest(data: bytes) -> Digest:
    """Return 128 bits of BLAKE2b, as hex."""
    return Digest(blake2b(data, digest_size=16).hexdigest())


def text_digest(text: str) -> Digest:
    return digest(text.encode("utf-8"))


def vector_digest(vector: Vector) -> bytes:
    """Return 64 bits of BLAKE2b over the float32 bytes of a vector; b"" if it is not exact in float16.

    Chroma stores a vector's direction and length apart and returns their product, so the last bits of a
    number differ (measured on 1.5.9). Rounding to float16 restores only a vector that was exact in float16.
    Built-in embedders round their vectors (embedders/exact.py), and so does pooling.
    """
    import numpy as np

    rounded = round_to_half(vector)
    if not np.array_equal(rounded, vector):
        return b""
    return blake2b(rounded.astype("<f4").tobytes(), digest_size=8).digest()


def round_to_half(vector: Vector) -> Vector:
    """Return the nearest vector that is exact in float16, without negative zeros."""
    import numpy as np

    with np.errstate(over="ignore"):
        rounded: Vector = vector.astype(np.float16).astype(np.float32) + np.float32(0)
    return rounded


def combine(*parts: object) -> Digest:
    """Return a digest of several values: ``("a", "bc")`` and ``("ab", "c")`` differ."""
    quoted = ", ".join([encode_basestring_ascii(str(part)) for part in parts])
    return text_digest(f"[{quoted}]")  # as JSON


def metadata_digest(metadata: Metadata) -> Digest:
    """Return a digest of metadata. A key with None counts as absent: Chroma stores neither."""
    kept = {key: value for key, value in metadata.items() if value is not None}
    return text_digest(_SORTED.encode(kept))


def plugin_fingerprint(plugin: Plugin, options: Options) -> Fingerprint:
    """Return the fingerprint of kind, version and every option that can change the result."""
    return fingerprint({"kind": plugin.kind, "version": plugin.version, "options": recipe_options(options)})


def embedder_fingerprint(
    plugin: Plugin, options: Options, identity: Mapping[str, object] | None
) -> Fingerprint:
    """Return the fingerprint of an embedder: of its kind, version, and all that decides its vectors.

    ``identity``: see ports.Pinned; None for an embedder that is not pinned. An option counts unless a
    declaration excludes it: a forgotten declaration costs time, never correctness.
    """
    if identity is None:
        return plugin_fingerprint(plugin, options)
    whole = {"kind": plugin.kind, "version": plugin.version, "identity": dict(identity)}
    fields = type(options).model_fields
    values = meaningful(options)
    left = {name: value for name, value in values.items() if not _is_marked(fields[name], "pinned")}
    return fingerprint({**whole, "options": left} if left else whole)


def fingerprint(value: Any) -> Fingerprint:
    """Return the fingerprint of a JSON value, independent of the order of keys."""
    return Fingerprint(text_digest(json.dumps(value, sort_keys=True)))


def meaningful(options: Options) -> dict[str, Any]:
    """Return the options as JSON values, without those that only tune speed (see registry.tuning)."""
    fields = type(options).model_fields
    values = options.model_dump(mode="json")
    return {name: value for name, value in values.items() if not _is_marked(fields[name], "tuning")}


def recipe_options(options: Options) -> dict[str, Any]:
    """Return the meaningful options without added ones whose value is the former behaviour.

    So an added option changes no recipe before somebody uses it (see registry.added).
    """
    former = _former(type(options))
    return {k: v for k, v in meaningful(options).items() if k not in former or v != former[k]}


def complete(kind: type[Options], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Add the options that ``recipe_options`` omitted to stored options."""
    return {**_former(kind), **stored}


def _former(kind: type[Options]) -> dict[str, Any]:
    """Return the former value of each added field (see registry.added)."""
    marks = ((name, field.json_schema_extra) for name, field in kind.model_fields.items())
    return {name: mark["before"] for name, mark in marks if isinstance(mark, dict) and "before" in mark}


def options_of_speed(options: Options) -> dict[str, Any]:
    """Return the options that change speed only."""
    fields = type(options).model_fields
    return {name: getattr(options, name) for name in fields if _is_marked(fields[name], "tuning")}


def _is_marked(field: FieldInfo, mark: str) -> bool:
    extra = field.json_schema_extra
    return isinstance(extra, dict) and bool(extra.get(mark))
