"""Setups of processes on nodes. Connectors, servers and their secrets stay in the daemon."""

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
from ingestor.pipeline.answers import DryRunAnswers
from ingestor.pipeline.prepare import Tools
from ingestor.ports import Embedder


def tools_setup(parts: Parts, feed: Feed, tools: Tools) -> Setup | None:
    """Return the setup by which a process on a node makes these tools.

    None if the strategy asks a language model: it waits for a server, and needs no other machine.
    """
    if isinstance(tools.chunker, Asking):
        return None
    source = next(each for each in parts.config.sources if each.name == feed.source)
    near = getattr(build(source.connector), "near", False)
    task = OnNode(
        _for_nodes(parts.config, source), parts.embedder_recipe, feed.edition, tools.reader.origin, near
    )
    key = combine(feed, tools.recipe(""), parts.config.max_records)
    return Setup(key, pack(task), recipes_of(tools))


def embedder_setup(parts: Parts) -> Setup:
    """Return the setup by which a process on a node makes the embedder."""
    task = OnNode(_for_nodes(parts.config, None), parts.embedder_recipe, EditionName(""))
    return Setup(parts.embedder_recipe, pack(task), {MODEL: parts.embedder_recipe})


def _for_nodes(config: Config, source: SourceConfig | None) -> Config:
    """Return the config without all that a process on a node does not need."""
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


_REMOVED = SecretStr("removed")


def without_secrets(value: Any) -> Any:
    """Return options without their secrets: fingerprints are the same."""
    if isinstance(value, SecretStr):
        return _REMOVED
    if isinstance(value, BaseModel):
        return value.model_copy(update={name: without_secrets(inner) for name, inner in value})
    if isinstance(value, dict):
        return {name: without_secrets(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(without_secrets, value))
    return value


@dataclass(frozen=True)
class OnNode:
    """Part of a config that a process on a node needs.

    ``embedder``: the recipe; ``origin``, ``near``: see the connector.
    """

    config: Config
    embedder: Fingerprint
    edition: EditionName
    origin: str = ""
    near: bool = False

    @property
    def parts(self) -> Parts:
        return Parts(self.config, frozenset({self.embedder}))


def tools_of(packed_setup: bytes) -> Tools:
    """Make the tools of one source, on a node. The daemon reads and embeds for them."""
    task: OnNode = unpack(packed_setup)
    parts, (source,) = task.parts, task.config.sources
    reader = parts.reader(source, _nothing_here, task.origin, near=task.near, memory=None)
    answers = DryRunAnswers(None, parts.tokens.counts)
    return parts.tools(source, task.edition, reader, _no_model_here, answers)


def embedder_of(packed_setup: bytes) -> tuple[Embedder, Fingerprint]:
    """Make the embedder on a node. Returns its recipe, too."""
    task: OnNode = unpack(packed_setup)
    return task.parts.embedder, task.parts.embedder_recipe


def _nothing_here(item: Item) -> Blob:
    raise AssertionError(f"{item.uri} is read by the daemon")


def _no_model_here(texts: Sequence[str]) -> Vectors:
    raise AssertionError("texts are embedded elsewhere")
