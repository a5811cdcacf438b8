"""Builds the parts that a config describes: embedders, parsers, chunkers, and sources with their tools.

Processes on other machines (nodes) build the same tools from a ``Setup``. Connectors, servers and their
secrets stay in the daemon.
"""

import socket
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, SecretStr

from ingestor.app.handover import origin
from ingestor.chroma.backend import Collections, Ownership, open_collections
from ingestor.chunkers.by_type import build_chunker
from ingestor.chunkers.options import ChunkerOptions
from ingestor.config.models import Choice, Config, Origin, SourceConfig, readers_ask_service
from ingestor.config.quotas import UNBOUNDED
from ingestor.config.servers import Embedded, RemoteChroma, Rerank, Search
from ingestor.core.backend import Home, Model
from ingestor.core.entries import Choices, EditionName, Feed
from ingestor.core.fingerprint import combine, embedder_fingerprint, plugin_fingerprint
from ingestor.engine.vectors import check_vectors
from ingestor.llm.answers import DryRunAnswers
from ingestor.llm.client import Answers, Asking
from ingestor.model import Blob, CollectionName, Fingerprint, Item, ReaderModel, SourceName, Vectors
from ingestor.nodes.messages import pack, unpack
from ingestor.nodes.setup import MODEL, Setup, recipes_of
from ingestor.parsers.shared import detect
from ingestor.pipeline.containers import Containers
from ingestor.pipeline.language import ModelVocabulary, languages_of
from ingestor.pipeline.limits import StageTimes, TextBudget, exceeds_window
from ingestor.pipeline.listing import Source
from ingestor.pipeline.metadata import Describing
from ingestor.pipeline.prepare import Fetch, Memory, Reader, Tools
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
from ingestor.state.editions import Editions, uuids_of
from ingestor.state.files import chroma_log_path
from ingestor.state.journal import Journal
from ingestor.text.tokens import Tokens

READERS_VARIABLE = "INGESTOR_TOKEN"  # environment variable from which Chroma's clients read the token
_MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


def build(choice: Choice):  # type: ignore[no-untyped-def]
    """Build the connector, parser, chunker or embedder that a config chose, with its options."""
    return choice.plugin.build(choice.options)


def _isolation_of(choice: Choice) -> bool | Literal["large"]:
    """Return whether a parser runs in a confined process: True, False, or "large" for large documents only.

    A parser runs in the daemon only if its class declares so.
    """
    isolated = getattr(choice.plugin.build, "isolated", True)
    return isolated if isolated is False or isolated == "large" else True


def parser(choice: Choice, isolation: Isolation) -> Parser:
    """Build a parser. If it runs in a confined process, build a proxy for it."""
    elsewhere = Isolated(choice.plugin.kind, choice.options, isolation)
    if _isolation_of(choice) is True:
        return elsewhere
    built: Parser = build(choice)
    return IsolatedIfLarge(built, elsewhere) if _isolation_of(choice) == "large" else built


def here(config: Config) -> Home:
    """Return the home of a config's state: its folder, and a digest of this machine's confidential id."""
    machine = ""
    for file in _MACHINE_IDS:
        with suppress(OSError):
            if text := file.read_text(errors="replace").strip():
                machine = blake2b(text.encode(), digest_size=8, person=b"ingestor").hexdigest()
                break
    chroma: Path | None = getattr(config.chroma, "path", None)
    place = "" if chroma is None else str(chroma.resolve())
    return Home(machine, socket.gethostname(), str(config.state.resolve()), place)


class SourceRoot(NamedTuple):
    """The connector of a source, and the containers that its listings found.

    Both are kept when the config changes, unless ``setting`` changes. Then the source need not be listed
    again, so ``containers`` must still know the items of the last listing.
    """

    setting: tuple[object, ...]
    connector: Connector
    containers: Containers


SourceRoots = dict[SourceName, SourceRoot]  # shared by all editions of a source


