"""Curves that a strategy shows agree with its cuts."""

from typing import Any

import numpy as np
import pytest

from ingestor.chunkers.by_type import Looking, build_chunker
from ingestor.chunkers.parts import Seen
from ingestor.embedders.hashing import HashingEmbedder, HashingOptions
from ingestor.model import Chunk, Document
from ingestor.ports import Chunker
from ingestor.registry import find, kinds
from tests.chunkers.golden import sample
from tests.chunkers.laws import TOKENS

EMBED = HashingEmbedder(HashingOptions(dimensions=64)).embed
SEE = {"auto", "breakpoint", "changepoint", "cluster", "double_pass", "kmeans", "similarity"}
ASKING = {"llm", "proposition"}
DOCUMENT = sample("hydroponics.md")


def looked(kind: str, **options: Any) -> tuple[Seen, tuple[Chunk, ...]]:
    chunker = build(kind, **options)
    assert isinstance(chunker, Looking)
    found = chunker.look(DOCUMENT, EMBED)
    assert found is not None
    return found, chunker.chunk(DOCUMENT, EMBED, None).chunks


def build(kind: str, **options: Any) -> Chunker:
    plugin = find("chunkers", kind)
    return build_chunker(plugin, plugin.options(**options), TOKENS)


def starts_after(found: Seen, cuts: np.ndarray[Any, Any]) -> list[int]:
    return [found.spans[at + 1][0] for at in np.flatnonzero(cuts)]


@pytest.mark.parametrize("kind", sorted(set(kinds("chunkers")) - ASKING))
def test_look_is_offered_by_strategies_with_vectors_only(kind: str) -> None:
    options = (
        {"prose": {"strategy": "cluster"}, "headings": {"strategy": "cluster"}} if kind == "auto" else {}
    )
    chunker = build(kind, **options)
    shown = chunker.look(DOCUMENT, EMBED) if isinstance(chunker, Looking) else None
    assert (shown is not None) == (kind in SEE)


@pytest.mark.parametrize("kind", sorted(SEE - {"auto"}))
def test_every_chunk_begins_with_a_unit(kind: str) -> None:
    found, chunks = looked(kind)
    starts = {start for start, _ in found.spans}
    assert {start for chunk in chunks for start, _ in chunk.spans or [(chunk.start, 0)]} <= starts
    assert len(found.vectors) == len(found.spans) == len(found.distances) + 1
    assert found.bounds is None or len(found.bounds) == len(found.distances)


@pytest.mark.parametrize("options", [
    {}, {"threshold": "standard_deviation", "amount": 1}, {"threshold": "interquartile", "amount": 0.5},
    {"threshold": "gradient"}, {"buffer": 0}, {"max_tokens": 100}, {"vectors": "pooled"},
])  # fmt: skip
def test_breakpoint_cuts_above_its_line(options: dict[str, Any]) -> None:
    found, chunks = looked("breakpoint", **{"max_tokens": None, **options}, min_tokens=None)
    assert found.bounds is not None
    assert starts_after(found, found.distances > found.bounds) == [chunk.start for chunk in chunks[1:]]


@pytest.mark.parametrize("vectors", ["encoded", "pooled"])
@pytest.mark.parametrize("unit", ["sentence", "paragraph"])
def test_similarity_cuts_above_its_line(unit: str, vectors: str) -> None:
    options = {"unit": unit, "vectors": vectors, "threshold": 0.2, "max_tokens": 5000, "min_tokens": None}
    found, chunks = looked("similarity", **options)
    assert found.bounds is not None
    assert starts_after(found, found.distances > found.bounds) == [chunk.start for chunk in chunks[1:]]
    assert 1 < len(chunks) < len(found.spans)


def test_double_pass_cuts_above_its_line_where_nothing_is_merged() -> None:
    bounds = {"merging": 1, "initial": 0.15, "appending": 0.2}
    found, chunks = looked("double_pass", **bounds, max_tokens=5000, min_tokens=None)
    assert found.bounds is not None
    assert set(np.round(1 - found.bounds, 6)) == {0.15, 0.2}
    assert starts_after(found, found.distances >= found.bounds) == [chunk.start for chunk in chunks[1:]]


def test_cluster_shows_the_mean_of_all_pairs() -> None:
    found, _ = looked("cluster")
    rows = found.vectors.astype(float) / (1 << 14)
    pairs = (rows @ rows.T)[np.triu_indices(len(rows), 1)]
    assert found.bounds is not None
    assert np.allclose(found.bounds, 1 - pairs.mean(), atol=1e-3)


def test_single_unit_has_no_distances() -> None:
    for kind in sorted(SEE - {"auto"}):
        chunker = build(kind)
        assert isinstance(chunker, Looking)
        found = chunker.look(Document("One sentence."), EMBED)
        assert found is not None
        assert (len(found.spans), len(found.distances)) == (1, 0)
