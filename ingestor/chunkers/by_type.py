"""Strategies by content type: a config's strategy, and others for the types that ``by_type`` names.

A document of such a type is chunked as if its strategy were the config's: its own share of neighbours is
mixed in. It takes no part in a statistic of the collection. The key ``picked`` names the strategy.
"""

from collections.abc import Mapping
from dataclasses import replace

from ingestor.chunkers.options import ChunkerOptions
from ingestor.llm.client import Answers, Asking
from ingestor.model import Chunking, Document, Sums
from ingestor.ports import Chunker, Collective, Embed, NeedsHuman
from ingestor.registry import Options, Plugin, find
from ingestor.text.tokens import Tokens


class ByType:
    """Chunker that leaves documents of some content types to ``others``, by key of ``by_type``."""

    def __init__(self, options: ChunkerOptions, own: Chunker, others: Mapping[str, Chunker]) -> None:
        self._options, self._own, self._others = options, own, others

    def through(self, answers: Answers) -> "ByType":
        own, *others = (
            each.through(answers) if isinstance(each, Asking) else each
            for each in (self._own, *self._others.values())
        )
        return _wrap(self._options, own, dict(zip(self._others, others, strict=True)))

    def chunk(self, document: Document, embed: Embed, others: Sums | None) -> Chunking:
        key = self._options.of_type(document.content_type)
        if key is None:
            return self._own.chunk(document, embed, others)
        pick = self._options.by_type[key]
        made = self._others[key].chunk(document, embed, None)
        chunks = tuple(replace(each, extra=(*each.extra, ("picked", pick.strategy))) for each in made.chunks)
        return Chunking(chunks, made.vectors, neighbours=getattr(pick.options, "neighbours", 0.0))


class CollectiveByType(ByType):
    """Chunkers of which the config's own keeps a statistic of the collection."""

    def __init__(
        self, options: ChunkerOptions, own: Chunker, others: Mapping[str, Chunker], collective: Collective
    ) -> None:
        super().__init__(options, own, others)
        self.statistic = collective.statistic
        self.value = collective.value


def build(plugin: Plugin, options: Options, tokens: Tokens) -> Chunker:
    """Build the chunker of a config. Raises NeedsHuman for a strategy that ``by_type`` cannot name."""
    own: Chunker = plugin.build(options, tokens)
    if not isinstance(options, ChunkerOptions) or not options.by_type:
        return own
    others: dict[str, Chunker] = {}
    for key, pick in options.by_type.items():
        others[key] = find("chunkers", pick.strategy).build(options.options_of(key), tokens)
        if isinstance(others[key], Collective):
            raise NeedsHuman(f"{pick.strategy} keeps a statistic of the collection: by_type can't name it")
    return _wrap(options, own, others)


def _wrap(options: ChunkerOptions, own: Chunker, others: Mapping[str, Chunker]) -> ByType:
    if isinstance(own, Collective):
        return CollectiveByType(options, own, others, own)
    return ByType(options, own, others)