class ChosenEmbedder:
    """The configured embedder, loaded at its first use.

    An ``Adaptive`` embedder has alternatives. The alternative that made existing collections is chosen, else
    the best one for this machine. ``made``: recipes of existing collections. Properties raise NeedsHuman if
    the embedder cannot be loaded.
    """

    def __init__(self, choice: Choice, made: frozenset[str]) -> None:
        self.choice, self.made = choice, made

    @cached_property
    def embedder(self) -> Embedder:
        own: Embedder = build(self.choice)
        if not self.made or not isinstance(own, Adaptive):
            return own
        possible = (each for each, here in own.alternatives() if here)
        return next((each for each in possible if self._recipe_of(each) in self.made), own)

    @cached_property
    def recipe(self) -> Fingerprint:
        return self._recipe_of(self.embedder)

    @cached_property
    def other_recipes(self) -> frozenset[Fingerprint]:
        """Return the recipes of the embedders that the same config selects on other machines."""
        own = self.embedder
        if not isinstance(own, Adaptive):
            return frozenset()
        return frozenset({self._recipe_of(each) for each, _ in own.alternatives()} - {self.recipe})

    def _recipe_of(self, embedder: Embedder) -> Fingerprint:
        identity = embedder.identity if isinstance(embedder, Pinned) else None
        return embedder_fingerprint(self.choice.plugin, self.choice.options, identity)


