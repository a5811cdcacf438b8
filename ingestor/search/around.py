"""The records around a hit, as its metadata names them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ingestor.model import Record, RecordId
from ingestor.search.passages import document_of, neighbours_of
from ingestor.search.values import Expand


class _Store(Protocol):
    def read(self, ids: Sequence[RecordId]) -> list[Record]: ...

    def select(self, where: Mapping[str, Any]) -> list[Record]: ...


class Around:
    """``expand``: see values.Question."""

    def __init__(self, store: _Store, expand: Expand) -> None:
        self._store, self._expand = store, expand
        self._selected: dict[str, list[Record]] = {}  # hits of one section ask for the same

    def of(self, hit: Record) -> list[Record]:
        """The hit, then the records around it."""
        others = self._others(hit)
        return [hit, *(record for record in others if record.id != hit.id)]

    def _others(self, hit: Record) -> list[Record]:
        if self._expand == "none":
            return []
        if self._expand == "neighbours":
            return self._neighbours(hit)
        document = {"document_id": document_of(hit)}
        key = {"section": "heading_path", "parent": "parent_index"}.get(self._expand)
        if key is None:
            return self._select(document)
        value = hit.metadata.get(key)
        if value is None:  # a document without headings is one section; a chunk without a parent is alone
            return self._headless(document) if self._expand == "section" else []
        return self._select({"$and": [document, {key: value}]})

    def _neighbours(self, hit: Record) -> list[Record]:
        """By the ids that it names, else by its position, where the collection's profile leaves those out."""
        at = hit.metadata.get("chunk_index")
        if "relationships" in hit.metadata:
            return self._store.read(list(neighbours_of(hit).values()))
        if not isinstance(at, int):
            return []
        return self._select(
            {"$and": [{"document_id": document_of(hit)}, {"chunk_index": {"$in": [at - 1, at + 1]}}]}
        )

    def _headless(self, document: Mapping[str, Any]) -> list[Record]:
        return [record for record in self._select(document) if record.metadata.get("heading_path") is None]

    def _select(self, where: Mapping[str, Any]) -> list[Record]:
        key = json.dumps(where, sort_keys=True)
        if key not in self._selected:
            self._selected[key] = self._store.select(where)
        return self._selected[key]
