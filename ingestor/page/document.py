"""``GET /page/documents/ID``: one document, with its chunks coloured in its text.

The text is that of its records in Chroma: exactly what search finds, and no file is opened.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup
from starlette.requests import Request

from ingestor.http_server.problems import RequestProblem
from ingestor.model import Chunk, Metadata, Record
from ingestor.page.shown.text import chunks_of, text_of
from ingestor.preview.chunk_list import item
from ingestor.preview.view import beside, parts
from ingestor.search.values import title_of
from ingestor.service.daemon_view import DaemonView
from ingestor.service.situation import Situation
from ingestor.state.editions import all_editions
from ingestor.state.queries.browsing import one_of
from ingestor.state.queries.history import happened

CHUNKS = 200  # in a page


def document(daemon: DaemonView, found: Situation, request: Request) -> Mapping[str, Any]:
    """Raises RequestProblem, and what Chroma and the journal raise."""
    id_ = request.path_params["document"]
    row = one_of(daemon.journal, id_)
    if row is None:
        raise RequestProblem.at("document", 404, "there is no such document any more, or not yet")
    first = _first(request.query_params.get("from", "0"))
    editions = all_editions(daemon.journal)
    edition = next((one for one in editions if (one.name, one.role) == (row.collection, "live")), None)
    records = _records(daemon, edition.uuids, id_, first) if row.records and edition else []
    count = _whole(records[0].metadata, "chunk_count") if records else 0
    return {
        "now": found.at,
        "history": happened(daemon.journal, document_id=id_, n=20),
        "row": row,
        "collection": edition.serves if edition else row.collection,
        "title": next(filter(None, (title_of(one.metadata) for one in records)), None),
        "first": first,
        "shown": len(records),
        "count": count,
        "items": listed(records, first),
        "previous": max(0, first - CHUNKS) if first else None,
        "next": first + CHUNKS if first + CHUNKS < count else None,
        "web": row.uri if row.uri and row.uri.startswith(("http://", "https://")) else None,
    }


def listed(records: Sequence[Record], first: int) -> Markup:
    """The chunks as items of a list; the same as in the page of ``ingestor chunk``."""
    chunks, text = chunks_of(records), text_of(records)
    return Markup("").join(
        Markup(_item(first + at, chunk, record.metadata, shown))  # noqa: S704 - escaped by ``item``
        for at, (chunk, record, shown) in enumerate(zip(chunks, records, parts(text, chunks), strict=True), 1)
    )


def _item(number: int, chunk: Chunk, metadata: Metadata, shown: Any) -> str:
    spans = chunk.spans or ((chunk.start, chunk.end),)
    return item(number, beside(chunk, metadata), shown, (), spans, anchor=f"chunk-{number}")


def _records(daemon: DaemonView, uuids: Sequence[str], id_: str, first: int) -> list[Record]:
    """The records of a page, in the order of the document."""
    if not uuids:
        return []
    places = [{"chunk_index": {"$gte": first}}, {"chunk_index": {"$lt": first + CHUNKS}}]
    found = daemon.collection(uuids).select({"$and": [{"document_id": id_}, *places]}, CHUNKS)
    return sorted(found, key=lambda record: _whole(record.metadata, "chunk_index"))


def _first(given: str) -> int:
    """Raises RequestProblem."""
    if not (given.isascii() and given.isdecimal() and len(given) < 10):
        raise RequestProblem.at("from", 422, "from must be a whole number")
    return int(given)


def _whole(metadata: Metadata, key: str) -> int:
    value = metadata.get(key)
    return value if isinstance(value, int) else 0
