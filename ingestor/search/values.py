"""Questions and answers of a search, as values and as JSON. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import isfinite
from pathlib import PurePath
from typing import Annotated, Any, Literal, get_args
from urllib.parse import quote

from pydantic import AfterValidator, ConfigDict, Field, StrictBool, TypeAdapter, ValidationError, with_config

from ingestor.chroma.guard_rules import find_excess
from ingestor.model import Metadata, RecordId
from ingestor.search.filters import find_mistake

Mode = Literal["hybrid", "dense", "lexical"]
Expand = Literal["none", "neighbours", "section", "parent", "document"]
MODES: tuple[Mode, ...] = get_args(Mode)
EXPANSIONS: tuple[Expand, ...] = get_args(Expand)
MOST = 1000  # hits
MOST_TOKENS = 1_000_000  # of all passages
LONGEST = 20_000  # characters of a question


class BadQuestion(ValueError):
    """Error: the question is invalid; the message has the reason. ``key``: key to change."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def _is_plain(value: object) -> bool:
    """Return whether Chroma's JSON can hold a value."""
    if isinstance(value, str):
        return _is_unicode(value)
    if isinstance(value, Mapping):
        return all(
            isinstance(key, str) and _is_unicode(key) and _is_plain(each) for key, each in value.items()
        )
    if isinstance(value, list):
        return all(map(_is_plain, value))
    if isinstance(value, float):
        return isfinite(value)
    return value is None or (isinstance(value, int) and -(2**63) <= value < 2**63)


