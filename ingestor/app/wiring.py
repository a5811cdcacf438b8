"""The composition root: ``open_state`` builds a running program from a config.

All other modules get their parts as arguments. Every part that is opened is closed at the end of its context,
so parts are closed in the reverse order of ``open_state``.
"""

import logging
import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from ingestor.app.handover import settle_names, sources_to_remove
from ingestor.app.parts import Parts, embedder_recipes_of, refuse_call
from ingestor.chroma.backend import Collections, Ownership, open_collections
from ingestor.config.models import Config, Origin, SourceConfig
from ingestor.config.servers import Embedded, RemoteChroma, Search
from ingestor.core.entries import EditionName, Feed
from ingestor.core.errors import Stopped
from ingestor.core.events import event
from ingestor.core.fingerprint import combine
from ingestor.core.generations import Model
from ingestor.engine.edition_store import EditionStore
from ingestor.engine.embedding import Embeddings
from ingestor.engine.loop import AHEAD, Engine, EngineParts
from ingestor.engine.workers import Pool
from ingestor.lexical.file import LexicalFile
from ingestor.lexical.filling import Upkeep
from ingestor.llm.answers import CachedAnswers
from ingestor.llm.client import Asking
from ingestor.model import Fingerprint
from ingestor.nodes.cluster import connect
from ingestor.nodes.fleet import Fleet
from ingestor.nodes.messages import pack, unpack
from ingestor.nodes.setup import MODEL, Setup, recipes_of
from ingestor.pipeline.listing import Source
from ingestor.pipeline.prepare import Tools, prepare
from ingestor.ports import Embedder, NeedsHuman
from ingestor.rechunk import policy
from ingestor.rechunk.policy import EditionSetup
from ingestor.rechunk.swap import Swaps
from ingestor.state import files, run_status
from ingestor.state.cache import Parses, VectorCache
from ingestor.state.editions import Editions, uuids_of
from ingestor.state.files import (
    EVALUATION,
    cache_path,
    chroma_log_path,
    here,
    hold,
    journal_path,
    lexical_path,
    lock_path,
    retry_until_free,
)
from ingestor.state.journal import Journal, open_journal

log = logging.getLogger("ingestor")

Store = AbstractContextManager[Collections]


@dataclass(frozen=True)
class Ports:
    """The functions by which the program reaches the outside world. Simulations replace them.

    ``clock``: returns POSIX seconds. ``ticks``: returns seconds that never go back. ``random``: returns a
    number evenly drawn from [0, 1). ``journal``, ``cache``, ``memory`` (parsed documents), ``words`` (lexical
    index): open the files of the state. ``store``: opens Chroma; its last argument is whether our server
    also serves other clients. ``pool``: starts this number of workers. ``ahead``: see EngineParts.
    """

    clock: Callable[[], float] = time.time
    ticks: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random
    journal: Callable[[Path], AbstractContextManager[Journal]] = open_journal
    cache: Callable[[Path, int], VectorCache] = VectorCache
    memory: Callable[[VectorCache], Parses] = Parses
    words: Callable[[Path], LexicalFile] = LexicalFile
    store: Callable[[Config, Journal, bool], Store] = lambda config, journal, serve: open_collections(
        config.chroma,
        Ownership(journal.owner, lambda: uuids_of(journal)),
        chroma_log_path(config),
        serve=serve,
    )
    pool: Callable[[int], Pool] = Pool
    ahead: int = AHEAD


