"""Builds the parts that a config describes: embedders, parsers, chunkers, and sources with their tools.

Processes on other machines (nodes) build the same tools from a ``Setup``. Connectors, servers and their
secrets stay in the daemon.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import NoReturn

from ingestor.app.handover import origin
from ingestor.chunkers.by_type import build_chunker
from ingestor.chunkers.options import ChunkerOptions
from ingestor.config.models import Choice, Config, SourceConfig, readers_ask_service
from ingestor.config.quotas import UNBOUNDED
from ingestor.config.servers import RemoteChroma, Rerank
from ingestor.core.entries import Choices, EditionName
from ingestor.core.fingerprint import embedder_fingerprint, plugin_fingerprint
from ingestor.core.generations import Model
from ingestor.engine.vectors import check_vectors
from ingestor.llm.answers import DryRunAnswers
from ingestor.llm.client import Answers, Asking
from ingestor.model import CollectionName, Fingerprint, ReaderModel, SourceName, Vectors
from ingestor.parsers.shared import detect
from ingestor.pipeline.containers import Containers
from ingestor.pipeline.limits import StageTimes, exceeds_window
from ingestor.pipeline.listing import Source
from ingestor.pipeline.metadata import Describing
from ingestor.pipeline.prepare import Fetch, Memory, Reader, Tools
from ingestor.ports import (
    Adaptive,
    Asymmetric,
    Chunker,
    Embed,
    Embedder,
    Loadable,
    NeedsHuman,
    Parser,
    Pinned,
    Vocabulary,
)
from ingestor.rechunk.policy import (
    CollectionSituation,
    NotReproducible,
    as_chosen,
    choices_of,
    model_prices,
    parsers_of,
)
from ingestor.rechunk.swap import situation
from ingestor.sandbox.pool import Isolated, IsolatedIfLarge, Isolation
from ingestor.sandbox.process import Limits
from ingestor.search.rerankers import Reranker, scores_of
from ingestor.state.editions import Editions
from ingestor.state.journal import Journal
from ingestor.text.tokens import Tokens

READERS_VARIABLE = "INGESTOR_TOKEN"  # environment variable from which Chroma's clients read the token


def build(choice: Choice):  # type: ignore[no-untyped-def]
    """Build the connector, parser, chunker or embedder that a config chose, with its options."""
    return choice.plugin.build(choice.options)


def refuse_call(*given: object) -> NoReturn:
    """Raise AssertionError. Stands for functions that tools do not call here, such as one that embeds."""
    raise AssertionError(f"called with {given}")


def _isolation_of(choice: Choice) -> object:
    """Return False if a parser runs in this process, "large" if small documents do, else another value.

    A parser runs in the daemon only if its class declares so.
    """
    return getattr(choice.plugin.build, "isolated", True)


def parser(choice: Choice, isolation: Isolation) -> Parser:
    """Build a parser. If it runs in a confined process, build a proxy for it."""
    isolated, elsewhere = _isolation_of(choice), Isolated(choice.plugin.kind, choice.options, isolation)
    if isolated is False:
        built: Parser = build(choice)
        return built
    return IsolatedIfLarge(build(choice), elsewhere) if isolated == "large" else elsewhere


@dataclass(frozen=True)
class ChosenEmbedder:
    """The configured embedder with its recipe.

    ``made``: recipes of existing collections. ``other_recipes``: recipes of the embedders that the same
    config selects on other machines.
    """

    choice: Choice
    made: frozenset[str]
    embedder: Embedder
    recipe: Fingerprint
    other_recipes: frozenset[Fingerprint]


def choose_embedder(choice: Choice, made: frozenset[str]) -> ChosenEmbedder:
    """Build the configured embedder.

    An ``Adaptive`` embedder has alternatives. The alternative that made existing collections is chosen, else
    the best one for this machine. ``made``: recipes of existing collections. Raises NeedsHuman if the
    embedder cannot be loaded.
    """
    own: Embedder = build(choice)
    possible = [(own, True), *(own.alternatives() if isinstance(own, Adaptive) else ())]
    identities = [each.identity if isinstance(each, Pinned) else None for each, _ in possible]
    recipes = [embedder_fingerprint(choice.plugin, choice.options, identity) for identity in identities]
    at = next((n for n, (_, here) in enumerate(possible) if here and recipes[n] in made), 0)
    return ChosenEmbedder(choice, made, possible[at][0], recipes[at], frozenset(recipes) - {recipes[at]})


@lru_cache(1)  # the last one is kept, since loading a model takes seconds
def _reranker(options: Rerank) -> Reranker:
    return Reranker(scores_of(options, patient=False), options.hits)


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts that a config describes.

    ``dataclasses.replace`` with another config keeps the parts that do not depend on the change. ``made``:
    recipes of the embedders that made existing collections. ``no_service``: why the service port could not be
    opened, or "". ``loaded``: all embedders of this process; each is loaded once. ``roots``: for each source
    its settings and its containers, shared by all editions. ``isolation``: the confined processes that parse,
    and open archives and mails. By default they are created with the config's limits.
    """

    config: Config
    made: frozenset[str] = frozenset()
    no_service: str = ""
    loaded: list[ChosenEmbedder] = field(default_factory=list)
    roots: dict[SourceName, tuple[object, Containers]] = field(default_factory=dict)
    tokens: Tokens = field(default_factory=Tokens)
    times: StageTimes = field(default_factory=StageTimes)
    isolation: Isolation = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.isolation is None:
            limits = self.config.parsing
            isolation = Isolation(Limits(limits.memory, limits.seconds, limits.processes))
            object.__setattr__(self, "isolation", isolation)

    @property
    def embedder_choice(self) -> ChosenEmbedder:
        choice, made = self.config.embedding, self.made
        for known in self.loaded:
            if known.choice == choice and (not made or known.made == made or known.recipe in made):
                return known
        self.loaded.append(fresh := choose_embedder(choice, made))
        return fresh

    @property
    def embedder(self) -> Embedder:
        """Return the embedder. Raises NeedsHuman if it cannot be loaded."""
        return self.embedder_choice.embedder

    @property
    def embedder_recipe(self) -> Fingerprint:
        return self.embedder_choice.recipe

    @property
    def reranker(self) -> Reranker | None:
        """Return the reranker of the service port; None if the config names none."""
        options = self.config.search.rerank
        return None if options is None else _reranker(options)

    def query_vectors(self, texts: Sequence[str]) -> Vectors:
        """Embed queries of readers. Return an array (n, dimensions) of float32.

        Raises the errors of the embedder, and BadVectors.
        """
        embedder = self.embedder
        embed = embedder.embed_queries if isinstance(embedder, Asymmetric) else embedder.embed
        return check_vectors(embed(texts), texts, embedder.dimensions)

    def choices_for(self, serves: CollectionName) -> Choices:
        """Return the config's choices for a collection. ``serves``: the name that readers use."""
        return choices_of(self.config, serves, self.embedder_recipe, detect.rules())

    def situation(self, journal: Journal, serves: CollectionName) -> CollectionSituation:
        """Return the state of a collection in the journal, together with the config's choices. Only reads."""
        prices, others = model_prices(self.config, serves), self.embedder_choice.other_recipes
        return situation(journal, serves, self.choices_for(serves), prices, others)

    def by(self, choices: Choices | None) -> "Parts | None":
        """Return the parts for choices that the journal stored.

        Return None if the choices are None or cannot be reproduced here, for example because a plugin is
        missing.
        """
        if choices is None:
            return None
        recipe = choices["embedding"]["recipe"]
        try:
            config = as_chosen(self.config, choices, detect.rules())
            if recipe == self.embedder_recipe:  # the model's folder may have moved
                config = replace(config, embedding=self.config.embedding)
            parts = replace(self, config=config, made=frozenset({recipe}))
            return parts if parts.embedder_recipe == recipe else None
        except (NotReproducible, NeedsHuman):
            return None

    @property
    def model(self) -> Model:
        """Return the properties of the embedder that are stored in a collection.

        By these properties Chroma's clients embed queries: at the service port, or by the model in their own
        process.
        """
        http, embedder = self.config.http, self.embedder
        if http is None or self.no_service or not readers_ask_service(http, self.config.chroma):
            reader = embedder.reader_model() if isinstance(embedder, Loadable) else None
        else:
            variable = READERS_VARIABLE if http.token else None
            url = f"{http.url}/embed/{self.embedder_recipe}"
            reader = ReaderModel("huggingface_server", {"url": url, "api_key_env_var": variable})
        return Model(self.embedder_recipe, reader, lambda: embedder.dimensions)

    def sources(
        self,
        serves: CollectionName,
        edition: EditionName,
        embed: Embed,
        *,
        answers: Answers | None = None,
        memory: Memory | None = None,
    ) -> list[Source]:
        """Return every source that feeds a collection, with the tools that make an edition's records.

        ``serves``: the collection's name for readers. ``edition``: the edition that gets the records. For the
        others see ``tools``.
        """
        result = []
        for source in self.config.sources:
            if source.collection != serves:
                continue
            containers = self._containers_of(source)
            near, place, fetch = containers.near, origin(source), containers.fetch
            tools = self.tools(source, fetch, embed, answers, memory, origin=place, near=near)
            result.append(
                Source(
                    name=source.name,
                    edition=edition,
                    connector=containers.connector,
                    tools=tools,
                    max_loss=source.max_loss,
                    scan_every=source.scan_every,
                    expand=containers.expand,
                )
            )
        return result

    def _containers_of(self, source: SourceConfig) -> Containers:
        """Return the connector of a source with its containers.

        While the settings are equal, a changed config keeps them. The source is then not listed again, so
        they must still know the items of the last listing.
        """
        setting = (source.connector, source.archives, source.max_loss, source.scan_every)
        if (root := self.roots.get(source.name)) is None or root[0] != setting:
            containers = Containers(build(source.connector), source.archives, self.isolation.unpack)
            self.roots[source.name] = root = setting, containers
        return root[1]

    def tools(
        self,
        source: SourceConfig,
        fetch: Fetch,
        embed: Embed,
        answers: Answers | None = None,
        memory: Memory | None = None,
        *,
        origin: str = "",
        near: bool = False,
    ) -> Tools:
        """Build the tools that make records from the documents of a source.

        ``fetch``: fetches an item. ``embed``: returns vectors of texts. ``answers``: asks language models; if
        None, none is asked. ``memory``: cache of parsed documents; if None, every document is read again.
        ``origin``: see Reader. ``near``: see ports.Connector.
        """
        parsers = {choice.plugin.kind: choice for choice in parsers_of(source)}
        reader = Reader(
            source.name,
            fetch,
            {kind: parser(choice, self.isolation) for kind, choice in parsers.items()},
            {kind: plugin_fingerprint(choice.plugin, choice.options) for kind, choice in parsers.items()},
            memory,
            costly={kind for kind, each in parsers.items() if not near or _isolation_of(each) is True},
            types=source.types,
            origin=origin,
        )
        chunking, chroma = source.chunking, self.config.chroma
        options = chunking.options
        shared = options if isinstance(options, ChunkerOptions) else ChunkerOptions()
        model = str(getattr(self.config.embedding.options, "model", "")).rstrip("/").rpartition("/")[2]
        chunker: Chunker = build_chunker(chunking.plugin, options, self.tokens)
        return Tools(
            reader=reader,
            chunker=chunker.through(answers or DryRunAnswers(None, self.tokens.counts))
            if isinstance(chunker, Asking)
            else chunker,
            chunker_recipe=plugin_fingerprint(chunking.plugin, options),
            describing=Describing(
                source.name,
                chunking.plugin.kind,
                source.metadata,
                chroma.bounds if isinstance(chroma, RemoteChroma) else UNBOUNDED,
                source.own,
            ),
            embed=embed,
            embedder_recipe=self.embedder_recipe,
            count_tokens=self.tokens.counts,
            context=shared.context,
            neighbours=shared.neighbours,
            exceeds_window=partial(exceeds_window, self.embedder),
            max_records=self.config.max_records,
            model=model,
            count_unknown=self.embedder.count_unknown if isinstance(self.embedder, Vocabulary) else None,
            times=self.times,
        )


def embedder_recipes_of(journal: Journal) -> frozenset[str]:
    """Return the recipes of the embedders by which the editions that readers see were made."""
    return frozenset(
        each.embedder for each in Editions(journal).all() if each.role == "live" and each.embedder
    )
