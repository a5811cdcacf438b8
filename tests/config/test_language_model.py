"""The model that evaluations ask: optional, checked as every section is."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from ingestor.config.check import check
from ingestor.config.models import Config
from ingestor.config.yaml_tree import parse

BASE = {"sources": [{"name": "notes", "kind": "folder", "path": "notes", "collection": "docs"}]}


def checked(**section: Any) -> Any:
    text = yaml.safe_dump(BASE | section, sort_keys=False)
    return check(parse(text, {"MODEL_KEY": "sk-1"}), Path("/somewhere"))


def test_language_model_is_optional() -> None:
    config = checked()
    assert isinstance(config, Config)
    assert config.language_model is None


def test_language_model_takes_a_secret_key_and_numbers_as_prices() -> None:
    endpoint = {"base_url": "http://localhost:1/v1", "model": "m", "api_key": "${MODEL_KEY}"}
    config = checked(language_model={**endpoint, "prompt_price": 0.5, "answer_price": 2})
    assert isinstance(config, Config), config
    model = config.language_model
    assert model is not None
    assert model.api_key is not None
    assert (model.model, model.api_key.get_secret_value()) == ("m", "sk-1")
    assert (model.prompt_price, model.answer_price) == (0.5, 2)


@pytest.mark.parametrize(
    ("section", "key", "message"),
    [
        ({"model": "m"}, "language_model.base_url", "required"),
        ({"base_url": "localhost", "model": "m"}, "language_model.base_url", "must be an address"),
        ({"base_url": "http://a", "model": "m", "modell": 1}, "language_model", "unknown key 'modell'"),
        ({"base_url": "http://a", "model": "m", "api_key": "sk"}, "language_model.api_key", "plain text"),
    ],
)
def test_language_model_with_mistake_names_its_line(section: dict[str, Any], key: str, message: str) -> None:
    found = checked(language_model=section)
    assert not isinstance(found, Config)
    assert [(each.key, message in each.message) for each in found] == [(key, True)], found