@dataclass(frozen=True, kw_only=True)
class Running:
    """An opened state with everything that keeps its collections in step, built by ``open_state``.

    ``answers``: asks language models. ``embedding``: embeds texts. ``collections``: Chroma. ``lexical``:
    keeps the lexical indexes. ``models``: by edition, the properties of its embedder that the collection
    stores. ``fleet``: processes on other machines; None if there are none. ``outdated``: editions that cannot
    be reproduced here. Each is logged once.
    """

    ports: Ports
    parts: Parts
    journal: Journal
    cache: VectorCache
    memory: Parses
    answers: CachedAnswers
    embedding: Embeddings
    collections: Collections
    lexical: Upkeep
    engine: Engine
    swaps: Swaps
    models: dict[EditionName, Model]
    fleet: Fleet | None
    outdated: set[EditionName] = field(default_factory=set)

    @property
    def cost_of_embedding(self) -> float:
        """Return the cost of the tokens embedded since the program started, by the config's price."""
        return policy.cost(self.embedding.counts().tokens, self.parts.config.rechunk)

    def with_config(self, config: Config) -> "Running":
        """Return the same opened state under another config.

        Raises NeedsHuman if the embedder of the other config cannot be loaded.
        """
        fresh = replace(
            self, parts=replace(self.parts, config=config, made=embedder_recipes_of(self.journal))
        )
        assert fresh.parts.embedder_recipe
        return fresh

    def configure(self, *, watch: bool) -> None:
        """Decide which editions are kept in step by which recipes, and configure the engine for them.

        ``watch``: whether connectors report changes of their documents. Raises sqlite3.Error.
        """
        config = self.parts.config
        # before ``situation`` reads approvals: they are stored under the old names of renamed sources
        settle_names(config, self.journal, self.memory, self.parts.choices_for)
        now = [self.parts.situation(self.journal, serves) for serves in config.collections]
        max_loss = {source.name: source.max_loss for source in config.sources}
        setups = self.swaps.arrange(now, config.rechunk, max_loss)
        for name in self.parts.roots.keys() - max_loss.keys():
            del self.parts.roots[name]
        for edition in self.models.keys() - {setup.edition for setup in setups}:
            del self.models[edition]  # its embedder is not needed any more
        made = [(setup, self.parts.by(setup.choices)) for setup in setups]
        sources = [source for setup, parts in made for source in self._sources(setup, parts)]
        used = [config.embedding, *(parts.config.embedding for _, parts in made if parts is not None)]
        self.parts.loaded[:] = [each for each in self.parts.loaded if each.choice in used]
        # after a rollback readers search a previous edition at once: its embedder must be loaded
        previous = {each.embedder for each in Editions(self.journal).all() if each.role == "previous"}
        asked = {source.tools.embedder_recipe for source in sources if not source.only_loses}
        self.embedding.keep(asked | {Fingerprint(each) for each in previous if each})
        if self.fleet is not None:
            self.fleet.adopt_setups()  # before the engine gets sources whose documents nodes prepare
        self.engine.configure(sources, watch=watch, leaving=sources_to_remove(config, self.journal))

    def _sources(self, setup: EditionSetup, parts: Parts | None) -> list[Source]:
        """Return the sources of an edition.

        ``parts``: the parts that its choices describe; None if the choices cannot be reproduced here.
        """
        assert setup.edition is not None
        if parts is None:
            words = (
                "collection %s: the program or its model changed; until it is rebuilt, documents only leave"
            )
            about = event("collection_unusable", collection=str(setup.serves))
            if setup.edition not in self.outdated:
                log.warning(words, setup.serves, extra=about)
            self.outdated.add(setup.edition)
            sources = self.parts.sources(setup.serves, setup.edition, refuse_call)
            return [replace(source, only_loses=True) for source in sources]
        self.outdated.discard(setup.edition)
        self.models[setup.edition] = parts.model

        def embedder() -> Embedder:
            own = parts.embedder
            return own if self.fleet is None else self.fleet.embedder(own, embedder_setup(parts))

        embed = self.embedding.of(parts.embedder_recipe, embedder)
        sources = parts.sources(
            setup.serves,
            setup.edition,
            embed,
            answers=self.answers,
            memory=self.memory,
        )
        expecting = [replace(each, tools=replace(each.tools, expect=embed.expect)) for each in sources]
        if self.fleet is not None:
            for source in expecting:
                if (on_nodes := tools_setup(parts, source.feed, source.tools)) is not None:
                    self.fleet.know(source.feed, source.tools, on_nodes)
        return expecting


REAL_PORTS = Ports()


@contextmanager
def open_state(config: Config, *, serve: bool, ports: Ports = REAL_PORTS) -> Iterator[Running]:
    """Open a state for writing, under the lock of its folder, until the context ends.

    ``serve``: whether Chroma also serves other clients, on the port of the config. While a command that only
    reads uses Chroma's folder, the call waits.

    Raises Locked (a NeedsHuman) if another process holds a lock. Raises NeedsHuman if the state, Chroma or
    the embedder cannot be used, and Transient if Chroma does not start.
    """
    files.make(config.state, _is_ours(config))
    if full := files.full_disk(config.state):
        raise NeedsHuman(full)
    with ExitStack() as stack:
        stack.enter_context(hold(lock_path(config)))  # first: keeps a second writer off Chroma
        run_status.keep_config(config, ports.clock())
        journal = stack.enter_context(ports.journal(journal_path(config)))
        cache = stack.enter_context(closing(ports.cache(cache_path(config), config.cache_size)))
        parts, memory = Parts(config, embedder_recipes_of(journal)), ports.memory(cache)
        models = dict[EditionName, Model]()
        collections = retry_until_free(lambda: stack.enter_context(ports.store(config, journal, serve)))
        assert parts.embedder_recipe  # raises if the model is missing, before a worker or a source starts
        pool, embedding, answers, fleet = stack.enter_context(_preparation(parts, cache, ports))
        words = stack.enter_context(closing(ports.words(lexical_path(config))))
        lexical = Upkeep(words, collections.names, ports.ticks)

        def model_of(name: EditionName) -> Model:
            recipe = Fingerprint(Editions(journal).of_name(name).embedder or "")
            return models.get(name) or Model(recipe, known=False)  # unknown: it only loses records

        store = EditionStore(journal, collections, lexical, model_of, here(config))
        engine_parts = EngineParts(
            journal=journal,
            store=store,
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
            collections=collections,
            lexical=lexical,
            engine=Engine(engine_parts),
            swaps=Swaps(journal, store, ports.clock),
            models=models,
            fleet=fleet,
        )


