"""What an embedder's recipe is made of: too little in it, and vectors of two models meet."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ingestor.app.parts import Parts
from ingestor.config.models import Choice, Config, Parsing
from ingestor.embedders import engines
from ingestor.engine.vectors import BadVectors
from ingestor.model import Fingerprint, ReaderModel, Vectors
from ingestor.registry import Plugin, find, pinned
from tests import plain_embedder
from tests.plain_embedder import PLUGIN, PlainEmbedder, PlainOptions, vector


def parts(plugin: Plugin, **options: Any) -> Parts:
    return Parts(
        cast(
            Config,
            SimpleNamespace(
                http=None, parsing=Parsing(), embedding=Choice(plugin, plugin.options(**options))
            ),
        )
    )


def recipe(plugin: Plugin, **options: Any) -> Fingerprint:
    return parts(plugin, **options).embedder_recipe


CPU = {"engine": "torch", "precision": "float32", "device": "cpu"}


@pytest.mark.usefixtures("sentence_transformers")
@pytest.mark.parametrize(
    ("kind", "options", "known"),
    [
        ("hashing", {}, "25f79f862dc8417d0623f15bf30893ef"),
        ("hashing", {"dimensions": 32}, "3d385c34ed5783a073a54904e9a244d7"),
        ("sentence-transformers", CPU, "5af330a197852f2025188d259efdd0d9"),
        ("sentence-transformers", {**CPU, "precision": "bfloat16"}, "a757e0950336c4364f050d6059fd4492"),
        ("sentence-transformers", {**CPU, "model": "sentence-transformers/all-MiniLM-L6-v2"},
         "5af330a197852f2025188d259efdd0d9"),
        ("sentence-transformers",
         {**CPU, "precision": "bfloat16", "prompt": "passage: ", "query_prompt": "q: ", "batch_tokens": 64,
          "threads": 1},
         "1fa9bec0f8d73133a83363424d021e3f"),
        ("sentence-transformers", {**CPU, "engine": "openvino"},
         "186fa9826efa4c264534288606a19e84"),
        ("sentence-transformers", {**CPU, "device": "cuda:1", "batch_tokens": 512},
         "c95c3b62e417cb816271c6515ff08fb1"),
    ],
)  # fmt: skip
def test_recipes_of_the_built_in_embedders_stay_what_they_are(
    kind: str, options: dict[str, Any], known: str
) -> None:
    """Another recipe has every collection embedded again after an upgrade."""
    assert recipe(find("embedders", kind), **options) == known


LEFT_OPEN = {"engine": "auto", "precision": "auto", "device": "cpu"}


@pytest.fixture
def sentence_transformers(monkeypatch: pytest.MonkeyPatch) -> Plugin:
    """On a processor with bfloat16, and with torch, whatever runs the test."""
    monkeypatch.setattr(engines, "processor", lambda: {"flags": "amx_bf16"})
    monkeypatch.setattr(engines, "is_installed", lambda *packages: True)
    return find("embedders", "sentence-transformers")


def identity(found: Parts) -> dict[str, Any]:
    return cast(Any, found.embedder).identity


def test_auto_is_the_fastest_for_a_new_collection(sentence_transformers: Plugin) -> None:
    found = identity(parts(sentence_transformers, **LEFT_OPEN))
    assert (found["engine"], found["precision"]) == ("openvino", "bfloat16")


def test_auto_stays_with_what_made_the_collections(sentence_transformers: Plugin) -> None:
    made = recipe(sentence_transformers, **CPU)
    found = Parts(parts(sentence_transformers, **LEFT_OPEN).config, frozenset({made}))
    assert found.embedder_recipe == made
    assert recipe(sentence_transformers, **LEFT_OPEN) in found.embedder_choice.other_recipes


def test_auto_is_another_where_what_made_the_collections_is_not_possible(
    sentence_transformers: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = recipe(sentence_transformers, **LEFT_OPEN)
    monkeypatch.setattr(engines, "processor", lambda: {"flags": "avx2"})
    found = Parts(parts(sentence_transformers, **LEFT_OPEN).config, frozenset({made}))
    assert (identity(found)["engine"], identity(found)["precision"]) == ("openvino", "float32")
    assert made in found.embedder_choice.other_recipes


def test_chosen_engine_is_taken_whatever_made_the_collections(sentence_transformers: Plugin) -> None:
    made = recipe(sentence_transformers, **LEFT_OPEN)
    found = Parts(parts(sentence_transformers, **CPU).config, frozenset({made}))
    assert "engine" not in identity(found)
    assert made not in found.embedder_choice.other_recipes


@pytest.mark.parametrize(
    ("options", "same"),
    [
        ({}, True),
        ({"threads": 8}, True),
        ({"flavour": "sour"}, False),
        ({"model": "another"}, False),
        ({"dimensions": 32}, False),
    ],
)
def test_every_option_counts_but_those_for_speed(options: dict[str, Any], same: bool) -> None:
    assert (recipe(PLUGIN) == recipe(PLUGIN, **options)) is same


def test_version_of_a_plugin_is_part_of_the_recipe() -> None:
    later = Plugin("plain", 2, PlainOptions, PlainEmbedder)
    assert recipe(PLUGIN) != recipe(later)


class WeightsOptions(PlainOptions):
    model: str = pinned("here")


class Weighty(PlainEmbedder):
    """Knows its weights, whatever they are called, and forgets that flavour matters, too."""

    @property
    def identity(self) -> Mapping[str, object]:
        return {"weights": {"here": "w1", "there": "w1"}.get(self._options.model, "w2")}

    def embed_queries(self, texts: list[str]) -> Vectors:
        return self.embed([f"query: {text}" for text in texts])

    def reader_model(self) -> ReaderModel:
        return ReaderModel("ollama", {"model_name": self._options.model})


@pytest.mark.parametrize(
    ("options", "same"),
    [
        ({"model": "there"}, True),
        ({"model": "elsewhere"}, False),
        ({"flavour": "sour"}, False),
        ({"threads": 8}, True),
    ],
)
def test_identity_counts_beside_the_options_that_it_does_not_stand_for(
    options: dict[str, Any], same: bool
) -> None:
    weighty = Plugin("weighty", 1, WeightsOptions, Weighty)
    assert (recipe(weighty) == recipe(weighty, **options)) is same


def test_options_without_identity_all_count() -> None:
    forgetful = Plugin("forgetful", 1, WeightsOptions, PlainEmbedder)
    assert recipe(forgetful) != recipe(forgetful, model="there")


def test_questions_are_embedded_as_the_embedder_wants_them() -> None:
    weighty = Plugin("weighty", 1, WeightsOptions, Weighty)
    told = parts(weighty).query_vectors(["why?"])[0]
    assert told.tolist() == vector("query: why?", "sweethere").tolist()
    plain = parts(PLUGIN, model="here").query_vectors(["why?"])[0]
    assert plain.tolist() == vector("why?", "sweethere").tolist()


def test_query_answer_out_of_range_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_embedder, "vector", lambda text, flavour, dimensions: [2.0] * dimensions)
    with pytest.raises(BadVectors, match=r"length 8, which must be 1, for the text that begins with 'why\?'"):
        parts(PLUGIN).query_vectors(["why?"])


def test_readers_get_model_of_embedder_only() -> None:
    weighty = Plugin("weighty", 1, WeightsOptions, Weighty)
    assert parts(weighty).model.reader == ReaderModel("ollama", {"model_name": "here"})
    assert parts(PLUGIN).model.reader is None
    assert parts(find("embedders", "hashing")).model.reader is None