def _check_filter(where: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the filter. Raises ValueError with the required form if ``where`` is no filter of Chroma."""
    excess = find_excess(where)
    if excess is None and not _is_plain(where):
        excess = "must hold plain JSON: texts, numbers, lists and objects"
    if mistake := excess or (find_mistake(where) if where else None):
        raise ValueError(mistake)
    return where


def _check_text(text: str) -> str:
    if not text.strip():
        raise ValueError
    return text


Name = Annotated[str, Field(min_length=1)]


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True, slots=True)
class Question:
    """A question to one collection, to several, or to all (``*``).

    ``where``: a metadata filter of Chroma. ``budget_tokens``: budget of all passages, in place of ``n``.
    ``distinct``: show one of several near-duplicates; by default with a budget and with ``expand``.
    """

    query: Annotated[str, Field(min_length=1, max_length=LONGEST), AfterValidator(_check_text)]
    collection: str | Annotated[Sequence[Name], Field(min_length=1, max_length=MOST)] = ""
    n: Annotated[int, Field(ge=1, le=MOST, strict=True)] = 5
    budget_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS, strict=True)] | None = None
    mode: Mode = "hybrid"
    where: Annotated[Mapping[str, Any], AfterValidator(_check_filter)] | None = None
    expand: Expand = "none"
    distinct: StrictBool | None = None

    def is_distinct(self) -> bool:
        wanted = self.budget_tokens is not None or self.expand != "none"
        return wanted if self.distinct is None else self.distinct


@dataclass(frozen=True, slots=True)
class Ranks:
    """Rank in each list, from 1; None if not in the list."""

    dense: int | None = None
    lexical: int | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    """A near-duplicate of a hit."""

    id: RecordId
    document_id: str
    source: str
    collection: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """A hit. ``score``: from 0 to 1; see search.fusion.

    ``reranked``: the reranker's score, if it saw the hit. ``also_in``: near-duplicates, best first.
    """

    id: RecordId
    score: float
    document: str
    metadata: Metadata
    ranks: Ranks
    reranked: float | None = None
    also_in: tuple[Copy, ...] = ()
    collection: str = ""


@dataclass(frozen=True, slots=True)
class Passage:
    """Text of one document. Offsets count code points from 0, lines from 1, pages from 0.

    ``lines``: lines of the file; None if the text is not the file's. ``link``: the place in a web page.
    ``heading_path``: headings, beginning with the document's title. ``score``: of its best hit. ``previous``,
    ``next``: adjacent records of the document. ``also_in``: near-duplicates of its hits. ``table_header``:
    header of the table in which the text begins.
    """

    text: str
    source: str
    heading_path: str | None
    start: int | None
    end: int | None
    lines: tuple[int, int] | None
    page: int | None
    ids: tuple[RecordId, ...]
    document_id: str = ""
    title: str | None = None
    path: str | None = None
    link: str | None = None
    author: str | None = None
    score: float | None = None
    previous: RecordId | None = None
    next: RecordId | None = None
    also_in: tuple[Copy, ...] = ()
    collection: str = ""
    table_header: str | None = None


_RULE, _CELL = re.compile(r"[|\s:=-]+"), re.compile(r"(?<!\\)\|")  # of a table in Markdown
_WORDS = re.compile(
    r"(?<!\w)\w++(?: \w++){3,7}"
)  # words without markup between them, which the page may write differently
NOT_RERANKED = "not reranked: "  # start of a fallback that does not concern the mode


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer. ``mode``: the mode that was used. ``fallback``: why another mode was used, or no reranker.

    ``needed_tokens``: least budget for the best hit, if no hit fits the budget.
    """

    hits: tuple[Found, ...]
    passages: tuple[Passage, ...]
    mode: Mode
    seconds: float
    fallback: str | None = None
    needed_tokens: int | None = None


def heading_of(metadata: Metadata) -> str | None:
    """Return the heading path, with the document's own title first if the path lacks the title."""
    path, own = metadata.get("heading_path"), title_of(metadata)
    known = None if path is None else str(path)
    if own is None:
        return known
    if known is None or own.casefold() in (part.casefold() for part in known.split(" > ")):
        return known or own
    return f"{own} > {known}"


def title_of(metadata: Metadata) -> str | None:
    """Return the document's own title; None if the file's name replaces it."""
    title, name = metadata.get("title"), metadata.get("file_name") or metadata.get("path")
    own = "" if title is None else " ".join(str(title).split())
    return own if own and own != PurePath(str(name or "")).stem else None


def below_header(text: str, header: object) -> str:
    """Return a text that begins inside a table, with the table's header in front of its first whole row."""
    if not header:
        return text
    above = str(header)
    if not above.startswith("|"):
        return f"{above}\n{text}"
    if not _RULE.fullmatch(above.splitlines()[-1]):
        above += "\n" + "|---" * (len(_CELL.split(above.splitlines()[0])) - 2) + "|"
    row, end, rest = text.partition("\n")
    return f"{above}\n{text}" if row.startswith("|") or not end else f"{row}\n\n{above}\n{rest}"


def link_of(metadata: Metadata, text: str) -> str | None:
    """Return the address of a web page with a text fragment, so that browsers scroll to the text."""
    source = str(metadata.get("source") or "")
    if not source.startswith(("http://", "https://")):
        return None
    words = _WORDS.search(text)
    return source if words is None or "#" in source else f"{source}#:~:text={quote(words[0], safe='')}"


def place_of(metadata: Metadata) -> str:
    """Return ``page 4 (iv)``, ``lines 25-41`` or ``chunk 3 of 8``; "" if nothing is known."""
    page, label = metadata.get("page"), metadata.get("page_label")
    if isinstance(page, int):
        return f"page {page + 1}" + ("" if label in (None, str(page + 1)) else f" ({label})")
    first, last = metadata.get("start_line"), metadata.get("end_line")
    if first is None:
        index, count = metadata.get("chunk_index"), metadata.get("chunk_count")
        several = isinstance(index, int) and isinstance(count, int) and count > 1
        return f"chunk {index + 1} of {count}" if several else ""  # type: ignore[operator]
    return f"line {first}" if first == last else f"lines {first}-{last}"


def question_of(value: object) -> Question:
    """Read a question from parsed JSON. Raises BadQuestion."""
    if not isinstance(value, dict):
        raise BadQuestion("body", "the body must be a JSON object")
    return _valid(value)


def check_question(question: Question) -> Question:
    """Return the question if it can be answered. Raises BadQuestion otherwise."""
    return _valid({name: getattr(question, name) for name in question.__slots__})


_MUST = {
    "query": f"must be a text, not empty, of at most {LONGEST:,} characters of valid Unicode",
    "collection": "must be a name, a list of names, or *",
    "n": f"must be a whole number from 1 to {MOST:,}",
    "budget_tokens": f"must be a whole number from 1 to {MOST_TOKENS:,}",
    "mode": f"must be one of {', '.join(MODES)}",
    "where": "must be an object",
    "expand": f"must be one of {', '.join(EXPANSIONS)}",
    "distinct": "must be true or false",
}


def _valid(value: dict[Any, Any]) -> Question:
    try:
        return _question().validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = str(first["loc"][0])
        if key not in _MUST:
            raise BadQuestion(key, f"unknown key {key!r}; known: {', '.join(_MUST)}") from None
        raise BadQuestion(key, f"{key} {first.get('ctx', {}).get('error') or _MUST[key]}") from None


@cache
def _question() -> TypeAdapter[Question]:
    return TypeAdapter(Question)


@cache
def _answer() -> TypeAdapter[Answer]:
    return TypeAdapter(Answer)


def as_json(answer: Answer) -> dict[str, Any]:
    """Return the answer as JSON values; ``collection`` only in an answer from several collections."""
    value: dict[str, Any] = _answer().dump_python(answer, mode="json")
    shown = (*value["hits"], *value["passages"])
    for each in (*shown, *(copy for one in shown for copy in one["also_in"])):
        if not each["collection"]:
            del each["collection"]
    return {**value, "seconds": round(answer.seconds, 6)}


def answer_of(value: object) -> Answer:
    """Build the answer from the result of ``as_json``. Raises ValueError for other values."""
    return _answer().validate_python(value)
