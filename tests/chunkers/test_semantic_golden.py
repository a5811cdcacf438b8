"""What the semantic strategies make of two texts with the real model's vectors, looked at and found good."""

from typing import Any

import numpy as np
import pytest

from ingestor.core.fingerprint import digest, text_digest
from ingestor.model import Chunking, Document
from ingestor.registry import find
from ingestor.text.sentences import sentences
from tests.chunkers.golden import check, sample
from tests.chunkers.laws import TOKENS
from tests.chunkers.stored import StoredModel
from tests.minilm import CachedModel

MODEL = StoredModel()
BARE: dict[str, Any] = {"min_tokens": None, "max_tokens": None}  # what the published method does
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "cluster": ("cluster", {"max_tokens": 200}),
    "changepoint": ("changepoint", {"target": 80}),
    "breakpoint-percentile": ("breakpoint", {**BARE, "amount": 85}),
    "breakpoint-standard_deviation": ("breakpoint", {**BARE, "threshold": "standard_deviation", "amount": 1}),
    "breakpoint-interquartile": ("breakpoint", {**BARE, "threshold": "interquartile", "amount": 0.5}),
    "breakpoint-gradient": ("breakpoint", {**BARE, "threshold": "gradient", "amount": 85, "max_tokens": 250}),
    "double_pass": ("double_pass", {"min_tokens": None}),
    "similarity": ("similarity", {"min_tokens": None}),
    "kmeans": ("kmeans", {"clusters": 5}),
}


def cut(kind: str, document: Document, options: dict[str, Any]) -> Chunking:
    plugin = find("chunkers", kind)
    chosen = plugin.options(**{"context": "none", **options})  # cuts are looked at, and vectors are stored
    made: Chunking = plugin.build(chosen, TOKENS).chunk(document, MODEL.embed, None)
    return made


@pytest.mark.parametrize("text", ["hydroponics.md", "three-topics.txt"])
@pytest.mark.parametrize("name", CASES)
def test_chunks_equal_the_golden_file(name: str, text: str) -> None:
    kind, options = CASES[name]
    check(f"{name}-{text}", cut(kind, sample(text), options).chunks)


IN_ORDER = [name for name in CASES if name != "kmeans"]


@pytest.mark.parametrize("name", IN_ORDER)
def test_sentences_stay_whole_where_fixed_windows_cut_them(name: str) -> None:
    document = sample("hydroponics.md")
    kind, options = CASES[name]
    begins = {start for start, _ in sentences(document.text)}
    assert {chunk.start for chunk in cut(kind, document, options).chunks} <= begins
    windows = cut("fixed", document, {"size": 100}).chunks
    assert sum(chunk.start not in begins for chunk in windows) > len(windows) // 2


@pytest.mark.parametrize("name", ["cluster", "changepoint", "double_pass", "similarity"])
def test_three_topics_are_three_chunks(name: str) -> None:
    kind, options = CASES[name]
    begins = [chunk.text.split()[0] for chunk in cut(kind, sample("three-topics.txt"), options).chunks]
    assert begins == ["Regular", "The", "Bread"]


POOLED = {"cluster": "0517e4085c5c776096a9ceba9c4cb5ec", "double_pass": "ebc849e0b75b8c23b829a1f60e54c6bb"}


@pytest.mark.parametrize("name", POOLED)
def test_pooled_vectors_are_the_same_bits_on_every_machine(name: str) -> None:
    kind, options = CASES[name]
    made = cut(kind, sample("hydroponics.md"), {**options, "vectors": "pooled"})
    assert made.vectors is not None
    assert digest(made.vectors.tobytes()) == POOLED[name]


@pytest.mark.slow
def test_stored_vectors_are_the_models() -> None:
    """Nearly: the model's precision depends on the processor."""
    document = sample("hydroponics.md")
    texts = [document.text[start:end] for start, end in sentences(document.text)]
    stored = [text for text in texts if text_digest(text) in MODEL.known]
    assert len(stored) > 30
    assert (np.einsum("ij,ij->i", MODEL.embed(stored), CachedModel().embed(stored)) > 0.999).all()
