"""The composition root: the only place where configured kinds become running parts.

Everything else takes what it needs as arguments. Parts are closed in the reverse order of their opening.
"""

import logging
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Literal

from ingestor.app import handover
from ingestor.app.renames import origin
from ingestor.chroma.backend import Collections
from ingestor.chroma.shards.backend import ShardedBackend
from ingestor.chunkers.options import ChunkerOptions
from ingestor.config.models import Choice, Config, Origin, SourceConfig, readers_ask_service
from ingestor.config.quotas import UNBOUNDED
from ingestor.config.servers import Embedded, RemoteChroma, Search
from ingestor.core.backend import Model
from ingestor.core.entries import EditionName, Feed
from ingestor.core.fingerprint import combine, embedder_fingerprint, plugin_fingerprint
from ingestor.core.interruptions import Stopped
from ingestor.engine.embedding import Embeddings
from ingestor.engine.loop import Engine
from ingestor.engine.open_collections import OpenCollections
from ingestor.engine.vector_check import checked
from ingestor.engine.workers import Pool
from ingestor.lexical.backend import LexicalBackend
from ingestor.lexical.file import LexicalFile
from ingestor.llm.client import Answers, Asking
from ingestor.model import Blob, CollectionName, Fingerprint, Item, ReaderModel, SourceName, Vectors
from ingestor.nodes.facts import MODEL, recipes_of
from ingestor.nodes.fleet import Fleet
from ingestor.nodes.messages import unpack
from ingestor.nodes.packing import packed, without_secrets
from ingestor.nodes.preparing import Setup
from ingestor.nodes.ray_cluster import connected
from ingestor.parsers.shared import detect
from ingestor.pipeline.answers import CachedAnswers, DryRunAnswers
from ingestor.pipeline.containers import Containers
from ingestor.pipeline.downloads import Downloads
from ingestor.pipeline.listing import Source
from ingestor.pipeline.prepare import Tools, prepare
from ingestor.pipeline.reading import Fetch, Memory, Reader
from ingestor.pipeline.stage_times import StageTimes
from ingestor.pipeline.text_budget import TextBudget
from ingestor.pipeline.truncation import exceeds_window
from ingestor.ports import (
    Adaptive,
    Asymmetric,
    Chunker,
    Connector,
    Embed,
    Embedder,
    Loadable,
    NeedsHuman,
    Parser,
    Pinned,
    Structured,
)
from ingestor.rechunk import policy
from ingestor.rechunk.recipes import Choices, NotReproducible, as_chosen, asking_prices, chosen, parsing
from ingestor.rechunk.swap import KeptEdition, Swaps
from ingestor.rerankers.configured import scores_of
from ingestor.sandbox.pool import Isolated, IsolatedIfLarge, Isolation
from ingestor.sandbox.process import Limits
from ingestor.search.reranking import Reranker
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
from ingestor.state.requests import Requests
from ingestor.text.tokens import Tokens

Places = dict[SourceName, tuple[Connector, Containers]]  # a source is listed once for all its editions
READERS_VARIABLE = (
    "INGESTOR_TOKEN"  # of the environment, where clients of Chroma look for the token of the service port
)


