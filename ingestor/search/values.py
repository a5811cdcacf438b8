"""Questions and answers of a search, as values and as JSON. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import isfinite
from pathlib import PurePath
from typing import Annotated, Any, Literal, get_args
from urllib.parse import quote

from pydantic import Field

from ingestor.chroma.filters import find_excess, find_mistake
from ingestor.model import Metadata, RecordId

Mode = Literal["hybrid", "dense", "lexical"]
Expand = Literal["none", "neighbours", "section", "parent", "document"]
MODES: tuple[Mode, ...] = get_args(Mode)
EXPANSIONS: tuple[Expand, ...] = get_args(Expand)
MOST = 1000  # hits
MOST_TOKENS = 1_000_000  # of all passages
LONGEST = 20_000  # characters of a question


class BadQuestion(ValueError):
    """The question cannot be understood; the message says why. ``key``: what must be changed."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a collection, to several, or by ``*`` to all.

    ``where``: a metadata filter of Chroma. ``budget_tokens``: of all passages; it takes ``n``'s place.
    ``distinct``: show one of several near-duplicates; by default with a budget and with ``expand``.
    """

    query: Annotated[str, Field(min_length=1, max_length=LONGEST)]
    collection: str | Sequence[str] = ""
    n: Annotated[int, Field(ge=1, le=MOST)] = 5
    budget_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] | None = None
    mode: Mode = "hybrid"
    where: Mapping[str, Any] | None = None
    expand: Expand = "none"
    distinct: bool | None = None

    def is_distinct(self) -> bool:
        wanted = self.budget_tokens is not None or self.expand != "none"
        return wanted if self.distinct is None else self.distinct


@dataclass(frozen=True, slots=True)
class Ranks:
    """The place in each list, from 1; None: not in it."""

    dense: int | None = None
    lexical: int | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    """A near-duplicate of a hit."""

    id: RecordId
    document_id: str
    source: str


@dataclass(frozen=True, slots=True)
class Found:
    """A hit. ``score``: from 0 to 1, how much of the question was found; see search.fusion.

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

    ``lines``: of the file; None where the text is not the file's. ``link``: the place in a web page.
    ``heading_path`` begins with the document's title. ``score``: of its best hit. ``previous``, ``next``: the
    records before and behind it in its document. ``also_in``: near-duplicates of its hits.
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


_WORDS = re.compile(r"\w+(?: \w+){3,7}")  # without markup between, which the page may write otherwise
NOT_RERANKED = "not reranked: "  # begins a fallback of which the mode knows nothing


@dataclass(frozen=True, slots=True)
class Answer:
    """``mode``: the mode that was used. ``fallback``: why it is another than was asked for, or why hits were
    not reranked. ``needed_tokens``: the least budget that the best hit fits, if none fits this one.
    """

    hits: tuple[Found, ...]
    passages: tuple[Passage, ...]
    mode: Mode
    seconds: float
    fallback: str | None = None
    needed_tokens: int | None = None


def heading_of(metadata: Metadata) -> str | None:
    """The heading path, with the document's own title first if the path lacks it."""
    path, own = metadata.get("heading_path"), title_of(metadata)
    known = None if path is None else str(path)
    if own is None:
        return known
    if known is None or own.casefold() in (part.casefold() for part in known.split(" > ")):
        return known or own
    return f"{own} > {known}"


def title_of(metadata: Metadata) -> str | None:
    """The document's own title; None where the file's name stands in for one."""
    title, name = metadata.get("title"), metadata.get("file_name") or metadata.get("path")
    own = "" if title is None else " ".join(str(title).split())
    return own if own and own != PurePath(str(name or "")).stem else None


def link_of(metadata: Metadata, text: str) -> str | None:
    """The address of a web page with a text fragment, by which browsers scroll to the text."""
    source = str(metadata.get("source") or "")
    if not source.startswith(("http://", "https://")):
        return None
    words = _WORDS.search(text)
    return source if words is None or "#" in source else f"{source}#:~:text={quote(words[0], safe='')}"


def place_of(metadata: Metadata) -> str:
    """``page 4 (iv)``, ``lines 25-41`` or ``chunk 3 of 8``; "" where none tells anything."""
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
    """From parsed JSON. Raises BadQuestion."""
    if not isinstance(value, dict):
        raise BadQuestion("body", "the body must be a JSON object")
    names = [field.name for field in fields(Question)]
    unknown = sorted(set(map(str, value)) - set(names))
    if unknown:
        raise BadQuestion(unknown[0], f"unknown key {unknown[0]!r}; known: {', '.join(names)}")
    return checked(Question(**{"query": None, **value}))


