"""Strategies by content type."""

from typing import Any

import pytest
from pydantic import ValidationError

from ingestor.chunkers.by_type import build_chunker
from ingestor.chunkers.options import ChunkerOptions
from ingestor.core.fingerprint import plugin_fingerprint, recipe_options
from ingestor.llm.client import Asking
from ingestor.model import Chunking, Document
from ingestor.ports import Chunker, Collective, NeedsHuman
from ingestor.registry import find
from tests.chunkers.laws import TOKENS, essay, fake_embed

PYTHON = "".join(f"def f{at}(a, b):\n    total = a * {at}\n    return total + b\n\n\n" for at in range(40))
CODE = Document(PYTHON, content_type="text/x-python")
PROSE = Document(essay(20), content_type="text/markdown")


def build(strategy: str, **options: Any) -> Chunker:
    plugin = find("chunkers", strategy)
    return build_chunker(plugin, plugin.options(**options), TOKENS)


def cut(chunker: Chunker, document: Document) -> Chunking:
    return chunker.chunk(document, fake_embed, None)


def alone(strategy: str, document: Document, **options: Any) -> list[str]:
    plugin = find("chunkers", strategy)
    made = plugin.build(plugin.options(**options), TOKENS).chunk(document, fake_embed, None)
    return [chunk.text for chunk in made.chunks]


def texts(chunking: Chunking) -> list[str]:
    return [chunk.text for chunk in chunking.chunks]


def test_default_cuts_code_by_structure_and_prose_by_meaning() -> None:
    default = build("changepoint")
    made = cut(default, CODE)
    assert texts(made) == alone("structure", CODE, max_tokens=150)
    assert {dict(chunk.extra)["picked"] for chunk in made.chunks} == {"structure"}
    assert (made.vectors, made.sums, made.interval, made.neighbours) == (None, None, None, 0.0)
    prose = cut(default, PROSE)
    assert texts(prose) == alone("changepoint", PROSE)
    assert prose.sums is not None
    assert all("picked" not in dict(chunk.extra) for chunk in prose.chunks)


def test_empty_mapping_cuts_all_documents_alike_and_has_the_former_recipe() -> None:
    assert texts(cut(build("changepoint", by_type={}), CODE)) == alone("changepoint", CODE)
    options = find("chunkers", "changepoint").options
    assert "by_type" not in recipe_options(options(by_type={}))
    assert "by_type" in recipe_options(options())


def test_first_key_that_matches_names_the_strategy() -> None:
    for mapping, document, strategy in [
        ({"text/markdown": "sentence"}, PROSE, "sentence"),
        ({"text/*": "paragraph", "text/markdown": "sentence"}, PROSE, "paragraph"),
        ({"code": "structure", "text/x-python": "fixed"}, CODE, "structure"),
        ({"text/x-python": "fixed", "code": "structure"}, CODE, "fixed"),
        ({"code": "structure"}, PROSE, "recursive"),
        ({"text/html": "structure"}, PROSE, "recursive"),
    ]:
        assert texts(cut(build("recursive", by_type=mapping), document)) == alone(strategy, document)


def test_context_and_limits_beside_the_mapping_hold_for_all() -> None:
    made = cut(build("recursive", max_tokens=40, by_type={"code": "structure"}), CODE)
    assert texts(made) == alone("structure", CODE, max_tokens=40)
    own = {"code": {"strategy": "structure", "max_tokens": 80}}
    for most, kept in ((40, 40), (100, 80)):
        made = cut(build("recursive", max_tokens=most, by_type=own), CODE)
        assert texts(made) == alone("structure", CODE, max_tokens=kept)
    default = find("chunkers", "changepoint").options(context="none", min_tokens=300, target=400)
    inner = default.options_of("code")
    assert (inner.context, inner.min_tokens, inner.max_tokens) == ("none", 150, 150)


def test_share_of_neighbours_is_that_of_the_strategy_of_the_type() -> None:
    mapping = {"code": {"strategy": "structure", "neighbours": 0.2}}
    assert cut(build("changepoint", by_type=mapping), CODE).neighbours == 0.2
    assert cut(build("changepoint", by_type=mapping), PROSE).neighbours is None


def test_statistic_is_that_of_the_strategy_beside_the_mapping() -> None:
    assert isinstance(build("changepoint"), Collective)
    assert not isinstance(build("changepoint", scope="document"), Collective)
    mapping = {"code": "changepoint"}
    assert not isinstance(build("recursive", by_type=mapping), Collective)


def test_answers_reach_a_strategy_that_uses_a_language_model() -> None:
    class Nothing:
        def answer(self, question: Any, ask: Any) -> None:
            asked.append(question)

        def wait(self, seconds: float) -> None: ...

    asked: list[Any] = []
    llm = {"strategy": "llm", "base_url": "http://127.0.0.1:9/v1", "model": "small"}
    chunker = build("recursive", by_type={"text/markdown": llm})
    assert isinstance(chunker, Asking)
    cut(chunker.through(Nothing()), PROSE)
    assert asked


def test_mapping_that_makes_no_sense_is_refused() -> None:
    for mapping, message in [
        ({"html": "structure"}, "html must be `code` or a content type, such as text/html or text/*"),
        ({"code": "nothing"}, "unknown chunker 'nothing'"),
        ({"code": "auto"}, "must be a strategy other than `auto`, without `by_type`"),
        ({"code": {"strategy": "fixed", "by_type": {"code": "fixed"}}}, "without `by_type`"),
        ({"code": {"strategy": "structure", "size": 3}}, "structure: size: Extra inputs"),
        ({"code": {"strategy": "structure", "context": "none"}}, "by_type: code: `context` must be the same"),
    ]:
        with pytest.raises(ValidationError) as caught:
            find("chunkers", "recursive").options(by_type=mapping)
        assert message in str(caught.value)


def test_strategy_with_a_statistic_of_the_collection_is_refused() -> None:
    with pytest.raises(NeedsHuman, match="changepoint compares all documents of a collection"):
        build("recursive", by_type={"code": {"strategy": "changepoint", "scope": "collection"}})


def test_recipe_holds_the_version_of_the_strategy_of_the_type() -> None:
    plugin = find("chunkers", "recursive")
    options = plugin.options(by_type={"code": "structure"})
    assert isinstance(options, ChunkerOptions)
    assert recipe_options(options)["by_type"]["code"]["version"] == find("chunkers", "structure").version
    assert plugin_fingerprint(plugin, options) != plugin_fingerprint(plugin, plugin.options())
    stored = plugin.options(**recipe_options(options))
    assert plugin_fingerprint(plugin, stored) == plugin_fingerprint(plugin, options)
