"""Which engine runs a model, in which precision and on which device, whatever is installed here."""

import json
import shutil
from pathlib import Path

import pytest

from ingestor.embedders import engines
from ingestor.embedders.engines import NotCovered, outline
from ingestor.embedders.sentence_transformers import PLUGIN, SentenceTransformersOptions
from ingestor.ports import NeedsHuman

TINY = Path(__file__).with_name("tiny")
INTEL = "vendor_id\t: GenuineIntel\nflags\t\t: fpu amx_bf16 amx_tile\n\nprocessor\t: 1\nflags\t\t: fpu\n"
XEON = "vendor_id\t: GenuineIntel\nflags\t\t: fpu avx512_bf16 avx512_vnni\n"
AMD = "vendor_id\t: AuthenticAMD\nflags\t\t: fpu avx512_bf16 avx512_vnni\n"
OLD = "flags\t\t: fpu avx2 avx512_vnni\n"
ARM = "Features\t: fp asimd bf16\n"


def build(**options):
    return PLUGIN.build(SentenceTransformersOptions(**options))


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(TINY, tmp_path / "model")


@pytest.fixture
def torch_installed(monkeypatch):
    """Make ``engines`` see torch, for tests that ask only for the choice of an engine."""
    monkeypatch.setattr(engines, "is_installed", lambda *packages: True)


@pytest.mark.parametrize(
    ("cpuinfo", "multiplies", "openvino", "torch"),
    [
        (INTEL, True, "bfloat16", "float32"),
        (XEON, True, "int8", "float32"),
        (XEON.replace("avx512_vnni", ""), True, "float32", "float32"),
        (AMD, True, "bfloat16", "bfloat16"),
        (OLD, False, "int8", "float32"),
        (ARM, False, "float32", "float32"),
        (None, False, "float32", "float32"),
    ],
)
def test_auto_is_the_fastest_precision_that_the_processor_has(
    monkeypatch, tmp_path, torch_installed, cpuinfo, multiplies, openvino, torch
):
    file = tmp_path / "cpuinfo"
    if cpuinfo is not None:
        file.write_text(cpuinfo)
    monkeypatch.setattr(engines, "_CPUINFO", file)
    assert engines.multiplies_bfloat16() is multiplies
    assert build(engine="openvino").identity["precision"] == openvino
    assert build(engine="torch").identity["precision"] == torch


def test_int8_is_for_openvino_and_processors_that_multiply_it(monkeypatch, torch_installed):
    with pytest.raises(NeedsHuman, match="int8 needs engine openvino"):
        _ = build(engine="torch", precision="int8").identity
    monkeypatch.setattr(engines, "processor", lambda: {"flags": "avx512_bf16"})
    with pytest.raises(NeedsHuman, match="no AVX512-VNNI for int8"):
        _ = build(precision="int8").identity


def test_bfloat16_is_not_taken_where_the_processor_has_none(monkeypatch, torch_installed):
    monkeypatch.setattr(engines, "processor", lambda: {"flags": "avx2"})
    assert build(engine="torch", precision="bfloat16").identity["precision"] == "bfloat16"
    with pytest.raises(NeedsHuman, match="neither AMX nor AVX512-BF16"):
        _ = build(engine="openvino", precision="bfloat16").identity


def test_models_without_torch_name_the_extra(folder, monkeypatch):
    config = json.loads((folder / "config.json").read_text()) | {"model_type": "distilbert"}
    (folder / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr(engines, "is_installed", lambda *packages: "torch" not in packages)
    assert build().identity["engine"] == "openvino"
    with pytest.raises(NeedsHuman, match=r"pip install 'chroma-ingestor\[torch\]'"):
        _ = build(model=str(folder)).identity


def test_gpu_is_for_torch(torch_installed):
    with pytest.raises(NeedsHuman, match="runs on the cpu"):
        _ = build(engine="openvino", device="cuda").identity
    assert "engine" not in build(device="cuda").identity


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
def test_identity_differs_where_vectors_do(torch_installed, options, same):
    assert (
        build(precision="bfloat16").identity == build(**{"precision": "bfloat16"} | options).identity
    ) is same


def test_device_without_driver_is_cpu(monkeypatch, tmp_path):
    monkeypatch.setattr(engines, "_DRIVER", tmp_path / "none")
    assert engines.resolve_device("auto") == "cpu"
    assert engines.resolve_device("cuda:1") == "cuda:1"


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
