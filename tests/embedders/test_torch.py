"""The engine torch, with the real model and with tiny ones of every kind that OpenVINO does not cover."""

import os
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from ingestor.embedders import model_files
from ingestor.embedders.sentence_transformers import PLUGIN, SentenceTransformersOptions
from ingestor.ports import NeedsHuman
from tests.embedders.laws import SENTENCE, TEXTS, EmbedderLaws, in_batches
from tests.embedders.lazily import Lazily

models = Lazily("tests.embedders.models")
sentence_transformers = Lazily("sentence_transformers")
torch = Lazily("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

PACKAGED = model_files.locate("all-MiniLM-L6-v2")
network: list[str] = []
sys.addaudithook(lambda event, args: network.append(event) if event.startswith("socket.") else None)


def build(**options):
    return PLUGIN.build(SentenceTransformersOptions(**{"engine": "torch"} | options))


@contextmanager
def threads(number):
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def one_thread():
    with threads(1):
        yield


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def embedder(request):
    return build(precision=request.param)


class TestLaws(EmbedderLaws):
    pass


def test_law_holds_for_real_documents_in_random_batches(embedder):
    folder = Path(__file__).parents[2] / "documents"
    text = "".join(path.read_text("utf-8") for path in sorted(folder.rglob("*.md")))
    rng = np.random.default_rng(11)
    starts, lengths = rng.integers(0, len(text) - 1500, 120), rng.integers(1, 1000, 120)
    texts = [text[start : start + length] for start, length in zip(starts, lengths, strict=True)]
    expected = embedder.embed(texts)
    for number, tokens in [(1, 300), (2, 1500), (1, 5000)]:
        with threads(number):
            chosen = rng.permutation(120)[: rng.integers(40, 100)]
            found = in_batches(embedder, tokens).embed([texts[n] for n in chosen])
            assert np.array_equal(found, expected[chosen])


def test_number_of_threads_changes_no_bit(embedder, vectors):
    with threads(2):
        assert np.array_equal(embedder.embed(TEXTS), vectors)


def test_batches_filled_up_to_one_size_change_no_bit(embedder, vectors, monkeypatch):
    monkeypatch.setattr(embedder._model, "_fill", True)
    assert np.array_equal(in_batches(embedder, 128).embed(TEXTS), vectors)


def test_padding_to_the_longest_of_a_mixed_batch_would_break_the_law(embedder):
    """So that the tests above are known to be able to fail."""
    model = embedder._model._model

    def encode(texts):
        return model.encode(texts, batch_size=len(texts)).astype(np.float16)

    mixed = ["a short one", SENTENCE, SENTENCE * 3]
    assert not np.array_equal(encode(mixed), np.vstack([encode([text]) for text in mixed]))


def test_vectors_are_those_that_the_library_itself_gives(embedder, vectors):
    reference = sentence_transformers.SentenceTransformer(
        str(PACKAGED.folder), device="cpu", local_files_only=True
    ).encode(TEXTS)
    furthest = 0.005 if embedder.identity["precision"] == "float32" else 0.03
    assert np.linalg.norm(vectors - reference, axis=1).max() < furthest


@pytest.mark.parametrize("prompt", ["", "query: "])
def test_readers_embed_questions_as_this_program_does(prompt):
    """By Chroma's own function, from what the collection keeps."""
    from chromadb.utils.embedding_functions import SentenceTransformerEmbeddingFunction

    embedder = build(model=str(PACKAGED.folder), query_prompt=prompt, precision="float32")
    told = embedder.reader_model()
    assert told.function == SentenceTransformerEmbeddingFunction.name()
    SentenceTransformerEmbeddingFunction.validate_config(told.config)
    SentenceTransformerEmbeddingFunction.models.clear()  # by name alone, whatever the prompt
    readers = SentenceTransformerEmbeddingFunction.build_from_config(told.config)(["why?"])[0]
    ours = build(query_prompt=prompt, precision="float32").embed_queries(["why?"])[0]
    other = build(precision="float32").embed_queries(["why?" if prompt else "query: why?"])[0]
    assert readers @ ours > 0.9999 > readers @ other


def test_packaged_model_is_loaded_without_a_network_and_without_touching_the_environment():
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # it is set for the first model of a process
    before = dict(os.environ)
    network.clear()
    build().embed(["x"])
    assert network == []
    assert dict(os.environ) == before


@pytest.mark.parametrize(
    ("pooling", "settings", "dimensions"),
    [
        ("cls", {}, 32),
        ("max", {"projected": True}, 24),
        ("mean", {}, 32),
        ("weightedmean", {"projected": True}, 24),
    ],
)
def test_any_pooling_and_projection_works_from_a_folder(tmp_path, pooling, settings, dimensions):
    folder = models.save(tmp_path, pooling, **settings)
    texts = ["w1", "", "w7 w8 unknown", " ".join(models.WORDS), "w5 " * 17]
    embedder = build(model=str(folder), precision="float32", batch_tokens=64)
    found = embedder.embed(texts)
    reference = sentence_transformers.SentenceTransformer(str(folder), device="cpu").encode(
        texts, batch_size=1
    )
    assert (embedder.dimensions, embedder.window) == (dimensions, models.WINDOW)
    assert np.allclose(found, reference, atol=1e-3)
    assert embedder.count(texts) == [3, 2, 5, 202, 19]


def test_left_padding_keeps_the_law(tmp_path):
    embedder = build(model=str(models.save(tmp_path, "lasttoken", padding_side="left")), precision="float32")
    texts = ["w1", "w2 w3", "w5 " * 17, "w9 w9 w9"]
    together = embedder.embed(texts)
    assert np.array_equal(together, np.vstack([embedder.embed([text]) for text in texts]))
    assert not np.array_equal(together[0], together[1])


def test_prompt_excluded_from_pooling_stays_excluded(tmp_path):
    folder = models.save(tmp_path, "mean", include_prompt=False)
    texts = ["w1 w2", "w3"]
    found = build(model=str(folder), prompt="w100 w101 ", precision="float32").embed(texts)
    reference = sentence_transformers.SentenceTransformer(str(folder), device="cpu").encode(
        texts, prompt="w100 w101 ", batch_size=1
    )
    assert np.allclose(found, reference, atol=1e-3)


def test_model_without_a_transformer_works(tmp_path):
    folder = models.save_static(tmp_path / "static")
    embedder = build(model=str(folder), precision="float32")
    found = embedder.embed(["w1 w2", "", "w3"])
    library = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    reference = library.encode(["w1 w2", "w3"], normalize_embeddings=True)
    assert np.allclose(found[[0, 2]], reference, atol=1e-3)
    assert found[1].tolist() == [1.0] + [0.0] * 15  # no token, no direction: the first axis
    assert (embedder.dimensions, embedder.count(["w1 w2", ""])) == (16, [2, 0])


def test_window_is_the_models_without_a_configured_one(tmp_path):
    folder = models.save(tmp_path, "mean")
    models.drop_window(folder)
    assert build(model=str(folder)).window == 64 == build(model=str(folder))._model.window


def test_folder_without_model_is_reported(tmp_path):
    with pytest.raises(NeedsHuman, match="can't be loaded"):
        build(model=str(tmp_path)).embed(["x"])
