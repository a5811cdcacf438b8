import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ingestor.embedders.hashing import PLUGIN, HashingOptions

TEXTS = st.lists(st.text(max_size=30), max_size=6)
EMBEDDER = PLUGIN.build(HashingOptions())


@given(TEXTS)
def test_vectors_are_unit_length_and_exact_in_float16(texts):
    vectors = EMBEDDER.embed(texts)
    assert vectors.shape == (len(texts), 64) and vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)
    assert np.array_equal(vectors.astype(np.float16), vectors)


@given(TEXTS, st.randoms())
def test_vector_depends_on_its_text_alone(texts, random):
    together = dict(zip(texts, EMBEDDER.embed(texts), strict=True))
    shuffled = random.sample(texts, len(texts))
    assert all(np.array_equal(EMBEDDER.embed([text])[0], together[text]) for text in texts)
    assert all(map(np.array_equal, EMBEDDER.embed(shuffled), (together[text] for text in shuffled)))


@given(st.text(), st.text())
def test_different_texts_have_different_vectors(first, second):
    one, other = EMBEDDER.embed([first, second])
    assert np.array_equal(one, other) == (first == second)


def test_texts_with_words_in_common_are_near():
    base, near, far = EMBEDDER.embed(
        ["the river floods the valley in spring", "in spring the river floods", "tax law and its sources"]
    )
    assert base @ near > 0.6 > 0.3 > base @ far


def test_vectors_are_the_same_on_every_machine():
    values = EMBEDDER.embed(["Straße, 漢字 and 😀"])[0]
    expected = [0.0031337738037109375, 0.005397796630859375, 0.000522613525390625, 0.00548553466796875]
    assert values[:4].tolist() == expected


def test_options_decide_the_identity():
    wide = PLUGIN.build(HashingOptions(dimensions=256))
    assert wide.embed([""]).shape == (1, 256)
    assert wide.identity != EMBEDDER.identity


def test_tokens_are_words_and_signs():
    assert EMBEDDER.count(["", "two words", "one, two!"]) == [0, 2, 4]
