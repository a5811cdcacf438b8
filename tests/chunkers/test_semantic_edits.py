"""After an edit a strategy makes of the text what a fresh start makes of it, and few texts are embedded."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingestor.embedders.hashing import HashingEmbedder, HashingOptions
from ingestor.model import Chunking, Document, Vectors
from ingestor.ports import Chunker
from ingestor.registry import find
from tests.chunkers.collective import same
from tests.chunkers.laws import TOKENS, essay, searching, texts

TEXT = essay(60)
MODEL = HashingEmbedder(HashingOptions(dimensions=64)).embed
STRATEGIES: dict[str, dict[str, Any]] = {
    "cluster": {"max_tokens": 200},
    "changepoint": {"target": 80, "penalty": 0.2},
    "breakpoint": {"max_tokens": 200},
    "double_pass": {"initial": 0.5, "appending": 0.6, "merging": 0.6, "max_tokens": 200},
    "similarity": {"threshold": 0.5, "max_tokens": 200},
}


class Cached:
    """What was asked once is known from then on."""

    def __init__(self) -> None:
        self.known: dict[str, Vectors] = {}

    def embed(self, asked: Sequence[str]) -> Vectors:
        missing = [text for text in dict.fromkeys(asked) if text not in self.known]
        self.known |= zip(missing, MODEL(missing), strict=True)
        return np.array([self.known[text] for text in asked])


def chunker(kind: str, vectors: str) -> Chunker:
    plugin = find("chunkers", kind)
    made: Chunker = plugin.build(plugin.options(vectors=vectors, **STRATEGIES[kind]), TOKENS)
    return made


def indexed(kind: str, vectors: str, document: Document, cached: Cached) -> Chunking:
    """The chunks' own texts are embedded after them."""
    made = chunker(kind, vectors).chunk(document, cached.embed, None)
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
@settings(searching, max_examples=6)
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
