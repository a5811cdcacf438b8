"""Serves ``GET /documents``, the documents of a collection, and ``GET /documents/ID``, a document's text.

The text is built from the records in Chroma, as searches return it; no file is opened.
"""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ingestor.http_server.requests import RequestProblem, json_response
from ingestor.model import Record
from ingestor.search.passages import passages
from ingestor.search.search import Store
from ingestor.service.daemon_view import DaemonView
from ingestor.service.searching import Turns, collection_of, problems, require_owner
from ingestor.state.reports import documents_in, one_of

PAGE, MOST = 100, 1000  # documents of an answer: by default, and at most
STRETCH, MOST_CHARACTERS = 20_000, 50_000  # characters of an answer: by default, and at most
MOST_RECORDS = 2000  # of an answer


def routes(daemon: DaemonView, turns: Turns) -> list[BaseRoute]:
    async def documents(request: Request) -> Response:
        with problems():
            require_owner(daemon, request)
            limit = _integer(request, "limit", PAGE, 1, MOST)
        given = request.query_params
        wanted = (given.get("collection", ""), given.get("after", ""), given.get("match", ""), limit)
        return json_response(200, await turns.run(partial(_list, daemon, *wanted)))

    async def document(request: Request) -> Response:
        with problems():
            require_owner(daemon, request)
            start = _integer(request, "start", 0, 0, 2**53)
            end = _integer(request, "end", start + STRETCH, start + 1, start + MOST_CHARACTERS)
        wanted = request.query_params.get("collection", ""), request.path_params["document"], start, end
        return json_response(200, await turns.run(partial(_read, daemon, *wanted)))

    return [Route("/documents", documents), Route("/documents/{document}", document)]


def _list(daemon: DaemonView, collection: str, after: str, match: str, limit: int) -> dict[str, Any]:
    """Return one page of the list of documents.

    ``after``: id of the last document on the previous page. ``match``: text that names must contain.
    """
    edition = collection_of(daemon, collection)
    rows = documents_in(daemon.journal, edition.name, after, match, limit + 1)
    following = rows[limit - 1]["document_id"] if len(rows) > limit else None
    return {"collection": edition.serves, "documents": rows[:limit], "next": following}


def _read(daemon: DaemonView, collection: str, document: str, start: int, end: int) -> dict[str, Any]:
    """Return the chunks of a document that overlap the characters from ``start`` to ``end``.

    Raises RequestProblem.
    """
    edition = collection_of(daemon, collection)
    row = one_of(daemon.journal, document, edition.name)
    if row is None:
        raise RequestProblem.at(
            "document", 404, f"collection {edition.serves} has no document {document[:100]!r}"
        )
    store = daemon.collection(edition.uuids)
    records = _select(store, document, {"start_index": {"$lt": end}}, {"end_index": {"$gt": start}})
    if len(records) == MOST_RECORDS:
        raise RequestProblem.at(
            "end", 422, f"this part has over {MOST_RECORDS:,} chunks: ask for a shorter one"
        )
    shown = passages(records, [document])
    return {
        "collection": edition.serves,
        "document_id": document,
        "source": row.source,
        "key": row.key,
        "address": row.uri,
        "title": records[0].metadata.get("title") if records else None,
        "passages": [asdict(passage) for passage in shown],
        "next": _next(store, document, records, end),
    }


def _select(store: Store, document: str, *where: dict[str, Any], most: int = MOST_RECORDS) -> list[Record]:
    return store.select({"$and": [{"document_id": document}, *where]}, most)


def _next(store: Store, document: str, records: Sequence[Record], end: int) -> int | None:
    """Return the offset at which the following part of the text starts; None at the end of the text.

    ``records``: the records of the part that ends at ``end``. Whitespace between chunks is skipped.
    """
    places = [(int(str(one.metadata.get("chunk_index"))), one.metadata) for one in records]
    if places and max(at for at, _ in places) + 1 >= int(str(places[0][1].get("chunk_count"))):
        return None
    if not places and not _select(store, document, {"start_index": {"$gte": end}}, most=1):
        return None
    return max([end, *(int(str(metadata.get("end_index"))) for _, metadata in places)])


def _integer(request: Request, name: str, default: int, least: int, most: int) -> int:
    """Return a whole number from the parameters of the address.

    Raises RequestProblem unless the number is between ``least`` and ``most``.
    """
    given = request.query_params.get(name, str(default))
    number = int(given) if given.isascii() and given.isdecimal() and len(given) < 17 else -1
    if not least <= number <= most:
        raise RequestProblem.at(name, 422, f"{name} must be a whole number from {least:,} to {most:,}")
    return number
