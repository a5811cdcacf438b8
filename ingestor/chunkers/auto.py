"""Strategy ``auto``: chooses a strategy by a document's kind: short, code, table, headings or prose.

The first kind that fits is chosen. A ``short`` document has at most ``short_tokens``. ``code`` is text in a
language for programs or configuration. A ``table`` is CSV or TSV, or consists mostly of tables. ``headings``
means at least two headings. All other documents are ``prose``. The metadata ``picked`` of a chunk names its
strategy.

``context``, ``neighbours`` and the limits are options of ``auto`` itself, and apply to every strategy. No
strategy may keep a statistic of the collection (``scope: document``), so a document's chunks depend on no
other document.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from pydantic import Field, model_validator

from ingestor.chunkers.by_type import Looking, ask_through, name_strategy
from ingestor.chunkers.options import ChunkerOptions, Pick
from ingestor.core.content_types import code_language
from ingestor.llm.client import Answers
from ingestor.model import Chunking, Document, Sums
from ingestor.ports import Chunker, Collective, Embed, NeedsHuman
from ingestor.registry import Plugin, find
from ingestor.text.sections import headings
from ingestor.text.tokens import Tokens

if TYPE_CHECKING:
    from ingestor.chunkers.parts import Seen

Kind = Literal["short", "code", "table", "headings", "prose"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_TABLES = frozenset({"text/csv", "text/tab-separated-values"})
_WORDY = 16  # characters; a text with more for each of ``short_tokens`` is not short


def _pick(description: str, strategy: str, **options: str) -> Any:
    default = {"strategy": strategy, **options}
    return Field(default=default, validate_default=True, description=description)


class AutoOptions(ChunkerOptions):
    short_tokens: int = Field(default=200, ge=0, description="documents up to this size are `short`")
    short: Pick = _pick("strategy and options of short documents", "recursive")
    code: Pick = _pick("strategy of programs and configuration", "structure")
    table: Pick = _pick("strategy of tables", "structure")
    headings: Pick = _pick(
        "strategy of documents with two or more headings", "changepoint", vectors="encoded"
    )
    prose: Pick = _pick("strategy of all other documents", "changepoint")

    @model_validator(mode="before")
    @classmethod
    def _hand_down(cls, data: Any) -> Any:
        """Pass the options of ``auto`` on to each of its strategies, whose own options override them."""
        if not isinstance(data, Mapping):
            return data
        own = ChunkerOptions.model_fields
        names = [name for name in own if name in data and name != "by_type"]
        shared = {name: data[name] for name in names if data[name] != own[name].default}
        picks = {kind: data.get(kind, cls.model_fields[kind].default) for kind in KINDS}
        return {**data, **{k: {**shared, **p} if isinstance(p, Mapping) else p for k, p in picks.items()}}

    @model_validator(mode="after")
    def _agree(self) -> Self:
        """Require the same ``context`` and ``neighbours`` of all strategies: the pipeline applies them."""
        for kind in KINDS:
            options = getattr(self, kind).options
            pooled = getattr(options, "vectors", "encoded") == "pooled"
            for name in ("context",) if pooled else ("context", "neighbours"):
                if getattr(options, name, getattr(self, name)) != getattr(self, name):
                    raise ValueError(
                        f"{kind}: `{name}` must be the same for all documents; "
                        f"set it beside `{kind}`, not inside"
                    )
            if getattr(options, "scope", "document") != "document":
                raise ValueError(f"{kind}: `scope` must be `document`")
        return self


class Auto:
    """Chunker that passes each document on to another chunker, by the document's kind."""

    def __init__(self, options: AutoOptions, tokens: Tokens, chunkers: Mapping[Kind, Chunker]) -> None:
        self._options, self._tokens, self._chunkers = options, tokens, chunkers

    def through(self, answers: Answers) -> "Auto":
        return Auto(self._options, self._tokens, ask_through(self._chunkers, answers))

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        kind = kind_of(document, self._tokens, self._options.short_tokens)
        made = self._chunkers[kind].chunk(document, embed, None)
        return Chunking(name_strategy(made, getattr(self._options, kind)), made.vectors)

    def look(self, document: Document, embed: Embed) -> "Seen | None":
        chunker = self._chunkers[kind_of(document, self._tokens, self._options.short_tokens)]
        return chunker.look(document, embed) if isinstance(chunker, Looking) else None


def kind_of(document: Document, tokens: Tokens, short_tokens: int) -> Kind:
    """Return the kind of a document, which decides its strategy."""
    text = document.text
    if len(text) <= short_tokens * _WORDY and tokens.count(text) <= short_tokens:
        return "short"
    if code_language(document.content_type):
        return "code"
    tables = sum(block.end - block.start for block in document.blocks if block.kind == "table")
    if document.content_type in _TABLES or 2 * tables > len(text):
        return "table"
    return "headings" if len(headings(document)) >= 2 else "prose"


def build(options: AutoOptions, tokens: Tokens) -> Auto:
    """Return the chunker of ``auto``. Raises NeedsHuman if a strategy depends on the whole collection."""
    chunkers: dict[Kind, Chunker] = {}
    for kind in KINDS:
        pick: Pick = getattr(options, kind)
        chunkers[kind] = find("chunkers", pick.strategy).build(pick.options, tokens)
        if isinstance(chunkers[kind], Collective):
            raise NeedsHuman(
                f"strategy {pick.strategy} compares all documents of a collection, so it can't be set for "
                f"{kind} alone: choose another strategy"
            )
    return Auto(options, tokens, chunkers)


PLUGIN = Plugin(kind="auto", version=3, options=AutoOptions, build=build)
