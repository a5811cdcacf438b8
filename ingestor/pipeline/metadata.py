"""Builds the metadata of records. All records have the same keys, and None stands for a missing value.

Chroma accepts strings, numbers, booleans and lists of strings that are not empty. It accepts no nested
values, no NaN and no lone surrogates. A chunk's section is the one in which most of its characters lie. The
key ``headings`` has the titles of all sections that the chunk touches, and of the sections around them.

Some keys are for other programs: ``relationships`` and ``_node_content`` are JSON strings. LlamaIndex's
Chroma store rebuilds its nodes from ``_node_content``
(llama_index.core.vector_stores.utils.metadata_dict_to_node).
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from itertools import accumulate, chain

from ingestor.config.models import FieldType, OwnMetadata
from ingestor.config.quotas import UNBOUNDED, Quotas
from ingestor.connectors.shared import gitignore
from ingestor.core.content_types import keeps_lines
from ingestor.core.fingerprint import fingerprint
from ingestor.core.metadata_keys import KEYS, NEEDED, Profile, carries
from ingestor.model import INSIDE, Chunk, Document, DocumentId, Fingerprint, Item, Metadata, SourceName, Value
from ingestor.parsers.markup.front_matter import fields_of
from ingestor.parsers.shared.file_names import file_name, suffix
from ingestor.ports import BadDocument
from ingestor.text.context import Lines
from ingestor.text.outline import Outline, outline
from ingestor.text.table_headers import headers

_REFUSED = ("#", "$", "chroma:")  # beginnings of keys that Chroma refuses or silently drops
# LlamaIndex's NodeRelationship values.
_SOURCE, _PREVIOUS, _NEXT = "1", "2", "3"
_SURROGATES = re.compile("[\ud800-\udfff]")
_SITE = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#]*")
# Keys that LlamaIndex puts before a text for a model, and further keys of its nodes. Nodes repeat no other
# standard key, since Chroma's index stores the JSON of each record twice.
_CITED = frozenset(("title", "heading_path", "path", "page_label", "table_header"))
_IN_LEAN_NODES = _CITED | {"source"}
_IN_NODES = _IN_LEAN_NODES | {"page", "start_line", "end_line", "chunk_index"}
_LONGEST = 8_000  # characters of a value; longer ones are truncated, since every record may repeat them
_MOST = 200  # texts in a list
NONE_OF_ITS_OWN = OwnMetadata()
_VERSION = 9  # raised whenever the same chunk gets other metadata


@dataclass(frozen=True, slots=True)
class Describing:
    """Settings of the metadata of a source's records.

    ``strategy``: name of the chunking strategy. ``profile``: decides which keys the records have. ``quotas``:
    limits of the Chroma server. ``own``: metadata that the config adds to documents.
    """

    source: SourceName
    strategy: str = ""
    profile: Profile = "full"
    quotas: Quotas = UNBOUNDED
    own: OwnMetadata = NONE_OF_ITS_OWN


@cache
def rules(how: Describing) -> Fingerprint:
    """Return a fingerprint of all settings that decide metadata.

    If it changes, the metadata of records is patched.
    """
    name, quotas = how.source if carries(how.profile, "source_name") else "", how.quotas
    bounds = quotas.metadata_keys, quotas.key_bytes, quotas.value_bytes, quotas.document_bytes
    given = [repr(how.own)] if how.own != NONE_OF_ITS_OWN else []
    return fingerprint(["metadata", _VERSION, sorted(KEYS), name, how.profile, bounds, *given])


def build(
    document: Document,
    item: Item,
    document_id: DocumentId,
    chunks: Sequence[Chunk],
    ids: Sequence[str],
    lines: Sequence[Lines],
    *,
    tokens: Sequence[int],
    content_hashes: Sequence[str],
    recipe: str,
    how: Describing,
    front: Mapping[str, Value] | None = None,
) -> list[Metadata]:
    """Build the metadata of each chunk's record, in the order of the chunks.

    ``ids``, ``lines`` (context lines, see text/context.py), ``tokens`` and ``content_hashes`` have a value
    for each chunk. ``front``: the fields of the front matter that become metadata. A standard key without a
    value is None, so that a patch removes it from the record.

    Further keys come from the config (``how.own``), the source (``item.extra``), the parser
    (``document.extra``), the front matter and the chunker (``chunk.extra``). If two of them give the same
    key, the later one wins. None of them replaces a standard key.
    """
    named: dict[str, Value] = {"source_name": how.source, "strategy": how.strategy, "recipe": recipe}
    of_all = {**_of_document(document, item, document_id), "chunk_count": len(chunks), **named}
    own = by_path(how.own, item.key).items()
    shared = _clean((*own, *item.extra, *document.extra, *(front or {}).items()))
    whole, outlined, above = _values(of_all), outline(document), headers(document, chunks)
    lined = keeps_lines(document.content_type)
    sections = list(map(outlined.section_of, chunks))
    counts, seen = Counter(sections), Counter[int]()
    described = []
    for i, (chunk, section) in enumerate(zip(chunks, sections, strict=True)):
        near = ((_PREVIOUS, i - 1), (_NEXT, i + 1))
        related = {_SOURCE: document_id, **{kind: ids[at] for kind, at in near if 0 <= at < len(ids)}}
        single: dict[str, Value] = {
            **_span(outlined, chunk, lined=lined),
            **_section(outlined, chunk, section),
            "section_chunk_index": seen[section],
            "section_chunk_count": counts[section],
            "context": "\n".join(lines[i]) or None,
            "table_header": above[i] or None,
            "chunk_index": i,
            "token_count": tokens[i],
            "content_hash": content_hashes[i],
            "relationships": json.dumps(related),
        }
        seen[section] += 1
        every = {**shared, **_clean(chunk.extra), **whole, **_values(single)}
        every["_node_content"] = _node(every, ids[i], related, how)
        if how.profile != "full":
            kept = {k: value for k, value in every.items() if carries(how.profile, k) or k in how.own.keys}
            every = {**dict.fromkeys(KEYS), **kept}
        described.append(fit(every, how.quotas))
    return described


def _of_document(document: Document, item: Item, document_id: DocumentId) -> dict[str, Value]:
    return {
        "source": item.uri,
        "path": item.key.replace(INSIDE, "!/"),
        "folders": folders_of(item.key),
        "document_id": document_id,
        "title": title_of(document, item),
        "content_type": document.content_type,
        "language": document.language,
        "doc_id": document_id,
        "ref_doc_id": document_id,
        "file_path": item.uri,
        "file_name": file_name(item.key),
        "file_type": document.content_type,
        "file_size": item.size,
        "last_modified_date": _day(item.modified),
        "last_modified_day": day_of(_day(item.modified)),
    }


def folders_of(key: str) -> list[str] | None:
    """Return the folders and archives that contain a document, outermost first, such as ``["ref",
    "ref/models"]``.

    If the key is a URL, the first entry includes its site.
    """
    site = _SITE.match(key)
    start, path = (site.end(), re.split("[?#]", key)[0]) if site else (1, key)
    around = (path[:end] for end in range(start, len(path)) if path[end] == "/")
    return [each.replace(INSIDE, "!/") for each in around if not each.endswith("/!")] or None


def title_of(document: Document, item: Item) -> str:
    """Return the document's own title, or else the name of its file without the suffix."""
    name = file_name(item.key)
    return document.title or name.removesuffix(suffix(name))


