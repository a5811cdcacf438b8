"""Ways to run a model: combinations of engine, precision and device, and the choice among them.

If an option is ``auto``, the machine decides. The choice is part of the embedder's identity. Hardware is
detected without loading torch, unless there is an NVIDIA driver.

OpenVINO runs the models of which ``outline`` can return the structure (see openvino.py). For every other
model ``outline`` raises an error with the reason, and sentence-transformers runs it, so that no vector is
wrong.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ingestor.embedders.model_files import modules, pooling_modes, read_json, window
from ingestor.ports import NeedsHuman

_CPUINFO = Path("/proc/cpuinfo")
_DRIVER = Path("/proc/driver/nvidia/version")


def resolve_device(wanted: str) -> str:
    """Return the device to use. For ``auto`` it is cuda if torch can use that, else cpu."""
    if wanted != "auto":
        return wanted
    if not _DRIVER.exists() or not is_installed("torch"):
        return "cpu"
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def is_installed(*packages: str) -> bool:
    """Return whether all packages can be imported. None of them is imported to find out."""
    try:
        return all(find_spec(name) is not None for name in packages)
    except ImportError:  # an import hook forbids the package
        return False


def multiplies_bfloat16() -> bool:
    """Return whether the processor has instructions to multiply bfloat16 numbers."""
    return has_amx() or "avx512_bf16" in cpu_flags()


def gains_from_avx512_bfloat16() -> bool:
    """Return whether the processor embeds faster with AVX512-BF16 than in float32.

    Intel's processors execute these instructions at half the rate. With MiniLM by torch on one core, a Xeon
    without AMX embedded 43 texts of 48 tokens a second in bfloat16, and 68 in float32. AMD Zen 5 embedded 307
    and 90.
    """
    return "avx512_bf16" in cpu_flags() and processor().get("vendor_id") != "GenuineIntel"


def multiplies_int8() -> bool:
    """Return whether the processor has AVX512-VNNI. On other processors OpenVINO's int8 was not measured."""
    return "avx512_vnni" in cpu_flags()


def has_amx() -> bool:
    return "amx_bf16" in cpu_flags()


def cpu_flags() -> frozenset[str]:
    """Return the processor's flags as Linux lists them on x86; none on other systems."""
    return frozenset(processor().get("flags", "").split())


def processor() -> dict[str, str]:
    """Return the fields of /proc/cpuinfo for the first processor; {} if there is no such file."""
    try:
        first = _CPUINFO.read_text(errors="replace").partition("\n\n")[0]
    except OSError:
        return {}
    parts = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in parts}


