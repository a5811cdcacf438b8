"""The journal's knowledge of each record of an edition, read page by page."""

from collections.abc import Iterator
from typing import NamedTuple

from ingestor.core.entries import EditionName
from ingestor.model import DocumentId, Known
from ingestor.state.journal import Journal

_PAGE = 1000  # records that are read at once


class KeptRecord(NamedTuple):
    """``row``: of its document."""

    row: int
    document_id: DocumentId
    known: Known


def kept_records(journal: Journal, collection: EditionName) -> Iterator[KeptRecord]:
    """By document. No query stays open. Raises sqlite3.Error.

    CROSS JOIN keeps the order of the tables, in which a page begins where the last one ended.
    """
    query = f"""SELECT id, document_id, slot, text_key, vector_key, meta_key, unsure, vector_digest
                FROM records CROSS JOIN documents ON id = document
                WHERE (document, slot) > (?, ?) AND collection = ? ORDER BY document, slot LIMIT {_PAGE}"""
    last = -1, -1
    while page := journal.select(query, (*last, collection)):
        for row, document_id, slot, text, vector, meta, unsure, digest in page:
            yield KeptRecord(row, document_id, Known(slot, text, vector, meta, bool(unsure), digest))
        last = page[-1][0], page[-1][2]