@contextmanager
def _preparation(
    parts: Parts, cache: VectorCache, ports: Ports
) -> Iterator[tuple[Pool, Embeddings, CachedAnswers, Fleet | None]]:
    """Start everything that prepares documents, until the context ends.

    These are the workers, the queues in which they embed texts and ask language models, and processes on
    nodes if the config names any.
    """
    workers = parts.config.workers
    with ExitStack() as stack:
        pool = ports.pool(workers.count)
        embedding = Embeddings(cache, parts.tokens.counts, pool.release_permit)
        answers = CachedAnswers(cache)
        parts.isolation.take_turns(pool.release_permit, pool.is_background)
        # Callbacks run from the last to the first. Everything that a worker may wait for is stopped first, so
        # that the pool can be closed; everything that workers use is closed after the pool.
        stack.callback(embedding.close)
        stack.callback(parts.isolation.close)
        cluster = stack.enter_context(connect(workers)) if workers.kind == "ray" else None
        stack.callback(pool.close)
        for stop in (parts.isolation.stop, answers.stop, embedding.stop):
            stack.callback(stop)
        stack.callback(setattr, parts.tokens, "check", _stop)  # large documents end soon
        fleet = None
        if cluster is not None:
            waiting, background = pool.release_permit, pool.is_background
            fleet = Fleet(cluster, workers, tools_of, embedder_of, resting=waiting, behind=background)
            stack.callback(fleet.stop)
        yield pool, embedding, answers, fleet


def _is_ours(config: Config) -> Callable[[str], bool]:
    """Return a function that returns whether a file in the state folder is ours, by its name."""
    files = (path(config).name for path in (journal_path, cache_path, lexical_path, chroma_log_path))
    begins = (*files, "live.", run_status.CONFIG_NAME, run_status.CHECK_PREFIX, EVALUATION)
    whole = (lock_path(config), getattr(config.chroma, "path", None))
    return lambda name: name.startswith(begins) or config.state / name in whole


def _stop() -> None:
    raise Stopped


# --- what processes on other machines (nodes) build ------------------------------------------------
# A ``Setup`` packs the part of the config that a node needs. Connectors, servers and their secrets stay in
# the daemon.


def tools_setup(parts: Parts, feed: Feed, tools: Tools) -> Setup | None:
    """Return the setup from which a process on a node builds these tools.

    Return None if the chunking strategy asks a language model. Such documents are prepared in the daemon,
    because they mostly wait for a server.
    """
    if isinstance(tools.chunker, Asking):
        return None
    source = next(each for each in parts.config.sources if each.name == feed.source)
    packed = pack((_for_nodes(parts.config, source), parts.embedder_recipe))
    return Setup(combine(feed, tools.recipe(""), parts.config.max_records), packed, recipes_of(tools))


def embedder_setup(parts: Parts) -> Setup:
    """Return the setup from which a process on a node builds the embedder."""
    recipe = parts.embedder_recipe
    return Setup(recipe, pack((_for_nodes(parts.config), recipe)), {MODEL: recipe})


def _for_nodes(config: Config, source: SourceConfig | None = None) -> Config:
    """Return the config for nodes: without secrets, and without settings that a node does not need."""
    chroma, options = config.chroma, config.embedding.options
    return replace(
        config,
        chroma=RemoteChroma(host=chroma.host, quotas=chroma.quotas)
        if isinstance(chroma, RemoteChroma)
        else Embedded(),
        # JSON masks secrets; fingerprints do not depend on them
        embedding=replace(config.embedding, options=options.model_validate_json(options.model_dump_json())),
        sources=() if source is None else (replace(source, connector=None),),  # type: ignore[arg-type]
        parsing=config.parsing.model_copy(update={"processes": 1}),
        http=None,
        search=Search(),
        language_model=None,
        warnings=(),
        origin=Origin(),
    )


def tools_of(packed_setup: bytes) -> Tools:
    """Build the tools of one source, in a process on a node. The daemon fetches items and embeds texts for
    them.

    ``packed_setup``: what ``tools_setup`` packed.
    """
    config, recipe = unpack(packed_setup)
    parts = Parts(config, frozenset({recipe}))
    return parts.tools(config.sources[0], refuse_call, refuse_call)


def embedder_of(packed_setup: bytes) -> tuple[Embedder, Fingerprint]:
    """Build the embedder, in a process on a node. Return the embedder and its recipe.

    ``packed_setup``: what ``embedder_setup`` packed.
    """
    config, recipe = unpack(packed_setup)
    parts = Parts(config, frozenset({recipe}))
    return parts.embedder, parts.embedder_recipe
