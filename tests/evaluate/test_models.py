"""``evaluate --models``: embedding models are compared as strategies are."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ingestor.config.file import load
from ingestor.config.models import Choice, Config
from ingestor.evaluate import evaluation
from ingestor.registry import find
from tests.e2e.conftest import ask, project
from tests.e2e.in_process import Ask, answered
from tests.e2e.project import Project
from tests.endpoint import serving
from tests.evaluate.scripted_model import model
from tests.evaluate.test_evaluate import samples

_FIXTURES = (ask, project, samples)


def dimensions(config: Config, model: str) -> Config:
    """Take the number of dimensions of the hashing embedder for a model: more of them find more."""
    plugin = find("embedders", "hashing")
    return replace(config, embedding=Choice(plugin, plugin.options(dimensions=int(model))))


def test_models_are_compared_by_the_same_questions(
    samples: Project, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "_with_model", dimensions)
    found = answered(ask("evaluate", "--json", "--models", "8,512", "--make", "60"))
    poor, good = found["strategies"]
    assert (poor["model"], good["model"]) == ("8", "512")
    assert good["label"] == f"{poor['label'].removesuffix(' by 8')} by 512"
    assert poor["chunks"] == good["chunks"]
    assert good["recall"]["500"]["mean"] > poor["recall"]["500"]["mean"] + 20
    assert (found["recommendation"]["sure"], poor["configured"], good["configured"]) == (True, False, False)
    assert f"{good['label']} finds most" in found["recommendation"]["text"]
    shown = ask("evaluate", "--models", "8,512", "--make", "60").out
    assert "embedding:\n  model: 512" in shown


def test_models_with_ask_model_report_requests_and_cost_before_and_after(
    samples: Project, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "_with_model", dimensions)
    with serving(model) as endpoint:
        prices = {"prompt_price": 2.0, "answer_price": 10.0}
        samples.settings |= {"language_model": {"base_url": endpoint.base_url, "model": "scripted", **prices}}
        samples.configure()
        words = ("--models", "8,512", "--ask-model", "--make", "12")
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


def test_model_of_config_is_replaced_and_its_other_options_stay(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    source = "sources: [{name: notes, kind: folder, path: notes, collection: docs}]\n"
    (tmp_path / "notes").mkdir()
    file.write_text(source)
    config = evaluation._with_model(load(file, {}), "two")
    assert config.embedding.plugin.kind == "sentence-transformers"
    assert config.embedding.options.model == "two"  # type: ignore[attr-defined]
    assert evaluation._with_model(dimensions(config, "8"), "two").embedding == config.embedding
