"""The strategies that ask, with a real language model that really runs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ingestor.chunkers import llm, proposition
from ingestor.llm.answers import CachedAnswers
from ingestor.model import Chunk, Document
from ingestor.registry import Plugin
from ingestor.state.cache import VectorCache
from tests.chunkers.laws import TOKENS, fake_embed
from tests.gemma import serving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

TEXT = """\
Tomatoes need six hours of sun a day and water at the root. They are planted out after the last frost. Whoever
pinches out the side shoots gets fewer and larger fruits, and gets them earlier in the year.

The Danube rises in the Black Forest. It flows through ten countries, more than any other river, and reaches
the Black Sea in a delta where pelicans breed. Ships go upstream as far as Kelheim.

A sonnet has fourteen lines. Shakespeare wrote one hundred and fifty-four of them, most of them to a young man
whose name is not known, and the last ones to a woman who is not named either.

Copper conducts heat and electricity well. It is soft, and turns green in the open air over many years. Roofs,
cables and coins are made of it, and with tin it becomes bronze.

Bees dance to tell each other where flowers are. The angle of the dance gives the direction relative to the
sun, and its length the distance. In the dark of the hive the others follow it by touch.

A fugue begins with one voice alone. The second voice answers a fifth higher, and the third comes in an octave
away from the first. What they imitate is called the subject.

Bread rises because yeast turns sugar into gas. Salt slows it down, and warmth hastens it. A dough that is
kept cold overnight rises slowly and tastes better.
"""
NUMBERS = 'root ::= "split_after: " [1-9] (", " [1-9]){0,2}'
STATEMENTS = {
    "type": "array", "items": {"type": "string", "minLength": 5, "maxLength": 80}, "minItems": 1,
    "maxItems": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    with serving() as found:
        yield found


@pytest.fixture
def answers(tmp_path: Path) -> Iterator[CachedAnswers]:
    cache = VectorCache(tmp_path / "cache.sqlite3", 10**8)
    yield CachedAnswers(cache)
    cache.close()


def cut(
    plugin: Plugin, text: str, base_url: str, answers: CachedAnswers, **options: Any
) -> tuple[Chunk, ...]:
    given = {"base_url": base_url, "model": "gemma-3-270m", "timeout": "10m", **options}
    chunker = plugin.build(plugin.options.model_validate(given), TOKENS).through(answers)
    chunks: tuple[Chunk, ...] = chunker.chunk(Document(text), fake_embed, None).chunks
    return chunks


def test_borders_of_a_recorded_model_give_the_expected_chunks(base_url: str, answers: CachedAnswers) -> None:
    options = {"window": 400, "answer_tokens": 20, "parameters": {"grammar": NUMBERS}}
    chunks = cut(llm.PLUGIN, TEXT, base_url, answers, **options)
    assert "".join("".join(chunk.text for chunk in chunks).split()) == "".join(TEXT.split())
    assert all(TEXT[chunk.start : chunk.end] == chunk.text for chunk in chunks)
    assert 1 <= answers.calls <= 8
    assert answers.prompt_tokens > 200 * answers.calls
    assert answers.completion_tokens >= 5 * answers.calls
    calls = answers.calls
    assert cut(llm.PLUGIN, TEXT, base_url, answers, **options) == chunks
    assert answers.calls == calls


def test_statements_of_a_recorded_model_become_chunks(base_url: str, answers: CachedAnswers) -> None:
    text = TEXT[: TEXT.index("Copper")]
    schema = {"type": "json_schema", "json_schema": {"name": "statements", "schema": STATEMENTS}}
    options = {"passage": 80, "group": False, "answer_tokens": 100, "parameters": {"response_format": schema}}
    chunks = cut(proposition.PLUGIN, text, base_url, answers, **options)
    written = [chunk for chunk in chunks if chunk.rewritten]
    assert written
    assert all(dict(chunk.extra)["passage"] == TEXT[chunk.start : chunk.end] for chunk in written)
    assert all(chunk.rewritten or TEXT[chunk.start : chunk.end] == chunk.text for chunk in chunks)
    assert {(chunk.start, chunk.end) for chunk in chunks} >= {(0, TEXT.index("\n\n"))}
    calls = answers.calls
    assert calls >= 3
    assert cut(proposition.PLUGIN, text, base_url, answers, **options) == chunks
    assert answers.calls == calls
