"""Which strategy a document gets, and that it gets it whole."""

from dataclasses import replace
from typing import Any

import pytest

from ingestor.chunkers.auto import PLUGIN, AutoOptions, kind_of
from ingestor.core.fingerprint import meaningful, plugin_fingerprint
from ingestor.llm.client import Asking
from ingestor.model import Document
from ingestor.ports import Collective
from ingestor.registry import find
from tests.chunkers.golden import sample
from tests.chunkers.laws import TOKENS, Options, cut, essay, fake_embed, laws, parsed
from tests.chunkers.scripted import ENDPOINT, Scripted, every, speaking

TestAuto = laws(
    PLUGIN, {"short_tokens": 0, "prose": {"strategy": "sentence", "max_sentences": 2, "overlap": 0}}
)
# Changepoint's penalty is that of the whole document. Its own laws check its joins and five megabytes.
TestAutoAsItComes = laws(
    PLUGIN,
    local=False,
    joins=False,
    limited={"max_tokens": 250},
    large=60_000,
    test_text_of_five_megabytes_is_cut=None,
)


PYTHON = "def f(x):\n    return x\n\n\n" * 60
TABLE = "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 200
PROSE = essay(20)
HEADED = f"# One\n\n{PROSE}\n\n# Two\n\n{PROSE}"


def test_document_is_of_its_kind() -> None:
    for document, kind in [
        (Document(""), "short"), (Document("A few words."), "short"),
        (Document(" ".join(PROSE.split()[:120])), "short"),
        (Document("x = 1\n", content_type="text/x-python"), "short"), (Document(PROSE), "prose"),
        (Document(PROSE, content_type="text/html"), "prose"),
        (Document(PYTHON, content_type="text/x-python"), "code"),
        (Document('{"a": [1, 2]}\n' * 99, content_type="application/json"), "code"),
        (Document("a,b\n1,2\n" * 99, content_type="text/csv"), "table"), (parsed(TABLE), "table"),
        (parsed(f"{TABLE}\n\n{PROSE}"), "prose"), (parsed(HEADED), "headings"),
        (parsed(f"# Only one\n\n{PROSE}"), "prose"), (Document("é" * 100_000), "prose"),
        (sample("hydroponics.md"), "headings"), (sample("scripts.txt"), "prose"),
    ]:  # fmt: skip
        assert kind_of(document, TOKENS, 200) == kind


def picked(document: Document, **options: Any) -> set[Any]:
    return {dict(chunk.extra)["picked"] for chunk in cut(PLUGIN, document, **options)}


def test_metadata_names_the_picked_strategy() -> None:
    for document, strategy in [
        (Document("A few words."), "recursive"),
        (Document(PYTHON, content_type="text/x-python"), "structure"), (parsed(TABLE), "structure"),
        (parsed(HEADED), "changepoint"), (Document(PROSE), "changepoint"),
    ]:  # fmt: skip
        assert picked(document) == {strategy}


@pytest.mark.parametrize(
    ("strategy", "more"),
    [
        ("changepoint", {}), ("cluster", {}), ("sentence", {"overlap": 0}),
        ("breakpoint", {"vectors": "pooled"}),
    ],
)  # fmt: skip
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
    code = {"strategy": "fixed", "max_tokens": 50}
    given = {"max_tokens": 80, "context": "title", "neighbours": 0.2, "code": code}
    options = AutoOptions.model_validate(given)
    kinds = [getattr(options, kind).options for kind in ("short", "code", "table", "prose")]
    assert [kind.max_tokens for kind in kinds] == [80, 50, 80, 80]
    assert {(kind.context, kind.neighbours) for kind in kinds} == {("title", 0.2)}


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


def test_recipe_knows_every_option_and_the_versions_of_what_it_picks() -> None:
    several: list[Options] = [
        {"short_tokens": 100}, {"code": {"strategy": "fixed"}}, {"neighbours": 0.1},
        {"prose": {"strategy": "changepoint", "target": 99}}, {},
    ]  # fmt: skip
    assert len({plugin_fingerprint(PLUGIN, AutoOptions.model_validate(more)) for more in several}) == 5
    assert meaningful(AutoOptions())["code"]["version"] == find("chunkers", "structure").version


def test_options_can_be_had_again_from_what_is_meaningful() -> None:
    for given in [
        {},
        {"neighbours": 0.2, "max_tokens": 80, "context": "headings"},
        {"prose": {"strategy": "changepoint", "neighbours": 0.1}, "code": {"strategy": "fixed", "size": 9}},
    ]:
        options = AutoOptions.model_validate(given)
        again = AutoOptions.model_validate(meaningful(options))
        assert again == options
        assert meaningful(again) == meaningful(options)