@dataclass(frozen=True)
class Parts:
    """The parts that a config describes; each is loaded at its first use.

    ``made``: recipes of the embedders of existing collections. Properties raise NeedsHuman when the embedder
    cannot be loaded.
    """

    config: Config
    made: frozenset[str] = frozenset()

    @cached_property
    def embedder(self) -> Embedder:
        """The configured embedder: of its alternatives one that made collections, else the best here."""
        own: Embedder = build(self.config.embedding)
        if not self.made or not isinstance(own, Adaptive):
            return own
        possible = (each for each, here in own.alternatives() if here)
        return next((each for each in possible if self._recipe(each) in self.made), own)

    @cached_property
    def embedder_recipe(self) -> Fingerprint:
        return self._recipe(self.embedder)

    @cached_property
    def other_recipes(self) -> frozenset[Fingerprint]:
        """Recipes of the embedders that the same config selects on other machines."""
        own = self.embedder
        found = {self._recipe(each) for each, _ in own.alternatives()} if isinstance(own, Adaptive) else set()
        return frozenset(found - {self.embedder_recipe})

    def _recipe(self, embedder: Embedder) -> Fingerprint:
        choice = self.config.embedding
        identity = embedder.identity if isinstance(embedder, Pinned) else None
        return embedder_fingerprint(choice.plugin, choice.options, identity)

    @cached_property
    def tokens(self) -> Tokens:
        return Tokens()

    @cached_property
    def times(self) -> StageTimes:
        return StageTimes()

    @cached_property
    def text_budget(self) -> TextBudget:
        return TextBudget()

    @cached_property
    def reranker(self) -> Reranker | None:
        """For the service port."""
        options = self.config.search.rerank
        return None if options is None else Reranker(scores_of(options, patient=False), options.hits)

    @cached_property
    def isolation(self) -> Isolation:
        """Confined processes for parsers, archives and mails; each is started for its first document."""
        limits = self.config.parsing
        return Isolation(Limits(limits.memory, limits.seconds, limits.processes))

    def query_vectors(self, texts: Sequence[str]) -> Vectors:
        """(n, dimensions) float32: embedded as queries, if the model distinguishes them from documents.

        Raises what the embedder raises, and BadVectors.
        """
        embedder = self.embedder
        embed = embedder.embed_queries if isinstance(embedder, Asymmetric) else embedder.embed
        return checked(embed(texts), texts, embedder.dimensions)

    def wanted(self, serves: CollectionName) -> Choices:
        """The choices that the config makes for a collection."""
        return chosen(self.config, serves, self.embedder_recipe, detect.rules())

    def by(self, choices: Choices | None) -> "Parts | None":
        """The parts of earlier choices; None if these cannot be reproduced here."""
        if choices is None:
            return None
        recipe = choices["embedding"]["recipe"]
        same = frozenset({recipe})
        try:
            found = self.under(as_chosen(self.config, choices, detect.rules()), same)
            if recipe == self.embedder_recipe:  # the model's folder may have moved
                return self.under(replace(found.config, embedding=self.config.embedding), same)
            return found if found.embedder_recipe == recipe else None
        except (NotReproducible, NeedsHuman):
            return None

    @property
    def model(self) -> Model:
        """The properties of the embedder that a collection stores."""
        embedder = self.embedder
        return Model(self.embedder_recipe, self._reader_model(), lambda: embedder.dimensions)

    def _reader_model(self) -> ReaderModel | None:
        """What readers embed their questions by: the service port, or the model in their own process."""
        http = self.config.http
        if http is None or not readers_ask_service(http, self.config.chroma):
            return self.embedder.reader_model() if isinstance(self.embedder, Loadable) else None
        variable = READERS_VARIABLE if http.token else None
        url = f"{http.url}/embed/{self.embedder_recipe}"
        return ReaderModel("huggingface_server", {"url": url, "api_key_env_var": variable})

    def collections(self, journal: Journal, *, serve: bool = False, attach: bool = False) -> Collections:
        """Chroma, not connected yet. ``serve``, ``attach``: see Collections."""
        return Collections(
            self.config.chroma,
            journal.owner,
            log_path=chroma_log_path(self.config),
            serve=serve,
            attach=attach,
        )

    def under(self, config: Config, made: frozenset[str]) -> "Parts":
        """Parts of another config. Loaded parts that it shares are kept."""
        fresh = Parts(config, made)
        kept = ["tokens", "isolation", "text_budget", "times"]
        if config.embedding == self.config.embedding and (not made or self.embedder_recipe in made):
            kept += ["embedder", "embedder_recipe", "other_recipes"]
        kept += ["reranker"] if config.search == self.config.search else []
        fresh.__dict__.update({name: self.__dict__[name] for name in kept if name in self.__dict__})
        return fresh

    def sources(
        self,
        serves: CollectionName,
        edition: EditionName,
        embed: Embed,
        answers: Answers | None = None,
        memory: Memory | None = None,
        places: Places | None = None,
    ) -> list[Source]:
        """Every source that feeds a collection, with the tools that make an edition's records of its items.

        ``serves``: the name that readers use. ``edition``: where the records go. ``embed``: texts to vectors.
        ``answers``: asks language models; None: they are not asked. ``memory``: parsed documents; None: every
        document is read again. ``places``: of other editions of the same sources, which are shared; this
        one's are added.
        """
        through, shared = answers or DryRunAnswers(None, self.tokens.counts), {} if places is None else places
        return [
            self._source(source, edition, embed, through, memory, shared)
            for source in self.config.sources
            if source.collection == serves
        ]

    def _source(
        self,
        source: SourceConfig,
        edition: EditionName,
        embed: Embed,
        answers: Answers,
        memory: Memory | None,
        places: Places,
    ) -> Source:
        if source.name not in places:
            connector = build(source.connector)
            containers = Containers(
                connector.fetch,
                source.archives,
                self.isolation.unpack,
                is_simple=connector.is_simple if isinstance(connector, Structured) else lambda item: False,
                downloads=None if getattr(connector, "near", False) else Downloads(),
            )
            places[source.name] = connector, containers
        connector, containers = places[source.name]
        near = getattr(connector, "near", False)
        reader = self.reader(source, containers.fetch, origin(source), near=near, memory=memory)
        return Source(
            source.name, edition, connector, self.tools(source, edition, reader, embed, answers),
            source.max_loss, source.scan_every, containers.expand,
        )  # fmt: skip

    def reader(
        self, source: SourceConfig, fetch: Fetch, place: str, *, near: bool, memory: Memory | None
    ) -> Reader:
        """``place``: the origin of the source. ``near``, ``memory``: see Connector and Reader."""
        parsers = {choice.plugin.kind: choice for choice in parsing(source)}
        return Reader(
            source.name,
            fetch,
            {kind: parser(choice, self.isolation) for kind, choice in parsers.items()},
            {kind: plugin_fingerprint(choice.plugin, choice.options) for kind, choice in parsers.items()},
            memory,
            costly={kind for kind, choice in parsers.items() if not near or isolated(choice)},
            types=source.types,
            origin=place,
        )

    def tools(
        self, source: SourceConfig, edition: EditionName, reader: Reader, embed: Embed, answers: Answers
    ) -> Tools:
        chunking = source.chunking
        options = chunking.options
        shared = options if isinstance(options, ChunkerOptions) else ChunkerOptions()
        return Tools(
            reader=reader,
            collection=edition,
            chunker=self._chunker(chunking, answers),
            chunker_recipe=plugin_fingerprint(chunking.plugin, options),
            strategy=chunking.plugin.kind,
            embed=embed,
            embedder_recipe=self.embedder_recipe,
            count_tokens=self.tokens.counts,
            context=shared.context,
            neighbours=shared.neighbours,
            exceeds_window=partial(exceeds_window, self.embedder),
            max_records=self.config.max_records,
            profile=source.metadata,
            quotas=chroma.bounds if isinstance(chroma := self.config.chroma, RemoteChroma) else UNBOUNDED,
            chunking_turn=self.text_budget.taken,
            times=self.times,
        )

    def setup(self, feed: Feed, tools: Tools) -> Setup | None:
        """How a process on a node makes these tools. Connectors, servers and their secrets stay here.

        None where a strategy asks a language model: it waits for a server, and needs no other machine.
        """
        if isinstance(tools.chunker, Asking):
            return None
        source = next(each for each in self.config.sources if each.name == feed.source)
        near = getattr(build(source.connector), "near", False)
        told = OnNode(self._for_nodes(source), self.embedder_recipe, feed.edition, tools.reader.origin, near)
        key = combine(feed, tools.recipe(""), self.config.max_records)
        return Setup(key, packed(told), recipes_of(tools))

    @property
    def embedder_setup(self) -> Setup:
        """How a process on a node makes the embedder."""
        told = OnNode(self._for_nodes(None), self.embedder_recipe, EditionName(""))
        return Setup(self.embedder_recipe, packed(told), {MODEL: self.embedder_recipe})

    def _for_nodes(self, source: SourceConfig | None) -> Config:
        """The config without all that a process on a node does not need."""
        config, chroma = self.config, self.config.chroma
        remote = (
            RemoteChroma(host=chroma.host, quotas=chroma.quotas) if isinstance(chroma, RemoteChroma) else None
        )
        return replace(
            config,
            chroma=remote or Embedded(),
            embedding=replace(config.embedding, options=without_secrets(config.embedding.options)),
            sources=() if source is None else (replace(source, connector=None),),  # type: ignore[arg-type]
            parsing=config.parsing.model_copy(update={"processes": 1}),
            http=None,
            search=Search(),
            language_model=None,
            warnings=(),
            origin=Origin(),
        )

    def _chunker(self, choice: Choice, answers: Answers) -> Chunker:
        chunker: Chunker = choice.plugin.build(choice.options, self.tokens)
        return chunker.through(answers) if isinstance(chunker, Asking) else chunker