class Models:
    """The embedders and the reranker of a process. Each is loaded once, at its first use."""

    def __init__(self) -> None:
        self._embedders: list[ChosenEmbedder] = []
        self._reranker: tuple[Rerank | None, Reranker | None] = None, None

    def embedder(self, choice: Choice, made: frozenset[str]) -> ChosenEmbedder:
        """Return the embedder that a config chose.

        ``made``: recipes of existing collections (see ChosenEmbedder).
        """
        for known in self._embedders:
            if known.choice == choice and (not made or known.made == made or known.recipe in made):
                return known
        self._embedders.append(fresh := ChosenEmbedder(choice, made))
        return fresh

    def keep(self, *choices: Choice) -> None:
        """Drop all embedders except these, after a config was applied."""
        self._embedders = [known for known in self._embedders if known.choice in choices]

    def reranker(self, options: Rerank | None) -> Reranker | None:
        """Return the reranker with these options, and drop one with other options; None if there are no
        options."""
        if options != self._reranker[0]:
            made = None if options is None else Reranker(scores_of(options, patient=False), options.hits)
            self._reranker = options, made
        return self._reranker[1]


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts that a config describes.

    ``dataclasses.replace`` with another config keeps the parts that do not depend on the change. ``made``:
    recipes of the embedders that made existing collections. ``unserved``: whether the service port could not
    be opened. ``isolation``: the confined processes that parse, and open archives and mails. By default they
    are created with the config's limits.
    """

    config: Config
    made: frozenset[str] = frozenset()
    unserved: bool = False
    models: Models = field(default_factory=Models)
    tokens: Tokens = field(default_factory=Tokens)
    times: StageTimes = field(default_factory=StageTimes)
    text_budget: TextBudget = field(default_factory=TextBudget)
    isolation: Isolation = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.isolation is None:
            limits = self.config.parsing
            isolation = Isolation(Limits(limits.memory, limits.seconds, limits.processes))
            object.__setattr__(self, "isolation", isolation)

    @cached_property
    def embedder_choice(self) -> ChosenEmbedder:
        return self.models.embedder(self.config.embedding, self.made)

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
        return self.models.reranker(self.config.search.rerank)

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
        if http is None or self.unserved or not readers_ask_service(http, self.config.chroma):
            reader = embedder.reader_model() if isinstance(embedder, Loadable) else None
        else:
            variable = READERS_VARIABLE if http.token else None
            url = f"{http.url}/embed/{self.embedder_recipe}"
            reader = ReaderModel("huggingface_server", {"url": url, "api_key_env_var": variable})
        return Model(self.embedder_recipe, reader, lambda: embedder.dimensions)

    def collections(self, journal: Journal, *, serve: bool) -> AbstractContextManager[Collections]:
        """Open Chroma.

        ``serve``: whether our server, if there is one, also serves clients other than this process.
        """
        owner = Ownership(journal.owner, lambda: uuids_of(journal))
        return open_collections(self.config.chroma, owner, chroma_log_path(self.config), serve=serve)

    def sources(
        self,
        serves: CollectionName,
        edition: EditionName,
        embed: Embed,
        *,
        answers: Answers | None = None,
        memory: Memory | None = None,
        roots: SourceRoots | None = None,
    ) -> list[Source]:
        """Return every source that feeds a collection, with the tools that make an edition's records.

        ``serves``: the collection's name for readers. ``edition``: the edition that gets the records.
        ``embed``: returns vectors of texts. ``answers``: asks language models; if None, none is asked.
        ``memory``: cache of parsed documents; if None, every document is read again. ``roots``: the
        connectors that already exist, for other editions or from an earlier config. Missing ones are added to
        it.
        """
        answers, roots = answers or DryRunAnswers(None, self.tokens.counts), {} if roots is None else roots
        result = []
        for source in self.config.sources:
            if source.collection != serves:
                continue
            root = self._root(source, roots)
            fetch, near = root.containers.fetch, getattr(root.connector, "near", False)
            reader = self.reader(source, fetch, origin(source), near=near, memory=memory)
            result.append(
                Source(
                    name=source.name,
                    collection=edition,
                    connector=root.connector,
                    tools=self.tools(source, edition, reader, embed, answers),
                    max_loss=source.max_loss,
                    scan_every=source.scan_every,
                    expand=root.containers.expand,
                )
            )
        return result

    def _root(self, source: SourceConfig, roots: SourceRoots) -> SourceRoot:
        """Return the connector of a source.

        An existing connector is used again if its settings did not change.
        """
        setting = (source.connector, source.archives, source.max_loss, source.scan_every)
        known = roots.get(source.name)
        if known is not None and known.setting == setting:
            return known
        connector: Connector = build(source.connector)
        containers = Containers(
            connector.fetch,
            source.archives,
            self.isolation.unpack,
            is_simple=connector.is_simple if isinstance(connector, Structured) else lambda item: False,
            keeps_mails=not getattr(connector, "near", False),
        )
        roots[source.name] = fresh = SourceRoot(setting, connector, containers)
        return fresh

    def reader(
        self, source: SourceConfig, fetch: Fetch, origin: str, *, near: bool, memory: Memory | None
    ) -> Reader:
        """Build the object that fetches and parses a source's items.

        ``near``: see ports.Connector. ``origin``, ``memory``: see Reader.
        """
        parsers = {choice.plugin.kind: choice for choice in parsers_of(source)}
        return Reader(
            source.name,
            fetch,
            {kind: parser(choice, self.isolation) for kind, choice in parsers.items()},
            {kind: plugin_fingerprint(choice.plugin, choice.options) for kind, choice in parsers.items()},
            memory,
            costly={kind for kind, choice in parsers.items() if not near or _isolation_of(choice) is True},
            types=source.types,
            origin=origin,
        )

    def tools(
        self, source: SourceConfig, edition: EditionName, reader: Reader, embed: Embed, answers: Answers
    ) -> Tools:
        """Build the tools that make an edition's records from the documents of a source."""
        chunking, chroma = source.chunking, self.config.chroma
        options = chunking.options
        shared = options if isinstance(options, ChunkerOptions) else ChunkerOptions()
        model = str(getattr(self.config.embedding.options, "model", ""))
        vocabulary = None
        if isinstance(self.embedder, Vocabulary):
            vocabulary = ModelVocabulary(model.rstrip("/").rpartition("/")[2], self.embedder.count_unknown)
        chunker: Chunker = build_chunker(chunking.plugin, options, self.tokens)
        return Tools(
            reader=reader,
            collection=edition,
            chunker=chunker.through(answers) if isinstance(chunker, Asking) else chunker,
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
            languages=languages_of(model),
            vocabulary=vocabulary,
            text_budget=self.text_budget.take,
            times=self.times,
        )


