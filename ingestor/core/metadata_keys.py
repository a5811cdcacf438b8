"""The names of all metadata keys that a record can have, but for those that a config names. Pure.

docs/metadata.md explains each; tests/test_metadata_docs.py holds the page against this file.
"""

KEYS = frozenset(
    (
        *("source", "source_name", "path", "document_id", "title", "content_type", "language"),
        *("start_index", "end_index", "start_line", "end_line", "page", "page_label"),
        *("heading_path", "headings"),
        *("section_title", "section_number", "section_chunk_index", "section_chunk_count"),
        *("chunk_index", "chunk_count", "token_count", "block_kinds", "symbol", "figure"),
        *("content_hash", "strategy", "recipe"),
        *("doc_id", "ref_doc_id", "file_path", "file_name", "file_type", "file_size", "last_modified_date"),
        *("relationships", "node_info"),
    )
)

# Keys that formats, sources and strategies add where they have a value.
EXTRAS = frozenset(
    (
        *("author", "date", "created", "modified", "tags", "from", "to", "cc"),
        *("pages", "pages_without_text", "pages_recognised", "commit", "folder", "truncated"),
        *("level", "parent_level", "parent_index", "parent_start", "parent_end", "parents"),
        *("picked", "fallback", "passage", "topic"),
    )
)
