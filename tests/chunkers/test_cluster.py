"""The cluster strategy: the laws of all chunkers, those of a collection, and the published algorithm."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingestor.chunkers.cluster import PLUGIN, Cluster, ClusterOptions, build
from ingestor.model import Block, Document, Vectors
from ingestor.ports import BadDocument, Collective
from ingestor.segmentation.cluster import FARTHEST, MEAN_BITS, Cuts, contribution, mean, programme, segments
from ingestor.segmentation.fixed_point import SCALE, to_fixed
from ingestor.text.bonds import settle
from ingestor.text.pieces import pieces
from tests.chunkers.collective import MADE_AT_ONCE, keep
from tests.chunkers.golden import corpus
from tests.chunkers.laws import TOKENS, Noting, Options, essay, fake_embed, laws
from tests.minilm import CachedModel

# A chunk may be one piece, whose size is min_tokens. The mean is the whole collection's.
SIZES: Options = {"max_tokens": 120, "min_tokens": 30}
ODD: Options = {
    "tight": ({"min_tokens": 4, "max_tokens": 8}, {"min_tokens": 4, "max_tokens": 5}),
    "joins": False, "local": False,
}  # fmt: skip
TestCluster = laws(PLUGIN, SIZES, **ODD)
TestPooled = laws(PLUGIN, {**SIZES, "scope": "document", "vectors": "pooled"}, **ODD)


@pytest.mark.parametrize("more", [{}, {"vectors": "pooled"}])
def test_collection_is_always_as_if_made_at_once(more: dict[str, str]) -> None:
    keep(PLUGIN, {**SIZES, **more}, joins=True)


def published(vectors: Vectors, longest: int) -> Cuts:
    """The report's algorithm on the full matrix, in floats; a segment never exceeds ``longest`` pieces."""
    rewards = vectors.astype(np.float64) @ vectors.astype(np.float64).T
    rewards -= rewards[np.triu_indices(len(vectors), 1)].mean()
    np.fill_diagonal(rewards, 0)
    best, starts = [0.0], []
    for end in range(1, len(vectors) + 1):
        options = {
            start: best[start] + rewards[start:end, start:end].sum()
            for start in range(max(0, end - longest), end)
        }
        starts.append(max(options, key=lambda start: options[start]))
        best.append(options[starts[-1]])
    ends = [len(vectors)]
    while starts[ends[-1] - 1]:
        ends.append(starts[ends[-1] - 1])
    return tuple(reversed(ends))


@settings(max_examples=40, deadline=None)
@given(st.integers(6, 120), st.integers(1, 9), st.floats(0.3, 2), st.integers(0, 2**32))
def test_cuts_are_the_published_ones(n: int, longest: int, noise: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    raw = rng.normal(size=(n // 5 + 1, 32)).repeat(5, axis=0)[:n] + noise * rng.normal(size=(n, 32))
    pieces = to_fixed((raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32))
    cuts = programme(pieces, longest).cuts(mean(contribution(pieces)))
    assert cuts == published(pieces / SCALE, longest)


def test_engine_without_revisits_is_detected() -> None:
    with pytest.raises(AssertionError, match=MADE_AT_ONCE):
        keep(PLUGIN, SIZES, widened=FARTHEST)


@pytest.mark.slow
@pytest.mark.parametrize("most", [200, 400])
@pytest.mark.parametrize("name", ["chatlogs", "state_of_the_union", "wikitexts"])
def test_boundaries_of_the_corpora_are_the_published_ones(name: str, most: int) -> None:
    """With the real model; each corpus a collection of one document, as in the published code."""
    text, embed = corpus(name), CachedModel().embed
    spans = pieces(text, TOKENS, 50)
    cuts = published(embed([text[start:end] for start, end in spans]), most // 50)
    published_chunks = [(spans[first][0], spans[end - 1][1]) for first, end in segments(cuts)]
    expected = settle(Document(text), published_chunks, TOKENS, 10, most)  # without chunks of a word or two
    made = PLUGIN.build(ClusterOptions(max_tokens=most), TOKENS).chunk(Document(text), embed, None)
    assert [(chunk.start, chunk.end) for chunk in made.chunks] == expected
    assert len(expected) > 20


def cluster(**options: object) -> Cluster:
    return build(ClusterOptions.model_validate(options), TOKENS)


def test_only_the_scope_of_the_collection_makes_it_collective() -> None:
    assert isinstance(cluster(), Collective)
    alone = cluster(scope="document")
    assert not isinstance(alone, Collective)
    made = alone.chunk(Document(essay(9)), fake_embed, None)
    assert (made.sums, made.interval) == (None, None)


def test_sums_depend_on_the_size_of_pieces_and_on_no_other_option() -> None:
    first, second = cluster(max_tokens=200), cluster(max_tokens=400, vectors="pooled", drift=0.01)
    assert isinstance(first, Collective) and isinstance(second, Collective)
    assert first.statistic == second.statistic
    document = Document(essay(9))
    sums = [chunker.chunk(document, fake_embed, None).sums for chunker in (first, second)]
    assert np.array_equal(*sums)
    other = cluster(min_tokens=40)
    assert isinstance(other, Collective)
    assert other.statistic != first.statistic


def test_drift_widens_the_interval_on_either_side() -> None:
    document = Document(essay(9))
    exact = cluster().chunk(document, fake_embed, None).interval
    drifting = cluster(drift=0.25).chunk(document, fake_embed, None).interval
    assert exact is not None and drifting is not None
    assert (exact[0] - drifting[0], drifting[1] - exact[1]) == (1 << (MEAN_BITS - 2),) * 2


def test_likeness_is_decided_by_other_documents() -> None:
    """Beside documents that resemble nothing, one's own pieces are close; beside its like, they are not."""
    document, chunker = Document(essay(30)), cluster(**SIZES)
    own = chunker.chunk(document, fake_embed, None).sums
    assert own is not None
    strangers = own * np.array([1, 1, *[-1] * (len(own) - 2)])
    together = chunker.chunk(document, fake_embed, strangers * 50)
    apart = chunker.chunk(document, fake_embed, own * 0 + np.array([10**6, 0, 2**34, *[0] * (len(own) - 3)]))
    assert len(together.chunks) < len(apart.chunks)


def test_no_chunk_reaches_across_a_heading_inside_a_piece() -> None:
    text = "A word. # Heading\nAnother word."
    at = text.index("#")
    starts = (("paragraph", 0, at), ("heading", at, at + 9), ("paragraph", at + 10, len(text)))
    blocks = tuple(Block(kind, start, end, int(kind == "heading")) for kind, start, end in starts)
    embed = Noting()
    cluster().chunk(Document(text, blocks), embed, None)
    assert embed.texts == ["A word.", "# Heading\nAnother word."]


def test_document_too_large_is_refused_with_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingestor.segmentation.cluster._LARGEST", 100)
    with pytest.raises(BadDocument, match="lower `max_tokens`, raise `min_tokens`"):
        cluster(max_tokens=400, min_tokens=4).chunk(Document(essay(9)), fake_embed, None)
