"""Command ``evaluate``: parses its arguments into a request, and prints or writes the evaluation.

A strategy of ``--strategies`` is written ``NAME:KEY=VALUE:...``, where NAME may be ``configured``. A KEY is
an option of the strategy, ``parsing.KIND.OPTION`` or ``parsing.types`` of a source, ``search``, ``rerank`` or
``rerank.OPTION``.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from importlib.resources import files
from pathlib import Path
from time import time
from typing import Any

from ingestor.cli.chunk_command import add, as_written, choice
from ingestor.cli.output import evaluation as output
from ingestor.config.check import parsers_of, types_of
from ingestor.config.models import Choice, Config, ConfigError
from ingestor.config.options import Check
from ingestor.config.servers import Rerank
from ingestor.config.yaml_tree import ConfigTree
from ingestor.evaluate import stored_report
from ingestor.evaluate.check import CheckRequest, check
from ingestor.evaluate.evaluation import adopt, estimate_requests, evaluate, recommend
from ingestor.evaluate.page import page
from ingestor.evaluate.report import as_json as report_json
from ingestor.evaluate.report import check_as_json as check_json
from ingestor.evaluate.report import estimate_as_json
from ingestor.evaluate.strategies import Strategy, StrategyExtras, distinct, most_common_strategy
from ingestor.evaluate.workplace import EvaluationRequest
from ingestor.llm.options import Endpoint
from ingestor.model import CollectionName, SourceName
from ingestor.queries.access import BadRequest, collection_of
from ingestor.registry import find, kinds
from ingestor.search.values import MODES
from ingestor.units import quantity


def request_of(
    config: Config, collection: str | None, strategies: Sequence[str], budget: str, search: str, **others: Any
) -> EvaluationRequest:
    """Build the request from the arguments of the command. Raises BadRequest and ConfigError.

    ``others``: further fields of the request, by name.
    """
    name = _collection(config, collection)
    chosen, budgets = tuple(read_strategies(config, name, strategies)), _budgets(budget)
    words = [word.strip() for word in search.split(",")]
    modes = sorted((mode for mode in MODES if mode in words), key=words.index)
    if not modes or not set(words) <= set(MODES):
        raise BadRequest(f"--search {search!r} is not a list of modes ({', '.join(MODES)})")
    return EvaluationRequest(name, chosen, budgets=budgets, modes=tuple(modes), **others)


def run(config: Config, request: EvaluationRequest, html: Path | None, *, write: bool, as_json: bool) -> None:
    """Evaluate, and print the result.

    ``html``: path of a report to write, if any. ``write``: whether to write the recommended chunking into the
    config file.
    """
    with output.progress(as_json) as progress:
        evaluation = evaluate(config, request, progress, lambda one: print(one.text, file=sys.stderr))
    report = report_json(evaluation)
    stored_report.write(config.state, report, time())
    if html is not None:
        frame = files("ingestor").joinpath("templates", "evaluate.html").read_text("utf-8")
        html.write_text(page(evaluation, frame), "utf-8")
    print(json.dumps(report)) if as_json else output.show(evaluation)
    changed = None
    if write and (wanted := recommend(config, evaluation)):
        questions = f"{quantity(len(evaluation.questions), 'question')}, {date.today():%Y-%m-%d}"
        changed = adopt(config, wanted, f"by `ingestor evaluate --write`: {questions}")
    elif write:
        print("the config is unchanged", file=sys.stderr)
    for written in filter(None, (html, request.keep, changed)):
        print(f"wrote {written}", file=sys.stderr if as_json else sys.stdout)


def run_estimate(config: Config, request: EvaluationRequest, *, as_json: bool) -> None:
    """Print an estimate of the requests to language models, as ``--estimate`` does."""
    with output.progress(as_json) as progress:
        estimate = estimate_requests(config, request, progress)
    print(json.dumps(estimate_as_json(estimate)) if as_json else estimate.text)


def run_check(config: Config, collection: str | None, budget: str, *, as_json: bool, **others: Any) -> bool:
    """Print the recall of the collection in Chroma, as ``evaluate --check`` does.

    ``others``: further fields of the request, by name. Return whether recall fell within the tolerance.
    """
    asked = CheckRequest(_collection(config, collection), budget=_budgets(budget)[0], **others)
    with output.progress(as_json) as progress:
        checked = check(config, asked, progress, time())
    print(json.dumps(check_json(checked))) if as_json else output.show_check(checked)
    return checked.is_within_tolerance


def _collection(config: Config, wanted: str | None) -> CollectionName:
    name, known = collection_of(config, wanted), ", ".join(sorted(config.collections))
    if name not in config.collections:
        raise BadRequest(f"no source feeds a collection {name!r}; known: {known}")
    return name


def _budgets(given: str) -> tuple[int, ...]:
    words = [word.strip() for word in given.split(",")]
    if not all(word.isdecimal() and 1 <= int(word) <= 1_000_000 for word in words):
        raise BadRequest(f"--budget {given!r} is not a list of numbers of tokens, such as 500,1000,2000")
    return tuple(dict.fromkeys(map(int, words)))


_CONFIGURED = "configured"  # as the config says
_STRATEGY = re.compile(r"(?:[^,\[{]|\[[^\]]*+\]?|\{[^}]*+\}?)++")  # up to a comma outside of brackets
_COLON = re.compile(r":(?=[A-Za-z_][\w.]*=)")  # before a KEY=; other colons belong to a value, such as a URL
_BESIDE = ("parsing", "rerank", "search")


def read_strategies(config: Config, collection: CollectionName, lists: Sequence[str]) -> list[Strategy]:
    """Parse the lists of ``--strategies``. Return each strategy once. Raises BadRequest and ConfigError."""
    words = [word for each in lists for word in _STRATEGY.findall(each)]
    own = {source.name: source.chunking for source in config.sources if source.collection == collection}
    return distinct([_strategy(config, own, word) for word in words])


def read_models(config: Config, given: str) -> dict[str, Choice]:
    """Parse the embedders to compare, and return them by their names in the report.

    ``given``: names or folders of models for the configured kind of embedder, or KIND:KEY=VALUE:... for
    another kind. Raises BadRequest and ConfigError.
    """
    models: dict[str, Choice] = {}
    configured = config.embedding.plugin
    usual = configured.kind if "model" in configured.options.model_fields else "sentence-transformers"
    for word in filter(None, map(str.strip, _STRATEGY.findall(given))):
        kind, _, rest = word.partition(":")
        if kind in kinds("embedders"):
            options = [each for each in _COLON.split(rest) if each]
        else:
            kind, options = usual, [f"model={json.dumps(word)}"]
        kept = as_written(config.embedding.options) if kind == configured.kind else {}
        embedding = choice(kind, options, f"--models {word}", kept, "embedders")
        name = getattr(embedding.options, "model", word)
        models[word if name in models else name] = embedding
    return models


def _strategy(config: Config, own: Mapping[SourceName, Choice], word: str) -> Strategy:
    """Parse one strategy of ``--strategies``. ``own``: the configured chunking of each source."""
    name, _, rest = word.partition(":")
    given, label = [each for each in _COLON.split(rest) if each], f"--strategies {name}"
    others = tuple(each for each in given if re.split("[.=]", each)[0] in _BESIDE)
    options = [each for each in given if each not in others]
    beside = _beside(config, others, label) if others else StrategyExtras()
    if name != _CONFIGURED:
        return Strategy(choice(name, options, label, _endpoint(config, name)), beside=beside)
    base = replace(most_common_strategy(own), configured=not given, beside=beside)
    if not options:
        return base
    if base.own:
        raise BadRequest(f"{label}: the sources of this collection have several chunkings: name one instead")
    kind, kept = base.choice.plugin.kind, as_written(base.choice.options)
    return replace(base, choice=choice(kind, options, label, kept))


def _endpoint(config: Config, name: str) -> dict[str, Any]:
    """Return the options of the config's language model, as defaults for a strategy that uses one.

    The limit of answers is left out, because it depends on the strategy. Return an empty mapping for
    strategies without a language model.
    """
    plugin = find("chunkers", name) if name in kinds("chunkers") else None
    if plugin is None or not issubclass(plugin.options, Endpoint) or config.language_model is None:
        return {}
    return {key: value for key, value in as_written(config.language_model).items() if key != "answer_tokens"}


def _beside(config: Config, given: tuple[str, ...], label: str) -> StrategyExtras:
    """Parse the settings of a strategy besides its chunking: ``parsing``, ``search`` and ``rerank``.

    ``given``: the settings as KEY=VALUE. Raises BadRequest and ConfigError.
    """
    tree = ConfigTree(data={})
    for each in sorted(given, key=lambda one: one.count(".")):  # rerank=true before rerank.hits=50
        add(tree, each, label)
    checker = Check(tree, Path.cwd(), list(tree.problems))
    parsing = tree.data.get("parsing", {})
    if not (isinstance(parsing, dict) and all(isinstance(each, dict) for each in parsing.values())):
        raise BadRequest(f"{label}: write parsing.KIND.OPTION=VALUE, as in parsing.html.links=true")
    search = tree.data.get("search")
    if search not in (None, *MODES):
        raise BadRequest(f"{label}: search must be one of {', '.join(MODES)}; rerank.model=… sets a reranker")
    at = ("parsing",)
    parsers, types = parsers_of(checker, parsing, at), types_of(checker, parsing, at)
    rerank = _rerank(config, checker, tree.data.get("rerank"), label)
    if checker.problems:
        raise ConfigError(label, checker.problems)
    return StrategyExtras(given, parsers, types, search, rerank)


def _rerank(config: Config, checker: Check, given: Any, label: str) -> Rerank | None:
    """Return the reranker of a strategy, or None if the strategy sets none.

    Settings that the strategy does not give are those of the config's reranker. ``given``: true, false or a
    mapping of settings.
    """
    if given is None or given is False:
        return None
    if given is not True and not isinstance(given, dict):
        raise BadRequest(f"{label}: rerank must be true or false; rerank.model=… or rerank.url=… names one")
    kept = as_written(config.search.rerank) if config.search.rerank else {}
    data = {**kept, **({} if given is True else given)}
    if not data:
        raise BadRequest(f"{label}: the config has no search.rerank: write rerank.model=… or rerank.url=…")
    return checker.model(Rerank, data, ("rerank",))
