"""Strategy ``proposition``: a language model rewrites the text as short statements that can be read alone.

The model rewrites each passage as a list of statements [propositions: Chen et al., *Dense X Retrieval*,
2023]. Then it puts each statement into an existing or a new chunk, by the chunks' titles and summaries
[agentic chunking: Kamradt, 2024]. A chunk gathers statements of one stretch of the text only (see
text/sections.py). So an edit repeats at most the requests of its passage and its stretch.

The text of a chunk is the model's, and this text is searched. Its spans are the passages from which the
statements come; the metadata ``passage`` has their text. A passage without a valid answer becomes a chunk
unchanged, with the metadata ``fallback``. The strategy is the most expensive one, and no gain on long prose.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pydantic import Field

from ingestor.chunkers.llm import AskingOptions
from ingestor.chunkers.parts import small_pieces
from ingestor.llm.client import Answers, DirectAnswers, LanguageModel, Messages, ask_until_valid, json_list
from ingestor.model import Chunk, Chunking, Document, Scalar, Sums
from ingestor.ports import Embed
from ingestor.registry import Plugin
from ingestor.text.limits import SMALLEST, limit
from ingestor.text.sections import stretches
from ingestor.text.spans import Span
from ingestor.text.tokens import Tokens

_REACH = 5  # passages: least distance between the starts of two stretches
_LATEST = 20  # number of latest chunks that the model may choose from
_REWRITE = """\
Split the passage into short statements, each of one fact. Whoever reads a statement sees no other: replace \
"it", "they", "this" and the like by what they stand for. Add nothing that the passage does not say, leave \
out nothing that it does, and keep to its language.
Answer with a JSON list of texts and nothing else:
["first statement", "second statement"]"""
_PLACE = """\
Put each numbered statement into the chunk about its subject, or into a new one. Answer with a JSON list and \
nothing else. Name every statement once; give a new chunk a title and a summary of one sentence, general \
enough for further statements on its subject:
[{"chunk": 2, "statements": [1, 3]}, {"chunk": "new", "title": "…", "summary": "…", "statements": [2]}]"""
_ODD = re.compile("[\0\ud800-\udfff]")


class PropositionOptions(AskingOptions):
    max_tokens: int = Field(default=250, ge=SMALLEST, description="most tokens of a chunk")
    passage: int = Field(
        default=200, ge=20, description="most tokens of a passage, without headings; one request each"
    )
    group: bool = Field(
        default=True,
        description="gather statements of one subject in a chunk, with a second request per passage; "
        "`false`: each statement is a chunk",
    )


@dataclass(frozen=True, slots=True)
class Gathered:
    """A chunk while it is made: its statements, and the passages from which they come.

    ``title`` and ``summary``: by the model, or "". ``fallback``: the reason why the model's answer was not
    used, or "".
    """

    statements: tuple[str, ...]
    passages: tuple[Span, ...]
    title: str = ""
    summary: str = ""
    fallback: str = ""

    @property
    def text(self) -> str:
        return "\n".join(self.statements)


@dataclass(frozen=True, slots=True)
class Placement:
    """Numbers of the statements that belong in one chunk, counted from 1.

    ``chunk``: number of an existing chunk; None for a new chunk with this title and summary.
    """

    chunk: int | None
    statements: tuple[int, ...]
    title: str = ""
    summary: str = ""


class Proposition:
    def __init__(self, options: PropositionOptions, tokens: Tokens, answers: Answers | None = None) -> None:
        self._options, self._tokens = options, tokens
        self._ask = LanguageModel(options, answers or DirectAnswers())

    def through(self, answers: Answers) -> "Proposition":
        return Proposition(self._options, self._tokens, answers)

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        text, options = document.text, self._options
        passages = small_pieces(document, self._tokens, options.passage, 2 * options.passage)
        gathered: list[Gathered] = []
        for first, end in stretches(document, passages, [1] * len(passages), _REACH):
            gathered += self._stretch(text, passages[first:end])
        return Chunking(
            tuple(chunk for one in self._join_small(gathered) for chunk in self._chunks(text, one))
        )

    def _stretch(self, text: str, passages: Sequence[Span]) -> list[Gathered]:
        """Return the chunks of a stretch of the text, in the order of their first passages."""
        gathered: list[Gathered] = []
        for passage in passages:
            shown = text[slice(*passage)]
            statements = ask_until_valid(self._ask, (("system", _REWRITE), ("user", shown)), statements_of)
            if statements is None:
                gathered.append(
                    Gathered((), (passage,), fallback="the passage: the model gave no valid statements")
                )
            elif self._options.group:
                gathered = self._place(gathered, statements, passage)
            else:
                gathered += [Gathered((statement,), (passage,)) for statement in statements]
        return gathered

    def _place(self, gathered: list[Gathered], statements: Sequence[str], passage: Span) -> list[Gathered]:
        """Let the model put the statements of a passage into existing or new chunks; return all chunks.

        ``gathered``: the chunks so far.
        """
        open_ = [at for at, one in enumerate(gathered) if one.title and self._has_room(one)][-_LATEST:]
        messages = placement_request(statements, [gathered[at] for at in open_])
        placements = ask_until_valid(
            self._ask, messages, partial(placements_of, count=len(statements), chunks=len(open_))
        )
        if placements is None:
            unplaced = "its passage: the model did not say where the statements belong"
            return [*gathered, Gathered(tuple(statements), (passage,), fallback=unplaced)]
        known, new = list(gathered), []
        for one in placements:
            chosen = tuple(statements[number - 1] for number in one.statements)
            if one.chunk is None:
                new.append(Gathered(chosen, (passage,), one.title, one.summary))
            else:
                at = open_[one.chunk - 1]
                known[at] = _with(known[at], chosen, (passage,))
        return known + new

    def _has_room(self, one: Gathered) -> bool:
        return self._tokens.count(one.text) < self._options.max_tokens

    def _join_small(self, gathered: Sequence[Gathered]) -> Iterator[Gathered]:
        """Yield the chunks. A chunk below the minimum size is joined with the next one if both fit."""
        least, last = self._options.min_tokens or 0, None
        for one in gathered:
            if last and last.statements and one.statements and self._tokens.count(last.text) < least:
                both = _with(last, one.statements, one.passages)
                if self._tokens.count(both.text) <= self._options.max_tokens:
                    last = both
                    continue
            if last:
                yield last
            last = one
        if last:
            yield last

    def _chunks(self, text: str, one: Gathered) -> Iterator[Chunk]:
        """Yield the statements as one chunk, or as several if they exceed the limit of tokens."""
        extra: tuple[tuple[str, Scalar], ...] = (("fallback", one.fallback),) if one.fallback else ()
        if not one.statements:
            (passage,) = one.passages
            for start, end in limit(text, [passage], self._tokens, None, self._options.max_tokens):
                yield Chunk(start, end, text[start:end], extra=extra)
            return
        extra += (("passage", "\n\n".join(text[start:end] for start, end in one.passages)),)
        extra += (("topic", one.title),) if one.title else ()
        spans = one.passages if len(one.passages) > 1 else ()
        for part in self._packs(one.statements):
            yield Chunk(one.passages[0][0], one.passages[-1][1], part, spans, rewritten=True, extra=extra)

    def _packs(self, statements: Iterable[str]) -> Iterator[str]:
        """Yield statements packed into texts up to the limit of tokens; cut a statement over the limit."""
        most, pack = self._options.max_tokens, ""
        for statement in statements:
            longer = f"{pack}\n{statement}" if pack else statement
            if self._tokens.count(longer) <= most:
                pack = longer
                continue
            if pack:
                yield pack
            *whole, last = limit(statement, [(0, len(statement))], self._tokens, None, most)
            yield from (statement[start:end] for start, end in whole)
            pack = statement[slice(*last)]
        if pack:
            yield pack


def _with(one: Gathered, statements: tuple[str, ...], passages: tuple[Span, ...]) -> Gathered:
    """Return a chunk with further statements and their passages."""
    new = tuple(passage for passage in passages if passage not in one.passages)
    return replace(one, statements=one.statements + statements, passages=one.passages + new)


def placement_request(statements: Sequence[str], chunks: Sequence[Gathered]) -> Messages:
    """Return the request that asks the model to put statements into these chunks or new ones."""
    known = "\n".join(f"Chunk {i}: {one.title}. {one.summary}" for i, one in enumerate(chunks, 1))
    listed = "\n".join(f"Statement {i}: {statement}" for i, statement in enumerate(statements, 1))
    return ("system", _PLACE), ("user", f"{known or 'There are no chunks yet.'}\n\n{listed}")


def statements_of(answer: str) -> list[str]:
    """Parse a list of statements. Raises ValueError, with a message for the model, if it is invalid."""
    gathered = json_list(answer)
    if not all(isinstance(item, str) for item in gathered):
        raise ValueError("the items of the list must be texts")
    statements = [words for item in gathered if (words := _words(item))]
    if not statements:
        raise ValueError("the list must hold at least one statement")
    return list(dict.fromkeys(statements))


def placements_of(answer: str, count: int, chunks: int) -> list[Placement]:
    """Parse an answer that puts ``count`` statements into chunks. ``chunks``: number of existing chunks.

    Raises ValueError with a message for the model, for example if a statement is not named exactly once.
    """
    placements = [_placement(item, chunks) for item in json_list(answer)]
    named = sorted(number for one in placements for number in one.statements)
    if named != list(range(1, count + 1)):
        raise ValueError(f"each statement from 1 to {count} must be in exactly one item")
    return placements


def _placement(item: Any, chunks: int) -> Placement:
    if not isinstance(item, dict):
        raise ValueError("the items of the list must be objects")
    chunk, numbers = item.get("chunk"), item.get("statements")
    if not (isinstance(numbers, list) and numbers and all(type(number) is int for number in numbers)):
        raise ValueError("`statements` must be a list of the numbers of statements")
    if type(chunk) is int and 1 <= chunk <= chunks:
        return Placement(chunk, tuple(numbers))
    title, summary = (_words(str(item.get(key) or "")) for key in ("title", "summary"))
    if chunk != "new" or not title:
        raise ValueError('`chunk` must be the number of a listed chunk, or "new" with a `title`')
    return Placement(None, tuple(numbers), title, summary)


def _words(text: str) -> str:
    """Return a text on one line, without characters that Chroma refuses."""
    return " ".join(_ODD.sub("", text).split())


PLUGIN = Plugin(kind="proposition", version=2, options=PropositionOptions, build=Proposition)
