"""No text is beyond the model's window, whichever way a vector is made, and every vector holds its end."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestor.embedders.sentence_transformers import SentenceTransformersEmbedder, SentenceTransformersOptions
from ingestor.model import Chunk, Vectors
from ingestor.pipeline.limits import divide, embed_whole, exceeds_window
from ingestor.pipeline.prepare import Prepared, texts_to_embed
from ingestor.registry import kinds
from tests.chunkers.laws import fake_embed
from tests.pipeline.preparing import entry, made, tools_of

LONG = "Word after word after " * 40 + "word."
TEXT_OF_THREE = f"A short one.\n\n{LONG}\n\nAnother short one."


class Words:
    """A model whose tokens are words, and that reads ten of them."""

    dimensions, window = 64, 10

    def __init__(self) -> None:
        self.counted: list[str] = []
        self.embedded: list[str] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.embedded.extend(texts)
        return fake_embed(texts)

    def count(self, texts: Sequence[str]) -> list[int]:
        self.counted.extend(texts)
        return [len(text.split()) for text in texts]


class Endless(Words):
    window = 10**9


class Letters(Words):
    """A model whose tokens are code points."""

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(text) for text in texts]


def test_text_of_a_token_too_many_exceeds_the_window() -> None:
    model, ten = Words(), "one two three four five six seven eight nine ten"
    assert exceeds_window(model, [ten, f"{ten} eleven", "x"]) == [False, True, False]
    assert model.counted == [ten, f"{ten} eleven"]
    assert exceeds_window(model, ["x", "y"]) == [False, False]
    assert exceeds_window(model, []) == []


def test_packaged_model_counts_tokens_as_it_reads_them() -> None:
    """Two of its 256 tokens are its own."""
    model = SentenceTransformersEmbedder(SentenceTransformersOptions())
    assert exceeds_window(model, ["a " * 254, "a " * 255]) == [False, True]


@given(st.text(alphabet="ab1 .\n|語", max_size=300))
def test_parts_fit_and_lose_only_white_space(text: str) -> None:
    found = divide(text, partial(exceeds_window, Letters()))
    assert all(len(part) <= Letters.window for part in found if len(part) > 1)
    assert "".join("".join(found).split()) == "".join(text.split())


def test_text_is_divided_at_the_strongest_border_near_its_middle() -> None:
    beyond = partial(exceeds_window, Words())
    assert divide("one two three. four five six seven eight nine ten", beyond) == [
        "one two three. four five six seven eight nine ten"
    ]
    text = "one two three four. five six seven eight nine ten eleven twelve"
    assert divide(text, beyond) == ["one two three four. ", "five six seven eight nine ten eleven twelve"]
    assert divide(text.replace("seven eight", "seven\neight"), beyond) == [
        "one two three four. five six seven\n", "eight nine ten eleven twelve"
    ]  # fmt: skip


def test_texts_within_the_window_keep_their_vectors_bit_for_bit() -> None:
    model, long = Words(), "a " * 30
    alone = embed_whole(["x y"], model.embed, partial(exceeds_window, model))
    mixed = embed_whole([long, "x y", long], model.embed, partial(exceeds_window, model))
    assert (mixed[1] == alone[0]).all() and (alone == model.embed(["x y"])).all()
    assert (mixed[0] == mixed[2]).all() and abs(float(mixed[0] @ mixed[0]) - 1) < 1e-2


def prepared(kind: str, model: Words, text: str = TEXT_OF_THREE, **options: Any) -> Prepared:
    beyond = partial(exceeds_window, model)
    tools = tools_of(text, kind, model.embed, options=options, exceeds_window=beyond)
    return made(tools, entry(tools))


FIGURES = "".join(f"| {n} | 1,{n:03}.{n % 97:02} | -{n / 7:.4f} |\n" for n in range(60))
ASKING = {"llm", "proposition"}


@pytest.mark.parametrize("kind", sorted(set(kinds("chunkers")) - ASKING))
@pytest.mark.parametrize(
    "text", [TEXT_OF_THREE, f"Figures of the year:\n\n{FIGURES}"], ids=["words", "numbers"]
)
def test_texts_of_every_strategy_fit_the_window(kind: str, text: str) -> None:
    model = Words()
    found = prepared(kind, model, text)
    assert found.records
    assert max(model.count(model.embedded)) <= model.window


@pytest.mark.parametrize(
    ("kind", "vectors"), [("paragraph", None), ("changepoint", "pooled"), ("similarity", "encoded")]
)
def test_vector_depends_on_the_end_of_a_long_text(kind: str, vectors: str | None) -> None:
    options = {} if vectors is None else {"vectors": vectors}
    one, other = (prepared(kind, Words(), text, **options) for text in (LONG, f"{LONG[:-5]}last."))
    assert one.records[-1].text[:-5] == other.records[-1].text[:-5]
    assert (one.records[-1].vector != other.records[-1].vector).any()


def test_record_truncated_by_the_model_is_replaced_once() -> None:
    found = prepared("paragraph", Words(), max_tokens=None)
    whole = prepared("paragraph", Endless(), max_tokens=None)
    keys = [[known.vector_key for known in each.receipt.records] for each in (found, whole)]
    assert [a == b for a, b in zip(*keys, strict=True)] == [
        "word after" not in r.text.lower() for r in found.records
    ]


def test_lines_that_exceed_the_window_are_omitted_from_the_most_general() -> None:
    lines = [("a b c", "d e", "f"), ("a b c", "d e", "f"), ("a b c", "d e", "f"), ()]
    words = [
        "one two three four", "one two three four five six seven", " ".join("x" * 10), " ".join("x" * 11),
    ]  # fmt: skip
    chunks = [Chunk(0, len(text), text) for text in words]
    texts = texts_to_embed(chunks, lines, partial(exceeds_window, Words()))
    assert [text.removesuffix(chunk.text) for text, chunk in zip(texts, chunks, strict=True)] == [
        "a b c\nd e\nf\n", "d e\nf\n", "", "",
    ]  # fmt: skip
    assert exceeds_window(Words(), texts) == [False, False, False, True]
