"""The search page: a question, and the hits of each mode of search, side by side.

Hits show Markdown and tables as HTML, with the words of the question marked. Only elements of a fixed list
are produced, without attributes, and every text is escaped: markup of a document stays text. Links and
pictures are reduced to their words, so no hit links to or loads anything.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, get_args

from markupsafe import Markup
from pyromark import Options as Dialect
from pyromark import events_with_range
from starlette.requests import Request

from ingestor.http_server.requests import RequestRefused
from ingestor.lexical.check import words_of
from ingestor.lexical.ranking import distinctive_terms
from ingestor.lexical.terms import places
from ingestor.page.documents import CHUNKS
from ingestor.preview.view import show_controls
from ingestor.search import values
from ingestor.search.several import ALL
from ingestor.search.values import MODES, BadQuestion, Mode, Question
from ingestor.search.values import Found as SearchHit
from ingestor.service.daemon_view import DaemonView
from ingestor.service.searching import answer_question, collection_of, problems
from ingestor.state.editions import searchable
from ingestor.state.journal import sources_of
from ingestor.state.reports import rows_of
from ingestor.text.spans import Span

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


Values = Mapping[str, Any]  # for a template


def search(daemon: DaemonView, request: Request) -> Values:
    """Return the values for the template of the search page. Raises RequestProblem, and sqlite3.Error."""
    given = request.query_params
    query, mode, hits = given.get("q", "").strip(), given.get("mode", "all"), given.get("n", "5")
    is_number = hits.isascii() and hits.isdecimal() and len(hits) < 9
    n = min(MOST, max(1, int(hits))) if is_number else 5
    names, sources = [*searchable(daemon.journal)], sources_of(daemon.journal)
    collection = given.get("collection") or (names[0] if names else "")
    source, where = given.get("source", ""), given.get("where", "").strip()
    form = {
        "query": query, "mode": mode, "n": n, "collection": collection, "collections": names,
        "source": source, "sources": sources, "where": where,
    }  # fmt: skip
    fixed = {"choices": CHOICES, "titles": TITLES, "most": MOST, "example": EXAMPLE}
    if not query or not names:
        return {**form, **fixed, "columns": []}
    modes: Sequence[Mode] = [each for each in get_args(Mode) if mode in ("all", each)]
    with problems():
        question = values.check_question(Question(query, collection, n, where=_filter(source, where)))
    wanted = set[str]()
    for name in names if collection == ALL else [collection]:
        with words_of(daemon.lexical.connect(), collection_of(daemon, name).uuids) as words:
            if words.db is not None and words.number is not None:
                words_asked = distinctive_terms(words.db, words.number, query)
                wanted |= {word for word in words_asked if len(word) > 1 or not word.isascii()}
    columns = [_column(daemon, replace(question, mode=each), wanted) for each in modes]
    return {**form, **fixed, "columns": columns}


def _filter(source: str, where: str) -> dict[str, Any] | None:
    """Return the filter for Chroma that selects one source and applies the user's filter.

    ``source``: name of the source; "" for all. ``where``: the user's filter in JSON; "" for none. Raises
    BadQuestion if the filter is not a JSON object.
    """
    try:
        own = json.loads(where) if where else {}
    except (ValueError, RecursionError):
        own = None
    if not isinstance(own, dict):
        raise BadQuestion("where", f"the filter must be a JSON object such as {EXAMPLE}")
    parts = [part for part in ({"source_name": source} if source else None, own) if part]
    return {"$and": parts} if len(parts) > 1 else next(iter(parts), None)


def _column(daemon: DaemonView, question: Question, wanted: set[str]) -> Values:
    """Return the hits of one mode of search.

    ``note``: why another mode was used instead, or why there are no hits.
    """
    named = {"title": TITLES[question.mode], "about": ABOUT[question.mode]}
    try:
        with problems():
            answer = answer_question(daemon, question)
    except RequestRefused as refused:
        return {**named, "results": (), "seconds": None, "note": str(refused)}
    known = rows_of(daemon.journal, [_document(hit) for hit in answer.hits])
    several = len({hit.collection for hit in answer.hits}) > 1
    results = [_result(hit, known, wanted, several) for hit in answer.hits]
    return {**named, "results": results, "seconds": answer.seconds, "note": answer.fallback}


def _result(hit: SearchHit, known: Mapping[str, tuple[str, str]], wanted: set[str], several: bool) -> Values:
    """Return a hit as the page shows it.

    ``chunk``: number of the chunk in its document, from 1. ``part``: number of chunks to skip on the
    document's page, so that the page shows this chunk.
    """
    meta, id_ = hit.metadata, _document(hit)
    index, path, language = meta.get("chunk_index"), meta.get("heading_path"), meta.get("language")
    at = index if isinstance(index, int) else 0
    _, key = known.get(id_, ("", str(meta.get("source") or id_)))
    title, heading = values.title_of(meta), "" if path is None else str(path)
    first, _, below = heading.partition(" > ")
    if title is not None and first.casefold() == title.casefold():
        heading = below  # the title is above
    markdown = meta.get("content_type") == "text/markdown"
    text = values.below_header(hit.document, meta.get("table_header"))
    place = " · ".join(filter(None, (hit.collection if several else "", values.place_of(meta))))
    return {
        "score": hit.score, "dense": hit.ranks.dense, "lexical": hit.ranks.lexical, "key": key,
        "title": title, "place": place, "document_id": id_, "chunk": at + 1, "part": at // CHUNKS * CHUNKS,
        "heading": heading,
        "text": render_hit(text, markdown, None if language is None else str(language), wanted, SHOWN),
    }  # fmt: skip


def _document(hit: SearchHit) -> str:
    return str(hit.metadata.get("document_id") or hit.id.rpartition("#")[0])


# --- a hit as HTML ---------------------------------------------------------------------------------

_DIALECT = Dialect.ENABLE_TABLES | Dialect.ENABLE_STRIKETHROUGH
_TAGS: Mapping[str, str] = {
    "Paragraph": "p", "Heading": "p", "BlockQuote": "blockquote", "Item": "li", "Emphasis": "em",
    "Strong": "strong", "Strikethrough": "del", "TableHead": "tr", "TableRow": "tr", "CodeBlock": "pre",
}  # fmt: skip
_TABLE = re.compile(r"(?:^\|.*\|[ \t]*(?:\n|\Z))+", re.MULTILINE)
_HEADER = re.compile(r"(?:\|.*\n){1,5}?\|[ \t:|-]+\|[ \t]*\n")
_FRONT = re.compile(r"\A---\n(?:.*\n)*?---\n")


def render_hit(text: str, markdown: bool, language: str | None, wanted: Set[str], most: int) -> Markup:
    """Render about ``most`` characters of a hit's text as HTML, around the first word of ``wanted``.

    All words of ``wanted`` are marked. ``markdown``: whether the text is Markdown; of other texts, only
    tables are rendered.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    front = _FRONT.match(text) if markdown else None
    begin = front.end() if front and text[front.end() :].strip() else 0
    marks = [span for span in places(text, language, wanted) if span[0] >= begin]
    start = _start(text, begin, marks[0][0] if marks else begin, most)
    is_cut = start > begin
    table = next((one for one in _TABLE.finditer(text) if one.start() < start < one.end()), None)
    header = table and _HEADER.match(table[0])
    if table and header and start > table.start() + header.end():
        row = text.rindex("\n", 0, start) + 1
        most += header.end() + start - row
        text, start = header[0] + text[row:], 0
        marks = list(places(text, language, wanted))
    end = _end(text, start, most)
    made = list(_markdown(text, start, end, marks) if markdown else _plain(text, start, end, marks))
    before = Markup('<span class="cut">… </span>') if is_cut else Markup()
    after = Markup('<span class="cut"> …</span>') if end < len(text.rstrip()) else Markup()
    return before + Markup().join(made) + after


