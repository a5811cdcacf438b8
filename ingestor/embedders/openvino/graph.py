"""A BERT, RoBERTa or MPNet encoder as an OpenVINO graph, made of its safetensors.

Inputs: ``ids`` and ``positions`` (texts, tokens) int32, ``mask`` (texts, tokens) float32 with 1 for a token
and 0 for padding. Output: (texts, tokens, width), the last hidden state. Devlin et al. 2018, Liu et al. 2019,
Song et al. 2020; names and constants as in the implementations of ``transformers``.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import openvino
from openvino import opset13 as op

from ingestor.embedders.outline import GELU_MODES, TransformerOutline

Tensors = Mapping[str, npt.NDArray[Any]]
_MASKED = 1e9  # subtracted from the scores of padding, whose softmax is then 0
_PREFIXES = ("bert.", "roberta.", "mpnet.")  # of checkpoints that carry a head
_BERT_NAMES = {
    "query": "attention.self.query", "key": "attention.self.key", "value": "attention.self.value",
    "out": "attention.output.dense", "norm": "attention.output.LayerNorm",
}  # fmt: skip
_MPNET_NAMES = {
    "query": "attention.attn.q", "key": "attention.attn.k", "value": "attention.attn.v",
    "out": "attention.attn.o", "norm": "attention.LayerNorm",
}  # fmt: skip


def graph(outline: TransformerOutline, weights: Tensors, int8: bool = False) -> openvino.Model:
    """The whole encoder, of dynamic shape. Raises KeyError where the weights lack a tensor.

    ``weights``: as in the file of the model. The graph shares their memory, so they must not change.
    ``int8``: matrices of linear layers are stored in int8, for multiplication in int8.
    """
    bare = {_plain_name(name): _float32(tensor) for name, tensor in weights.items()}
    return _Builder(outline, bare, int8).model()


def _plain_name(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def _float32(tensor: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return tensor.astype(np.float32) if tensor.dtype == np.float16 else tensor


class _Builder:
    def __init__(self, outline: TransformerOutline, weights: Tensors, int8: bool) -> None:
        self._outline, self._config, self._weights = outline, outline.config, weights
        self._matrix = _int8 if int8 else _constant
        self._heads = int(self._config["num_attention_heads"])
        self._width = int(self._config["hidden_size"])
        self._names = _MPNET_NAMES if outline.family == "mpnet" else _BERT_NAMES

    def model(self) -> openvino.Model:
        ids, positions = (
            op.parameter([-1, -1], openvino.Type.i32, name=name) for name in ("ids", "positions")
        )
        mask = op.parameter([-1, -1], openvino.Type.f32, name="mask")
        x = self._embed(ids, positions)
        bias = self._bias(ids, mask)
        for number in range(int(self._config["num_hidden_layers"])):
            x = self._layer(x, bias, f"encoder.layer.{number}.")
        return openvino.Model([x], [ids, positions, mask], self._outline.family)

    def _embed(self, ids: Any, positions: Any) -> Any:
        table = self._weights["embeddings.position_embeddings.weight"]
        if self._outline.family != "mpnet":
            table = table + self._weights["embeddings.token_type_embeddings.weight"][0]  # of a single text
        words = op.gather(_constant(self._weights["embeddings.word_embeddings.weight"]), ids, _integer(0))
        return self._normalize(
            op.add(words, op.gather(_constant(table), positions, _integer(0))), "embeddings.LayerNorm"
        )

    def _bias(self, ids: Any, mask: Any) -> Any:
        """Added to the attention scores: (texts, 1 or heads, 1 or tokens, tokens)."""
        padding = op.multiply(op.subtract(op.unsqueeze(mask, _integer(1, 2)), _number(1)), _number(_MASKED))
        if self._outline.family != "mpnet":
            return padding
        window = self._outline.window
        buckets = relative_buckets(window, int(self._config.get("relative_attention_num_buckets", 32)))
        table = self._weights["encoder.relative_attention_bias.weight"][buckets]  # (window, window, heads)
        length = op.gather(op.shape_of(ids, "i32"), _integer(1), _integer(0))
        stop = op.concat([length, length], 0)
        near = op.slice(
            _constant(table.transpose(2, 0, 1)[None]), _integer(0, 0), stop, _integer(1, 1), _integer(2, 3)
        )
        return op.add(near, padding)

    def _layer(self, x: Any, bias: Any, at: str) -> Any:
        query, key, value = (
            self._split(self._linear(x, at + self._names[n])) for n in ("query", "key", "value")
        )
        seen = op.scaled_dot_product_attention(query, key, value, bias, causal=False)
        joined = op.reshape(op.transpose(seen, _integer(0, 2, 1, 3)), _integer(0, 0, self._width), True)
        x = self._normalize(
            op.add(self._linear(joined, at + self._names["out"]), x), at + self._names["norm"]
        )
        inner = self._activate(self._linear(x, at + "intermediate.dense"))
        return self._normalize(op.add(self._linear(inner, at + "output.dense"), x), at + "output.LayerNorm")

    def _split(self, x: Any) -> Any:
        """(texts, tokens, width) -> (texts, heads, tokens, width of a head)."""
        each = _integer(0, 0, self._heads, self._width // self._heads)
        return op.transpose(op.reshape(x, each, True), _integer(0, 2, 1, 3))

    def _linear(self, x: Any, name: str) -> Any:
        product = op.matmul(x, self._matrix(self._weights[f"{name}.weight"]), False, True)
        return op.add(product, _constant(self._weights[f"{name}.bias"]))

    def _normalize(self, x: Any, name: str) -> Any:
        small = float(self._config.get("layer_norm_eps", 1e-12))
        even = op.mvn(x, _integer(-1), True, small, "inside_sqrt")
        scaled = op.multiply(even, _constant(self._weights[f"{name}.weight"]))
        return op.add(scaled, _constant(self._weights[f"{name}.bias"]))

    def _activate(self, x: Any) -> Any:
        kind = self._config.get("hidden_act", "gelu")
        return op.relu(x) if kind == "relu" else op.gelu(x, GELU_MODES[kind])


def relative_buckets(window: int, count: int, furthest: int = 128) -> npt.NDArray[np.int64]:
    """(window, window): the bucket of each distance between two tokens, as T5 and MPNet have them.

    One half of the buckets is for tokens before, the other for tokens behind. Near tokens have buckets of
    their own; tokens further away share a bucket by the logarithm of the distance.
    """
    places = np.arange(window)
    distance = places[:, None] - places[None, :]
    half = count // 2
    exact = half // 2
    far = np.abs(distance)
    with np.errstate(divide="ignore"):
        logarithm = np.log(far.astype(np.float32) / np.float32(exact)) / np.float32(
            math.log(furthest / exact)
        )
    shared = exact + np.where(far < exact, 0, logarithm * np.float32(half - exact)).astype(np.int64)
    return np.where(distance < 0, half, 0) + np.where(far < exact, far, np.minimum(shared, half - 1))


def _constant(tensor: npt.NDArray[Any]) -> Any:
    return op.constant(np.ascontiguousarray(tensor), shared_memory=True)


def _int8(matrix: npt.NDArray[Any]) -> Any:
    """Values as multiples, -127 to 127, of a step: a 127th of the largest magnitude in their row."""
    step = np.abs(matrix).max(axis=1, keepdims=True) / np.float32(127)
    step[step == 0] = 1
    steps = _constant(np.rint(matrix / step).astype(np.int8))
    return op.multiply(op.convert(steps, "f32"), _constant(step))


def _number(value: float) -> Any:
    return op.constant(np.float32(value))


def _integer(*values: int) -> Any:
    return op.constant(np.array(values, np.int32))