@dataclass(frozen=True)
class OnNode:
    """What a process on a node is told: ``embedder``: the recipe; ``origin``, ``near``: of the connector."""

    config: Config
    embedder: Fingerprint
    edition: EditionName
    origin: str = ""
    near: bool = False

    @property
    def parts(self) -> Parts:
        return Parts(self.config, frozenset({self.embedder}))


def tools_of(packed_setup: bytes) -> Tools:
    """On a node: the tools of one source. What they read and embed with is at the head."""
    told: OnNode = unpack(packed_setup)
    parts, (source,) = told.parts, told.config.sources
    reader = parts.reader(source, _nothing_here, told.origin, near=told.near, memory=None)
    answers = DryRunAnswers(None, parts.tokens.counts)
    return parts.tools(source, told.edition, reader, _no_model_here, answers)


def embedder_of(packed_setup: bytes) -> tuple[Embedder, Fingerprint]:
    """On a node: the embedder and its recipe."""
    told: OnNode = unpack(packed_setup)
    return told.parts.embedder, told.parts.embedder_recipe


def _nothing_here(item: Item) -> Blob:
    raise AssertionError(f"{item.uri} is read at the head")


def _no_model_here(texts: Sequence[str]) -> Vectors:
    raise AssertionError("texts are embedded elsewhere")


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
        handover.settle_names(config, self.journal, Parses(self.cache), self.parts.wanted)
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
        fed = {standing.edition: self._sources(standing, places) for standing in standings}
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

    def _sources(self, standing: KeptEdition, places: Places) -> list[Source]:
        parts = self.parts.by(standing.choices)
        if parts is None:
            logging.getLogger("ingestor").warning(
                "%s: plugins or model that made its documents are not available here; the collection stays "
                "unchanged until a new one is complete", standing.serves,
            )  # fmt: skip
            return []
        self.models[standing.edition] = parts.model
        embed = self.embedding.of(parts.embedder_recipe, lambda: self._embedder(parts))
        memory = Parses(self.cache)
        found = parts.sources(standing.serves, standing.edition, embed, self.answers, memory, places)
        for source in found if self.fleet is not None else ():
            setup = parts.setup(source.feed, source.tools)
            if setup is not None and self.fleet is not None:
                self.fleet.know(source.feed, source.tools, setup)
        return found

    def _embedder(self, parts: Parts) -> Embedder:
        own = parts.embedder
        return own if self.fleet is None else self.fleet.embedder(own, parts.embedder_setup)


