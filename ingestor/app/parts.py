"""The parts that a config describes."""

import socket
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import cache, cached_property, partial
from hashlib import blake2b
from pathlib import Path
from typing import Literal, NamedTuple

from ingestor.app.handover import origin
from ingestor.chroma.backend import Collections, opened
from ingestor.chroma.collections import Ownership
from ingestor.chunkers.by_type import build_chunker
from ingestor.chunkers.options import ChunkerOptions
from ingestor.config.models import Choice, Config, SourceConfig, readers_ask_service
from ingestor.config.quotas import UNBOUNDED
from ingestor.config.servers import RemoteChroma
from ingestor.core.backend import Model
from ingestor.core.entries import EditionName
from ingestor.core.fingerprint import embedder_fingerprint, plugin_fingerprint
from ingestor.core.generation import Home
from ingestor.engine.vectors.models import checked
from ingestor.llm.client import Answers, Asking
from ingestor.model import CollectionName, Fingerprint, ReaderModel, SourceName, Vectors
from ingestor.parsers.shared import detect
from ingestor.pipeline.answers import DryRunAnswers
from ingestor.pipeline.containers import Containers, Downloads
from ingestor.pipeline.language import ModelVocabulary, languages_of
from ingestor.pipeline.limits import StageTimes, TextBudget
from ingestor.pipeline.listing import Source
from ingestor.pipeline.prepare import Tools, exceeds_window
from ingestor.pipeline.reading import Fetch, Memory, Reader
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
    Vocabulary,
)
from ingestor.rechunk.recipes import Choices, NotReproducible, as_chosen, chosen, parsing
from ingestor.sandbox.pool import Isolated, IsolatedIfLarge, Isolation
from ingestor.sandbox.process import Limits
from ingestor.search.rerankers import Reranker, scores_of
from ingestor.state.editions import Editions, uuids_of
from ingestor.state.files import (
    chroma_log_path,
)
from ingestor.state.journal import Journal
from ingestor.text.tokens import Tokens


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


_MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


def here(config: Config) -> Home:
    """The home of the state that a config names. The machine's id is confidential, so its digest is kept."""
    machine = next(filter(None, map(_digest, _MACHINE_IDS)), "")
    chroma: Path | None = getattr(config.chroma, "path", None)
    return Home(
        machine,
        socket.gethostname(),
        str(config.state.resolve()),
        "" if chroma is None else str(chroma.resolve()),
    )


def _digest(file: Path) -> str:
    with suppress(OSError):
        if text := file.read_text(errors="replace").strip():
            return blake2b(text.encode(), digest_size=8, person=b"ingestor").hexdigest()
    return ""


class SourceRoot(NamedTuple):
    """Where a source's documents are. A listing teaches ``containers`` what ``connector`` has.

    A place outlives changes of the config that leave its ``setting`` alone, since no new listing may follow.
    """

    setting: tuple[object, ...]
    connector: Connector
    containers: Containers


Places = dict[SourceName, SourceRoot]  # shared by all editions of a source
READERS_VARIABLE = (
    "INGESTOR_TOKEN"  # of the environment, where clients of Chroma look for the token of the service port
)


class ChosenEmbedder:
    """The configured embedder, loaded at its first use.

    Among its alternatives one that made collections goes first (``made``: their recipes), then the best here.
    Properties raise NeedsHuman when the embedder cannot be loaded.
    """

    def __init__(self, choice: Choice, made: frozenset[str]) -> None:
        self.choice, self._made = choice, made

    @cached_property
    def embedder(self) -> Embedder:
        own: Embedder = build(self.choice)
        if not self._made or not isinstance(own, Adaptive):
            return own
        possible = (each for each, here in own.alternatives() if here)
        return next((each for each in possible if self._recipe_of(each) in self._made), own)

    @cached_property
    def recipe(self) -> Fingerprint:
        return self._recipe_of(self.embedder)

    @cached_property
    def other_recipes(self) -> frozenset[Fingerprint]:
        """Recipes of the embedders that the same config selects on other machines."""
        own = self.embedder
        if not isinstance(own, Adaptive):
            return frozenset()
        return frozenset({self._recipe_of(each) for each, _ in own.alternatives()} - {self.recipe})

    def _recipe_of(self, embedder: Embedder) -> Fingerprint:
        identity = embedder.identity if isinstance(embedder, Pinned) else None
        return embedder_fingerprint(self.choice.plugin, self.choice.options, identity)


class Lasting:
    """Parts that outlive every change of the config; each is made at its first use."""

    def __init__(self, config: Config) -> None:
        self._config = config

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
    def isolation(self) -> Isolation:
        """Confined processes for parsers, archives and mails; each is started for its first document."""
        limits = self._config.parsing
        return Isolation(Limits(limits.memory, limits.seconds, limits.processes))


