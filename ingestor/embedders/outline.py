"""Outline of a model that ``openvino/graph.py`` can build; other models are refused.

Everything that is not known to be covered is refused with a reason. Such a model goes to
sentence-transformers instead of giving wrong vectors.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingestor.embedders.model_files import modules, pooling_modes, read_json, window

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
    """Error: a model needs sentence-transformers and torch. The message gives the reason."""


@dataclass(frozen=True, slots=True)
class Projection:
    """A dense layer behind the pooling."""

    weights: Path
    activation: str  # one of ACTIVATIONS


@dataclass(frozen=True, slots=True)
class TransformerOutline:
    """A transformer with pooling, and dense layers if any. Its vectors are normalised in any case."""

    family: str  # one of the values of FAMILIES
    config: Mapping[str, Any]  # config.json of the transformer
    weights: Path  # model.safetensors of the transformer
    window: int  # tokens
    first_position: int  # row of the position table that the first token has
    truncation_side: str
    poolings: tuple[str, ...]
    projections: tuple[Projection, ...]


def outline(folder: Path) -> TransformerOutline:
    """Raises NotCovered."""
    stages = list(modules(folder))
    kinds = [kind for kind, _ in stages]
    if kinds[:2] != ["Transformer", "Pooling"] or set(kinds[2:]) - {"Dense", "Normalize"}:
        raise NotCovered(f"the stages are {', '.join(kinds) or 'not named in modules.json'}")
    if "Normalize" in kinds[:-1]:
        raise NotCovered("the vectors are normalised before the last stage")
    place = stages[0][1]
    config = read_json(place / "config.json")
    family = _family(config)
    _check_transformer(place)
    first = {"bert": 0, "roberta": config.get("pad_token_id") or 0, "mpnet": _MPNET_PADDING}[family]
    first += family != "bert"
    limit = window(folder)
    if limit is None or limit + first > config["max_position_embeddings"]:
        raise NotCovered(f"the window of {limit} tokens exceeds the position table, or is not named")
    side = read_json(place / "tokenizer_config.json").get("truncation_side", "right")
    return TransformerOutline(
        family,
        config,
        place / "model.safetensors",
        limit,
        first,
        side,
        _poolings(stages[1][1]),
        tuple(_projection(place) for kind, place in stages if kind == "Dense"),
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
    for key, known in plain.items():
        if config.get(key) not in known:
            raise NotCovered(f"config.json has {key}: {config[key]}")
    if config.get("hidden_act", "gelu") not in {*GELU_MODES, "relu"}:
        raise NotCovered(f"the activation is {config['hidden_act']}")
    return FAMILIES[kind]


def _check_transformer(place: Path) -> None:
    for file in ("model.safetensors", "tokenizer.json"):
        if not (place / file).is_file():
            raise NotCovered(f"{file} is missing")
    if "BF16" in set(_dtypes(place / "model.safetensors")):
        raise NotCovered("the weights are stored in bfloat16")
    if read_json(place / "tokenizer_config.json").get("padding_side", "right") != "right":
        raise NotCovered("the tokenizer pads on the left")
    for key, value in read_json(place / "sentence_bert_config.json").items():
        known = _TRANSFORMER_SETTINGS.get(key, ())
        if None not in known and value not in known:
            raise NotCovered(f"sentence_bert_config.json has {key}: {value}")


def _dtypes(file: Path) -> list[str]:
    """Return the data types of all tensors, from the file's header: 8 bytes of length, then JSON."""
    with file.open("rb") as opened:
        header = json.loads(opened.read(int.from_bytes(opened.read(8), "little")))
    return [tensor["dtype"] for name, tensor in header.items() if name != "__metadata__"]


def _poolings(place: Path) -> tuple[str, ...]:
    config = read_json(place / "config.json")
    modes = pooling_modes(config)
    if set(modes) - POOLINGS or config.get("include_prompt", True) is not True:
        raise NotCovered(f"the pooling is {', '.join(modes)}, which is unknown or leaves out the prompt")
    return modes


def _projection(place: Path) -> Projection:
    config = read_json(place / "config.json")
    activation = str(config.get("activation_function", "torch.nn.modules.activation.Tanh")).rpartition(".")[2]
    elsewhere = {config.get(key, "sentence_embedding") for key in _ON_SENTENCES} - {"sentence_embedding"}
    file = place / "model.safetensors"
    if activation not in ACTIVATIONS or elsewhere or config.get("use_residual") or not file.is_file():
        raise NotCovered(f"the dense layer in {place.name} is of an unknown kind")
    if "BF16" in set(_dtypes(file)):
        raise NotCovered("the weights are stored in bfloat16")
    return Projection(file, activation)