def gone_sources(config: Config, journal: Journal) -> list[SourceName]:
    """Sources with documents in the journal that left the config, renamed ones not included."""
    staying = {source.name for source in config.sources} | handover.renamed(config, journal).keys()
    return [name for name in journal.sources() if name not in staying]


def leaving(config: Config, journal: Journal) -> list[SourceName]:
    """Sources that left the config and whose documents are removed now."""
    gone = gone_sources(config, journal)
    return [name for name in gone if config.prune or Requests(journal).get("prune", name)]


def made_by(journal: Journal) -> frozenset[str]:
    """Recipes of the embedders of the live editions."""
    return frozenset(
        each.embedder for each in Editions(journal).all() if each.role == "live" and each.embedder
    )


def build(choice: Choice):  # type: ignore[no-untyped-def]
    """The part that a plugin builds from its options."""
    return choice.plugin.build(choice.options)


def isolated(choice: Choice) -> bool:
    """Whether this parser always runs in a confined process."""
    return _isolated(choice) is True


def _isolated(choice: Choice) -> bool | Literal["large"]:
    found: bool | Literal["large"] = getattr(choice.plugin.build, "isolated", False)
    return found


def parser(choice: Choice, isolation: Isolation) -> Parser:
    """The parser, or a proxy of it if it runs in a confined process."""
    elsewhere = Isolated(choice.plugin.kind, choice.options, isolation)
    if isolated(choice):
        return elsewhere
    built: Parser = build(choice)
    return IsolatedIfLarge(built, elsewhere) if _isolated(choice) == "large" else built


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
        embedding = Embeddings(cache, parts.tokens.counts)
        stack.callback(embedding.close)
        answers = CachedAnswers(cache)
        stack.callback(parts.isolation.close)
        workers = config.workers
        cluster = stack.enter_context(connected(workers)) if workers.kind == "ray" else None
        pool = Pool(workers.count)
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