def _section(lines: Outline, chunk: Chunk, index: int) -> dict[str, Value]:
    """Return the metadata about a chunk's section. ``index``: the section's position in the outline."""
    section = lines.sections[index]
    touched = (lines.sections[each].titles for each in sorted(lines.shares_of(chunk)))
    return {
        "heading_path": section.path,
        "headings": list(dict.fromkeys(chain.from_iterable(touched))) or None,
        "section_title": section.title,
        "section_number": section.number,
    }


def _span(lines: Outline, chunk: Chunk, *, lined: bool) -> dict[str, Value]:
    """Return the metadata about a chunk's position: offsets, lines, page, kinds of blocks, figure and symbol.

    The page is that of the first visible character. ``lined``: whether the lines of the text are lines of the
    file, so that their numbers are useful.
    """
    spans = chunk.spans or ((chunk.start, chunk.end),)
    blocks = [block for start, end in spans for block in lines.between(start, end)]
    visible = lines.first_visible(chunk.start, chunk.end)
    first = next((block for block in blocks if block.end > visible), None)
    return {
        "start_index": chunk.start,
        "end_index": chunk.end,
        "start_line": lines.line(chunk.start) if lined else None,
        "end_line": lines.line(max(chunk.start, chunk.end - 1)) if lined else None,
        "page": first.page if first else None,
        "page_label": first.page_label if first else None,
        "block_kinds": ",".join(dict.fromkeys(block.kind for block in blocks)) or None,
        "figure": next((b.figure for b in blocks if b.figure), None),
        "symbol": dict(chunk.extra).get("symbol") or next((b.symbol for b in blocks if b.symbol), None),
    }


