"""The composition root: the only place where configured kinds become running parts.

Everything else takes what it needs as arguments. What is opened closes itself with its context, so the order
of closing follows from the order of ``open_state``.
"""

import logging
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from ingestor.app.handover import settle_names, sources_to_remove
from ingestor.app.parts import (
    Parts,
    Places,
    embedder_of,
    embedder_recipes_of,
    embedder_setup,
    here,
    tools_of,
    tools_setup,
)
from ingestor.chroma.backend import Collections
from ingestor.config.models import Config
from ingestor.core.backend import Model
from ingestor.core.entries import EditionName
from ingestor.core.errors import Stopped
from ingestor.core.events import event
from ingestor.engine.edition_store import EditionStore
from ingestor.engine.loop import Engine
from ingestor.engine.parts import AHEAD, EngineParts
from ingestor.engine.vectors.embedding import Embeddings
from ingestor.engine.workers import Pool
from ingestor.lexical.file import LexicalFile
from ingestor.lexical.filling import Upkeep
from ingestor.model import Fingerprint, Vectors
from ingestor.nodes.cluster import connect
from ingestor.nodes.fleet import Fleet
from ingestor.pipeline.answers import CachedAnswers
from ingestor.pipeline.listing import Source
from ingestor.pipeline.prepare import prepare
from ingestor.ports import Embedder, NeedsHuman
from ingestor.rechunk import policy
from ingestor.rechunk.policy import EditionSetup
from ingestor.rechunk.recipes import model_prices
from ingestor.rechunk.swap import Swaps, situation
from ingestor.state import files, run_status
from ingestor.state.cache import Parses, VectorCache
from ingestor.state.editions import Editions
from ingestor.state.files import (
    EVALUATION,
    cache_path,
    chroma_log_path,
    hold,
    journal_path,
    lexical_path,
    lock_path,
    retry_until_free,
)
from ingestor.state.journal import Journal, open_journal
from ingestor.text.tokens import Tokens

log = logging.getLogger("ingestor")

Store = AbstractContextManager[Collections]


@dataclass(frozen=True)
class Ports:
    """Inputs of a running program from outside. The defaults are the real world; simulations pass their own.

    ``clock``: POSIX seconds. ``ticks``: seconds that only grow. ``random``: evenly drawn from [0, 1).
    ``store``: Chroma, not connected yet; True: it serves others, too. ``pool``: so many workers.
    ``ahead``: small documents that are begun before a worker is free.
    """

    clock: Callable[[], float] = time.time
    ticks: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random
    journal: Callable[[Path], AbstractContextManager[Journal]] = open_journal
    cache: Callable[[Path, int], VectorCache] = VectorCache
    memory: Callable[[VectorCache], Parses] = Parses
    words: Callable[[Path], LexicalFile] = LexicalFile
    store: Callable[[Parts, Journal, bool], Store] = lambda parts, journal, serve: parts.collections(
        journal, serve=serve
    )
    pool: Callable[[int], Pool] = Pool
    ahead: int = AHEAD