def checked(question: Question) -> Question:
    """The question itself. Raises BadQuestion if it cannot be answered."""
    text, budget = question.query, question.budget_tokens
    _need("query", isinstance(text, str) and bool(text.strip()), "must be a text, not empty")
    _need("query", len(text) <= LONGEST, f"must have at most {LONGEST:,} characters")
    _need("query", _encodes(text), "must be valid Unicode text")
    _need("collection", _names(question.collection), "must be a name, a list of names, or *")
    _need("n", _within(question.n, MOST), f"must be a whole number from 1 to {MOST:,}")
    _need(
        "budget_tokens", budget is None or _within(budget, MOST_TOKENS), f"must be from 1 to {MOST_TOKENS:,}"
    )
    _need("mode", question.mode in MODES, f"must be one of {', '.join(MODES)}")
    _need("expand", question.expand in EXPANSIONS, f"must be one of {', '.join(EXPANSIONS)}")
    _need("distinct", isinstance(question.distinct, bool | None), "must be true or false")
    _need("where", question.where is None or isinstance(question.where, Mapping), "must be an object")
    excess = find_excess(question.where)
    _need("where", excess is None, excess or "")
    _need("where", _plain(question.where), "must hold plain JSON: texts, numbers, lists and objects")
    mistake = find_mistake(question.where) if question.where else None
    _need("where", mistake is None, mistake or "")
    return question


def as_json(answer: Answer) -> dict[str, Any]:
    """The answer as JSON has it."""
    return {
        "hits": [_hit_as_json(hit) for hit in answer.hits],
        "passages": [_with_copies(passage) for passage in answer.passages],
        "mode": answer.mode,
        "fallback": answer.fallback,
        "seconds": round(answer.seconds, 6),
        "needed_tokens": answer.needed_tokens,
    }


def _hit_as_json(hit: Found) -> dict[str, Any]:
    return {**_with_copies(hit), "metadata": dict(hit.metadata), "ranks": _shallow(hit.ranks)}


def _with_copies(value: Found | Passage) -> dict[str, Any]:
    """The keys of a hit or passage; ``collection`` only in an answer from several collections."""
    found = {**_shallow(value), "also_in": [_shallow(copy) for copy in value.also_in]}
    return found if value.collection else {key: one for key, one in found.items() if key != "collection"}


def _shallow(value: Found | Ranks | Passage | Copy) -> dict[str, Any]:
    """By hand: asdict would copy what it holds deeply, which takes a millisecond an answer."""
    return {name: getattr(value, name) for name in value.__slots__}


def answer_of(said: Mapping[str, Any]) -> Answer:
    """The opposite of ``as_json``. Raises KeyError and TypeError for anything else."""
    return Answer(
        tuple(Found(**{**hit, "ranks": Ranks(**hit["ranks"]), **_copies(hit)}) for hit in said["hits"]),
        tuple(
            Passage(
                **{
                    **one,
                    "lines": one["lines"] and tuple(one["lines"]),
                    "ids": tuple(one["ids"]),
                    **_copies(one),
                }
            )
            for one in said["passages"]
        ),
        said["mode"],
        said["seconds"],
        said["fallback"],
        said["needed_tokens"],
    )


def _copies(said: Mapping[str, Any]) -> dict[str, tuple[Copy, ...]]:
    return {"also_in": tuple(Copy(**copy) for copy in said["also_in"])}


def _within(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most


def _names(value: object) -> bool:
    if isinstance(value, list | tuple):
        return 0 < len(value) <= MOST and all(isinstance(each, str) and each for each in value)
    return isinstance(value, str)


def _encodes(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def _plain(value: object) -> bool:
    """Whether Chroma's JSON can hold it."""
    if isinstance(value, str):
        return _encodes(value)
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _encodes(key) and _plain(each) for key, each in value.items())
    if isinstance(value, list):
        return all(map(_plain, value))
    if isinstance(value, float):
        return isfinite(value)
    return value is None or (isinstance(value, int) and -(2**63) <= value < 2**63)


def _need(key: str, there: bool, message: str) -> None:
    if not there:
        raise BadQuestion(key, f"{key} {message}")
