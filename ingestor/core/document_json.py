"""Encodes parsed documents as JSON, for the pipes from parser processes and for the cache. Pure."""

import json
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

from ingestor.model import Block, Digest, Document, Fingerprint

_FIELDS = attrgetter(*(field.name for field in fields(Block)))


@dataclass(frozen=True, slots=True)
class Parsed:
    """A parsed document. ``content``: digest of the bytes. ``recipe``: the recipe of its parser."""

    content: Digest
    parser: str
    recipe: Fingerprint
    document: Document


def encode(document: Document) -> dict[str, object]:
    """Return a document as a value for JSON."""
    values = {field.name: getattr(document, field.name) for field in fields(document)}
    return values | {"blocks": [_FIELDS(block) for block in document.blocks]}


def decode(encoded: dict[str, object]) -> Document:
    """Return the document that ``encode`` encoded, even if the value was written as JSON and read again."""
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
    """Return a value as JSON in bytes.

    Lone surrogates, which stand for invalid bytes of file names, are kept.
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