def _start(text: str, begin: int, first: int, most: int) -> int:
    """Choose the offset at which an excerpt of ``most`` characters starts.

    The excerpt must contain the marked word. It starts at ``begin``, at a paragraph, or else at a word.
    ``begin``: first offset that may be shown. ``first``: offset of the marked word.
    """
    if len(text) - begin <= most or first - begin < most * 2 // 3:
        return begin
    near = min(first - most // 3, len(text) - most)
    paragraph = text.rfind("\n\n", max(begin, first - most * 2 // 3), first)
    if paragraph >= 0:
        return paragraph + 2
    gap = text.find(" ", near, first)
    return near if gap < 0 else gap + 1


def _end(text: str, start: int, most: int) -> int:
    """Choose the offset at which an excerpt ends: at the end of the text, of a line or of a word."""
    if len(text) - start <= most:
        return len(text)
    line = text.rfind("\n", start + most // 2, start + most)
    gap = text.rfind(" ", start + most // 2, start + most)
    return next((at for at in (line, gap) if at > 0), start + most)


def _plain(text: str, start: int, end: int, marks: Sequence[Span]) -> Iterator[Markup]:
    """Render an excerpt of a text that is not Markdown. Only its tables become HTML tables.

    ``marks``: spans of the words to mark, as offsets of the whole text.
    """
    at = start
    for table in _TABLE.finditer(text, start, end):
        rows = list(_markdown(text, table.start(), table.end(), marks))
        if rows and rows[0].startswith("<div"):
            yield Markup('<div class="as-is">{}</div>').format(_mark_words(text, at, table.start(), marks))
            yield from rows
            at = table.end()
    yield Markup('<div class="as-is">{}</div>').format(_mark_words(text, at, end, marks))


def _markdown(text: str, start: int, end: int, marks: Sequence[Span]) -> Iterator[Markup]:
    """Render an excerpt of a Markdown text. ``marks``: spans of the words to mark, in the whole text."""
    part = text[start:end]
    raw = part.encode()  # the parser counts bytes
    closing, head = list[str](), False
    parsed: Iterable[tuple[Any, Any]] = events_with_range(part, options=_DIALECT)
    for event, place in parsed:
        if isinstance(event, str):
            yield Markup("<br>") if event == "HardBreak" else Markup("\n")
            continue
        kind, about = next(iter(event.items()))
        if kind == "Start":
            name = about if isinstance(about, str) else next(iter(about))
            head = name == "TableHead" or (head and name != "TableRow")
            opened, close = _element(name, about, head)
            closing.append(close)
            yield opened
        elif kind == "End":
            yield Markup(closing.pop())  # noqa: S704 - of our own list
        else:
            first, last = (start + len(raw[: place[at]].decode()) for at in ("start", "end"))
            at = text.find(str(about), first, last)  # characters that are no entity or escape
            shows = at >= 0
            marked = (
                _mark_words(text, at, at + len(about), marks)
                if shows
                else Markup("{}").format(show_controls(about))
            )
            yield Markup("<code>{}</code>").format(marked) if kind == "Code" else marked


def _element(name: str, about: Any, head: bool) -> tuple[Markup, str]:
    """Return the HTML tags that open and close an element of Markdown.

    The tags are empty if only the content of the element is shown.
    """
    if name == "Table":
        opened = Markup('<div class="wide-table"><table><caption class="unseen">Table</caption>')
        return opened, "</table></div>"
    if name == "TableCell":
        return (Markup('<td class="head">') if head else Markup("<td>")), "</td>"
    if name == "Heading":
        return Markup('<p class="title-of-part">'), "</p>"
    tag = _TAGS.get(name)
    if name == "List":
        tag = "ul" if about["List"] is None else "ol"
    return (Markup("<{}>").format(tag), f"</{tag}>") if tag else (Markup(), "")


def _mark_words(text: str, start: int, end: int, marks: Iterable[Span]) -> Markup:
    made, at = Markup(), start
    for a, b in marks:
        if a >= at and b <= end:
            made += Markup("{}<mark>{}</mark>").format(show_controls(text[at:a]), show_controls(text[a:b]))
            at = b
    return made + Markup("{}").format(show_controls(text[at:end]))
