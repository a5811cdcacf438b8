"""The answer to a request for embeddings: checked, and in the order of its texts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from ingestor.embedders.rounding import unit
from ingestor.llm.server import token_count
from ingestor.model import Vector
from ingestor.units import counted

WIDEST = 65_536  # dimensions
_DIGITS = 40  # bytes of a number in JSON, with what stands around it
_ENVELOPE = 1_000_000  # bytes of an answer beside its numbers


class Malformed(Exception):
    """Not what an OpenAI-compatible server answers to these texts."""


@dataclass(frozen=True, slots=True)
class EmbeddingAnswer:
    """``vectors``: of length 1; None for numbers that are no vector. ``dimensions``: of all of them."""

    vectors: Sequence[Vector | None]
    dimensions: int
    tokens: int | None


def longest(texts: int, dimensions: int | None) -> int:
    """Bytes of an answer about so many texts, at most."""
    return _ENVELOPE + texts * (dimensions or 8192) * _DIGITS


def read(content: bytes, texts: int) -> EmbeddingAnswer:
    """Raises Malformed."""
    found = _json(content)
    try:
        entries = _in_order(found["data"], texts)
        rows = [_numbers(entry["embedding"]) for entry in entries]
        counted = (found.get("usage") or {}).get("prompt_tokens")
        tokens = None if counted is None else token_count(counted)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
        raise Malformed("did not answer as an OpenAI-compatible server does; check base_url") from None
    widths = {len(row) for row in rows}
    if len(widths) != 1 or not 0 < max(widths) <= WIDEST:
        raise Malformed(f"gave vectors of {_listed(widths)} numbers for texts of one request")
    return EmbeddingAnswer([_vector(row) for row in rows], widths.pop(), tokens)


def _json(content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except ValueError:
        pass
    try:
        return json.loads(content)  # knows NaN, which Python's servers write
    except (ValueError, RecursionError):
        raise Malformed("did not answer with JSON; check base_url") from None


def _in_order(data: Sequence[Mapping[str, Any]], texts: int) -> Sequence[Mapping[str, Any]]:
    """The entries by their index, where they have one."""
    if len(data) != texts:
        raise Malformed(f"gave {len(data)} vectors for {counted(texts, 'text')}")
    if all("index" not in entry for entry in data):
        return data
    by_index = {entry["index"]: entry for entry in data}
    if by_index.keys() != set(range(texts)):
        raise Malformed(f"numbered its {texts} vectors wrongly")
    return [by_index[index] for index in range(texts)]


def _numbers(embedding: Sequence[float | None]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """null counts as no number."""
    if not isinstance(embedding, list) or any(isinstance(number, str | bool) for number in embedding[:1]):
        raise TypeError
    found = np.array(embedding, np.float64)
    if found.ndim != 1:
        raise TypeError
    return found


def _vector(row: np.ndarray[Any, np.dtype[np.float64]]) -> Vector | None:
    with np.errstate(over="ignore", under="ignore"):
        length = float(np.linalg.norm(row))
        if not (np.isfinite(length) and length > 0):
            return None
        made: Vector = unit(row[None, :])[0]
    return made if made.any() else None


def _listed(widths: set[int]) -> str:
    return ", ".join(str(width) for width in sorted(widths)[:5])