@dataclass(frozen=True, kw_only=True)
class Running:
    """An opened state, ready to reconcile; made by ``open_state``.

    ``models``: properties of the embedder that each edition in step stores. ``places``: of the sources.
    """

    ports: Ports
    parts: Parts
    journal: Journal
    cache: VectorCache
    memory: Parses
    answers: CachedAnswers
    embedding: Embeddings
    pool: Pool
    collections: Collections
    lexical: Upkeep
    engine: Engine
    swaps: Swaps
    models: dict[EditionName, Model] = field(default_factory=dict)
    places: Places = field(default_factory=dict)
    fleet: Fleet | None = None

    @property
    def cost_of_embedding(self) -> float:
        """Return the price of the tokens embedded since the start, at the present rate."""
        return policy.cost(self.embedding.counts().tokens, self.parts.config.rechunk)

    def with_config(self, config: Config) -> "Running":
        """Return the same state under another config. Raises NeedsHuman if its embedder cannot be loaded."""
        fresh = replace(
            self, parts=replace(self.parts, config=config, made=embedder_recipes_of(self.journal))
        )
        assert fresh.parts.embedder_recipe
        return fresh

    def configure(self, *, watch: bool) -> None:
        """Decide which editions are kept in step, by which recipes, and configure the engine for them.

        ``watch``: whether sources watch for changes. Raises sqlite3.Error.
        """
        config = self.parts.config
        # first: answers to changes, which ``situation`` reads, are stored under the old names of sources
        settle_names(config, self.journal, self.memory, self.parts.choices_for)
        now = [
            situation(
                self.journal,
                serves,
                self.parts.choices_for(serves),
                model_prices(config, serves),
                self.parts.embedder_choice.other_recipes,
            )
            for serves in config.collections
        ]
        max_loss = {source.name: source.max_loss for source in config.sources}
        setups = self.swaps.arrange(now, config.rechunk, max_loss)
        for name in self.places.keys() - max_loss.keys():
            del self.places[name]
        made = [(setup, self.parts.by(setup.choices)) for setup in setups]
        sources = [source for setup, parts in made for source in self._sources(setup, parts)]
        used = [parts.config.embedding for _, parts in made if parts is not None]
        self.parts.models.keep(config.embedding, *used)
        # a rollback needs the embedders of previous editions, whose records readers ask at once
        previous = {each.embedder for each in Editions(self.journal).all() if each.role == "previous"}
        asked = {source.tools.embedder_recipe for source in sources if not source.only_loses}
        self.embedding.keep(asked | {Fingerprint(each) for each in previous if each})
        if self.fleet is not None:
            self.fleet.adopt_setups()  # before the engine has sources, whose documents nodes prepare
        self.engine.configure(sources, watch=watch, leaving=sources_to_remove(config, self.journal))

    def _sources(self, setup: EditionSetup, parts: Parts | None) -> list[Source]:
        """Return the sources of an edition. ``parts``: None if its choices cannot be reproduced here."""
        assert setup.edition is not None
        if parts is None:
            log.warning(
                "collection %s: plugin or model missing; only removals reach it until a replacement "
                "is complete",
                setup.serves,
                extra=event("collection_unusable", collection=str(setup.serves)),
            )
            sources = self.parts.sources(setup.serves, setup.edition, _no_vectors, places=self.places)
            return [replace(source, only_loses=True) for source in sources]
        self.models[setup.edition] = parts.model
        setting = parts.config.embedding.options

        def embedder() -> Embedder:
            own = parts.embedder
            return own if self.fleet is None else self.fleet.embedder(own, embedder_setup(parts))

        embed = self.embedding.of(parts.embedder_recipe, embedder, setting)
        sources = parts.sources(
            setup.serves,
            setup.edition,
            embed.behind if setup.building else embed,
            answers=self.answers,
            memory=self.memory,
            places=self.places,
        )
        expecting = [replace(each, tools=replace(each.tools, expect=embed.expect)) for each in sources]
        if self.fleet is not None:
            for source in expecting:
                if (on_nodes := tools_setup(parts, source.feed, source.tools)) is not None:
                    self.fleet.know(source.feed, source.tools, on_nodes)
        return expecting


def _no_vectors(texts: Sequence[str]) -> Vectors:
    raise AssertionError("an edition that only loses documents embeds nothing")


WORLD = Ports()


