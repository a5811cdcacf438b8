"""Builds passages from hits and their surroundings: merged, within a budget, in document order. Pure.

Records of one document are merged if their spans overlap or touch, or if one follows the other
(``chunk_index``). Chunks omit only whitespace. So a gap is filled with line ends, as many as the line numbers
show, then with spaces. A text is as long as its span. A text that differs from its span (written by a
language model, or of several spans) stays alone.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ingestor.model import Record, RecordId
from ingestor.search.values import Expand, Passage, heading_of, link_of

PREVIOUS, NEXT = "2", "3"  # keys of ``relationships``
Count = Callable[[Sequence[str]], list[int]]


@dataclass(frozen=True, slots=True)
class _Part:
    """A stretch of text. ``first``, ``last``: chunk indices; ``exact``: whether the text is its span."""

    passage: Passage
    document: str
    first: int
    last: int

    @property
    def exact(self) -> bool:
        start, end = self.passage.start, self.passage.end
        return start is not None and end is not None and len(self.passage.text) == end - start


def passages(records: Iterable[Record], order: Sequence[str]) -> list[Passage]:
    """Merge records into passages, ordered by document and then by place in the document.

    ``order``: ids of documents, best first.
    """
    rank = {document: at for at, document in enumerate(dict.fromkeys(order))}
    unique = {record.id: record for record in records}
    parts = sorted(
        map(_part, unique.values()),
        key=lambda part: (
            rank.get(part.document, len(rank)),
            part.passage.start or 0,
            part.first,
            part.passage.ids,
        ),
    )
    merged: list[_Part] = []
    for part in parts:
        if merged and (joined := _join(merged[-1], part)) is not None:
            merged[-1] = joined
        else:
            merged.append(part)
    return [part.passage for part in merged]


def within(
    hits: Sequence[RecordId],
    around: Callable[[RecordId], Sequence[Record]],
    budget: int,
    count: Count,
) -> tuple[list[RecordId], list[Record]]:
    """Return the first hits with their surroundings that fit into ``budget`` tokens, and all their records.

    A hit whose surroundings do not fit is returned alone. The first hit that does not fit alone ends the
    list. ``around``: returns the records around a hit, the hit itself first.
    """
    chosen: dict[RecordId, Record] = {}
    used: list[RecordId] = []
    left = budget
    for hit in hits:
        near = around(hit)
        for wanted in (near, near[:1]):
            fresh = [record for record in wanted if record.id not in chosen]
            tokens = cost(fresh, count)
            if tokens <= left:
                break
        else:
            break
        left -= tokens
        used.append(hit)
        chosen.update((record.id, record) for record in fresh)
    return used, list(chosen.values())


def neighbours_of(record: Record) -> dict[str, RecordId]:
    """Return the ids of records that ``relationships`` names, by its keys."""
    try:
        related = json.loads(str(record.metadata.get("relationships") or "{}"))
    except ValueError:
        return {}
    return {key: RecordId(related[key]) for key in (PREVIOUS, NEXT) if key in related}


def cost(records: Sequence[Record], count: Count) -> int:
    """Count the tokens of the records and of the separators between them."""
    return sum(count([record.text for record in records])) + len(records)


def document_of(record: Record) -> str:
    return str(record.metadata.get("document_id") or record.id.rpartition("#")[0])


def _part(record: Record) -> _Part:
    meta = record.metadata
    lines = _whole(meta.get("start_line")), _whole(meta.get("end_line"))
    index = _whole(meta.get("chunk_index"))
    related = neighbours_of(record)
    passage = Passage(
        record.text,
        str(meta.get("source") or ""),
        heading_of(meta),
        _whole(meta.get("start_index")),
        _whole(meta.get("end_index")),
        None if lines[0] is None or lines[1] is None else (lines[0], lines[1]),
        _whole(meta.get("page")),
        (record.id,),
        document_of(record),
        _text(meta.get("title")),
        _text(meta.get("path")),
        link_of(meta, record.text),
        _text(meta.get("author")),
        previous=related.get(PREVIOUS),
        next=related.get(NEXT),
        table_header=_text(meta.get("table_header")),
    )
    at = -2 if index is None else index
    return _Part(passage, document_of(record), at, at)


def _join(one: _Part, other: _Part) -> _Part | None:
    """Join two parts; None if they are apart."""
    a, b = one.passage, other.passage
    if one.document != other.document or not (one.exact and other.exact):
        return None
    if a.start is None or a.end is None or b.start is None or b.end is None:
        return None
    if b.start > a.end and not 0 <= one.last == other.first - 1:
        return None
    gap = _gap(a, b, b.start - a.end) if b.start > a.end else ""
    lines = None if a.lines is None or b.lines is None else (a.lines[0], max(a.lines[1], b.lines[1]))
    joined = replace(
        a,
        text=a.text + gap + b.text[max(0, a.end - b.start) :],
        end=max(a.end, b.end),
        lines=lines,
        ids=a.ids + b.ids,
        next=b.next if b.end > a.end else a.next,
    )
    return replace(one, passage=joined, last=max(one.last, other.last))


def _gap(a: Passage, b: Passage, length: int) -> str:
    """Return the whitespace between two chunks of a document, of known length.

    The number of line ends is known if the text is the file's. Parsers of other formats put two line ends
    between blocks, and one between rows.
    """
    ends = max(0, b.lines[0] - a.lines[1]) if a.lines is not None and b.lines is not None else 2
    return ("\n" * min(ends, length)).ljust(length)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(value: object) -> str | None:
    return None if value is None else str(value)


class _Store(Protocol):
    def read(self, ids: Sequence[RecordId]) -> list[Record]: ...

    def select(self, where: Mapping[str, Any]) -> list[Record]: ...


class Around:
    """Finds the records around hits. ``expand``: how much, see values.Question."""

    def __init__(self, store: _Store, expand: Expand) -> None:
        self._store, self._expand = store, expand
        self._selected: dict[
            str, list[Record]
        ] = {}  # cached, since hits of one section need the same records

    def of(self, hit: Record) -> list[Record]:
        """Return the hit, then the records around it."""
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
        if value is None:  # a document without headings is one section; a chunk without a parent stays alone
            whole = self._select(document) if self._expand == "section" else []
            return [record for record in whole if record.metadata.get("heading_path") is None]
        return self._select({"$and": [document, {key: value}]})

    def _neighbours(self, hit: Record) -> list[Record]:
        """Find neighbours by the ids that a record names, or by its position."""
        at = hit.metadata.get("chunk_index")
        if "relationships" in hit.metadata:
            return self._store.read(list(neighbours_of(hit).values()))
        if not isinstance(at, int):
            return []
        return self._select(
            {"$and": [{"document_id": document_of(hit)}, {"chunk_index": {"$in": [at - 1, at + 1]}}]}
        )

    def _select(self, where: Mapping[str, Any]) -> list[Record]:
        key = json.dumps(where, sort_keys=True)
        if key not in self._selected:
            self._selected[key] = self._store.select(where)
        return self._selected[key]
