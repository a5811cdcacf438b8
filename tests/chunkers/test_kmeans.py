"""k-means: the baseline that loses the order."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ingestor.chunkers.kmeans import PLUGIN, cluster
from ingestor.model import Document, Vectors
from tests.chunkers.laws import TOKENS, laws, searching

# A chunk is a set of sentences from anywhere.
# A new sentence may move every centre.
# A small cluster joins the next one only.
TestKmeans = laws(
    PLUGIN, {"clusters": 4, "max_tokens": 60}, leads=False, local=False, contiguous=False, joins=False
)


TOPICS = {"basil": (1.0, 0.0, 0.0), "granite": (0.0, 1.0, 0.0), "violin": (0.0, 0.0, 1.0)}


def by_topic(texts: list[str]) -> Vectors:
    return np.array([TOPICS[text.split()[0].lower()] for text in texts], np.float32)


def test_chunk_is_the_set_of_a_clusters_sentences() -> None:
    text = "Basil is green. Granite is grey. Basil smells. Basil grows. Violin strings break. Granite lasts."
    made = PLUGIN.build(PLUGIN.options(clusters=3), TOKENS).chunk(Document(text), by_topic, None)
    assert [chunk.text for chunk in made.chunks] == [
        "Basil is green.\nBasil smells.\nBasil grows.",
        "Granite is grey.\nGranite lasts.",
        "Violin strings break.",
    ]
    assert made.chunks[1].spans == ((16, 32), (82, 96))


@searching
@given(
    st.lists(st.tuples(st.sampled_from(range(5)), st.integers(-3, 3)), min_size=1, max_size=40),
    st.integers(1, 8),
)
def test_points_end_at_their_nearest_centre(raw: list[tuple[int, int]], clusters: int) -> None:
    points = np.array([[100 * place + shift, place] for place, shift in raw], np.float32)
    labels = cluster(points, clusters)
    used = sorted(set(labels.tolist()))
    centres = np.stack([points[labels == label].mean(axis=0) for label in used])
    distances = np.linalg.norm(points[:, None] - centres[None], axis=2)
    own = distances[np.arange(len(points)), [used.index(label) for label in labels.tolist()]]
    assert (own <= distances.min(axis=1) + 1e-3).all()
    assert len(used) <= clusters


def test_separate_groups_are_distinguished() -> None:
    places = np.repeat(np.eye(4, 8, dtype=np.float32), 5, axis=0)[np.random.default_rng(3).permutation(20)]
    labels = cluster(places, 4)
    assert len(set(zip(places.argmax(axis=1).tolist(), labels.tolist(), strict=True))) == 4


def test_cluster_over_the_limit_is_cut_into_full_runs_of_its_sentences() -> None:
    text = " ".join(f"Basil number {at} grows." for at in range(9))  # 7 tokens each
    options = PLUGIN.options(clusters=3, max_tokens=35)
    made = PLUGIN.build(options, TOKENS).chunk(Document(text), by_topic, None)
    assert [len(chunk.spans) for chunk in made.chunks] == [4, 4, 1]


def test_small_clusters_join_the_next() -> None:
    text = "Basil is green. Granite is grey. Violin strings break."
    options = PLUGIN.options(clusters=3, min_tokens=6)
    made = PLUGIN.build(options, TOKENS).chunk(Document(text), by_topic, None)
    assert [chunk.text for chunk in made.chunks] == [
        "Basil is green.\nGranite is grey.",
        "Violin strings break.",
    ]