class Parts:
    """The parts that a config describes; a changed config has parts of its own (``under``).

    ``made``: recipes of the embedders of existing collections. ``unserved``: the service port could not be
    opened. The other arguments are parts of an earlier config that this one shares.
    """

    def __init__(
        self,
        config: Config,
        made: frozenset[str] = frozenset(),
        *,
        unserved: bool = False,
        lasting: Lasting | None = None,
        embedding: ChosenEmbedder | None = None,
        reranker: Callable[[], Reranker | None] | None = None,
    ) -> None:
        self.config, self.made, self.unserved = config, made, unserved
        self._lasting = lasting or Lasting(config)
        self._embedding = embedding or ChosenEmbedder(config.embedding, made)
        self._reranker = reranker or cache(partial(_reranker_of, config))

    def under(self, config: Config, made: frozenset[str], *, unserved: bool = False) -> "Parts":
        """Parts of another config, which share what the change leaves alone. ``unserved`` holds from then on.

        Raises NeedsHuman when the embedder cannot be loaded.
        """
        same = config.embedding == self.config.embedding and (not made or self.embedder_recipe in made)
        return Parts(
            config,
            made,
            unserved=self.unserved or unserved,
            lasting=self._lasting,
            embedding=self._embedding if same else None,
            reranker=self._reranker if config.search == self.config.search else None,
        )

    @property
    def embedder(self) -> Embedder:
        return self._embedding.embedder

    @property
    def embedder_recipe(self) -> Fingerprint:
        return self._embedding.recipe

    @property
    def other_recipes(self) -> frozenset[Fingerprint]:
        """Recipes of the embedders that the same config selects on other machines."""
        return self._embedding.other_recipes

    @property
    def tokens(self) -> Tokens:
        return self._lasting.tokens

    @property
    def times(self) -> StageTimes:
        return self._lasting.times

    @property
    def text_budget(self) -> TextBudget:
        return self._lasting.text_budget

    @property
    def isolation(self) -> Isolation:
        return self._lasting.isolation

    @property
    def reranker(self) -> Reranker | None:
        """The cross-encoder of the service port, if one is configured."""
        return self._reranker()

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
        """Return how readers embed questions: by the service port, or by the model in their own process."""
        http = self.config.http
        if http is None or self.unserved or not readers_ask_service(http, self.config.chroma):
            return self.embedder.reader_model() if isinstance(self.embedder, Loadable) else None
        variable = READERS_VARIABLE if http.token else None
        url = f"{http.url}/embed/{self.embedder_recipe}"
        return ReaderModel("huggingface_server", {"url": url, "api_key_env_var": variable})

    def collections(self, journal: Journal, *, serve: bool) -> AbstractContextManager[Collections]:
        """Open Chroma. ``serve``: see connection.connected."""
        owner = Ownership(journal.owner, lambda: uuids_of(journal))
        return opened(self.config.chroma, owner, chroma_log_path(self.config), serve=serve)

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
        document is read again. ``places``: of other editions and earlier configs; missing ones are added.
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
        setting = (source.connector, source.archives, source.max_loss, source.scan_every)
        place = places.get(source.name)
        if place is None or place.setting != setting:
            connector: Connector = build(source.connector)
            containers = Containers(
                connector.fetch,
                source.archives,
                self.isolation.unpack,
                is_simple=connector.is_simple if isinstance(connector, Structured) else lambda item: False,
                downloads=None if getattr(connector, "near", False) else Downloads(),
            )
            place = places[source.name] = SourceRoot(setting, connector, containers)
        near = getattr(place.connector, "near", False)
        reader = self.reader(source, place.containers.fetch, origin(source), near=near, memory=memory)
        return Source(
            source.name, edition, place.connector, self.tools(source, edition, reader, embed, answers),
            source.max_loss, source.scan_every, place.containers.expand,
            setting=setting,
        )  # fmt: skip

    def reader(
        self, source: SourceConfig, fetch: Fetch, place: str, *, near: bool, memory: Memory | None
    ) -> Reader:
        """Build a source's reader. ``place``: the origin; ``near``, ``memory``: see Connector and Reader."""
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
        model = str(getattr(self.config.embedding.options, "model", ""))
        vocabulary = None
        if isinstance(self.embedder, Vocabulary):
            vocabulary = ModelVocabulary(model.rstrip("/").rpartition("/")[2], self.embedder.count_unknown)
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
            own=source.own,
            languages=languages_of(model),
            vocabulary=vocabulary,
            quotas=chroma.bounds if isinstance(chroma := self.config.chroma, RemoteChroma) else UNBOUNDED,
            chunking_turn=self.text_budget.taken,
            times=self.times,
        )

    def _chunker(self, choice: Choice, answers: Answers) -> Chunker:
        chunker: Chunker = build_chunker(choice.plugin, choice.options, self.tokens)
        return chunker.through(answers) if isinstance(chunker, Asking) else chunker


def _reranker_of(config: Config) -> Reranker | None:
    options = config.search.rerank
    return None if options is None else Reranker(scores_of(options, patient=False), options.hits)


def made_by(journal: Journal) -> frozenset[str]:
    """Recipes of the embedders of the live editions."""
    return frozenset(
        each.embedder for each in Editions(journal).all() if each.role == "live" and each.embedder
    )
