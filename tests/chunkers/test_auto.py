"""Which strategy a document gets, and that it gets it whole."""

from dataclasses import replace
from typing import Any, ClassVar

import pytest

from ingestor.chunkers.auto import PLUGIN, AutoOptions, kind_of
from ingestor.core.fingerprint import meaningful, plugin_fingerprint
from ingestor.llm.client import Asking
from ingestor.model import Blob, Document
from ingestor.ports import Collective
from ingestor.registry import find
from tests.chunkers.golden import sample
from tests.chunkers.laws import TOKENS, ChunkerLaws, Options, cut, essay, fake_embed
from tests.chunkers.scripted import ENDPOINT, Scripted, every, speaking


class TestAuto(ChunkerLaws):
    plugin = PLUGIN
    options: ClassVar[Options] = {
        "short_tokens": 0,
        "prose": {"strategy": "sentence", "max_sentences": 2, "overlap": 0},
    }


class TestAutoAsItComes(ChunkerLaws):
    plugin = PLUGIN
    local = False  # changepoint's penalty is that of the whole document
    joins = False  # changepoint's own laws say how far it joins
    limited: ClassVar[Options] = {"max_tokens": 250}
    large = 60_000
    test_text_of_five_megabytes_is_cut = None  # changepoint's own laws have it


PYTHON = "def f(x):\n    return x\n\n\n" * 60
TABLE = "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 200
PROSE = essay(20)
HEADED = f"# One\n\n{PROSE}\n\n# Two\n\n{PROSE}"


def markdown(text: str) -> Document:
    plugin = find("parsers", "markdown")
    document: Document = plugin.build(plugin.options()).parse(Blob(text.encode(), "a.md"))
    return document


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        (Document(""), "short"),
        (Document("A few words."), "short"),
        (Document("x = 1\n", content_type="text/x-python"), "short"),
        (Document(PROSE), "prose"),
        (Document(PROSE, content_type="text/html"), "prose"),
        (Document(PYTHON, content_type="text/x-python"), "code"),
        (Document('{"a": [1, 2]}\n' * 99, content_type="application/json"), "code"),
        (Document("a,b\n1,2\n" * 99, content_type="text/csv"), "table"),
        (markdown(TABLE), "table"),
        (markdown(f"{TABLE}\n\n{PROSE}"), "prose"),
        (markdown(HEADED), "headings"),
        (markdown(f"# Only one\n\n{PROSE}"), "prose"),
        (Document("é" * 100_000), "prose"),
    ],
)  # fmt: skip
def test_document_of_a_member_has_its_bytes_and_name(document: Document, kind: str) -> None:
    assert kind_of(document, TOKENS, 200) == kind


def picked(document: Document, **options: Any) -> set[Any]:
    return {dict(chunk.extra)["picked"] for chunk in cut(PLUGIN, document, **options)}


@pytest.mark.parametrize(
    ("document", "strategy"),
    [
        (Document("A few words."), "recursive"),
        (Document(PYTHON, content_type="text/x-python"), "structure"),
        (markdown(TABLE), "structure"),
        (markdown(HEADED), "changepoint"),
        (Document(PROSE), "changepoint"),
    ],
)
def test_metadata_names_the_picked_strategy(document: Document, strategy: str) -> None:
    assert picked(document) == {strategy}


def test_short_document_is_one_chunk() -> None:
    (chunk,) = cut(PLUGIN, " ".join(PROSE.split()[:120]))
    assert TOKENS.count(chunk.text) > 100


@pytest.mark.parametrize(
    ("strategy", "more"),
    [
        ("changepoint", {}),
        ("cluster", {}),
        ("sentence", {"overlap": 0}),
        ("breakpoint", {"vectors": "pooled"}),
    ],
)
def test_chunks_are_those_of_the_picked_strategy(strategy: str, more: Options) -> None:
    document, plugin = Document(PROSE), find("chunkers", strategy)
    options = plugin.options(
        **more, **({"scope": "document"} if strategy in ("changepoint", "cluster") else {})
    )
    alone = plugin.build(options, TOKENS).chunk(document, fake_embed, None)
    auto = PLUGIN.build(AutoOptions.model_validate({"prose": {"strategy": strategy, **more}}), TOKENS)
    made = auto.chunk(document, fake_embed, None)
    assert [replace(chunk, extra=chunk.extra[:-1]) for chunk in made.chunks] == list(alone.chunks)
    assert (made.vectors is None) == (alone.vectors is None)
    assert made.vectors is None or (made.vectors == alone.vectors).all()
    assert (made.sums, made.interval) == (None, None)
    assert not isinstance(auto, Collective)


def test_options_beside_kinds_hold_for_all_kinds() -> None:
    options = AutoOptions.model_validate(
        {
            "max_tokens": 80,
            "context": "title",
            "neighbours": 0.2,
            "code": {"strategy": "fixed", "max_tokens": 50},
        }
    )
    assert [getattr(options, kind).options.max_tokens for kind in ("short", "code", "table", "prose")] == [
        80, 50, 80, 80,
    ]  # fmt: skip
    assert {getattr(options, kind).options.context for kind in ("short", "code", "prose")} == {"title"}
    assert {getattr(options, kind).options.neighbours for kind in ("short", "code", "prose")} == {0.2}


def test_model_is_requested_through_auto_too() -> None:
    answers = Scripted(every(2))
    pick = {"strategy": "llm", **ENDPOINT}
    chunks = cut(speaking(PLUGIN, answers), PROSE, prose=pick)
    assert answers.asked
    assert len(chunks) > 3
    assert isinstance(PLUGIN.build(AutoOptions(), TOKENS), Asking)


SECRET = "sk-secret"


def test_key_within_a_pick_is_no_part_of_the_recipe_and_not_shown() -> None:
    one, other = (
        AutoOptions.model_validate({"prose": {"strategy": "llm", **ENDPOINT, "api_key": key}})
        for key in (SECRET, "another")
    )
    assert plugin_fingerprint(PLUGIN, one) == plugin_fingerprint(PLUGIN, other)
    assert SECRET not in repr(one) + repr(meaningful(one))
    assert one.prose.options.api_key.get_secret_value() == SECRET  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "more",
    [
        {"short_tokens": 100},
        {"code": {"strategy": "fixed"}},
        {"prose": {"strategy": "changepoint", "target": 99}},
        {"neighbours": 0.1},
    ],
)
def test_recipe_knows_every_option(more: Options) -> None:
    assert plugin_fingerprint(PLUGIN, AutoOptions.model_validate(more)) != plugin_fingerprint(
        PLUGIN, AutoOptions()
    )


def test_recipe_knows_the_versions_of_what_it_picks() -> None:
    assert meaningful(AutoOptions())["code"]["version"] == find("chunkers", "structure").version


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"neighbours": 0.2, "max_tokens": 80, "context": "headings"},
        {"prose": {"strategy": "changepoint", "neighbours": 0.1}, "code": {"strategy": "fixed", "size": 9}},
    ],
)
def test_options_can_be_had_again_from_what_is_meaningful(given: Options) -> None:
    options = AutoOptions.model_validate(given)
    again = AutoOptions.model_validate(meaningful(options))
    assert again == options
    assert meaningful(again) == meaningful(options)


def test_samples_have_the_language_of_their_text() -> None:
    kinds = {name: kind_of(sample(name), TOKENS, 50) for name in ("hydroponics.md", "scripts.txt")}
    assert kinds == {"hydroponics.md": "headings", "scripts.txt": "prose"}
