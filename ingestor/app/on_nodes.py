"""Describes to processes on other machines (nodes) what they build: the tools of a source, or the embedder.

A ``Setup`` packs the part of the config that a node needs. Connectors, servers and their secrets stay in the
daemon.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, SecretStr

from ingestor.app.parts import Parts, build
from ingestor.config.models import Config, Origin, SourceConfig
from ingestor.config.servers import Embedded, RemoteChroma, Search
from ingestor.core.entries import EditionName, Feed
from ingestor.core.fingerprint import combine
from ingestor.llm.client import Asking
from ingestor.model import Blob, Fingerprint, Item, Vectors
from ingestor.nodes.messages import pack, unpack
from ingestor.nodes.setup import MODEL, Setup, recipes_of
from ingestor.pipeline.prepare import Tools
from ingestor.ports import Embedder


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
    return parts.tools(source, task.edition, fetch, embed, task.origin, task.near)


def embedder_of(packed_setup: bytes) -> tuple[Embedder, Fingerprint]:
    """Build the embedder, in a process on a node. Return the embedder and its recipe.

    ``packed_setup``: what ``embedder_setup`` packed.
    """
    parts = unpack(packed_setup).parts
    return parts.embedder, parts.embedder_recipe
