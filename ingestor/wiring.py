"""The composition root: the only place where configured kinds become running parts.

Everything else takes what it needs as arguments. Parts are opened in the order in which they must be
closed again, backwards, whatever happens.
"""

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ingestor.cache import VectorCache
from ingestor.chunkers.options import ChunkerOptions
from ingestor.collections import Collections
from ingestor.config import Choice, Config, SourceConfig
from ingestor.engine import Engine
from ingestor.fingerprint import fingerprint, plugin_fingerprint
from ingestor.journal import Journal
from ingestor.journal import opened as open_journal
from ingestor.listing import Source
from ingestor.lock import hold
from ingestor.model import Fingerprint, Vectors
from ingestor.pool import Embedding, Pool
from ingestor.ports import Embed, Embedder
from ingestor.prepare import Tools
from ingestor.registry import find, kinds
from ingestor.shelf import Shelf
from ingestor.tokens import Tokens


@dataclass(frozen=True)
class Parts:
    """What a config describes; nothing heavy is loaded before its first use."""

    config: Config

    @cached_property
    def embedder(self) -> Embedder:
        embedder: Embedder = build(self.config.embedding)
        return embedder

    @cached_property
    def embedder_recipe(self) -> Fingerprint:
        identity = getattr(self.embedder, "identity", {})
        plugin = self.config.embedding.plugin
        return fingerprint({"kind": plugin.kind, "version": plugin.version, "identity": identity})

    @cached_property
    def tokens(self) -> Tokens:
        return Tokens()

    def query_vectors(self, texts: Sequence[str]) -> Vectors:
        """Questions are embedded as the model wants questions to be, where it tells them from documents."""
        embed_queries = getattr(self.embedder, "embed_queries", self.embedder.embed)
        vectors: Vectors = embed_queries(texts)
        return vectors

    def collections(self, journal: Journal, *, serve: bool = False, attach: bool = False) -> Collections:
        """Chroma, not connected yet."""
        return Collections(
            self.config.chroma,
            journal.owner,
            model=getattr(self.config.embedding.options, "model", None),
            dimensions=lambda: self.embedder.dimensions,
            log_path=self.config.state / "chroma.log",
            serve=serve,
            attach=attach,
        )

    def under(self, config: Config) -> "Parts":
        """These parts with the sources of another config; what is loaded stays loaded."""
        fresh = Parts(config)
        fresh.__dict__.update({name: value for name, value in self.__dict__.items() if name != "config"})
        return fresh

    def sources(self, embed: Embed) -> list[Source]:
        """Every configured source, with the tools that turn its items into records."""
        return [self._source(source, embed) for source in self.config.sources]

    def _source(self, source: SourceConfig, embed: Embed) -> Source:
        connector = build(source.connector)
        tools = self._tools(source, connector.fetch, embed)
        return Source(source.name, source.collection, connector, tools, source.max_loss, source.scan_every)

    def _tools(self, source: SourceConfig, fetch, embed: Embed) -> Tools:  # type: ignore[no-untyped-def]
        chosen = {choice.plugin.kind: choice for choice in source.parsing}
        parsers = {kind: chosen.get(kind) or default(kind) for kind in kinds("parsers")}
        chunking = source.chunking
        options = chunking.options
        shared = options if isinstance(options, ChunkerOptions) else ChunkerOptions()
        return Tools(
            source=source.name,
            collection=source.collection,
            fetch=fetch,
            parsers={kind: build(choice) for kind, choice in parsers.items()},
            parser_recipes={kind: plugin_fingerprint(c.plugin, c.options) for kind, c in parsers.items()},
            chunker=chunking.plugin.build(options, self.tokens),
            chunker_recipe=plugin_fingerprint(chunking.plugin, options),
            strategy=chunking.plugin.kind,
            embed=embed,
            embedder_recipe=self.embedder_recipe,
            count_tokens=self.tokens.counts,
            context=shared.context,
            neighbours=shared.neighbours,
        )


@dataclass(frozen=True)
class Running:
    """An opened state, ready to reconcile."""

    parts: Parts
    journal: Journal
    cache: VectorCache
    embedding: Embedding
    pool: Pool
    collections: Collections
    engine: Engine

    def reconfigured(self, config: Config) -> "Running":
        """The same state under another config. What is open stays: state folder, Chroma and embedder."""
        return replace(self, parts=self.parts.under(config))


def build(choice: Choice):  # type: ignore[no-untyped-def]
    """The part that a plugin makes of its options."""
    return choice.plugin.build(choice.options)


def default(parser: str) -> Choice:
    plugin = find("parsers", parser)
    return Choice(plugin, plugin.options())


def journal_path(config: Config) -> Path:
    return config.state / "journal.sqlite3"


def lock_path(config: Config) -> Path:
    return config.state / "lock"


def cache_path(config: Config) -> Path:
    return config.state / "cache.sqlite3"


@contextmanager
def opened(config: Config, *, serve: bool) -> Iterator[Running]:
    """Everything that writes, under the lock of the state folder; ``serve``: with a supervised Chroma.

    Raises NeedsHuman when another daemon holds the lock.
    """
    parts = Parts(config)
    with ExitStack() as stack:
        config.state.mkdir(parents=True, exist_ok=True)
        stack.enter_context(hold(lock_path(config)))
        journal = stack.enter_context(open_journal(journal_path(config)))
        cache = VectorCache(cache_path(config), config.cache_size)
        stack.callback(cache.close)
        collections = stack.enter_context(parts.collections(journal, serve=serve))
        embedding = Embedding(parts.embedder, parts.embedder_recipe, cache, parts.tokens.counts)
        stack.callback(embedding.close)
        pool = Pool(config.workers)
        stack.callback(pool.close)
        stack.callback(embedding.stop)  # first of all, so that no worker waits for vectors
        shelf = Shelf(journal, collections, parts.embedder_recipe)
        engine = Engine(journal, shelf, pool, time.time, random.random, config.workers)
        yield Running(parts, journal, cache, embedding, pool, collections, engine)
