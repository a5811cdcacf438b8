"""Strategy ``hierarchical``: small chunks to search, larger passages around them to read ("small to big").

The document is cut into sections, sections into passages, passages into groups of sentences. Only the last
level is indexed. Every chunk has metadata about the passage that contains it, its parent:

 - ``level``, ``parent_level``: names of the chunk's level and of its parent's level.

 - ``parent_index``: number of the parent in the document, from 0, among passages of its level.

 - ``parent_start``, ``parent_end``: span of the parent: its text is ``document.text[start:end]``.

 - ``parents``: all levels above the chunk, outermost first, as JSON: ``[[name, index, start, end], ...]``.

A reader without the document can fetch all chunks with the same ``document_id`` and ``parent_index``. Joined
in the order of ``start_index`` they are the parent, except for the white space between them.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from pydantic import Field, model_validator

from ingestor.chunkers.options import ChunkerOptions, smaller
from ingestor.chunkers.recursive import split_large
from ingestor.model import Chunk, Chunking, Document, Scalar, Sums
from ingestor.ports import Embed
from ingestor.registry import Options, Plugin
from ingestor.text.bonds import Tails, settle
from ingestor.text.limits import SMALLEST, pack
from ingestor.text.sections import sections
from ingestor.text.sentences import paragraphs, sentences
from ingestor.text.spans import Span, inside
from ingestor.text.tokens import Tokens

UnitName = Literal["section", "paragraph", "sentence"]
_COARSEST_FIRST: tuple[UnitName, ...] = ("section", "paragraph", "sentence")


class Level(Options):
    """A level of the hierarchy: units of text, such as sentences, packed up to ``max_tokens``."""

    name: str = Field(min_length=1, description="what the chunks' metadata calls the level")
    unit: UnitName = Field(
        description="what is packed up to `max_tokens`; sections are never packed together"
    )
    max_tokens: int = Field(ge=SMALLEST, description="most tokens in one of this level")


LEVELS = (
    Level(name="section", unit="section", max_tokens=1500),
    Level(name="passage", unit="paragraph", max_tokens=400),
    Level(name="sentences", unit="sentence", max_tokens=100),
)


class HierarchicalOptions(ChunkerOptions):
    """Options of ``hierarchical``. ``depth``: number of heading levels that begin a section."""

    levels: tuple[Level, ...] = Field(
        default=LEVELS,
        min_length=2,
        description="levels, outermost first; the last one is indexed, the others are passages to "
        "read around a hit",
    )
    depth: int = Field(default=6, ge=1, description="levels of headings that start a section")

    @model_validator(mode="after")
    def _levels_in_order(self) -> "HierarchicalOptions":
        for outer, inner in pairwise(self.levels):
            if outer.max_tokens < inner.max_tokens:
                raise ValueError(
                    f"max_tokens of level {inner.name!r} must not exceed "
                    f"those of level {outer.name!r} above it"
                )
            if _COARSEST_FIRST.index(outer.unit) > _COARSEST_FIRST.index(inner.unit):
                raise ValueError(
                    f"level {inner.name!r} (unit {inner.unit}) can't be inside level "
                    f"{outer.name!r} (unit {outer.unit})"
                )
        if len({level.name for level in self.levels}) < len(self.levels):
            raise ValueError("levels must have different names")
        if self.min_tokens is not None and self.min_tokens > self.levels[-1].max_tokens:
            raise ValueError(f"min_tokens ({self.min_tokens}) must not exceed max_tokens of the last level")
        return self


@dataclass(frozen=True, slots=True)
class _Node:
    """A span of a level. ``above``: spans around it, outermost first, as (level, index, start, end)."""

    span: Span
    above: tuple[tuple[str, int, int, int], ...] = ()


class Hierarchical:
    def __init__(self, options: HierarchicalOptions, tokens: Tokens) -> None:
        self._options, self._tokens = options, tokens

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        text, levels = document.text, self._options.levels
        units = {
            "section": sections(document, self._options.depth),
            "paragraph": paragraphs(text),
            "sentence": sentences(text, language=document.language),
        }
        tails = Tails(document)
        nodes = [_Node((0, len(text)))]
        for depth, level in enumerate(levels):
            candidates = units[level.unit]
            last = depth == len(levels) - 1
            nodes = [
                _Node(span, _lineage(node, levels[depth - 1].name, number) if depth else ())
                for number, node in enumerate(nodes)
                for span in self._cut(tails, inside(candidates, node.span), level, last)
            ]
        return Chunking(tuple(_chunk(text, node, levels[-1].name) for node in nodes))

    def _cut(self, tails: Tails, units: Sequence[Span], level: Level, last: bool) -> list[Span]:
        """Return the spans of a level, packed from units inside one span of the level above.

        ``last``: whether the level is the indexed one, to which the limits of all strategies apply.
        """
        text = tails.document.text
        most = smaller(level.max_tokens, self._options.max_tokens) if last else level.max_tokens
        parts = split_large(text, units, self._tokens, most)
        spans: Sequence[Span] | Iterator[Span] = parts
        if level.unit != "section":
            spans = pack(text, parts, self._tokens, most)
        return settle(tails, spans, self._tokens, self._options.min_tokens if last else None, most)


def _lineage(node: _Node, name: str, number: int) -> tuple[tuple[str, int, int, int], ...]:
    return (*node.above, (name, number, *node.span))


def _chunk(text: str, node: _Node, level: str) -> Chunk:
    name, number, parent_start, parent_end = node.above[-1]
    extra: tuple[tuple[str, Scalar], ...] = (
        ("level", level),
        ("parent_level", name),
        ("parent_index", number),
        ("parent_start", parent_start),
        ("parent_end", parent_end),
        ("parents", json.dumps(node.above, ensure_ascii=False)),
    )
    start, end = node.span
    return Chunk(start, end, text[start:end], extra=extra)


PLUGIN = Plugin(kind="hierarchical", version=3, options=HierarchicalOptions, build=Hierarchical)
