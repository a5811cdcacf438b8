"""What is asked of a search, and its answer, as values and as JSON. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from ingestor.model import Metadata, RecordId

Mode = Literal["hybrid", "dense", "lexical"]
Expand = Literal["none", "neighbours", "section", "parent", "document"]
MODES: tuple[Mode, ...] = get_args(Mode)
EXPANSIONS: tuple[Expand, ...] = get_args(Expand)
MOST = 1000  # hits
MOST_TOKENS = 1_000_000  # of all passages
LONGEST = 20_000  # characters of a question


class BadQuestion(ValueError):
    """The question cannot be understood; the message says why."""


@dataclass(frozen=True, slots=True)
class Question:
    """``where``: a metadata filter of Chroma. ``budget_tokens``: of all passages; it takes ``n``'s place."""

    query: str
    collection: str = ""
    n: int = 5
    budget_tokens: int | None = None
    mode: Mode = "hybrid"
    where: Mapping[str, Any] | None = None
    expand: Expand = "none"


@dataclass(frozen=True, slots=True)
class Ranks:
    """The place in each list, from 1; None: not in it."""

    dense: int | None = None
    lexical: int | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A hit. ``score``: of the mode: a cosine, a BM25 score, or the fused score."""

    id: RecordId
    score: float
    document: str
    metadata: Metadata
    ranks: Ranks


@dataclass(frozen=True, slots=True)
class Passage:
    """Text of one document. Offsets count code points from 0, lines from 1, pages from 0."""

    text: str
    source: str
    heading_path: str | None
    start: int | None
    end: int | None
    lines: tuple[int, int] | None
    page: int | None
    ids: tuple[RecordId, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """``mode``: the mode that was used; ``fallback``: why it is another than was asked for."""

    hits: tuple[Found, ...]
    passages: tuple[Passage, ...]
    mode: Mode
    seconds: float
    fallback: str | None = None


def question_of(value: object) -> Question:
    """From parsed JSON. Raises BadQuestion."""
    if not isinstance(value, dict):
        raise BadQuestion("the body must be a JSON object")
    names = [field.name for field in fields(Question)]
    unknown = sorted(set(map(str, value)) - set(names))
    if unknown:
        raise BadQuestion(f"unknown key {unknown[0]!r}; known: {', '.join(names)}")
    return checked(Question(**{"query": None, **value}))


def checked(question: Question) -> Question:
    """The question itself. Raises BadQuestion if it cannot be answered."""
    _need(isinstance(question.query, str) and bool(question.query.strip()), "query must be a text, not empty")
    _need(len(question.query) <= LONGEST, f"query must have at most {LONGEST:,} characters")
    _need(question.query.isprintable() or _encodes(question.query), "query must be valid Unicode text")
    _need(isinstance(question.collection, str), "collection must be a text")
    _need(_within(question.n, MOST), f"n must be a whole number from 1 to {MOST:,}")
    budget = question.budget_tokens
    _need(budget is None or _within(budget, MOST_TOKENS), f"budget_tokens must be from 1 to {MOST_TOKENS:,}")
    _need(question.mode in MODES, f"mode must be one of {', '.join(MODES)}")
    _need(question.expand in EXPANSIONS, f"expand must be one of {', '.join(EXPANSIONS)}")
    _need(question.where is None or isinstance(question.where, Mapping), "where must be an object")
    return question


def as_json(answer: Answer) -> dict[str, Any]:
    """The answer as JSON has it."""
    return {
        "hits": [{**asdict(hit), "metadata": dict(hit.metadata)} for hit in answer.hits],
        "passages": [asdict(passage) for passage in answer.passages],
        "mode": answer.mode,
        "fallback": answer.fallback,
        "seconds": round(answer.seconds, 6),
    }


def _within(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most


def _encodes(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _need(there: bool, message: str) -> None:
    if not there:
        raise BadQuestion(message)
