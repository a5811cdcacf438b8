"""Values for two pages: the list of documents, and one document with its chunks in colours.

The text of a document is built from its records in Chroma, as searches return it; no file is opened.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, get_args
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.requests import Request

from ingestor.http_server.requests import RequestProblem
from ingestor.model import Chunk, DocumentId, Metadata, Record
from ingestor.page.figures import counts_of
from ingestor.pipeline.prepare import record_id
from ingestor.ports import Gone, NeedsHuman, Torn, Transient
from ingestor.preview.view import beside, item, parts
from ingestor.search.values import title_of
from ingestor.service.daemon_view import DaemonView
from ingestor.service.situation import Situation
from ingestor.state import reports
from ingestor.state.editions import all_editions
from ingestor.state.reports import DocumentQuery, DocumentRow, Place, Which
from ingestor.text.spans import Span

PAGE = 100  # documents
NATURALLY = 20_000  # documents; names of more are sorted by code points
WHICH: tuple[Which, ...] = get_args(Which)
LONGEST = 500  # characters of a part of a name


def documents(daemon: DaemonView, situation: Situation, request: Request) -> Mapping[str, Any]:
    """Return the values for the template of the list of documents.

    Raises RequestProblem, and sqlite3.Error.
    """
    given = request.query_params
    editions = {str(one.serves): one.name for one in all_editions(daemon.journal) if one.role == "live"}
    chosen = {name: given.get(name, "") for name in ("source", "collection", "match", "which")}
    wanted = _read_query(given, editions)
    total = counts_of(situation, chosen["source"] or None, chosen["collection"] or None).all
    rows = reports.page_of(daemon.journal, wanted, PAGE + 1, naturally=total <= NATURALLY)
    back = wanted.before is not None
    more = len(rows) > PAGE
    shown = rows[-PAGE:] if back else rows[:PAGE]
    earlier = more if back else wanted.after is not None
    later = more if not back else True
    sources = sorted({source for source, _, _ in situation.documents} | situation.sources.keys())
    return {
        "now": situation.at,
        "rows": shown,
        "titles": titles_of(daemon, shown),
        "by_source": len(sources) > 1 and not wanted.source,
        "by_collection": len(editions) > 1 and not wanted.edition,
        "names": {edition: name for name, edition in editions.items()},
        "chosen": chosen,
        "sources": sources,
        "collections": sorted(editions),
        "total": total,
        "all": not (wanted.match or wanted.which != "any"),
        "previous": _address(chosen, "before", shown[0]) if earlier and shown else None,
        "next": _address(chosen, "after", shown[-1]) if later and shown else None,
        "first": f"?{urlencode(chosen)}" if wanted.after or wanted.before else None,
    }


def titles_of(daemon: DaemonView, rows: Sequence[DocumentRow]) -> dict[str, str]:
    """Return the titles of documents, by document id.

    Documents without a title are left out, and so are documents that Chroma does not have now.
    """
    uuids = {str(one.name): one.uuids for one in all_editions(daemon.journal) if one.uuids}
    titles = dict[str, str]()
    for edition in {row.collection for row in rows if row.records} & uuids.keys():
        ids = [one.document_id for one in rows if one.collection == edition and one.records]
        slots = reports.first_slots(daemon.journal, edition, ids)
        wanted = [record_id(DocumentId(of), slot) for of, slot in slots.items()]
        try:
            records = daemon.collection(uuids[edition]).read(wanted)
        except (Gone, Transient, NeedsHuman, Torn):
            continue
        for record in records:
            if title := title_of(record.metadata):
                titles[str(record.metadata["document_id"])] = title
    return titles


def _read_query(given: Mapping[str, str], editions: Mapping[str, str]) -> DocumentQuery:
    """Parse the filters in the address of the list. Raises RequestProblem.

    ``given``: parameters of the address. ``editions``: live edition of each collection.
    """
    which, collection = given.get("which") or "any", given.get("collection", "")
    if which not in WHICH:
        raise RequestProblem.at("which", 422, f"which must be one of {', '.join(WHICH)}")
    if collection and collection not in editions:
        raise RequestProblem.at("collection", 404, f"there is no collection {collection[:100]!r}")
    return DocumentQuery(
        given.get("source") or None,
        editions[collection] if collection else None,
        given.get("match", "")[:LONGEST],
        which,
        _place(given.get("after")),
        _place(given.get("before")),
    )


def _place(text: str | None) -> Place | None:
    """Parse the position in the list after which, or before which, a page begins. Raises RequestProblem."""
    if not text:
        return None
    with suppress(ValueError, TypeError, RecursionError):
        source, edition, key = json.loads(text[:20_000])
        if all(isinstance(each, str) for each in (source, edition, key)):
            return source, edition, key
    raise RequestProblem.at("after", 422, "the address is incomplete: start at the first page")


def _address(chosen: Mapping[str, str], direction: str, row: DocumentRow) -> str:
    """Return the address of the page that follows or precedes a row, with the same filters.

    ``direction``: "after" or "before".
    """
    return f"?{urlencode({**chosen, direction: json.dumps(row.place)})}"


CHUNKS = 200  # in a page


def document(daemon: DaemonView, situation: Situation, request: Request) -> Mapping[str, Any]:
    """Return the values for the template of a document's page.

    Raises RequestProblem, and the errors of Chroma and the journal.
    """
    id_ = request.path_params["document"]
    row = reports.one_of(daemon.journal, id_)
    if row is None:
        raise RequestProblem.at("document", 404, "there is no document with this id now")
    given = request.query_params.get("from", "0")
    if not (given.isascii() and given.isdecimal() and len(given) < 10):
        raise RequestProblem.at("from", 422, "from must be a whole number")
    first = int(given)
    editions = all_editions(daemon.journal)
    edition = next((one for one in editions if (one.name, one.role) == (row.collection, "live")), None)
    records = list[Record]()
    if row.records and edition and edition.uuids:
        places = [{"chunk_index": {"$gte": first}}, {"chunk_index": {"$lt": first + CHUNKS}}]
        wanted = {"$and": [{"document_id": id_}, *places]}
        records = daemon.collection(edition.uuids).select(wanted, CHUNKS)
        records = sorted(records, key=lambda record: _number(record.metadata, "chunk_index") or 0)
    count = _number(records[0].metadata, "chunk_count") or 0 if records else 0
    return {
        "now": situation.at,
        "history": reports.last_events(daemon.journal, document_id=id_, n=20),
        "row": row,
        "collection": edition.serves if edition else row.collection,
        "title": next(filter(None, (title_of(one.metadata) for one in records)), None),
        "first": first,
        "shown": len(records),
        "count": count,
        "items": list_chunks(records, first),
        "previous": max(0, first - CHUNKS) if first else None,
        "next": first + CHUNKS if first + CHUNKS < count else None,
        "web": row.uri if row.uri and row.uri.startswith(("http://", "https://")) else None,
    }


def list_chunks(records: Sequence[Record], first: int) -> Markup:
    """Render records of a document as the items of an HTML list.

    ``first``: number of the document's chunks that precede them.
    """
    (text, chunks), items = rebuild(records), list[str]()
    shown = zip(chunks, records, parts(text, chunks), strict=True)
    for number, (chunk, record, marked) in enumerate(shown, first + 1):
        spans, about = chunk.spans or ((chunk.start, chunk.end),), beside(chunk, record.metadata)
        items.append(item(number, about, marked, (), spans, anchor=f"chunk-{number}"))
    return Markup("".join(items))  # noqa: S704 - escaped by ``item``


def rebuild(records: Sequence[Record]) -> tuple[str, list[Chunk]]:
    """Rebuild the text of a document from its records, from the first to the last. Return also their chunks.

    Offsets count from the start of the first record. Characters between chunks are not in any record, and are
    replaced by spaces. A chunk counts as rewritten if its text is longer or shorter than its span. Such a
    chunk was written by a language model, or consists of several spans.
    """
    spans = [_span(record) for record in records]
    base = min((span[0] for span in spans if span is not None), default=0)
    chunks = [
        Chunk(0, 0, record.text, rewritten=True)
        if span is None
        else Chunk(span[0] - base, span[1] - base, record.text)
        for record, span in zip(records, spans, strict=True)
    ]
    pieces, at = list[str](), 0
    for start, text in sorted((chunk.start, chunk.text) for chunk in chunks if not chunk.rewritten):
        pieces += [" " * (start - at), text[max(0, at - start) :]]
        at = max(at, start + len(text))
    return "".join(pieces), chunks


def _span(record: Record) -> Span | None:
    """Return the span of a record in its document.

    Return None if the record's text is longer or shorter than the span.
    """
    start, end = _number(record.metadata, "start_index"), _number(record.metadata, "end_index")
    if start is None or end is None or len(record.text) != end - start:
        return None
    return start, end


def _number(metadata: Metadata, key: str) -> int | None:
    """Return the whole number under a key of the metadata; None if another program replaced the value."""
    value = metadata.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
