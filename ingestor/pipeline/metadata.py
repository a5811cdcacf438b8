"""What a record says of itself beside its text: flat, always the same keys, None where there is nothing.

Chroma takes strings, numbers and booleans only; no lists, no nesting, no NaN, no lone surrogates. Some
keys are there for others' readers: ``relationships`` and ``node_info`` are JSON strings from which
LlamaIndex's Chroma store rebuilds nodes (llama_index.core.vector_stores.utils.legacy_metadata_dict_to_node).
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Literal

from ingestor.model import Block, Chunk, Document, DocumentId, Item, Metadata, RecordId, Scalar
from ingestor.text.outline import Outline, outline

KEYS = frozenset(
    (
        *("source", "document_id", "title", "content_type", "language"),
        *("start_index", "end_index", "start_line", "end_line", "page", "page_label"),
        *("heading_path", "section_title", "section_number", "section_chunk_index", "section_chunk_count"),
        *("chunk_index", "chunk_count", "token_count", "block_kinds", "symbol", "figure"),
        *("content_hash", "strategy", "recipe"),
        *("doc_id", "ref_doc_id", "file_path", "file_name", "file_type", "file_size", "last_modified_date"),
        *("relationships", "node_info"),
    )
)
_REFUSED = ("#", "$", "chroma:")  # beginnings of keys that Chroma refuses, or drops without a word
# LlamaIndex's NodeRelationship values.
_SOURCE, _PREVIOUS, _NEXT = "1", "2", "3"
_SURROGATES = re.compile("[\ud800-\udfff]")


def build(
    document: Document,
    item: Item,
    document_id: DocumentId,
    chunks: Sequence[Chunk],
    ids: Sequence[RecordId],
    *,
    tokens: Sequence[int],
    content_hashes: Sequence[str],
    strategy: str,
    recipe: str,
) -> list[Metadata]:
    """One record's metadata a chunk, in order; ``ids``, ``tokens`` and ``content_hashes`` are the chunks'.

    Keys of ``item.extra``, ``document.extra`` and ``chunk.extra`` are added, later ones winning, but
    none takes the place of a key in KEYS.
    """
    whole = {
        **_of_document(document, item, document_id),
        "chunk_count": len(chunks),
        "strategy": strategy,
        "recipe": recipe,
    }
    places = _places(outline(document), chunks)
    described = []
    for i, (chunk, place) in enumerate(zip(chunks, places, strict=True)):
        own: dict[str, Scalar] = {
            "chunk_index": i,
            "token_count": tokens[i],
            "content_hash": content_hashes[i],
            "relationships": _relationships(document_id, ids, i),
            "node_info": json.dumps({"start": chunk.start, "end": chunk.end}),
        }
        extra = {**dict(item.extra), **dict(document.extra), **dict(chunk.extra)}
        described.append(_clean({**extra, **whole, **place, **own}))
    return described


def contexts(
    document: Document, chunks: Sequence[Chunk], context: Literal["none", "title", "headings"]
) -> list[str]:
    """What is embedded in front of each chunk's text; "" for nothing.

    ``title``: the document's own title (not its file's name: a rename embeds nothing). ``headings``:
    the title, and the headings above the chunk unless the first of them is the title.
    """
    title = document.title or ""
    if context != "headings":
        return [title if context == "title" else ""] * len(chunks)
    lines = outline(document)
    paths = (lines.sections[_section(lines, chunk)].path or "" for chunk in chunks)
    return [path if _begins_with(path, title) else " > ".join(filter(None, (title, path))) for path in paths]


def _of_document(document: Document, item: Item, document_id: DocumentId) -> dict[str, Scalar]:
    file = PurePosixPath(item.key)
    return {
        "source": item.uri,
        "document_id": document_id,
        "title": document.title or file.stem,
        "content_type": document.content_type,
        "language": document.language,
        "doc_id": document_id,
        "ref_doc_id": document_id,
        "file_path": item.uri,
        "file_name": file.name,
        "file_type": document.content_type,
        "file_size": item.size,
        "last_modified_date": _day(item.modified),
    }


def _places(lines: Outline, chunks: Sequence[Chunk]) -> list[dict[str, Scalar]]:
    """Where each chunk lies. What holds for its first visible character holds for the chunk."""
    inside = [_section(lines, chunk) for chunk in chunks]
    counts = Counter(inside)
    seen = Counter[int]()
    places = []
    for chunk, index in zip(chunks, inside, strict=True):
        section = lines.sections[index]
        places.append(
            _span(lines, chunk)
            | {
                "heading_path": section.path,
                "section_title": section.title,
                "section_number": section.number,
                "section_chunk_index": seen[index],
                "section_chunk_count": counts[index],
            }
        )
        seen[index] += 1
    return places


def _span(lines: Outline, chunk: Chunk) -> dict[str, Scalar]:
    spans = chunk.spans or ((chunk.start, chunk.end),)
    blocks = [block for start, end in spans for block in lines.between(start, end)]
    first = _first(lines, chunk, blocks)
    return {
        "start_index": chunk.start,
        "end_index": chunk.end,
        "start_line": lines.line(chunk.start),
        "end_line": lines.line(max(chunk.start, chunk.end - 1)),
        "page": first.page if first else None,
        "page_label": first.page_label if first else None,
        "block_kinds": ",".join(dict.fromkeys(block.kind for block in blocks)) or None,
        "figure": next((b.figure for b in blocks if b.figure), None),
        "symbol": dict(chunk.extra).get("symbol") or next((b.symbol for b in blocks if b.symbol), None),
    }


def _first(lines: Outline, chunk: Chunk, blocks: Iterable[Block]) -> Block | None:
    visible = lines.first_visible(chunk.start, chunk.end)
    return next((block for block in blocks if block.end > visible), None)


def _section(lines: Outline, chunk: Chunk) -> int:
    return lines.section(lines.first_visible(chunk.start, chunk.end))


def _relationships(document_id: DocumentId, ids: Sequence[RecordId], i: int) -> str:
    related: dict[str, str] = {_SOURCE: document_id}
    if i > 0:
        related[_PREVIOUS] = ids[i - 1]
    if i + 1 < len(ids):
        related[_NEXT] = ids[i + 1]
    return json.dumps(related)


def _begins_with(path: str, title: str) -> bool:
    return path == title or path.startswith(f"{title} > ")


def _day(modified: float | None) -> str | None:
    """``2024-05-31`` in UTC."""
    if modified is None:
        return None
    try:
        return datetime.fromtimestamp(modified, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):  # NaN, or beyond year 9999
        return None


def _clean(metadata: Metadata) -> Metadata:
    """Nothing that Chroma refuses, and nothing that it gives back changed."""
    kept = {key: value for key, value in metadata.items() if key and not key.startswith(_REFUSED)}
    return {_text(key): _scalar(value) for key, value in kept.items()}


def _scalar(value: Scalar) -> Scalar:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        # Chroma reads back 16 and 17 digits inexactly, and -0.0 as 0.0.
        return float(f"{value:.15g}") + 0.0 if math.isfinite(value) else None
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return str(value)
    return value


def _text(text: str) -> str:
    """File names may hold bytes that are no text: Python shows them as lone surrogates."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)
