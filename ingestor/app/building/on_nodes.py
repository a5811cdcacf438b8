"""How processes on nodes make the same parts. Connectors, servers and their secrets stay at the head."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ingestor.app.building.parts import Parts, build
from ingestor.config.models import Config, Origin, SourceConfig
from ingestor.config.servers import Embedded, RemoteChroma, Search
from ingestor.core.entries import EditionName, Feed
from ingestor.core.fingerprint import combine
from ingestor.llm.client import Asking
from ingestor.model import Blob, Fingerprint, Item, Vectors
from ingestor.nodes.facts import MODEL, recipes_of
from ingestor.nodes.messages import unpack
from ingestor.nodes.packing import pack, without_secrets
from ingestor.nodes.preparing import Setup
from ingestor.pipeline.answers import DryRunAnswers
from ingestor.pipeline.prepare import Tools
from ingestor.ports import Embedder


def tools_setup(parts: Parts, feed: Feed, tools: Tools) -> Setup | None:
    """How a process on a node makes these tools. Connectors, servers and their secrets stay here.

    None where a strategy asks a language model: it waits for a server, and needs no other machine.
    """
    if isinstance(tools.chunker, Asking):
        return None
    source = next(each for each in parts.config.sources if each.name == feed.source)
    near = getattr(build(source.connector), "near", False)
    told = OnNode(
        _for_nodes(parts.config, source), parts.embedder_recipe, feed.edition, tools.reader.origin, near
    )
    key = combine(feed, tools.recipe(""), parts.config.max_records)
    return Setup(key, pack(told), recipes_of(tools))


def embedder_setup(parts: Parts) -> Setup:
    """How a process on a node makes the embedder."""
    told = OnNode(_for_nodes(parts.config, None), parts.embedder_recipe, EditionName(""))
    return Setup(parts.embedder_recipe, pack(told), {MODEL: parts.embedder_recipe})


def _for_nodes(config: Config, source: SourceConfig | None) -> Config:
    """The config without all that a process on a node does not need."""
    chroma = config.chroma
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


@dataclass(frozen=True)
class OnNode:
    """Task of a process on a node. ``embedder``: the recipe; ``origin``, ``near``: see the connector."""

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
