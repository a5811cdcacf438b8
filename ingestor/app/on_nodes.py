"""Describes to processes on other machines (nodes) what they build: the tools of a source, or the embedder.

A ``Setup`` packs the part of the config that a node needs. Connectors, servers and their secrets stay in the
daemon.
"""

from dataclasses import replace

from ingestor.app.parts import Parts, refuse_call
from ingestor.config.models import Config, Origin, SourceConfig
from ingestor.config.servers import Embedded, RemoteChroma, Search
from ingestor.core.entries import Feed
from ingestor.core.fingerprint import combine
from ingestor.llm.client import Asking
from ingestor.model import Fingerprint
from ingestor.nodes.messages import pack, unpack
from ingestor.nodes.setup import MODEL, Setup, recipes_of
from ingestor.pipeline.prepare import Tools
from ingestor.ports import Embedder


def tools_setup(parts: Parts, feed: Feed, tools: Tools) -> Setup | None:
    """Return the setup from which a process on a node builds these tools.

    Return None if the chunking strategy asks a language model. Such documents are prepared in the daemon,
    because they mostly wait for a server.
    """
    if isinstance(tools.chunker, Asking):
        return None
    source = next(each for each in parts.config.sources if each.name == feed.source)
    packed = pack((_for_nodes(parts.config, source), parts.embedder_recipe, feed.edition))
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
    config, recipe, edition = unpack(packed_setup)
    parts = Parts(config, frozenset({recipe}))
    return parts.tools(config.sources[0], edition, refuse_call, refuse_call)


def embedder_of(packed_setup: bytes) -> tuple[Embedder, Fingerprint]:
    """Build the embedder, in a process on a node. Return the embedder and its recipe.

    ``packed_setup``: what ``embedder_setup`` packed.
    """
    config, recipe = unpack(packed_setup)
    parts = Parts(config, frozenset({recipe}))
    return parts.embedder, parts.embedder_recipe
