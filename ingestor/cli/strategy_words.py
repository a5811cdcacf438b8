"""The words of ``--strategies``: ``NAME:KEY=VALUE:...``, or ``configured:KEY=VALUE:...``, as strategies.

A KEY is an option of the strategy; or ``parsing.KIND.OPTION`` and ``parsing.types``, as a source has them;
``search``; ``rerank``, which takes what the config says, or ``rerank.OPTION``.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ingestor.app.queries import BadRequest
from ingestor.cli.chunk_command import add, choice, said
from ingestor.config.check import parsers_of, types_of
from ingestor.config.models import Choice, Config, ConfigError
from ingestor.config.options import Check
from ingestor.config.servers import Rerank
from ingestor.config.yaml_tree import ConfigTree
from ingestor.evaluate.strategies import Strategy, StrategyExtras, configured_strategy, distinct
from ingestor.llm.options import Endpoint
from ingestor.model import CollectionName, SourceName
from ingestor.registry import find, kinds
from ingestor.search.values import MODES

_CONFIGURED = "configured"  # as the config says
_STRATEGY = re.compile(r"(?:[^,\[{]|\[[^\]]*+\]?|\{[^}]*+\}?)++")  # up to a comma outside of brackets
_COLON = re.compile(r":(?=[A-Za-z_][\w.]*=)")  # before a KEY=; others belong to a value, such as a URL
_BESIDE = ("parsing", "rerank", "search")


def named(config: Config, collection: CollectionName, lists: Sequence[str]) -> list[Strategy]:
    """Each once. Raises BadRequest and ConfigError."""
    words = [word for each in lists for word in _STRATEGY.findall(each)]
    own = {source.name: source.chunking for source in config.sources if source.collection == collection}
    return distinct([_strategy(config, own, word) for word in words])


def _strategy(config: Config, own: Mapping[SourceName, Choice], word: str) -> Strategy:
    name, _, rest = word.partition(":")
    given, label = [each for each in _COLON.split(rest) if each], f"--strategies {name}"
    others = tuple(each for each in given if re.split("[.=]", each)[0] in _BESIDE)
    options = [each for each in given if each not in others]
    beside = _beside(config, others, label) if others else StrategyExtras()
    if name != _CONFIGURED:
        return Strategy(choice(name, options, label, _endpoint(config, name)), beside=beside)
    base = replace(configured_strategy(own), configured=not given, beside=beside)
    if not options:
        return base
    if base.own:
        raise BadRequest(f"{label}: the sources of this collection have several chunkings: name one instead")
    kind, kept = base.choice.plugin.kind, said(base.choice.options)
    return replace(base, choice=choice(kind, options, label, kept))


def _endpoint(config: Config, name: str) -> dict[str, Any]:
    """Return the config's language model for a strategy that asks one, without the length of answers."""
    plugin = find("chunkers", name) if name in kinds("chunkers") else None
    if plugin is None or not issubclass(plugin.options, Endpoint) or config.language_model is None:
        return {}
    return {key: value for key, value in said(config.language_model).items() if key != "answer_tokens"}


def _beside(config: Config, given: tuple[str, ...], label: str) -> StrategyExtras:
    tree = ConfigTree(data={})
    for each in sorted(given, key=lambda one: one.count(".")):  # rerank=true before rerank.hits=50
        add(tree, each, label)
    found = Check(tree, Path.cwd(), list(tree.problems))
    parsing = tree.data.get("parsing", {})
    if not (isinstance(parsing, dict) and all(isinstance(each, dict) for each in parsing.values())):
        raise BadRequest(f"{label}: write parsing.KIND.OPTION=VALUE, as in parsing.html.links=true")
    search = tree.data.get("search")
    if search not in (None, *MODES):
        raise BadRequest(f"{label}: search must be one of {', '.join(MODES)}; rerank.model=… sets a reranker")
    at = ("parsing",)
    parsers, types = parsers_of(found, parsing, at), types_of(found, parsing, at)
    rerank = _rerank(config, found, tree.data.get("rerank"), label)
    if found.problems:
        raise ConfigError(label, found.problems)
    return StrategyExtras(given, parsers, types, search, rerank)


def _rerank(config: Config, found: Check, given: Any, label: str) -> Rerank | None:
    if given is None or given is False:
        return None
    if given is not True and not isinstance(given, dict):
        raise BadRequest(f"{label}: rerank must be true or false; rerank.model=… or rerank.url=… names one")
    kept = said(config.search.rerank) if config.search.rerank else {}
    data = {**kept, **({} if given is True else given)}
    if not data:
        raise BadRequest(f"{label}: the config has no search.rerank: write rerank.model=… or rerank.url=…")
    return found.model(Rerank, data, ("rerank",))
