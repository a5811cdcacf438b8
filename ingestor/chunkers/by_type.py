"""Strategies by content type: the config's main strategy, and other strategies for the types in ``by_type``.

A document of such a type is chunked as if its strategy were the main one, with that strategy's
``neighbours``. It does not count in any statistic of the collection. The metadata ``picked`` of a chunk names
the strategy.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from ingestor.chunkers.options import ChunkerOptions, Pick
from ingestor.llm.client import Answers, Asking
from ingestor.model import Chunk, Chunking, Document, Sums
from ingestor.ports import Chunker, Collective, Embed, NeedsHuman
from ingestor.registry import Options, Plugin, find
from ingestor.text.tokens import Tokens

if TYPE_CHECKING:
    from ingestor.chunkers.parts import Seen

_Key = TypeVar("_Key", bound=str)


@runtime_checkable
class Looking(Protocol):
    """A chunker that can return the values that decide where it cuts, so that people can see them."""

    def look(self, document: Document, embed: Embed) -> "Seen | None":
        """Return the values that decide the cuts, as if the document were alone in its collection.

        They include cuts that the minimum size removes later. Return None if no vectors decide the cuts.
        """
        ...


class ByType:
    """Chunker that passes documents of some content types on to other chunkers.

    ``own``: chunker of the main strategy. ``others``: chunkers by the key of ``by_type`` to which they
    belong.
    """

    def __init__(self, options: ChunkerOptions, own: Chunker, others: Mapping[str, Chunker]) -> None:
        self._options, self._own, self._others = options, own, others

    def through(self, answers: Answers) -> "ByType":
        return _wrap(
            self._options,
            ask_through({"": self._own}, answers)[""],
            ask_through(self._others, answers),
        )

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        key = self._options.of_type(document.content_type)
        if key is None:
            return self._own.chunk(document, embed, others)
        pick = self._options.by_type[key]
        made = self._others[key].chunk(document, embed, None)
        neighbours = getattr(pick.options, "neighbours", 0.0)
        return Chunking(name_strategy(made, pick), made.vectors, neighbours=neighbours)

    def look(self, document: Document, embed: Embed) -> "Seen | None":
        key = self._options.of_type(document.content_type)
        chunker = self._own if key is None else self._others[key]
        return chunker.look(document, embed) if isinstance(chunker, Looking) else None


class CollectiveByType(ByType):
    """Variant of ``ByType`` whose main strategy depends on a statistic of the collection."""

    def __init__(
        self, options: ChunkerOptions, own: Chunker, others: Mapping[str, Chunker], collective: Collective
    ) -> None:
        super().__init__(options, own, others)
        self.statistic = collective.statistic
        self.value = collective.value


def ask_through(chunkers: Mapping[_Key, Chunker], answers: Answers) -> dict[_Key, Chunker]:
    """Return the chunkers; those that ask a language model send their questions through ``answers``."""
    return {
        key: chunker.through(answers) if isinstance(chunker, Asking) else chunker
        for key, chunker in chunkers.items()
    }


def name_strategy(made: Chunking, pick: Pick) -> tuple[Chunk, ...]:
    """Return the chunks with the name of their strategy in the metadata ``picked``."""
    return tuple(replace(chunk, extra=(*chunk.extra, ("picked", pick.strategy))) for chunk in made.chunks)


def _wrap(options: ChunkerOptions, own: Chunker, others: Mapping[str, Chunker]) -> ByType:
    if isinstance(own, Collective):
        return CollectiveByType(options, own, others, own)
    return ByType(options, own, others)


def build_chunker(plugin: Plugin, options: Options, tokens: Tokens) -> Chunker:
    """Return the chunker of a config.

    Raises NeedsHuman if ``by_type`` names a strategy that depends on the whole collection.
    """
    own: Chunker = plugin.build(options, tokens)
    if not isinstance(options, ChunkerOptions) or not options.by_type:
        return own
    others: dict[str, Chunker] = {}
    for key, pick in options.by_type.items():
        others[key] = find("chunkers", pick.strategy).build(options.options_of(key), tokens)
        if isinstance(others[key], Collective):
            raise NeedsHuman(
                f"strategy {pick.strategy} compares all documents of a collection, so it can't be set for "
                f"{key} alone: choose another strategy"
            )
    return _wrap(options, own, others)
