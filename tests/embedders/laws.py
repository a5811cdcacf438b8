"""What holds for every engine: a vector is a function of its text alone, to the last bit.

A subclass of ``EmbedderLaws`` has the fixture ``embedder``.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ingestor.embedders.sentence_transformers import PLUGIN


def in_batches(embedder, tokens):
    """The same model in batches of another size."""
    made = PLUGIN.build(embedder._options.model_copy(update={"batch_tokens": tokens}))
    made._loaded = embedder._model
    return made


EDGES = ["", "漢字 and naïve 😀", "[SEP] is a token; \0 is not"] + [
    " ".join(["word"] * n) for n in (1, 8, 13, 14, 15, 30, 31, 62, 254, 300)
]
SENTENCE = "The valley floods in spring, and the mill's wheel (built in 1803) turns day and night. "
TEXTS = [*EDGES, SENTENCE, SENTENCE * 4, SENTENCE * 9]


class EmbedderLaws:
    @pytest.mark.parametrize("tokens", [50, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 10_000))])
    def test_size_of_batches_changes_no_bit(self, embedder, vectors, tokens):
        assert np.array_equal(in_batches(embedder, tokens).embed(TEXTS), vectors)

    def test_order_and_mates_change_no_bit(self, embedder, vectors):
        rng = np.random.default_rng(5)
        for size in (len(TEXTS), 8):
            chosen = rng.permutation(len(TEXTS))[:size]
            mates = ["".join(rng.choice(list("The mill's wheel turns. "), n)) for n in rng.integers(1, 60, 8)]
            found = embedder.embed([*(TEXTS[n] for n in chosen), *mates, TEXTS[chosen[0]]])
            assert np.array_equal(found[:size], vectors[chosen])
            assert np.array_equal(found[-1], found[0])

    @pytest.mark.slow
    def test_callers_in_several_threads_change_no_bit(self, embedder, vectors):
        parts = [TEXTS[start : start + 3] for start in range(0, len(TEXTS), 3)]
        with ThreadPoolExecutor(3) as pool:
            assert np.array_equal(np.vstack(list(pool.map(embedder.embed, parts))), vectors)

    @pytest.mark.slow
    def test_questions_between_parts_change_no_bit(self, embedder, vectors):
        """An answer that is broken off leaves the next TEXTS as they are, too."""
        found, question = np.zeros_like(vectors), embedder.embed([TEXTS[5]])
        for part in embedder.embed_gradually(TEXTS):
            found[list(part.positions)] = part.vectors
            assert np.array_equal(embedder.embed([TEXTS[5]]), question)
        assert np.array_equal(found, vectors)
        unwanted = embedder.embed_gradually(TEXTS)
        next(unwanted)
        unwanted.close()
        assert np.array_equal(embedder.embed(TEXTS), vectors)

    def test_vectors_are_of_unit_length_and_exact_in_float16(self, vectors):
        assert vectors.shape[1] == 384 and vectors.dtype == np.float32
        assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < 1e-3
        assert np.array_equal(vectors.astype(np.float16), vectors)

    def test_empty_batch_gives_empty_vectors(self, embedder):
        assert embedder.embed([]).shape == (0, 384)
        assert embedder.count([]) == []

    def test_counts_are_whole_and_include_special_tokens_and_the_prompt(self, embedder):
        assert embedder.count(["", "word", "word " * 1000]) == [2, 3, 1002]
        prompted = PLUGIN.build(embedder._options.model_copy(update={"prompt": "two words "}))
        assert prompted.count(["", "word"]) == [4, 5]

    def test_text_beyond_the_window_is_not_read(self, embedder):
        assert embedder.window == 256
        one, same, other = embedder.embed(["word " * 400, "word " * 254 + "else", "word " * 253 + "else"])
        assert np.array_equal(one, same) and not np.array_equal(one, other)

    def test_prompts_go_before_documents_and_questions(self, embedder):
        prompts = {"prompt": "passage: ", "query_prompt": "query: "}
        prompted = PLUGIN.build(embedder._options.model_copy(update=prompts))
        prompted._loaded = embedder._model
        assert np.array_equal(prompted.embed(["x"]), embedder.embed(["passage: x"]))
        assert np.array_equal(prompted.embed_queries(["x"]), embedder.embed(["query: x"]))
