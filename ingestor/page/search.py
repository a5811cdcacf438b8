"""``GET /page/search``: a question, and what each mode finds for it, side by side."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from markupsafe import Markup
from starlette.requests import Request

from ingestor.http_server.requests import RequestRefused
from ingestor.lexical.check import words_of
from ingestor.lexical.ranking import telling
from ingestor.page.documents import CHUNKS
from ingestor.page.shown.rendered import rendered
from ingestor.search.several import ALL
from ingestor.search.values import (
    MODES,
    Answer,
    BadQuestion,
    Found,
    Mode,
    Question,
    checked,
    place_of,
    title_of,
)
from ingestor.service.daemon_view import DaemonView
from ingestor.service.searching import answer_question, collection_of, problems
from ingestor.state.editions import searchable
from ingestor.state.journal import sources_of
from ingestor.state.queries.browsing import rows_of

CHOICES = ("all", *MODES)
EXAMPLE = '{"language": "en"}'
SHOWN = 700  # characters of a hit
MOST = 50  # hits of a mode
TITLES: Mapping[Mode, str] = {"hybrid": "Hybrid", "dense": "Vectors", "lexical": "Words"}
ABOUT: Mapping[Mode, str] = {
    "hybrid": "both, fused",
    "dense": "alike in meaning: cosine",
    "lexical": "the same words: BM25",
}


@dataclass(frozen=True, slots=True)
class Result:
    """A hit as it is shown. ``part``: the page of the document that its chunk is in."""

    score: float
    dense: int | None
    lexical: int | None
    key: str
    title: str | None
    place: str
    document_id: str
    chunk: int
    part: int
    heading: str
    text: Markup


@dataclass(frozen=True, slots=True)
class Column:
    """Results of one mode. ``note``: why another mode answered, or why the search was refused."""

    title: str
    about: str
    results: Sequence[Result]
    seconds: float | None = None
    note: str | None = None


def search(daemon: DaemonView, request: Request) -> Mapping[str, Any]:
    """Raises Problem, and what Chroma, the embedder and the journal raise."""
    given = request.query_params
    query, mode, n = given.get("q", "").strip(), given.get("mode", "all"), _n(given.get("n", "5"))
    names, sources = [*searchable(daemon.journal)], sources_of(daemon.journal)
    collection = given.get("collection") or (names[0] if names else "")
    source, where = given.get("source", ""), given.get("where", "").strip()
    values = {
        "query": query, "mode": mode, "n": n, "collection": collection, "collections": names,
        "source": source, "sources": sources, "where": where,
    }  # fmt: skip
    fixed = {"choices": CHOICES, "titles": TITLES, "most": MOST, "example": EXAMPLE}
    if not query or not names:
        return {**values, **fixed, "columns": []}
    modes: Sequence[Mode] = [each for each in get_args(Mode) if mode in ("all", each)]
    with problems():
        question = checked(Question(query, collection, n, where=_filter(source, where)))
    return {**values, **fixed, "columns": _columns(daemon, question, modes, names)}


def _filter(source: str, where: str) -> dict[str, Any] | None:
    """A filter of Chroma for both fields of the form. Raises BadQuestion."""
    try:
        own = json.loads(where) if where else None
    except (ValueError, RecursionError) as error:
        raise BadQuestion("where", f"the filter must be a JSON object such as {EXAMPLE}") from error
    if own is not None and not isinstance(own, dict):
        raise BadQuestion("where", f"the filter must be a JSON object such as {EXAMPLE}")
    parts = [part for part in ({"source_name": source} if source else None, own) if part]
    return {"$and": parts} if len(parts) > 1 else next(iter(parts), None)


def _columns(
    daemon: DaemonView, question: Question, modes: Sequence[Mode], names: Sequence[str]
) -> list[Column]:
    wanted = set[str]()
    for name in names if question.collection == ALL else [str(question.collection)]:
        with words_of(daemon.lexical.reading(), collection_of(daemon, name).uuids) as words:
            if words.db is not None and words.number is not None:
                wanted |= telling(words.db, words.number, question.query)
    return [_column(daemon, replace(question, mode=mode), wanted) for mode in modes]


def _column(daemon: DaemonView, question: Question, wanted: set[str]) -> Column:
    title, about = TITLES[question.mode], ABOUT[question.mode]
    try:
        with problems():
            answer = answer_question(daemon, question)
    except RequestRefused as refused:
        return Column(title, about, (), note=str(refused))
    return Column(title, about, _results(daemon, answer, wanted), answer.seconds, answer.fallback)


def _results(daemon: DaemonView, answer: Answer, wanted: set[str]) -> list[Result]:
    ids = [_document(hit) for hit in answer.hits]
    known = rows_of(daemon.journal, ids)
    several = len({hit.collection for hit in answer.hits}) > 1
    return [_result(hit, known, wanted, several=several) for hit in answer.hits]


def _result(hit: Found, known: Mapping[str, tuple[str, str]], wanted: set[str], *, several: bool) -> Result:
    meta, id_ = hit.metadata, _document(hit)
    index, path, language = meta.get("chunk_index"), meta.get("heading_path"), meta.get("language")
    at = index if isinstance(index, int) else 0
    _, key = known.get(id_, ("", str(meta.get("source") or id_)))
    markdown = meta.get("content_type") == "text/markdown"
    return Result(
        hit.score,
        hit.ranks.dense,
        hit.ranks.lexical,
        key,
        title_of(meta),
        " · ".join(filter(None, (hit.collection if several else "", place_of(meta)))),
        id_,
        at + 1,
        at // CHUNKS * CHUNKS,
        _below(title_of(meta), "" if path is None else str(path)),
        rendered(hit.document, markdown, None if language is None else str(language), wanted, SHOWN),
    )


def _below(title: str | None, path: str) -> str:
    """The heading path without the document's title, which stands above it."""
    first, _, rest = path.partition(" > ")
    return rest if title is not None and first.casefold() == title.casefold() else path


def _document(hit: Found) -> str:
    return str(hit.metadata.get("document_id") or hit.id.rpartition("#")[0])


def _n(given: str) -> int:
    return min(MOST, max(1, int(given))) if given.isascii() and given.isdecimal() and len(given) < 9 else 5