def embedder_recipes_of(journal: Journal) -> frozenset[str]:
    """Return the recipes of the embedders by which the editions that readers see were made."""
    return frozenset(
        each.embedder for each in Editions(journal).all() if each.role == "live" and each.embedder
    )


# --- processes on other machines -------------------------------------------------------------------


@dataclass(frozen=True)
class OnNode:
    """The part of a config that a process on another machine (a node) needs.

    ``embedder``: the embedder's recipe. ``edition``: None to build only the embedder. ``origin``: see Reader.
    ``near``: see ports.Connector.
    """

    config: Config
    embedder: Fingerprint
    edition: EditionName | None = None
    origin: str = ""
    near: bool = False

    @property
    def parts(self) -> Parts:
        return Parts(self.config, frozenset({self.embedder}))


def tools_setup(parts: Parts, feed: Feed, tools: Tools) -> Setup | None:
    """Return the setup from which a process on a node builds these tools.

    Return None if the chunking strategy asks a language model. Such documents are prepared in the daemon,
    because they mostly wait for a server.
    """
    if isinstance(tools.chunker, Asking):
        return None
    source = next(each for each in parts.config.sources if each.name == feed.source)
    near = getattr(build(source.connector), "near", False)
    config = _for_nodes(parts.config, source)
    task = OnNode(config, parts.embedder_recipe, feed.edition, tools.reader.origin, near)
    key = combine(feed, tools.recipe(""), parts.config.max_records)
    return Setup(key, pack(task), recipes_of(tools))


def embedder_setup(parts: Parts) -> Setup:
    """Return the setup from which a process on a node builds the embedder."""
    recipe = parts.embedder_recipe
    return Setup(recipe, pack(OnNode(_for_nodes(parts.config), recipe)), {MODEL: recipe})


def _for_nodes(config: Config, source: SourceConfig | None = None) -> Config:
    """Return the config for nodes: without secrets, and without settings that a node does not need."""
    chroma = config.chroma
    return replace(
        config,
        chroma=RemoteChroma(host=chroma.host, quotas=chroma.quotas)
        if isinstance(chroma, RemoteChroma)
        else Embedded(),
        embedding=replace(config.embedding, options=_without_secrets(config.embedding.options)),
        sources=() if source is None else (replace(source, connector=None),),  # type: ignore[arg-type]
        parsing=config.parsing.model_copy(update={"processes": 1}),
        http=None,
        search=Search(),
        language_model=None,
        warnings=(),
        origin=Origin(),
    )


def _without_secrets(value: Any) -> Any:
    """Return options with each secret replaced by a placeholder.

    Fingerprints do not depend on secrets anyway.
    """
    if isinstance(value, SecretStr):
        return SecretStr("removed")
    if isinstance(value, BaseModel):
        return value.model_copy(update={name: _without_secrets(inner) for name, inner in value})
    if isinstance(value, dict):
        return {name: _without_secrets(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_without_secrets, value))
    return value


def tools_of(packed_setup: bytes) -> Tools:
    """Build the tools of one source, in a process on a node. The daemon fetches items and embeds texts for
    them.

    ``packed_setup``: what ``tools_setup`` packed.
    """

    def fetch(item: Item) -> Blob:
        raise AssertionError(f"{item.uri} is read by the daemon")

    def embed(texts: Sequence[str]) -> Vectors:
        raise AssertionError("texts are embedded elsewhere")

    task: OnNode = unpack(packed_setup)
    parts, (source,) = task.parts, task.config.sources
    assert task.edition is not None
    reader = parts.reader(source, fetch, task.origin, near=task.near, memory=None)
    return parts.tools(source, task.edition, reader, embed, DryRunAnswers(None, parts.tokens.counts))


def embedder_of(packed_setup: bytes) -> tuple[Embedder, Fingerprint]:
    """Build the embedder, in a process on a node. Return the embedder and its recipe.

    ``packed_setup``: what ``embedder_setup`` packed.
    """
    parts = unpack(packed_setup).parts
    return parts.embedder, parts.embedder_recipe