def _node(metadata: Metadata, id_: str, related: Mapping[str, str], how: Describing) -> str | None:
    """Return the JSON of a LlamaIndex node without its text; None if it is longer than a value may be.

    The node has the keys by which a model cites the passage, and all keys that are not standard. A model
    reads only the citing keys, before the text. Except in the profile ``lean``, the node also has its span
    and the ids of its neighbours.
    """
    lean, most = how.profile == "lean", how.quotas.value_bytes
    carried = _IN_LEAN_NODES if lean else _IN_NODES
    shown = {
        key: value
        for key, value in metadata.items()
        if value is not None and (key in carried or (key not in KEYS and (not lean or carries("lean", key))))
    }
    node: dict[str, object] = {
        "id_": id_,
        "metadata": shown,
        "excluded_llm_metadata_keys": [key for key in shown if key not in _CITED],
        "relationships": {k: {"node_id": v} for k, v in related.items() if k == _SOURCE or not lean},
    }
    if not lean:
        node |= {"start_char_idx": metadata["start_index"], "end_char_idx": metadata["end_index"]}
    packed = json.dumps(node, ensure_ascii=False)
    too_long = len(packed) > _LONGEST or (most is not None and len(packed.encode()) > most)
    return None if too_long else packed


def _day(modified: float | None) -> str | None:
    """Return the day in UTC, such as ``2024-05-31``."""
    with suppress(ValueError, OverflowError, OSError):  # NaN, or beyond year 9999
        return None if modified is None else datetime.fromtimestamp(modified, UTC).date().isoformat()
    return None


def _clean(pairs: Iterable[tuple[str, Value | tuple[str, ...]]]) -> dict[str, Value]:
    """Return metadata without keys that Chroma refuses, with values in the form of ``_value``."""
    return {_text(key): _value(value) for key, value in pairs if key and not key.startswith(_REFUSED)}


def _values(metadata: Metadata) -> dict[str, Value]:
    """Return the metadata of standard keys with values in the form of ``_value``."""
    return {key: value if value is None else _value(value) for key, value in metadata.items()}


