"""Metadata and texts within the quotas of a server. Pure.

Of too many keys those are left out that readers miss least: in the order of LEFT_OUT, then keys that are not
ingestor's own, in reverse alphabetical order. Keys that ingestor reads stay.
"""

from collections.abc import Sequence

from ingestor.config.quotas import Quotas
from ingestor.core.metadata_keys import KEYS, NEEDED
from ingestor.model import Chunk, Metadata, Value
from ingestor.ports import BadDocument

LEFT_OUT = (
    *("doc_id", "ref_doc_id", "file_path", "file_type", "content_hash", "strategy", "recipe"),
    *(
        "section_chunk_count",
        "section_chunk_index",
        "block_kinds",
        "file_size",
        "last_modified_date",
        "last_modified_day",
    ),
    *("section_number", "parents", "_node_content", "relationships", "figure", "token_count", "file_name"),
    *("section_title", "headings", "folders", "page_label", "symbol", "content_type"),
)


def within(metadata: Metadata, quotas: Quotas) -> Metadata:
    """Fit metadata into the quotas. An omitted standard key is None, so that a patch removes the key."""
    if quotas.metadata_keys is quotas.key_bytes is quotas.value_bytes is None:
        return metadata
    kept = {
        key: None
        if key == "_node_content" and _is_long(value, quotas.value_bytes)
        else _cut(value, quotas.value_bytes)
        for key, value in metadata.items()
        if key in KEYS or quotas.key_bytes is None or len(key.encode()) <= quotas.key_bytes
    }
    present = [key for key, value in kept.items() if value is not None]
    excess = 0 if quotas.metadata_keys is None else max(0, len(present) - quotas.metadata_keys)
    others = sorted((key for key in present if key not in KEYS | NEEDED | set(LEFT_OUT)), reverse=True)
    for key in [key for key in (*LEFT_OUT, *others) if key in present][:excess]:
        del kept[key]
    return {**dict.fromkeys(key for key in metadata if key in KEYS), **kept}


def _is_long(value: Value, most: int | None) -> bool:
    return most is not None and len(str(value or "").encode()) > most


def _cut(value: Value, most: int | None) -> Value:
    """A text, or the texts of a list together, within so many bytes."""
    if most is None or not isinstance(value, str | list):
        return value
    if isinstance(value, str):
        encoded = value.encode()
        return value if len(encoded) <= most else encoded[:most].decode("utf-8", "ignore")
    left, kept = most, []
    for text in value:
        if len(text.encode()) > left:
            break
        kept.append(text)
        left -= len(text.encode())
    return kept or [str(_cut(value[0], most))]


def require_short(chunks: Sequence[Chunk], quotas: Quotas) -> None:
    """Raises BadDocument if the server does not take the text of a chunk."""
    most = quotas.document_bytes
    for at, chunk in enumerate(chunks if most is not None else ()):
        size = len(chunk.text.encode())
        if most is not None and size > most:
            raise BadDocument(
                f"chunk {at} has {size:,} bytes, and this Chroma takes {most:,} "
                "(chroma.quotas.document_bytes): cut it into smaller chunks"
            )
