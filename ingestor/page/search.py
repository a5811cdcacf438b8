"""``GET /page/search``: a question, and what each mode finds for it, side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from markupsafe import Markup
from starlette.requests import Request

from ingestor.http_server.bounded import RequestRefused
from ingestor.lexical.check import words_of
from ingestor.lexical.ranking import telling
from ingestor.page.document import CHUNKS
from ingestor.page.shown.text import marked
from ingestor.search.values import MODES, Answer, Found, Mode, Question, checked, heading_of
from ingestor.service.daemon_view import DaemonView
from ingestor.service.searching import answered, collection_of, problems
from ingestor.state.queries.browsing import rows_of

CHOICES = ("all", *MODES)
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
    source: str
    key: str
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
    names = [row[0] for row in daemon.journal.select(_NAMES)]
    collection = given.get("collection") or (names[0] if names else "")
    values = {"query": query, "mode": mode, "n": n, "collection": collection, "collections": names}
    fixed = {"choices": CHOICES, "titles": TITLES, "most": MOST}
    if not query or not names:
        return {**values, **fixed, "columns": []}
    modes: Sequence[Mode] = [each for each in get_args(Mode) if mode in ("all", each)]
    with problems():
        question = checked(Question(query, collection, n))
    return {**values, **fixed, "columns": _columns(daemon, question, modes)}


_NAMES = (
    """SELECT coalesce(serves, name) FROM collections WHERE role = 'live' AND uuid IS NOT NULL ORDER BY 1"""
)


def _columns(daemon: DaemonView, question: Question, modes: Sequence[Mode]) -> list[Column]:
    found = collection_of(daemon, question.collection)
    with words_of(daemon.lexical.reading(), found.uuid) as words:
        known = words.db is not None and words.number is not None
        wanted = telling(words.db, words.number, question.query) if known else set()  # type: ignore[arg-type]
    return [_column(daemon, replace(question, mode=mode), wanted) for mode in modes]


def _column(daemon: DaemonView, question: Question, wanted: set[str]) -> Column:
    title, about = TITLES[question.mode], ABOUT[question.mode]
    try:
        with problems():
            answer = answered(daemon, question)
    except RequestRefused as refused:
        return Column(title, about, (), note=str(refused))
    return Column(title, about, _results(daemon, answer, wanted), answer.seconds, answer.fallback)


def _results(daemon: DaemonView, answer: Answer, wanted: set[str]) -> list[Result]:
    ids = [_document(hit) for hit in answer.hits]
    known = rows_of(daemon.journal, ids)
    return [_result(hit, known, wanted) for hit in answer.hits]


def _result(hit: Found, known: Mapping[str, tuple[str, str]], wanted: set[str]) -> Result:
    meta, id_ = hit.metadata, _document(hit)
    index = meta.get("chunk_index")
    at = index if isinstance(index, int) else 0
    source, key = known.get(id_, ("", str(meta.get("source") or id_)))
    language = meta.get("language")
    return Result(
        hit.score,
        hit.ranks.dense,
        hit.ranks.lexical,
        source,
        key,
        id_,
        at + 1,
        at // CHUNKS * CHUNKS,
        heading_of(meta) or "",
        marked(hit.document, None if language is None else str(language), wanted, SHOWN),
    )


def _document(hit: Found) -> str:
    return str(hit.metadata.get("document_id") or hit.id.rpartition("#")[0])


def _n(given: str) -> int:
    return min(MOST, max(1, int(given))) if given.isascii() and given.isdecimal() and len(given) < 9 else 5
