"""A chunk whose end the model does not see says so, whichever way its vector is made."""

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from ingestor.core.entries import Entry
from ingestor.embedders.sentence_transformers import SentenceTransformersEmbedder, SentenceTransformersOptions
from ingestor.model import (
    Blob,
    Chunk,
    CollectionName,
    DocumentId,
    Fingerprint,
    Item,
    SourceName,
    Vectors,
)
from ingestor.parsers.text import PLUGIN as TEXT
from ingestor.pipeline.limits import exceeds_window, holding
from ingestor.pipeline.prepare import Job, Prepared, Tools, embedded_texts, prepare
from ingestor.pipeline.reading import Reader
from ingestor.ports import Embedder
from ingestor.registry import find
from ingestor.text.tokens import Tokens
from tests.chunkers.laws import fake_embed

TOKENS = Tokens()
LONG = "Word after word after " * 40 + "word."
TEXT_OF_THREE = f"A short one.\n\n{LONG}\n\nAnother short one."


class Words:
    """A model whose tokens are words, and that reads ten of them."""

    dimensions, window = 64, 10

    def __init__(self) -> None:
        self.counted: list[str] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        return fake_embed(texts)

    def count(self, texts: Sequence[str]) -> list[int]:
        self.counted.extend(texts)
        return [len(text.split()) for text in texts]


def test_a_text_is_beyond_the_window_from_one_token_more_on() -> None:
    model, ten = Words(), "one two three four five six seven eight nine ten"
    assert exceeds_window(model, [ten, f"{ten} eleven", "x"]) == [False, True, False]
    assert model.counted == [ten, f"{ten} eleven"]
    assert exceeds_window(model, ["x", "y"]) == [False, False]
    assert exceeds_window(model, []) == []


def test_the_packaged_model_counts_as_it_reads() -> None:
    """Two of its 256 tokens are its own."""
    model = SentenceTransformersEmbedder(SentenceTransformersOptions())
    assert exceeds_window(model, ["a " * 254, "a " * 255]) == [False, True]


def test_parts_are_found_in_the_chunks_that_hold_their_beginnings() -> None:
    text = "aa b aa c aa"
    chunks = [Chunk(0, 4, "aa b"), Chunk(5, 9, "aa c"), Chunk(10, 12, "aa")]
    assert holding(text, chunks, ["b", "aa c"]) == [True, True, False]
    assert holding(text, chunks, ["a heading from elsewhere", "c"]) == [False, True, False]
    assert holding(text, [], ["b"]) == []


def prepared(kind: str, model: Embedder, **options: Any) -> Prepared:
    plugin = find("chunkers", kind)
    chosen = plugin.options(**options)
    reader = Reader(
        SourceName("notes"), lambda item: Blob(TEXT_OF_THREE.encode(), item.key),
        {"text": TEXT.build(TEXT.options())}, {"text": Fingerprint("text")},
    )  # fmt: skip
    tools = Tools(
        reader, CollectionName("docs"), plugin.build(chosen, TOKENS), Fingerprint(kind),
        kind, model.embed, Fingerprint("words"), TOKENS.counts,
        context=chosen.context, exceeds_window=partial(exceeds_window, model),
    )  # fmt: skip
    item = Item("a.txt", "1", "/a.txt")
    entry = Entry(
        1, DocumentId("d"), reader.source, tools.collection, item.key, item, None, None, None, None, None, 0
    )
    return prepare(Job(entry), tools, lambda *_: None)


STRATEGIES: list[tuple[str, dict[str, Any]]] = [
    ("paragraph", {"max_paragraphs": 1, "overlap": 0, "max_tokens": None}),
    ("similarity", {"threshold": 0.99}),
    ("similarity", {"threshold": 0.99, "vectors": "pooled"}),
]


@pytest.mark.parametrize(("kind", "options"), STRATEGIES)
def test_what_is_cut_short_says_so(
    kind: str, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "ingestor"):
        found = prepared(kind, Words(), **options)
    assert [record.metadata.get("truncated") for record in found.records] == [None, True, None]
    assert [record.getMessage() for record in caplog.records if record.name == "ingestor"] == [
        "a.txt (notes): 1 of 3 chunks truncated by the model"
    ]
    assert found.truncated == 1


def test_nothing_is_said_where_all_is_read(caplog: pytest.LogCaptureFixture) -> None:
    found = prepared("sentence", Words(), max_tokens=8, max_sentences=1, overlap=0)
    assert len(found.records) > 20
    assert not any("truncated" in record.metadata for record in found.records)
    assert not caplog.records


def test_lines_that_exceed_the_window_are_left_out_from_the_most_general() -> None:
    lines = [("a b c", "d e", "f"), ("a b c", "d e", "f"), ("a b c", "d e", "f"), ()]
    words = [
        "one two three four",
        "one two three four five six seven",
        " ".join("x" * 10),
        " ".join("x" * 11),
    ]
    chunks = [Chunk(0, len(text), text) for text in words]
    texts = embedded_texts(chunks, lines, partial(exceeds_window, Words()))
    assert [text.removesuffix(chunk.text) for text, chunk in zip(texts, chunks, strict=True)] == [
        "a b c\nd e\nf\n",
        "d e\nf\n",
        "",
        "",
    ]
    assert exceeds_window(Words(), texts) == [False, False, False, True]
