"""Digests of content, of texts and of recipes. They are the same on every machine and Python. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Any

from ingestor.model import Digest, Fingerprint, Metadata
from ingestor.registry import Options, Plugin

if TYPE_CHECKING:
    from ingestor.model import Vector

# Made once: making an encoder costs as much as using it.
_SORTED = json.JSONEncoder(sort_keys=True, ensure_ascii=False)


def digest(data: bytes) -> Digest:
    """Return 128 bits of BLAKE2b, as hex."""
    return Digest(blake2b(data, digest_size=16).hexdigest())


def text_digest(text: str) -> Digest:
    return digest(text.encode("utf-8"))


def vector_digest(vector: Vector) -> bytes:
    """Return 64 bits of BLAKE2b over a vector's float32 bytes; b"" if the vector is not exact in float16.

    Chroma stores a vector's direction and length apart and returns their product, so the last bits of a
    number change (measured on 1.5.9). Rounding to float16 restores a vector only if it was exact in float16.
    Built-in embedders round their vectors to float16 (embedders/exact.py), and so does pooling.
    """
    import numpy as np

    rounded = round_to_half(vector)
    if not np.array_equal(rounded, vector):
        return b""
    return blake2b(rounded.astype("<f4").tobytes(), digest_size=8).digest()


def round_to_half(vector: Vector) -> Vector:
    """Return the vector rounded to the nearest numbers that float16 can represent, without negative zeros."""
    import numpy as np

    with np.errstate(over="ignore"):
        rounded: Vector = vector.astype(np.float16).astype(np.float32) + np.float32(0)
    return rounded


def combine(*parts: object) -> Digest:
    """Return one digest of several values.

    The border between values counts: ``("a", "bc")`` differs from ``("ab", "c")``.
    """
    quoted = ", ".join([encode_basestring_ascii(str(part)) for part in parts])
    return text_digest(f"[{quoted}]")  # as JSON


def metadata_digest(metadata: Metadata) -> Digest:
    """Return a digest of metadata.

    A key whose value is None counts as absent, because Chroma does not store it.
    """
    kept = {key: value for key, value in metadata.items() if value is not None}
    return text_digest(_SORTED.encode(kept))


def plugin_fingerprint(plugin: Plugin, options: Options) -> Fingerprint:
    """Return a fingerprint of a plugin: of its kind, its version, and every option that can change its
    results."""
    return fingerprint({"kind": plugin.kind, "version": plugin.version, "options": recipe_options(options)})


def embedder_fingerprint(
    plugin: Plugin, options: Options, identity: Mapping[str, object] | None
) -> Fingerprint:
    """Return a fingerprint of an embedder: of its kind, its version, and everything that decides its vectors.

    ``identity``: identifies the model (see ports.Pinned); None if the embedder is not pinned. Every option
    counts unless its declaration excludes it. If that declaration is forgotten, time is lost, but no vector
    is ever wrong.
    """
    if identity is None:
        return plugin_fingerprint(plugin, options)
    whole = {"kind": plugin.kind, "version": plugin.version, "identity": dict(identity)}
    pinned = _find_marks(type(options), "pinned")
    left = {name: value for name, value in meaningful(options).items() if name not in pinned}
    return fingerprint({**whole, "options": left} if left else whole)


def fingerprint(value: Any) -> Fingerprint:
    """Return the fingerprint of a JSON value, independent of the order of keys."""
    return Fingerprint(text_digest(json.dumps(value, sort_keys=True)))


def meaningful(options: Options) -> dict[str, Any]:
    """Return the options as JSON values, without those that change only speed (see registry.tuning)."""
    tuning = _find_marks(type(options), "tuning")
    return {name: v for name, v in options.model_dump(mode="json").items() if name not in tuning}


def recipe_options(options: Options) -> dict[str, Any]:
    """Return the options that count for a recipe, as JSON values.

    An option that a later version added is left out as long as its value means the earlier behaviour (see
    registry.added). So no recipe changes before somebody uses the option.
    """
    before = _find_marks(type(options), "before")
    return {k: v for k, v in meaningful(options).items() if k not in before or v != before[k]}


def complete(kind: type[Options], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return stored options, with those filled in that ``recipe_options`` left out.

    ``kind``: the options' class.
    """
    return {**_find_marks(kind, "before"), **stored}


def options_of_speed(options: Options) -> dict[str, Any]:
    """Return the options that change only speed, not results (see registry.tuning)."""
    return {name: getattr(options, name) for name in _find_marks(type(options), "tuning")}


def _find_marks(kind: type[Options], mark: str) -> dict[str, Any]:
    """Return the value of a mark for each option whose declaration has it (see registry.py)."""
    extras = ((name, field.json_schema_extra) for name, field in kind.model_fields.items())
    return {name: extra[mark] for name, extra in extras if isinstance(extra, dict) and mark in extra}
