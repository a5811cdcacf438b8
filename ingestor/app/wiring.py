"""The composition root: the only place where configured kinds become running parts.

Everything else takes what it needs as arguments. Parts are closed in the reverse order of their opening.
"""

import logging
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from ingestor.app.building.on_nodes import embedder_of, embedder_setup, tools_of, tools_setup
from ingestor.app.building.parts import Parts, Places, made_by
from ingestor.app.handover import leaving, settle_names
from ingestor.chroma.backend import Collections
from ingestor.chroma.shards.backend import ShardedBackend
from ingestor.config.models import Config
from ingestor.core.backend import Model
from ingestor.core.entries import EditionName
from ingestor.core.interruptions import Stopped
from ingestor.engine.loop import Engine
from ingestor.engine.open_collections import OpenCollections
from ingestor.engine.vectors.by_recipe import Embeddings
from ingestor.engine.workers.pool import Pool
from ingestor.lexical.backend import LexicalBackend
from ingestor.lexical.file import LexicalFile
from ingestor.model import Fingerprint
from ingestor.nodes.fleet import Fleet
from ingestor.nodes.ray_cluster import connected
from ingestor.pipeline.answers import CachedAnswers
from ingestor.pipeline.listing import Source
from ingestor.pipeline.prepare import prepare
from ingestor.ports import Embedder
from ingestor.rechunk import policy
from ingestor.rechunk.recipes import asking_prices
from ingestor.rechunk.swap import KeptEdition, Swaps
from ingestor.state import checks, file_permissions, running_config
from ingestor.state.cache.parses import Parses
from ingestor.state.cache.store import VectorCache
from ingestor.state.editions import Editions
from ingestor.state.files import (
    EVALUATION,
    cache_path,
    chroma_log_path,
    journal_path,
    lexical_path,
    lock_path,
)
from ingestor.state.journal import Journal
from ingestor.state.journal import opened as open_journal
from ingestor.state.lock import hold, retry_until_free
from ingestor.text.tokens import Tokens


@dataclass(frozen=True)
class Running:
    """An opened state, ready to reconcile; made by ``opened``."""

    parts: Parts
    journal: Journal
    cache: VectorCache
    answers: CachedAnswers
    embedding: Embeddings
    pool: Pool
    collections: Collections
    lexical: LexicalBackend
    engine: Engine
    swaps: Swaps
    models: dict[EditionName, Model]  # by edition, for those that are kept in step
    fleet: Fleet | None = None  # where documents are prepared on nodes

    @property
    def embedding_cost(self) -> float:
        """Of the tokens embedded since the start, at the present price."""
        return policy.cost(self.embedding.tokens, self.parts.config.rechunk)

    def reconfigured(self, config: Config) -> "Running":
        """The same state under another config. Raises NeedsHuman if its embedder cannot be loaded."""
        fresh = replace(self, parts=self.parts.under(config, made_by(self.journal)))
        assert fresh.parts.embedder_recipe
        return fresh

    def configure(self, *, watch: bool) -> None:
        """Decide which editions are kept in step, by which recipes, and configure the engine for them.

        ``watch``: whether sources watch for changes. Raises sqlite3.Error.
        """
        config = self.parts.config
        settle_names(config, self.journal, Parses(self.cache), self.parts.wanted)
        self.swaps.max_loss = {source.name: source.max_loss for source in config.sources}
        self.swaps.other_recipes = self.parts.other_recipes
        standings = [
            standing
            for serves in config.collections
            for standing in self.swaps.arrange(
                serves, self.parts.wanted(serves), config.rechunk, asking_prices(config, serves)
            )
        ]
        places: Places = {}
        building = {each.name for each in Editions(self.journal).all() if each.role == "staging"}
        fed = {
            standing.edition: self._sources(standing, places, building=standing.edition in building)
            for standing in standings
        }
        sources = [source for each in fed.values() for source in each]
        untouched = [edition for edition, each in fed.items() if not each]
        previous = {each.embedder for each in Editions(self.journal).all() if each.role == "previous"}
        asked = {source.tools.embedder_recipe for source in sources}
        self.embedding.keep(asked | {Fingerprint(each) for each in previous if each})
        if self.fleet is not None:
            self.fleet.take_over()
        self.engine.configure(
            sources, watch=watch, leaving=leaving(config, self.journal), untouched=untouched
        )

    def _sources(self, standing: KeptEdition, places: Places, *, building: bool) -> list[Source]:
        parts = self.parts.by(standing.choices)
        if parts is None:
            logging.getLogger("ingestor").warning(
                "%s: plugins or model that made its documents are not available here; the collection stays "
                "unchanged until a new one is complete", standing.serves,
            )  # fmt: skip
            return []
        self.models[standing.edition] = parts.model
        setting = parts.config.embedding.options
        embed = self.embedding.of(parts.embedder_recipe, lambda: self._embedder(parts), setting)
        memory = Parses(self.cache)
        found = [
            replace(source, tools=replace(source.tools, expect=embed.expect))
            for source in parts.sources(
                standing.serves, standing.edition, embed.behind if building else embed, self.answers, memory,
                places,
            )
        ]  # fmt: skip
        for source in found if self.fleet is not None else ():
            told = tools_setup(parts, source.feed, source.tools)
            if told is not None and self.fleet is not None:
                self.fleet.know(source.feed, source.tools, told)
        return found

    def _embedder(self, parts: Parts) -> Embedder:
        own = parts.embedder
        return own if self.fleet is None else self.fleet.embedder(own, embedder_setup(parts))