FAMILIES = {  # model_type of config.json: its family
    "bert": "bert", "roberta": "roberta", "xlm-roberta": "roberta", "camembert": "roberta", "mpnet": "mpnet",
}  # fmt: skip
GELU_MODES = {"gelu": "erf", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh"}  # hidden_act: mode of Gelu
POOLINGS = {"cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"}
ACTIVATIONS = {"Tanh", "Identity"}
_MPNET_PADDING = 1  # fixed in the architecture
_TRANSFORMER_SETTINGS = {  # of sentence_bert_config.json; None: any value
    "max_seq_length": (None,),
    "do_lower_case": (None,),
    "transformer_task": ("feature-extraction",),
    "modality_config": ({"text": {"method": "forward", "method_output_name": "last_hidden_state"}},),
    "module_output_name": ("token_embeddings",),
    "processing_kwargs": (None, {}),
    "config_args": ({},),
    "model_args": ({},),
    "tokenizer_args": ({},),
}
_ON_SENTENCES = {"module_input_name", "module_output_name"}


class NotCovered(Exception):
    """Error: OpenVINO cannot run a model, so that it needs torch. The message gives the reason."""


@dataclass(frozen=True, slots=True)
class Projection:
    """A dense layer of a model, after its pooling."""

    weights: Path
    activation: str  # one of ACTIVATIONS


@dataclass(frozen=True, slots=True)
class TransformerOutline:
    """The structure of a model that OpenVINO can run: a transformer, pooling, and perhaps dense layers.

    Its vectors are always normalised.
    """

    family: str  # one of the values of FAMILIES
    config: Mapping[str, Any]  # config.json of the transformer
    weights: Path  # model.safetensors of the transformer
    window: int  # tokens
    first_position: int  # row of the position table for the first token
    truncation_side: str
    poolings: tuple[str, ...]
    projections: tuple[Projection, ...]


def outline(folder: Path) -> TransformerOutline:
    """Return the structure of the model in a folder. Raises NotCovered if OpenVINO cannot run the model."""
    stages = list(modules(folder))
    kinds = [kind for kind, _ in stages]
    if kinds[:2] != ["Transformer", "Pooling"] or set(kinds[2:]) - {"Dense", "Normalize"}:
        raise NotCovered(f"the stages are {', '.join(kinds) or 'not named in modules.json'}")
    if "Normalize" in kinds[:-1]:
        raise NotCovered("the vectors are normalised before the last stage")
    stage = stages[0][1]
    config = read_json(stage / "config.json")
    family = _family(config)
    _check_transformer(stage)
    first = {"bert": 0, "roberta": config.get("pad_token_id") or 0, "mpnet": _MPNET_PADDING}[family]
    first += family != "bert"
    limit = window(folder)
    if limit is None or limit + first > config["max_position_embeddings"]:
        raise NotCovered(f"the window of {limit} tokens exceeds the position table, or is not named")
    side = read_json(stage / "tokenizer_config.json").get("truncation_side", "right")
    return TransformerOutline(
        family,
        config,
        stage / "model.safetensors",
        limit,
        first,
        side,
        _poolings(stages[1][1]),
        tuple(_projection(dense) for kind, dense in stages if kind == "Dense"),
    )


def _family(config: Mapping[str, Any]) -> str:
    kind = config.get("model_type")
    if kind not in FAMILIES:
        raise NotCovered(f"the architecture is {kind or 'not named in config.json'}")
    plain = {
        "position_embedding_type": ("absolute", None),
        "is_decoder": (False, None),
        "add_cross_attention": (False, None),
        "auto_map": (None,),
        "embedding_size": (config["hidden_size"], None),
        "quantization_config": (None,),
    }
    for key, accepted in plain.items():
        if config.get(key) not in accepted:
            raise NotCovered(f"config.json has {key}: {config[key]}")
    if config.get("hidden_act", "gelu") not in {*GELU_MODES, "relu"}:
        raise NotCovered(f"the activation is {config['hidden_act']}")
    return FAMILIES[kind]


def _check_transformer(folder: Path) -> None:
    for file in ("model.safetensors", "tokenizer.json"):
        if not (folder / file).is_file():
            raise NotCovered(f"{file} is missing")
    if "BF16" in set(_dtypes(folder / "model.safetensors")):
        raise NotCovered("the weights are stored in bfloat16")
    if read_json(folder / "tokenizer_config.json").get("padding_side", "right") != "right":
        raise NotCovered("the tokenizer pads on the left")
    for key, value in read_json(folder / "sentence_bert_config.json").items():
        accepted = _TRANSFORMER_SETTINGS.get(key, ())
        if None not in accepted and value not in accepted:
            raise NotCovered(f"sentence_bert_config.json has {key}: {value}")


def _dtypes(file: Path) -> list[str]:
    """Return the data types of all tensors in a safetensors file.

    They are in the header of the file, which is 8 bytes with its length, then JSON.
    """
    with file.open("rb") as opened:
        header = json.loads(opened.read(int.from_bytes(opened.read(8), "little")))
    return [tensor["dtype"] for name, tensor in header.items() if name != "__metadata__"]


def _poolings(folder: Path) -> tuple[str, ...]:
    config = read_json(folder / "config.json")
    modes = pooling_modes(config)
    if set(modes) - POOLINGS or config.get("include_prompt", True) is not True:
        raise NotCovered(f"the pooling is {', '.join(modes)}, which is unknown or leaves out the prompt")
    return modes


def _projection(folder: Path) -> Projection:
    config = read_json(folder / "config.json")
    activation = str(config.get("activation_function", "torch.nn.modules.activation.Tanh")).rpartition(".")[2]
    elsewhere = {config.get(key, "sentence_embedding") for key in _ON_SENTENCES} - {"sentence_embedding"}
    file = folder / "model.safetensors"
    if activation not in ACTIVATIONS or elsewhere or config.get("use_residual") or not file.is_file():
        raise NotCovered(f"the dense layer in {folder.name} is of an unknown kind")
    if "BF16" in set(_dtypes(file)):
        raise NotCovered("the weights are stored in bfloat16")
    return Projection(file, activation)


_NO_TORCH = "torch and sentence-transformers are not installed: pip install 'chroma-ingestor[torch]'"
_NO_BFLOAT16 = "this processor has neither AMX nor AVX512-BF16 for bfloat16"
_NO_INT8 = "this processor has no AVX512-VNNI for int8"


@dataclass(frozen=True, slots=True)
class Way:
    """A way to run a model. ``missing``: why this machine cannot run the model so; "" if it can."""

    engine: str
    precision: str
    device: str
    missing: str = ""


def choose_way(ways: list[Way], model: str) -> Way:
    """Return the first way that this machine can run.

    Raises NeedsHuman with the reasons if it can run none.
    """
    here = next((way for way in ways if not way.missing), None)
    if here is None:
        reasons = dict.fromkeys(way.missing for way in ways if way.device == ways[0].device)
        raise NeedsHuman(f"embedding model {model!r} cannot run here: {'; '.join(reasons)}")
    return here


def ways(engine: str, precision: str, device: str, folder: Path) -> Iterator[Way]:
    """Yield all ways that the options allow, fastest first, even those that cannot run here."""
    best = resolve_device(device)
    refused = "" if engine == "torch" else _check_openvino(folder)
    for target in dict.fromkeys((best, "cpu", "cuda")) if device == "auto" else (best,):
        absent = "" if target in (best, "cpu") else f"the model has no {target}"
        for each in ("openvino", "torch") if engine == "auto" else (engine,):
            why = absent or _find_missing(each, target, refused)
            for one in _precisions(precision, target, each):
                yield Way(each, one, target, why or _unfit(each, one, target, precision))


def _precisions(wanted: str, device: str, engine: str) -> tuple[str, ...]:
    """Return the precisions to try, fastest first. ``wanted``: the option ``precision``.

    The engine torch does not use AMX (see torch_model.py).
    """
    if wanted != "auto":
        return (wanted,)
    if device != "cpu":
        return ("float32",)
    if engine == "torch":
        return ("bfloat16", "float32") if gains_from_avx512_bfloat16() else ("float32", "bfloat16")
    if gains_from_avx512_bfloat16() or has_amx():
        return ("bfloat16", "int8", "float32")
    return ("int8", "float32", "bfloat16")


def _check_openvino(folder: Path) -> str:
    try:
        outline(folder)
    except NotCovered as error:
        return f"engine openvino does not cover this model ({error})"
    return ""


def _find_missing(engine: str, device: str, refused: str) -> str:
    if engine == "torch":
        return "" if is_installed("torch", "sentence_transformers") else _NO_TORCH
    if device != "cpu":
        return f"engine openvino runs on the cpu, not on {device}"
    return refused or ("" if is_installed("openvino") else "openvino is not installed")


def _unfit(engine: str, precision: str, device: str, wanted: str) -> str:
    """Return why a precision cannot be used on a device, or "". ``wanted``: the option ``precision``.

    Emulated bfloat16 is slow, so it is used only with torch, and only if the option asks for it.
    """
    if precision == "int8":
        return "int8 needs engine openvino" if engine == "torch" else "" if multiplies_int8() else _NO_INT8
    requested = wanted != "auto" and engine == "torch"
    emulated = (precision, device) == ("bfloat16", "cpu") and not multiplies_bfloat16()
    return _NO_BFLOAT16 if emulated and not requested else ""
