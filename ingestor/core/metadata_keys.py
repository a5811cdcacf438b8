"""Names of all metadata keys that a record can have, except keys that a config adds. Pure.

docs/metadata.md explains each key, and tests/test_metadata_docs.py compares the page with this file. The
profile of a collection selects the keys of its records. ``full`` selects all keys, and ``lean`` the keys for
filters and citations. A list selects the keys in it, and NEEDED.
"""

from typing import Literal

Profile = Literal["full", "lean"] | tuple[str, ...]

KEYS = frozenset(
    (
        *("source", "source_name", "path", "folders", "document_id", "title", "content_type", "language"),
        *("start_index", "end_index", "start_line", "end_line", "page", "page_label"),
        *("heading_path", "headings", "context", "table_header"),
        *("section_title", "section_number", "section_chunk_index", "section_chunk_count"),
        *("chunk_index", "chunk_count", "token_count", "block_kinds", "symbol", "figure"),
        *("content_hash", "strategy", "recipe"),
        *("doc_id", "ref_doc_id", "file_path", "file_name", "file_type", "file_size", "last_modified_date"),
        *("last_modified_day", "relationships", "_node_content"),
    )
)

# Types of standard keys; all others are texts.
LISTS = frozenset(("folders", "headings"))
NUMBERS = frozenset(
    (
        *("start_index", "end_index", "start_line", "end_line", "page", "chunk_index", "chunk_count"),
        *("token_count", "section_chunk_index", "section_chunk_count", "file_size", "last_modified_day"),
    )
)

# Keys that formats, sources and strategies add if they have a value.
EXTRAS = frozenset(
    (
        *("author", "date", "created", "modified", "tags", "from", "to", "cc"),
        *("pages", "pages_without_text", "pages_recognised", "commit", "folder"),
        *("level", "parent_level", "parent_index", "parent_start", "parent_end", "parents"),
        *("picked", "fallback", "passage", "topic", "signature"),
    )
)

# Keys that ingestor reads: for search and its passages, the service port, and the language of words.
NEEDED = frozenset(
    (
        *("source", "document_id", "title", "language", "start_index", "end_index", "start_line", "end_line"),
        *("page", "heading_path", "context", "chunk_index", "chunk_count", "parent_index"),
    )
)
LEAN = NEEDED | {
    *("source_name", "path", "content_type", "page_label", "symbol", "table_header", "_node_content"),
}
# Non-standard keys that ``lean`` omits: how a document was parsed and chunked.
_NOT_LEAN = frozenset(
    (
        *("pages", "pages_without_text", "pages_recognised", "picked", "fallback"),
        *("level", "parent_level", "parent_start", "parent_end", "parents"),
    )
)


def carries(profile: Profile, key: str) -> bool:
    """Return whether a metadata key is written to records.

    ``profile``: the configured set of keys. Documents without a value for a key never have that key.
    """
    if profile == "full":
        return True
    if profile == "lean":
        return key in LEAN if key in KEYS else key not in _NOT_LEAN
    return key in NEEDED or key in profile
