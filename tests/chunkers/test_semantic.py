"""Chunks of semantic strategies with vectors of the real model, and what an edit embeds."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingestor.core.fingerprint import digest, text_digest
from ingestor.embedders.hashing import HashingEmbedder, HashingOptions
from ingestor.model import Chunking, Document, Vectors
from ingestor.registry import find
from ingestor.text.sentences import sentences
from tests.chunkers.collective import same
from tests.chunkers.golden import check, sample
from tests.chunkers.laws import TOKENS, essay, searching, texts
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


TEXT = essay(60)
HASHING = HashingEmbedder(HashingOptions(dimensions=64)).embed
STRATEGIES: dict[str, dict[str, Any]] = {
    "cluster": {"max_tokens": 200},
    "changepoint": {"target": 80, "penalty": 0.2},
    "breakpoint": {"max_tokens": 200},
    "double_pass": {"initial": 0.5, "appending": 0.6, "merging": 0.6, "max_tokens": 200},
    "similarity": {"threshold": 0.5, "max_tokens": 200},
}


class Cached:
    """A model that embeds each text once."""

    def __init__(self) -> None:
        self.known: dict[str, Vectors] = {}

    def embed(self, asked: Sequence[str]) -> Vectors:
        missing = [text for text in dict.fromkeys(asked) if text not in self.known]
        self.known |= zip(missing, HASHING(missing), strict=True)
        return np.array([self.known[text] for text in asked])


def indexed(kind: str, vectors: str, document: Document, cached: Cached) -> Chunking:
    """Cut a document. The chunks' own texts are embedded after them."""
    plugin = find("chunkers", kind)
    options = plugin.options(vectors=vectors, **STRATEGIES[kind])
    made: Chunking = plugin.build(options, TOKENS).chunk(document, cached.embed, None)
    if made.vectors is None:
        cached.embed([chunk.text for chunk in made.chunks])
    return made


@cache
def before(kind: str, vectors: str) -> dict[str, Vectors]:
    cached = Cached()
    indexed(kind, vectors, Document(TEXT), cached)
    return cached.known


@pytest.mark.parametrize("vectors", ["encoded", "pooled"])
@pytest.mark.parametrize("kind", STRATEGIES)
@settings(searching, max_examples=3)
@given(at=st.integers(0, len(TEXT)), gone=st.integers(0, 40), new=texts)
def test_edit_embeds_few_texts_and_leads_to_what_a_fresh_start_makes(
    kind: str, vectors: str, at: int, gone: int, new: str
) -> None:
    edited = Document(TEXT[:at] + new[:100] + TEXT[at + gone :])
    cached = Cached()
    cached.known = dict(before(kind, vectors))
    count = len(cached.known)
    made = indexed(kind, vectors, edited, cached)
    assert same(made, indexed(kind, vectors, edited, Cached()))
    assert count > 120
    assert len(cached.known) - count < (40 if vectors == "encoded" else 20)
