"""Which strategies are compared, and how they are called."""

from typing import Any

import pytest
import yaml
from pydantic import SecretStr

from ingestor.cli.chunk_command import choice
from ingestor.evaluate.strategies import Strategy, distinct, most_common_strategy, worth_comparing
from ingestor.model import Block, Document, SourceName


def strategy(name: str) -> Strategy:
    kind, *options = name.split(":")
    return strategy_of(kind, options, {})


def strategy_of(kind: str, options: list[str], kept: dict[str, Any]) -> Strategy:
    return Strategy(choice(kind, options, kind, kept))


@pytest.mark.parametrize(
    "name",
    ["changepoint", "changepoint:target=125", "recursive", "recursive:size=100", "fixed:overlap=5", "auto"],
)
def test_strategy_name_shows_given_options(name: str) -> None:
    assert strategy(name).name == name
    kind, *options = name.split(":")
    given = {key: int(value) for key, value in (option.split("=") for option in options)}
    assert yaml.safe_load(strategy(name).yaml) == {"chunking": {"strategy": kind, **given}}


def test_yaml_of_a_strategy_has_all_that_a_config_needs() -> None:
    """An address is no part of a recipe, and a secret is not shown."""
    given = {"base_url": "http://127.0.0.1:80/v1", "model": "small", "prompt_price": 0.5}
    words = [f"{key}={value}" for key, value in given.items()]
    found = strategy_of("llm", words, {"api_key": SecretStr("very secret")})
    assert found.name == "llm:model=small"
    assert yaml.safe_load(found.yaml)["chunking"] == {"strategy": "llm", **given, "api_key": "${API_KEY}"}
    assert found.models == ["small"]


@pytest.mark.parametrize(("name", "models"), [("auto", []), ("auto:prose.model=a", ["a"])])
def test_language_models_of_a_pick_are_known(name: str, models: list[str]) -> None:
    kept = {"prose": {"strategy": "llm", "base_url": "http://127.0.0.1:80/v1"}} if models else {}
    assert strategy_of("auto", name.split(":")[1:], kept).models == models


def test_other_strategies_have_about_the_configured_size() -> None:
    prose = Document("Words.")
    heads = (Block("heading", 0, 2, 1, "A"), Block("heading", 3, 5, 1, "B"))
    base = strategy("recursive:size=200")
    names = [each.name for each in worth_comparing(base, 137.0, [prose])]
    assert names == [
        "changepoint:target=125", "changepoint:target=250", "cluster:max_tokens=250",
        "fixed:overlap=125:size=250",
    ]  # fmt: skip
    assert {"structure:max_tokens=250", "changepoint:vectors=encoded:target=125"} <= {
        each.name for each in worth_comparing(base, 137.0, [Document("# A\n\n# B\n", heads)])
    }


def test_sources_that_are_cut_otherwise_keep_their_own() -> None:
    own = {name: strategy(kind).choice for name, kind in [("a", "fixed"), ("b", "recursive"), ("c", "fixed")]}
    found = most_common_strategy({SourceName(name): choice for name, choice in own.items()})
    assert found.of(SourceName("a")).plugin.kind == found.of(SourceName("new")).plugin.kind == "fixed"
    assert found.of(SourceName("b")).plugin.kind == "recursive"
    assert len(distinct([found, strategy("fixed"), strategy("fixed:size=200")])) == 2
