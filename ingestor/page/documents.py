"""``GET /page/documents``: the documents of a source or a collection, in pages."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, get_args
from urllib.parse import urlencode

from starlette.requests import Request

from ingestor.http_server.problems import RequestProblem
from ingestor.model import DocumentId
from ingestor.page.shown.figures import counts_of
from ingestor.pipeline.prepare import record_id
from ingestor.ports import Gone, NeedsHuman, Torn, Transient
from ingestor.search.values import title_of
from ingestor.service.daemon_view import DaemonView
from ingestor.service.situation import Situation
from ingestor.state.editions import all_editions
from ingestor.state.queries.browsing import DocumentQuery, DocumentRow, Place, Which, first_slots, page_of

PAGE = 100  # documents
NATURALLY = 20_000  # documents; among more, names are sorted as they are spelt
WHICH: tuple[Which, ...] = get_args(Which)
LONGEST = 500  # characters of a part of a name


def documents(daemon: DaemonView, found: Situation, request: Request) -> Mapping[str, Any]:
    """Raises RequestProblem, and sqlite3.Error."""
    given = request.query_params
    editions = {str(one.serves): one.name for one in all_editions(daemon.journal) if one.role == "live"}
    chosen = {name: given.get(name, "") for name in ("source", "collection", "match", "which")}
    wanted = _wanted(given, editions)
    total = counts_of(found, chosen["source"] or None, chosen["collection"] or None).all
    rows = page_of(daemon.journal, wanted, PAGE + 1, naturally=total <= NATURALLY)
    back = wanted.before is not None
    more = len(rows) > PAGE
    shown = rows[-PAGE:] if back else rows[:PAGE]
    earlier = more if back else wanted.after is not None
    later = more if not back else True
    sources = sorted({source for source, _, _ in found.documents} | found.sources.keys())
    return {
        "now": found.at,
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
    """The documents' own titles by their id, as far as Chroma tells them now."""
    uuids = {str(one.name): one.uuids for one in all_editions(daemon.journal) if one.uuids}
    found = dict[str, str]()
    for edition in {row.collection for row in rows if row.records} & uuids.keys():
        ids = [one.document_id for one in rows if one.collection == edition and one.records]
        slots = first_slots(daemon.journal, edition, ids)
        wanted = [record_id(DocumentId(of), slot) for of, slot in slots.items()]
        try:
            records = daemon.collection(uuids[edition]).read(wanted)
        except (Gone, Transient, NeedsHuman, Torn):
            continue
        for record in records:
            if title := title_of(record.metadata):
                found[str(record.metadata["document_id"])] = title
    return found


def _wanted(given: Mapping[str, str], editions: Mapping[str, str]) -> DocumentQuery:
    """Raises RequestProblem."""
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
    """Raises RequestProblem."""
    if not text:
        return None
    try:
        source, edition, key = json.loads(text[:20_000])
        if all(isinstance(each, str) for each in (source, edition, key)):
            return source, edition, key
    except (ValueError, TypeError, RecursionError):
        pass
    raise RequestProblem.at("after", 422, "the address is incomplete: start at the first page")


def _address(chosen: Mapping[str, str], direction: str, row: DocumentRow) -> str:
    return f"?{urlencode({**chosen, direction: json.dumps(row.place)})}"