def _is_ours(config: Config) -> Callable[[str], bool]:
    """Whether a file name in the state folder is one of ours."""
    files = (path(config).name for path in (journal_path, cache_path, lexical_path, chroma_log_path))
    begins = (*files, "live.", running_config.NAME, checks.PREFIX, EVALUATION)
    whole = (lock_path(config), getattr(config.chroma, "path", None))
    return lambda name: name.startswith(begins) or config.state / name in whole


@contextmanager
def opened(config: Config, *, serve: bool) -> Iterator[Running]:
    """Open a state for writing, under the lock of its folder; all is closed when the context ends.

    ``serve``: serve Chroma to others on its configured port. Waits while a reading command uses Chroma's
    folder.

    Raises Locked (a NeedsHuman) when another process holds a lock, NeedsHuman when the state, Chroma or the
    embedder cannot be used, Transient when Chroma does not start.
    """
    with ExitStack() as stack:
        file_permissions.make(config.state, _is_ours(config))
        stack.enter_context(hold(lock_path(config)))
        running_config.keep(config, time.time())
        journal = stack.enter_context(open_journal(journal_path(config)))
        parts = Parts(config, made_by(journal))
        cache = VectorCache(cache_path(config), config.cache_size)
        stack.callback(cache.close)
        chroma = parts.collections(journal, serve=serve)
        collections = retry_until_free(lambda: stack.enter_context(chroma))
        assert parts.embedder_recipe  # raises before anything is touched if the model is missing
        workers = config.workers
        pool = Pool(workers.count)
        embedding = Embeddings(cache, parts.tokens.counts, pool.resting)
        stack.callback(embedding.close)
        answers = CachedAnswers(cache)
        stack.callback(parts.isolation.close)
        cluster = stack.enter_context(connected(workers)) if workers.kind == "ray" else None
        parts.isolation.take_turns(pool.resting)
        stack.callback(pool.close)
        stack.callback(parts.isolation.stop)
        stack.callback(parts.text_budget.stop)
        stack.callback(_end_chunking, parts.tokens)
        stack.callback(answers.stop)
        stack.callback(embedding.stop)  # closed first, so that no worker waits for vectors
        fleet = None if cluster is None else Fleet(cluster, workers, tools_of, embedder_of, pool.resting)
        if fleet is not None:
            stack.callback(fleet.stop)
        models: dict[EditionName, Model] = {}
        file = LexicalFile(lexical_path(config))
        stack.callback(file.close)
        sharded = ShardedBackend(collections, Editions(journal).shards)
        lexical = LexicalBackend(sharded, file, time.monotonic)
        opened = OpenCollections(journal, lexical, lambda name: models.get(name) or unknown(journal, name))
        forget = Parses(cache).forget
        engine = Engine(
            journal, opened, pool, time.time, random.random, workers.count, forget, parts.times,
            prepare if fleet is None else fleet.preparing, workers.in_flight,
        )  # fmt: skip
        swaps = Swaps(journal, opened, time.time)
        yield Running(
            parts,
            journal,
            cache,
            answers,
            embedding,
            pool,
            collections,
            lexical,
            engine,
            swaps,
            models,
            fleet,
        )


def _end_chunking(tokens: Tokens) -> None:
    """Have chunkers raise Stopped at the next text that they count, so that large documents end soon."""

    def stop() -> None:
        raise Stopped

    tokens.check = stop


def unknown(journal: Journal, name: EditionName) -> Model:
    """The model of an edition that cannot be kept in step: records are only removed from it."""
    return Model(Fingerprint(journal.collection(name).embedder or ""))
