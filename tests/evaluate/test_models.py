"""``evaluate --models``: embedding models are compared as strategies are."""

import re
from pathlib import Path

import pytest

from ingestor.cli.evaluate_command import read_models
from ingestor.config.file import load
from ingestor.config.models import ConfigError
from tests.e2e.conftest import ask, project
from tests.e2e.in_process import Ask, answered
from tests.e2e.project import Project
from tests.endpoint import serving
from tests.evaluate.scripted_model import model
from tests.evaluate.test_evaluate import samples

_FIXTURES = (ask, project, samples)


MODELS = "hashing:dimensions=8,hashing:dimensions=512"
POOR, GOOD = MODELS.split(",")


def test_models_are_compared_by_the_same_questions(samples: Project, ask: Ask) -> None:
    found = answered(ask("evaluate", "--json", "--models", MODELS, "--make", "60"))
    poor, good = found["strategies"]
    assert (poor["model"], good["model"]) == (POOR, GOOD)
    assert good["label"] == f"{poor['label'].removesuffix(f' by {POOR}')} by {GOOD}"
    assert poor["chunks"] == good["chunks"]
    assert good["recall"]["500"]["mean"] > poor["recall"]["500"]["mean"] + 20
    assert (found["recommendation"]["sure"], poor["configured"], good["configured"]) == (True, False, False)
    assert f"{good['label']} finds most" in found["recommendation"]["text"]
    shown = ask("evaluate", "--models", MODELS, "--make", "60").out
    assert "embedding:\n  kind: hashing\n  dimensions: 512\n" in shown


def test_models_with_ask_model_report_requests_and_cost_before_and_after(samples: Project, ask: Ask) -> None:
    with serving(model) as endpoint:
        prices = {"prompt_price": 2.0, "answer_price": 10.0}
        samples.settings |= {"language_model": {"base_url": endpoint.base_url, "model": "scripted", **prices}}
        samples.configure()
        words = ("--models", MODELS, "--ask-model", "--make", "12")
        expected = answered(ask("evaluate", "--json", *words, "--estimate"))
        assert (endpoint.calls, expected["calls"]) == (0, 12)
        first = ask("evaluate", "--json", *words)
        assert re.search(r"language model scripted: about 12 requests, .* costs about", first.err)
        sent = answered(first)["language_model"]
        assert (sent["calls"], sent["expected"]) == (endpoint.calls, expected)
        assert sent["cost"] == pytest.approx(endpoint.calls * (10 * 2 + 2 * 10) / 1e6)
        assert answered(ask("evaluate", "--json", *words))["language_model"]["calls"] == 0


def test_models_exclude_judge_and_write(samples: Project, ask: Ask) -> None:
    assert ask("evaluate", "--models", "a", "--write").code == 2
    assert "--models and --write exclude each other" in ask("evaluate", "--models", "a", "--write").err


def test_models_are_names_of_the_configured_kind_or_embedders_with_options(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    source = "sources: [{name: notes, kind: folder, path: notes, collection: docs}]\n"
    (tmp_path / "notes").mkdir()
    file.write_text(source + "embedding: {kind: openai, base_url: 'http://a.example/v1', model: one}\n")
    config = load(file, {})
    server = "openai:base_url=http://b.example:8081/v1:model=three"
    models = read_models(config, f"one,two,{server},sentence-transformers:model=./four,hashing")
    assert list(models) == ["one", "two", "three", "./four", "hashing"]
    assert models["one"] == config.embedding
    addresses = [getattr(each.options, "base_url", None) for each in models.values()]
    assert addresses == ["http://a.example/v1", "http://a.example/v1", "http://b.example:8081/v1", None, None]
    file.write_text(source)
    (one,) = read_models(load(file, {}), "intfloat/e5-small").values()
    assert (one.plugin.kind, one.options.model) == ("sentence-transformers", "intfloat/e5-small")  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="--models openai:model=one"):
        read_models(load(file, {}), "openai:model=one")
