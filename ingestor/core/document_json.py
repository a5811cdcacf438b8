"""Parsed documents as JSON: for the pipe to the processes that parse, and for the cache. Pure."""

import json
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

from ingestor.model import Block, Digest, Document, Fingerprint

_FIELDS = attrgetter(*(field.name for field in fields(Block)))


@dataclass(frozen=True, slots=True)
class Parsed:
    """A document, the digest of its content, and the parser and recipe that read it."""

    content: Digest
    parser: str
    recipe: Fingerprint
    document: Document


def encode(document: Document) -> dict[str, object]:
    """Encode a document as strings, numbers, lists and dicts."""
    values = {field.name: getattr(document, field.name) for field in fields(document)}
    return values | {"blocks": [_FIELDS(block) for block in document.blocks]}


def decode(encoded: dict[str, object]) -> Document:
    """Decode the result of ``encode``, also after a round trip through JSON."""
    names = ("blocks", "extra", "left_out", "lost", "inner_breaks")
    lists: list[list[Any]] = [values for name in names if isinstance(values := encoded.pop(name, []), list)]
    blocks, extra, left_out, lost, inner_breaks = lists
    return Document(
        **encoded,  # type: ignore[arg-type]
        blocks=tuple(Block(*block) for block in blocks),
        extra=tuple((key, value) for key, value in extra),
        left_out=tuple((rule, count) for rule, count in left_out),
        lost=tuple(lost),
        inner_breaks=tuple(inner_breaks),
    )


def pack(value: object) -> bytes:
    """Encode a value as JSON bytes; keep lone surrogates, by which Python represents bytes of file names."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