@contextmanager
def open_state(config: Config, *, serve: bool, ports: Ports = WORLD) -> Iterator[Running]:
    """Open a state for writing, under the lock of its folder; all is closed when the context ends.

    ``serve``: serve Chroma to others on its configured port. Waits while a reading command uses Chroma's
    folder.

    Raises Locked (a NeedsHuman) if another process holds a lock. Raises NeedsHuman if the state, Chroma or
    the embedder cannot be used, and Transient if Chroma does not start.
    """
    with ExitStack() as stack:
        journal, cache = stack.enter_context(
            _state(config, ports)
        )  # first: it keeps a second writer off Chroma
        parts, memory, models = (
            Parts(config, embedder_recipes_of(journal)),
            ports.memory(cache),
            dict[EditionName, Model](),
        )
        collections = retry_until_free(lambda: stack.enter_context(ports.store(parts, journal, serve)))
        assert parts.embedder_recipe  # raises if the model is missing, before a worker or a source starts
        pool, embedding, answers, fleet = stack.enter_context(_preparation(parts, cache, ports))
        words = stack.enter_context(closing(ports.words(lexical_path(config))))
        lexical = Upkeep(words, collections.names, ports.ticks)
        editions = EditionStore(
            journal,
            collections,
            lexical,
            lambda name: models.get(name) or unknown(journal, name),
            here(config),
        )
        engine_parts = EngineParts(
            journal=journal,
            collections=editions,
            pool=pool,
            clock=ports.clock,
            random=ports.random,
            workers=config.workers.count,
            forget=memory.forget,
            times=parts.times,
            preparing=prepare if fleet is None else fleet.preparing,
            in_flight_bytes=config.workers.in_flight,
            ahead=ports.ahead,
        )
        yield Running(
            ports=ports,
            parts=parts,
            journal=journal,
            cache=cache,
            memory=memory,
            answers=answers,
            embedding=embedding,
            pool=pool,
            collections=collections,
            lexical=lexical,
            engine=Engine(engine_parts),
            swaps=Swaps(journal, editions, ports.clock),
            models=models,
            fleet=fleet,
        )


@contextmanager
def _state(config: Config, ports: Ports) -> Iterator[tuple[Journal, VectorCache]]:
    """Open journal and cache, and note the config in force. Raises NeedsHuman if their disk is full."""
    files.make(config.state, _is_ours(config))
    if full := files.full_disk(config.state):
        raise NeedsHuman(full)
    with hold(lock_path(config)):
        run_status.keep_config(config, ports.clock())
        with (
            ports.journal(journal_path(config)) as journal,
            closing(ports.cache(cache_path(config), config.cache_size)) as cache,
        ):
            yield journal, cache


@contextmanager
def _preparation(
    parts: Parts, cache: VectorCache, ports: Ports
) -> Iterator[tuple[Pool, Embeddings, CachedAnswers, Fleet | None]]:
    """Start workers, the streams that they ask, and processes on nodes if documents are prepared there."""
    workers = parts.config.workers
    with ExitStack() as stack:
        pool = ports.pool(workers.count)
        embedding = Embeddings(cache, parts.tokens.counts, pool.release_turn)
        answers = CachedAnswers(cache)
        parts.isolation.take_turns(pool.release_turn, pool.behind)
        # Callbacks run from the last to the first: whatever a worker may wait for is stopped first, so that
        # the pool can be closed; what workers use is closed after the pool.
        stack.callback(embedding.close)
        stack.callback(parts.isolation.close)
        cluster = stack.enter_context(connect(workers)) if workers.kind == "ray" else None
        stack.callback(pool.close)
        for stop in (parts.isolation.stop, parts.text_budget.stop, answers.stop, embedding.stop):
            stack.callback(stop)
        stack.callback(_end_chunking, parts.tokens)
        fleet = None
        if cluster is not None:
            fleet = Fleet(
                cluster, workers, tools_of, embedder_of, resting=pool.release_turn, behind=pool.behind
            )
            stack.callback(fleet.stop)
        yield pool, embedding, answers, fleet


def _is_ours(config: Config) -> Callable[[str], bool]:
    """Return a test whether a file name in the state folder is one of ours."""
    files = (path(config).name for path in (journal_path, cache_path, lexical_path, chroma_log_path))
    begins = (*files, "live.", run_status.CONFIG_NAME, run_status.CHECK_PREFIX, EVALUATION)
    whole = (lock_path(config), getattr(config.chroma, "path", None))
    return lambda name: name.startswith(begins) or config.state / name in whole


def _end_chunking(tokens: Tokens) -> None:
    """Make chunkers raise Stopped at the next text that they count, so that large documents end soon."""

    def stop() -> None:
        raise Stopped

    tokens.check = stop


def unknown(journal: Journal, name: EditionName) -> Model:
    """Return the model of an edition that cannot be kept in step: it only loses records."""
    return Model(Fingerprint(Editions(journal).of_name(name).embedder or ""), known=False)