def _value(value: Value | tuple[str, ...]) -> Value:
    """Return a value in the form in which Chroma returns it. Long values are truncated."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else str(value)
    if isinstance(value, list | tuple):
        return list(map(_text, value[:_MOST]))
    if isinstance(value, float):
        # Chroma returns numbers of 16 and 17 digits inexactly, and -0.0 as 0.0.
        return float(f"{value:.15g}") + 0.0 if math.isfinite(value) else None
    return value


def _text(text: str) -> str:
    """Truncate a text, and replace lone surrogates, which stand for invalid bytes of file names."""
    text = text[:_LONGEST]
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


# --- metadata from the config ----------------------------------------------------------------------
# ``values`` hold for all documents of the source, ``paths`` for documents whose path matches a pattern.
# ``front_matter`` names fields of Markdown files with their types. The more specific value wins: ``values``,
# then patterns in their order, then values of source and format, then front matter.

_BOOLEANS = {**dict.fromkeys(("true", "yes", "on"), True), **dict.fromkeys(("false", "no", "off"), False)}
_NO_PATTERN = gitignore.rules(())
_pattern = cache(lambda pattern: gitignore.rules([pattern]))


def by_path(own: OwnMetadata, key: str) -> dict[str, Value]:
    """Return the metadata that the config adds to the document with this key, by the patterns that match the
    key."""
    chosen, names = dict(own.values), key.replace(INSIDE, "/").split("/")
    for pattern, values in own.paths:
        taken: gitignore.IgnoreRules = _pattern(pattern)
        if gitignore.selects(taken, _NO_PATTERN, names):
            chosen |= values
    return chosen


def by_front_matter(own: OwnMetadata, document: Document) -> tuple[dict[str, Value], list[str]]:
    """Return the fields of a document's front matter that the config names, and an error for each invalid
    field."""
    if not own.front_matter or not any(block.kind == "front_matter" for block in document.blocks[:1]):
        return {}, []
    fields, values, wrong = fields_of(document.text) or {}, dict[str, Value](), list[str]()
    for name, kind in own.front_matter:
        texts = list(_texts(fields.get(name)))
        if not texts:
            continue
        value = _convert(texts, kind)
        if value is None:
            wrong.append(f"front matter: {name} is no {kind}: {', '.join(texts)[:80]}")
        else:
            values[name] = value
    return values, wrong


def day_of(text: str | None) -> int | None:
    """Return the date with which a text begins, as an integer such as 20261122; None if it begins with no
    date."""
    with suppress(ValueError):
        return int(date.fromisoformat((text or "")[:10]).strftime("%Y%m%d"))
    return None


def _texts(value: object) -> Iterator[str]:
    """Yield the values of a front matter field as texts, leaving out empty ones.

    Only one level of a list is read, because YAML's aliases can nest lists without an end.
    """
    for each in value if isinstance(value, list) else [value]:
        text = "" if each is None or isinstance(each, list | Mapping) else " ".join(str(each).split())
        if text and text.lower() not in ("~", "null"):
            yield text


def _convert(texts: list[str], kind: FieldType) -> Value:
    """Convert the texts of a front matter field to a type; return None if that is not possible."""
    if kind == "list":
        parts = [part.strip() for part in texts[0].split(",")] if len(texts) == 1 else texts
        return [part for part in parts if part] or None
    text = ", ".join(texts)
    if kind == "text":
        return text
    if kind == "day":
        return day_of(text)
    if kind == "boolean":
        return _BOOLEANS.get(text.lower())
    with suppress(ValueError):
        return int(text)
    with suppress(ValueError):
        return number if math.isfinite(number := float(text)) else None
    return None


# --- quotas of a server ----------------------------------------------------------------------------

# Keys to omit for a server that accepts fewer keys, in this order; readers miss the first ones least. Next go
# keys that are not standard, in reverse alphabetical order. Keys that ingestor reads stay.
LEFT_OUT = (
    *("doc_id", "ref_doc_id", "file_path", "file_type", "content_hash", "strategy", "recipe"),
    *("section_chunk_count", "section_chunk_index", "block_kinds", "file_size", "last_modified_date"),
    *("last_modified_day",),
    *("section_number", "parents", "_node_content", "relationships", "figure", "token_count", "file_name"),
    *("section_title", "headings", "folders", "table_header", "page_label", "symbol", "content_type"),
)


def fit(metadata: Metadata, quotas: Quotas) -> Metadata:
    """Omit keys and truncate values until the metadata is within the server's quotas.

    An omitted key becomes None, so that a patch removes it from the record.
    """
    if quotas.metadata_keys is quotas.key_bytes is quotas.value_bytes is None:
        return metadata
    most = quotas.value_bytes
    kept = {
        key: value if most is None else _truncate(value, most)
        for key, value in metadata.items()
        if key in KEYS or quotas.key_bytes is None or len(key.encode()) <= quotas.key_bytes
    }
    present = [key for key, value in kept.items() if value is not None]
    excess = 0 if quotas.metadata_keys is None else max(0, len(present) - quotas.metadata_keys)
    others = sorted((key for key in present if key not in KEYS | NEEDED | set(LEFT_OUT)), reverse=True)
    left_out = [key for key in (*LEFT_OUT, *others) if key in present][:excess]
    return {**kept, **dict.fromkeys(left_out)}


def _truncate(value: Value, most: int) -> Value:
    """Truncate a value to ``most`` bytes.

    A list keeps its first texts that have at most that many bytes together.
    """
    if isinstance(value, str):
        return value.encode()[:most].decode("utf-8", "ignore")
    if not isinstance(value, list):
        return value
    sizes = accumulate(len(text.encode()) for text in value)
    kept = [text for text, size in zip(value, sizes, strict=True) if size <= most]
    return kept or [str(_truncate(value[0], most))]


def require_short(chunks: Sequence[Chunk], quotas: Quotas) -> None:
    """Raise BadDocument if the text of a chunk is longer than the server's quota for texts."""
    most = quotas.document_bytes
    for at, chunk in enumerate(chunks if most is not None else ()):
        size = len(chunk.text.encode())
        if most is not None and size > most:
            raise BadDocument(
                f"chunk {at} has {size:,} bytes, but Chroma accepts at most {most:,} "
                "(`chroma.quotas.document_bytes`): use smaller chunks"
            )
